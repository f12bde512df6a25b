//! Lists of completion indexes: `1,3-5,7`.

use pillion_rules::field::quoted;

/// How many indexes a list has, or what is wrong with it.
pub(super) fn count(indexes: &str, completions: i64) -> Result<i64, String> {
    if indexes.is_empty() {
        return Ok(0);
    }
    let (mut total, mut last) = (0_i64, None);
    for part in indexes.split(',') {
        let (from, to) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= from) {
            return Err(format!("non-increasing order, previous: {last}, current: {from}"));
        }
        total = total.saturating_add(to.saturating_sub(from)).saturating_add(1);
        last = Some(to);
    }
    Ok(total)
}

/// What is wrong with two lists that should have no index in common.
pub(super) fn overlap(completed: &str, failed: &str, completions: i64) -> Option<String> {
    let intervals = |indexes: &str| -> Vec<(i64, i64)> {
        indexes.split(',').filter_map(|part| interval(part, completions).ok()).collect()
    };
    let failed = intervals(failed);
    intervals(completed).into_iter().find_map(|(from, to)| {
        let (failed_from, _) =
            failed.iter().find(|(failed_from, failed_to)| from <= *failed_to && *failed_from <= to)?;
        let index = from.max(*failed_from);
        Some(format!("failedIndexes and completedIndexes overlap at index: {index}"))
    })
}

fn interval(part: &str, completions: i64) -> Result<(i64, i64), String> {
    let limits: Vec<&str> = part.split('-').collect();
    let (from, to) = match limits[..] {
        [from] => (from, None),
        [from, to] => (from, Some(to)),
        _ => {
            return Err(format!(
                "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
                quoted(part)
            ));
        }
    };
    let first = index(from, completions)?;
    let Some(to) = to else { return Ok((first, first)) };
    let last = index(to, completions)?;
    if first >= last {
        return Err(format!("non-increasing order, previous: {first}, current: {last}"));
    }
    Ok((first, last))
}

fn index(text: &str, completions: i64) -> Result<i64, String> {
    let index: i64 =
        text.parse().map_err(|_| format!("cannot convert string to integer for index: {}", quoted(text)))?;
    if index >= completions {
        return Err(format!("too large index: {}", quoted(text)));
    }
    Ok(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of `TestValidateIndexesString` and `TestValidateFailedIndexesNotOverlapCompleted`.
    #[test]
    fn lists_of_indexes_are_read_as_upstream() {
        assert_eq!(count("", 6), Ok(0));
        assert_eq!(count("0", 6), Ok(1));
        assert_eq!(count("0-1,3-5", 6), Ok(5));
        assert_eq!(count("0,1,2-3,5", 6), Ok(5));
        assert_eq!(count("1,2,", 6).unwrap_err(), r#"cannot convert string to integer for index: """#);
        assert_eq!(count("-1", 6).unwrap_err(), r#"cannot convert string to integer for index: """#);
        assert_eq!(count("2,1", 6).unwrap_err(), "non-increasing order, previous: 2, current: 1");
        assert_eq!(count("2-1", 6).unwrap_err(), "non-increasing order, previous: 2, current: 1");
        assert_eq!(count("6", 6).unwrap_err(), r#"too large index: "6""#);
        assert!(count("1-2-3", 6).unwrap_err().starts_with(r#"the fragment "1-2-3" violates"#));
        assert_eq!(overlap("0,2,4", "1,3,5", 6), None);
        assert_eq!(overlap("0-2", "2-4", 6).unwrap(), "failedIndexes and completedIndexes overlap at index: 2");
    }
}
