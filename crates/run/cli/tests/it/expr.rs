//! `pillion expr`

use insta::assert_snapshot;

use crate::{Folder, pillion};

fn eval(expression: &str, arguments: &[&str]) -> String {
    pillion(&[&["expr", "eval", expression], arguments].concat())
}

#[test]
fn a_value_is_printed() {
    for (expression, arguments, expected) in [
        ("cpu*29%", ["--cpu", "100m"], "29m"),
        ("min(cpu, 2)", ["--cpu", "unlimited"], "2"),
        ("max(cpu*50%, 50m)", ["--cpu", "unlimited"], "unlimited"),
        ("0.5*cpu - 0.3*max(0, cpu-4) + 0.3*max(0, cpu-8)", ["--cpu", "2"], "1"),
        ("0.5*cpu - 0.3*max(0, cpu-4) + 0.3*max(0, cpu-8)", ["--cpu", "6"], "2400m"),
        ("0.5*cpu - 0.3*max(0, cpu-4) + 0.3*max(0, cpu-8)", ["--cpu", "12"], "4800m"),
        ("0.5*cpu - 0.3*max(0, cpu-4) + 0.3*max(0, cpu-8)", ["--cpu", "unlimited"], "unlimited"),
        ("memory/3", ["--memory", "1Gi"], "357913942"),
        ("-cpu + 3", ["--cpu", "1"], "2"),
        // Without a variable, the result is what the flag says.
        ("0.0005", ["--resource", "cpu"], "1m"),
        ("0.5", ["--memory", "1Gi"], "1"),
        ("0.5", ["--cpu", "1"], "500m"),
    ] {
        assert_eq!(
            eval(expression, &arguments),
            format!("exit 0\n--- stdout\n{expected}\n"),
            "{expression} {arguments:?}"
        );
    }
    assert_eq!(eval("200Mi", &[]), "exit 0\n--- stdout\n200Mi\n");
}

#[test]
fn each_step_is_explained() {
    assert_snapshot!(eval("max(cpu*50%, 50m) + 1", &["--cpu", "600m", "--explain"]), @"
    exit 0
    --- stdout
    cpu                    600m
    cpu*50%                300m
    max(cpu*50%, 50m)      300m
    max(cpu*50%, 50m) + 1  1300m
    rounded up to 1m       1300m
    ");
    assert_snapshot!(eval("max(cpu*50%, 50m)", &["--cpu", "unlimited", "--explain", "-o", "yaml"]), @"
    exit 0
    --- stdout
    expression: max(cpu*50%, 50m)
    resource: cpu
    cpu: unlimited
    steps:
    - part: cpu
      value: unlimited
    - part: cpu*50%
      value: 0.5·unlimited
    - part: max(cpu*50%, 50m)
      value: 0.5·unlimited
    - part: result
      value: unlimited
    value: unlimited
    ");
}

#[test]
fn a_program_gets_json() {
    assert_snapshot!(eval("memory*10%", &["--memory", "1Gi", "-o", "json"]), @r#"
    exit 0
    --- stdout
    {
      "expression": "memory*10%",
      "resource": "memory",
      "memory": "1Gi",
      "value": "107374183"
    }
    "#);
}

#[test]
fn a_missing_value_is_a_wrong_use() {
    assert_snapshot!(eval("cpu*50%", &[]), @"
    exit 2
    --- stderr
    error: `cpu*50%` uses cpu, which has no value
      help: add --cpu 500m, or --cpu unlimited
    ");
    assert_snapshot!(eval("memory*50%", &["--cpu", "1"]), @"
    exit 2
    --- stderr
    error: `memory*50%` uses memory, which has no value
      help: add --memory 256Mi, or --memory unlimited
    ");
}

#[test]
fn a_negative_result_is_a_no() {
    assert_snapshot!(eval("cpu - 2", &["--cpu", "500m"]), @"
    exit 1
    --- stderr
    error: `cpu - 2` is negative for cpu = 500m: -1500m
      help: max(0, …) around it makes it 0; a pod with a negative result is refused
    ");
    assert_snapshot!(eval("-1", &[]), @"
    exit 1
    --- stderr
    error: `-1` is negative: -1
      help: max(0, …) around it makes it 0; a pod with a negative result is refused
    ");
}

#[test]
fn a_wrong_amount_is_a_wrong_use() {
    assert_snapshot!(eval("cpu", &["--cpu", "12 apples"]), @"
    exit 2
    --- stderr
    error: invalid value '12 apples' for '--cpu <AMOUNT>': white space at byte 2: write number and suffix as one word, such as 1Gi

    For more information, try '--help'.
    ");
    assert_snapshot!(eval("cpu", &["--cpu", "-1"]), @"
    exit 2
    --- stderr
    error: invalid value '-1' for '--cpu <AMOUNT>': must not be negative

    For more information, try '--help'.
    ");
    assert_snapshot!(eval("cpu", &["--resource", "gpu"]), @"
    exit 2
    --- stderr
    error: invalid value 'gpu' for '--resource <RESOURCE>'
      [possible values: cpu, memory]

      tip: a similar value exists: 'cpu'

    For more information, try '--help'.
    ");
}

#[test]
fn a_wrong_expression_is_shown_with_a_caret() {
    assert_snapshot!(pillion(&["expr", "check", "cpu*cpu"]), @"
    exit 1
    --- stderr
    error: column 4: two quantities cannot be multiplied
      cpu*cpu
         ^
      help: one side must be a number, such as `2` or `50%`
    ");
    assert_snapshot!(pillion(&["expr", "check", "cpu*10%", "--resource", "memory"]), @"
    exit 1
    --- stderr
    error: column 1: `cpu` cannot be used in a memory expression
      cpu*10%
      ^
      help: the variable of this expression is `memory`
    ");
    assert_snapshot!(eval("0.5cpu", &["--cpu", "1"]), @"
    exit 1
    --- stderr
    error: column 4: an operator is missing before `cpu`
      0.5cpu
         ^
      help: to multiply, write `0.5*cpu`
    ");
}

#[test]
fn a_right_expression_is_described() {
    assert_eq!(pillion(&["expr", "check", "max(cpu*50%, 50m)"]), "exit 0\n--- stdout\nok: a function of cpu\n");
    assert_eq!(
        pillion(&["expr", "check", "memory/2", "--resource", "memory"]),
        "exit 0\n--- stdout\nok: a function of memory\n"
    );
    assert_eq!(pillion(&["expr", "check", "-1 + 2"]), "exit 0\n--- stdout\nok: a constant\n");
}

#[test]
fn a_plot_is_text_without_colours_where_nobody_sees_them() {
    let shown = pillion(&["expr", "plot", "max(cpu*50%, 500m)", "--to", "4"]);
    assert!(shown.starts_with("exit 0\n--- stdout\nmax(cpu*50%, 500m)\ncpu of the sidecar (cores)\n"), "{shown}");
    assert!(shown.ends_with("bends at 1 → 500m\n"), "{shown}");
    assert!(!shown.contains('\u{1b}'));
}

#[test]
fn a_plot_is_written_as_a_picture() {
    let folder = Folder::new();
    for (name, start) in [("curve.svg", &b"<svg "[..]), ("curve.png", b"\x89PNG\r\n")] {
        assert_eq!(folder.run(&["expr", "plot", "cpu/2", "--from", "1", "--to", "4", "-o", name]), "exit 0\n");
        assert!(std::fs::read(folder.0.path().join(name)).unwrap().starts_with(start));
    }
}

#[test]
fn a_plot_needs_a_range_and_a_kind_of_picture() {
    assert_snapshot!(pillion(&["expr", "plot", "cpu", "--from", "4", "--to", "2"]), @"
    exit 2
    --- stderr
    error: --from 4 is not below --to 2
    ");
    assert_snapshot!(pillion(&["expr", "plot", "cpu", "--to", "2", "-o", "curve.gif"]), @"
    exit 2
    --- stderr
    error: invalid value 'curve.gif' for '--output <FILE>': must end in .svg or .png

    For more information, try '--help'.
    ");
    assert_snapshot!(pillion(&["expr", "plot", "cpu", "--to", "2", "-o", "nowhere/curve.svg"]), @"
    exit 2
    --- stderr
    error: nowhere/curve.svg: No such file or directory
    ");
}

#[test]
fn the_picture_in_the_documentation_is_the_one_that_is_drawn() {
    let folder = Folder::new();
    let story_5 = "0.5*cpu - 0.3*max(0, cpu-4) + 0.3*max(0, cpu-8)";
    folder.run(&["expr", "plot", story_5, "--from", "0", "--to", "16", "-o", "story5.svg"]);
    let drawn = std::fs::read_to_string(folder.0.path().join("story5.svg")).unwrap();
    let shown =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/images/story5.svg")).unwrap();
    assert!(drawn == shown, "run `pillion expr plot '{story_5}' --from 0 --to 16 -o docs/images/story5.svg`, and .png");
}
