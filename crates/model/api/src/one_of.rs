//! How an error lists the names that a field may have.

/// `one of "a", "b"`.
pub(crate) fn one_of(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    format!("one of {}", names.join(", "))
}
