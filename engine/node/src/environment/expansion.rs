//! `$(NAME)` in values, commands and arguments.

/// Replaces `$(NAME)` by what is known of NAME, and leaves it where nothing is. `$$` is one `$`, so `$$(NAME)` stays `$(NAME)`.
pub(crate) fn expand<'a>(text: &str, known: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(end) = after.strip_prefix('(').and_then(|inside| inside.find(')')) {
            let name = &after[1..=end];
            match known(name) {
                Some(value) => expanded.push_str(value),
                None => expanded.push_str(&rest[at..at + end + 3]),
            }
            rest = &after[end + 2..];
        } else {
            expanded.push('$');
            // Of `$$` one is said already; any other sign stays as it is.
            rest = after.strip_prefix('$').unwrap_or(after);
        }
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn references_are_expanded_as_kubernetes_does_it() {
        let known = |name: &str| match name {
            "VAR_A" => Some("A"),
            "VAR_B" => Some("B"),
            "VAR_C" => Some("C"),
            "VAR_REF" => Some("$(VAR_A)"),
            "VAR_EMPTY" => Some(""),
            _ => None,
        };
        let table = [
            ("$(VAR_A)", "A"),
            ("___$(VAR_B)___", "___B___"),
            ("$(VAR_A)_$(VAR_C)", "A_C"),
            ("$(VAR_REF)", "$(VAR_A)"),
            ("%%$(VAR_REF)--$(VAR_REF)%%", "%%$(VAR_A)--$(VAR_A)%%"),
            ("foo$(VAR_EMPTY)bar", "foobar"),
            ("foo$(VAR_Awhoops!", "foo$(VAR_Awhoops!"),
            ("f00__(VAR_A)__", "f00__(VAR_A)__"),
            ("$?_boo_$!", "$?_boo_$!"),
            ("$VAR_A", "$VAR_A"),
            ("$(VAR_DNE)", "$(VAR_DNE)"),
            ("$$(VAR_A)", "$(VAR_A)"),
            ("$$$$", "$$"),
            ("$$$(VAR_A)", "$A"),
            ("$$$$(VAR_A)", "$$(VAR_A)"),
            ("foo$", "foo$"),
            ("$(VAR_A$(VAR_B)", "$(VAR_A$(VAR_B)"),
            ("$()", "$()"),
            ("\u{1}\u{d83}$(VAR_A)é$é", "\u{1}\u{d83}Aé$é"),
        ];
        for (text, expected) in table {
            assert_eq!(expand(text, known), expected, "{text}");
        }
    }
}
