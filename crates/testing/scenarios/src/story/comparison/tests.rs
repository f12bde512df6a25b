use super::{Comparison, End};
use crate::story::expected::Expected;

const JOB: &str = "\
Job work
  succeeded 2
  # Both pods are created at the same time.
  any order
    Created pod: work-1
    Created pod: work-2
Pod work-1
  # It runs for a second, which a kubelet may miss.
  Pending, {maybe Running, }Succeeded
  # The kubelet combines it with the next status.
  maybe terminated
  Stopped
";

/// Compares [`JOB`] with all that it may tell, in which some parts are replaced.
fn with<T>(replaced: &[(&str, &str)], ask: impl FnOnce(&Comparison<'_>) -> T) -> T {
    let actual = "Job work\n  succeeded 2\n  Created pod: work-1\n  Created pod: work-2\n\
        Pod work-1\n  Pending, Running, Succeeded\n  terminated\n  Stopped\n";
    let actual = replaced.iter().fold(actual.to_owned(), |actual, (from, to)| {
        assert!(actual.contains(from), "{from}");
        actual.replace(from, to)
    });
    let lines: Vec<&str> = actual.lines().collect();
    ask(&Comparison::new(&Expected::parse(JOB).unwrap(), &lines, End::Same))
}

#[test]
fn what_is_declared_may_differ() {
    let table: [&[(&str, &str)]; 5] = [
        &[],
        &[("Running, ", "")],
        &[("  terminated\n", "")],
        &[("Running, ", ""), ("  terminated\n", "")],
        &[("pod: work-1\n  Created pod: work-2\n", "pod: work-2\n  Created pod: work-1\n"), ("Running, ", "")],
    ];
    for replaced in table {
        with(replaced, |comparison| {
            assert!(comparison.agrees(), "{replaced:?}\n{}", comparison.difference());
            assert_eq!(comparison.difference(), "");
        });
    }
}

#[test]
fn what_is_not_declared_differs_and_is_shown_with_its_object() {
    let table: [(&[(&str, &str)], &str); 7] = [
        // A line that may not be missing.
        (&[("  Stopped\n", "")], "  Pod work-1\n  …\n    terminated\n-   Stopped\n"),
        // Another value.
        (&[("succeeded 2", "succeeded 1")], "  Job work\n-   succeeded 2\n+   succeeded 1\n    Created pod: work-1\n"),
        // A part that may be missing, but may not be another.
        (
            &[("Running", "Unknown")],
            "  Pod work-1\n-   Pending, {maybe Running, }Succeeded\n+   Pending, Unknown, Succeeded\n    terminated\n",
        ),
        // A line that may be missing, but may not come twice.
        (
            &[("  terminated\n", "  terminated\n  terminated\n")],
            "  Pod work-1\n  …\n    terminated\n+   terminated\n    Stopped\n",
        ),
        // Nor later.
        (
            &[("  terminated\n  Stopped\n", "  Stopped\n  terminated\n")],
            "  Pod work-1\n  …\n    Stopped\n+   terminated\n",
        ),
        // In any order, but each once.
        (
            &[("Created pod: work-2", "Created pod: work-3")],
            "  Job work\n    succeeded 2\n-   Created pod: work-2\n    Created pod: work-1\n+   Created pod: work-3\n  Pod work-1\n",
        ),
        // And not before other lines.
        (
            &[("  succeeded 2\n  Created pod: work-1\n", "  Created pod: work-1\n  succeeded 2\n")],
            "  Job work\n+   Created pod: work-1\n    succeeded 2\n-   Created pod: work-1\n    Created pod: work-2\n",
        ),
    ];
    for (replaced, expected) in table {
        with(replaced, |comparison| {
            assert!(!comparison.agrees(), "{replaced:?}");
            assert_eq!(comparison.difference(), expected, "{replaced:?}");
        });
    }
}

#[test]
fn a_line_that_may_be_missing_does_not_take_the_place_of_one_that_may_not() {
    let expected = Expected::parse("# why\nmaybe a\na\n").unwrap();
    for actual in [vec!["a"], vec!["a", "a"]] {
        assert!(Comparison::new(&expected, &actual, End::Same).agrees(), "{actual:?}");
    }
    assert!(!Comparison::new(&expected, &["a", "a", "a"], End::Same).agrees());
}

#[test]
fn a_beginning_is_told_while_it_lasts_and_once_it_is_over() {
    let expected = Expected::parse("a\n# why\nmaybe b\nc\n").unwrap();
    let table: [(&[&str], bool, bool); 6] = [
        (&[], false, true),
        (&["a", "b"], false, true),
        (&["a", "c"], true, true),
        (&["a", "b", "c", "d"], true, false),
        (&["a", "d"], false, false),
        (&["b", "c"], false, false),
    ];
    for (actual, is_told, may_come) in table {
        assert_eq!(Comparison::new(&expected, actual, End::ActualMayContinue).agrees(), is_told, "{actual:?}");
        assert_eq!(Comparison::new(&expected, actual, End::ExpectedMayContinue).agrees(), may_come, "{actual:?}");
    }
}

#[test]
fn a_change_that_is_meant_keeps_what_is_declared() {
    let accepted =
        |replaced: &[(&str, &str)]| with(replaced, |comparison| format!("{}\n", comparison.accepted().join("\n")));
    assert_eq!(accepted(&[]), JOB);
    assert_eq!(accepted(&[("  terminated\n", "")]), JOB, "a line that may be missing stays");
    assert_eq!(accepted(&[("succeeded 2", "succeeded 1")]), JOB.replace("succeeded 2", "succeeded 1"));
    let other_phases = accepted(&[("Running", "Unknown")]);
    let reason = "  # It runs for a second, which a kubelet may miss.\n";
    let expected = JOB.replace(reason, "").replace("{maybe Running, }", "Unknown, ");
    assert_eq!(other_phases, expected, "a reason goes with its declaration");
    let one_pod = accepted(&[("  Created pod: work-2\n", "")]);
    let group =
        "  # Both pods are created at the same time.\n  any order\n    Created pod: work-1\n    Created pod: work-2\n";
    assert_eq!(one_pod, JOB.replace(group, "  Created pod: work-1\n"), "one line has no order");
}
