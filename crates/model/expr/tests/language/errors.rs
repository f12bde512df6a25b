//! What faulty expressions are answered.

use insta::assert_snapshot;
use pillion_expr::{Expr, ExprErrorKind, Resource};

fn refusals<const N: usize>(sources: [&str; N]) -> String {
    let render = |source| match Expr::parse(source, Resource::Cpu) {
        Ok(_) => panic!("{source} was accepted"),
        Err(error) => error.render(),
    };
    sources.map(render).join("\n\n")
}

#[test]
fn units_that_kubernetes_does_not_have() {
    assert_snapshot!(refusals(["cpu + 100mi", "100MB", "100MiB", "1K", "1µ", "100B", "2cores", "5furlongs"]), @"
    column 10: unknown unit `mi`
      cpu + 100mi
               ^
      help: did you mean `100Mi`?

    column 4: unknown unit `MB`
      100MB
         ^
      help: did you mean `100M` (powers of 1000) or `100Mi` (powers of 1024)?

    column 4: unknown unit `MiB`
      100MiB
         ^
      help: did you mean `100Mi`?

    column 2: unknown unit `K`
      1K
       ^
      help: did you mean `1k` (powers of 1000) or `1Ki` (powers of 1024)?

    column 2: unknown unit `µ`
      1µ
       ^
      help: did you mean `1u`?

    column 4: unknown unit `B`
      100B
         ^
      help: bytes and cores have no unit, write `100`

    column 2: unknown unit `cores`
      2cores
       ^
      help: bytes and cores have no unit, write `2`

    column 2: unknown unit `furlongs`
      5furlongs
       ^
      help: the units are n u m k M G T P E and Ki Mi Gi Ti Pi Ei
    ");
}

#[test]
fn numbers_that_are_none() {
    assert_snapshot!(refusals(["1e+", "1e3Mi", "1e3e2", "5..5", "cpu + ."]), @"
    column 2: unknown unit `e`
      1e+
       ^
      help: an exponent has digits, as in `1e3`; the unit exa is `1E`

    column 4: a number has either an exponent or a unit, not both
      1e3Mi
         ^

    column 4: unknown unit `e2`
      1e3e2
         ^
      help: the units are n u m k M G T P E and Ki Mi Gi Ti Pi Ei

    column 1: `5..5` is not a number
      5..5
      ^

    column 7: `.` is not a number
      cpu + .
            ^
    ");
}

#[test]
fn operators_that_are_missing() {
    let sources = [
        "0.5cpu",
        "5mem",
        "2max(cpu, 1)",
        "2(cpu)",
        "(cpu + 1)(2)",
        "cpu(2)",
        "cpu 2",
        "2 max(cpu, 1)",
        "50%cpu",
        "cpu - 2 Mi",
    ];
    assert_snapshot!(refusals(sources), @"
    column 4: an operator is missing before `cpu`
      0.5cpu
         ^
      help: to multiply, write `0.5*cpu`

    column 2: unknown unit `mem`
      5mem
       ^
      help: did you mean `5*memory`?

    column 2: an operator is missing before `max`
      2max(cpu, 1)
       ^
      help: to multiply, write `2*max(cpu, 1)`

    column 2: an operator is missing before `(`
      2(cpu)
       ^
      help: to multiply, write `2*(cpu)`

    column 10: an operator is missing before `(`
      (cpu + 1)(2)
               ^
      help: to multiply, write `(cpu + 1)*(2)`

    column 4: an operator is missing before `(`
      cpu(2)
         ^
      help: to multiply, write `cpu*(2)`

    column 5: an operator is missing before `2`
      cpu 2
          ^
      help: to multiply, write `cpu*2`

    column 3: an operator is missing before `max`
      2 max(cpu, 1)
        ^
      help: to multiply, write `2*max(cpu, 1)`

    column 4: an operator is missing before `cpu`
      50%cpu
         ^
      help: to multiply, write `50%*cpu`

    column 9: an operator is missing before `Mi`
      cpu - 2 Mi
              ^
      help: a unit follows its number without a space: `2Mi`
    ");
}

#[test]
fn percent_is_not_modulo() {
    assert_snapshot!(refusals(["7%3", "50 % 3", "50%%", "(cpu)%"]), @"
    column 3: an operator is missing before `3`
      7%3
        ^
      help: `%` means percent; there is no modulo

    column 6: an operator is missing before `3`
      50 % 3
           ^
      help: `%` means percent; there is no modulo

    column 4: unexpected character `%`
      50%%
         ^
      help: `%` means percent and follows a number, as in `50%`; there is no modulo

    column 6: unexpected character `%`
      (cpu)%
           ^
      help: `%` means percent and follows a number, as in `50%`; there is no modulo
    ");
}

#[test]
fn names_that_nothing_has() {
    let sources = ["cpus*2", "mem*2", "50%*memroy", "cores/2", "cpu1 + 1", "foo", "maximum(cpu, 1)", "ceil(cpu)"];
    assert_snapshot!(refusals(sources), @"
    column 1: unknown name `cpus`
      cpus*2
      ^
      help: did you mean `cpu`?

    column 1: unknown name `mem`
      mem*2
      ^
      help: did you mean `memory`?

    column 5: unknown name `memroy`
      50%*memroy
          ^
      help: did you mean `memory`?

    column 1: unknown name `cores`
      cores/2
      ^
      help: did you mean `cpu`?

    column 1: unknown name `cpu1`
      cpu1 + 1
      ^
      help: did you mean `cpu`?

    column 1: unknown name `foo`
      foo
      ^
      help: the variables are `cpu` and `memory`, the functions `max` and `min`

    column 1: unknown function `maximum`
      maximum(cpu, 1)
      ^
      help: did you mean `max`?

    column 1: unknown function `ceil`
      ceil(cpu)
      ^
      help: the functions are `max` and `min`
    ");
}

#[test]
fn functions_without_their_arguments() {
    assert_snapshot!(refusals(["max + 1", "max()", "1 + min(cpu)", "max(cpu,)"]), @"
    column 1: `max` is a function and needs arguments in parentheses
      max + 1
      ^
      help: write `max(a, b)`

    column 1: `max` takes two or more arguments, not 0
      max()
      ^

    column 5: `min` takes two or more arguments, not 1
      1 + min(cpu)
          ^

    column 9: a value is expected here, not `)`
      max(cpu,)
              ^
    ");
}

#[test]
fn commas_and_parentheses_out_of_place() {
    assert_snapshot!(refusals(["(cpu, 2)", "cpu, 2", "2*(cpu + 3", "max(cpu, 2", "cpu + 3)", "2 + ()"]), @"
    column 5: a comma only separates the arguments of a function
      (cpu, 2)
          ^

    column 4: a comma only separates the arguments of a function
      cpu, 2
         ^

    column 3: this parenthesis is never closed
      2*(cpu + 3
        ^

    column 4: this parenthesis is never closed
      max(cpu, 2
         ^

    column 8: this parenthesis was never opened
      cpu + 3)
             ^

    column 6: a value is expected here, not `)`
      2 + ()
           ^
    ");
}

#[test]
fn values_that_are_missing() {
    assert_snapshot!(refusals(["+5", "cpu - ", "2**3"]), @"
    column 1: a value is expected here, not `+`
      +5
      ^
      help: a sign is only written where it is a minus

    column 6: a value is expected here, but the expression ends
      cpu -
           ^

    column 3: a value is expected here, not `*`
      2**3
        ^
      help: there is no power operator
    ");
}

#[test]
fn characters_without_a_meaning() {
    let sources = ["cpu^2", "cpu × 2", "cpu – 2", "cpu > 2", "$cpu", "cpu\0", "\x1b[31mcpu", "cpu + 2 + цпу*2"];
    assert_snapshot!(refusals(sources), @"
    column 4: unexpected character `^`
      cpu^2
         ^
      help: there is no power operator

    column 5: unexpected character `×`
      cpu × 2
          ^
      help: multiplication is written `*`

    column 5: unexpected character `–`
      cpu – 2
          ^
      help: minus is written `-`, with the ASCII hyphen

    column 5: unexpected character `>`
      cpu > 2
          ^
      help: there are no conditions; `max` and `min` choose between values

    column 1: unexpected character `$`
      $cpu
      ^
      help: variables are plain words: `cpu` or `memory`

    column 4: unexpected character U+0000
      cpu␀
         ^

    column 1: unexpected character U+001B
      ␛[31mcpu
      ^

    column 11: unknown name `цпу`
      cpu + 2 + цпу*2
                ^
      help: the variables are `cpu` and `memory`, the functions `max` and `min`
    ");
}

#[test]
fn types_that_do_not_go_together() {
    let sources =
        ["cpu*cpu", "2*cpu*100m", "1/cpu", "cpu/(2*100m)", "10/0", "cpu/(1-1)", "cpu/0%", "max(memory*50%, 1)"];
    assert_snapshot!(refusals(sources), @"
    column 4: two quantities cannot be multiplied
      cpu*cpu
         ^
      help: one side must be a number, such as `2` or `50%`

    column 6: two quantities cannot be multiplied
      2*cpu*100m
           ^
      help: one side must be a number, such as `2` or `50%`

    column 2: nothing can be divided by a quantity
      1/cpu
       ^
      help: divide by a number, such as `2`

    column 4: nothing can be divided by a quantity
      cpu/(2*100m)
         ^
      help: divide by a number, such as `2`

    column 3: division by zero
      10/0
        ^

    column 4: division by zero
      cpu/(1-1)
         ^

    column 4: division by zero
      cpu/0%
         ^

    column 5: `memory` cannot be used in a cpu expression
      max(memory*50%, 1)
          ^
      help: the variable of this expression is `cpu`
    ");
}

#[test]
fn nothing_at_all() {
    assert_snapshot!(refusals(["", " \n "]), @"
    column 1: the expression is empty

    column 1: the expression is empty
    ");
}

#[test]
fn lines_and_tabs() {
    assert_snapshot!(refusals(["max(cpu,\n    cpu*cpu)", "cpu\t*\tcpu", "cpu*cpu\n"]), @"
    line 2, column 8: two quantities cannot be multiplied
          cpu*cpu)
             ^
      help: one side must be a number, such as `2` or `50%`

    column 5: two quantities cannot be multiplied
      cpu * cpu
          ^
      help: one side must be a number, such as `2` or `50%`

    column 4: two quantities cannot be multiplied
      cpu*cpu
         ^
      help: one side must be a number, such as `2` or `50%`
    ");
}

#[test]
fn more_than_the_limits_allow() {
    assert_snapshot!(refusals([
        "cpu*1e999999999",
        &"cpu + ".repeat(200),
        &"-".repeat(100),
    ]), @"
    column 5: written out without exponents, the numbers up to here have more than 128 digits
      cpu*1e999999999
          ^
      help: quantities of Kubernetes end at 2^63-1, about 9.2e18, and at 1n, which is 1e-9

    column 1025: the expression has 1200 bytes, the limit is 1024
      …u + cpu + cpu + cpu + cpu + cpu + cpu + cpu + cpu + cpu + cpu + cpu + cpu + cpu + cpu + cpu + cpu + …
                                                         ^

    column 65: more than 64 parentheses and minus signs are nested
      …--------------------------------------------------------------------------------------
                                                         ^
    ");
}

#[test]
fn long_texts_are_cut() {
    let far_right = format!("{}cpu*cpu{}", "cpu + ".repeat(30), " + cpu".repeat(30));
    assert_snapshot!(refusals([&far_right, &"x".repeat(100), &format!("({})(2)", ["cpu"; 30].join("+"))]), @"
    column 184: two quantities cannot be multiplied
      …pu + cpu + cpu + cpu + cpu + cpu + cpu + cpu + cpu*cpu + cpu + cpu + cpu + cpu + cpu + cpu + cpu + c…
                                                         ^
      help: one side must be a number, such as `2` or `50%`

    column 1: unknown name `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`
      xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
      ^
      help: the variables are `cpu` and `memory`, the functions `max` and `min`

    column 122: an operator is missing before `(`
      …u+cpu+cpu+cpu+cpu+cpu+cpu+cpu+cpu+cpu+cpu+cpu+cpu)(2)
                                                         ^
      help: to multiply, write `(cpu+cpu+cpu+cpu+cpu+cpu+cpu+cpu+cpu+cpu…*(2)`
    ");
}

#[test]
fn both_variables_in_one_expression() {
    let error = Expr::parse_any("max(cpu, 1) + memory").unwrap_err();
    assert_snapshot!(error.render(), @"
    column 15: `cpu` and `memory` cannot be used in the same expression
      max(cpu, 1) + memory
                    ^
    ");
}

#[test]
fn the_column_counts_characters_and_every_line_starts_anew() {
    for (source, column) in [("cpu*cpu", 4), ("  cpu*cpu", 6), ("100%*цпу", 6), ("цпу", 1), ("cpu\n*cpu", 1)] {
        assert_eq!(Expr::parse(source, Resource::Cpu).unwrap_err().column(), column, "{source}");
    }
}

#[test]
fn an_error_is_one_line_and_has_no_source() {
    let error = Expr::parse("max(cpu,\n cpu*cpu)", Resource::Cpu).unwrap_err();
    assert_eq!(error.to_string(), "line 2, column 5: two quantities cannot be multiplied");
    assert_eq!(error.kind(), &ExprErrorKind::QuantityTimesQuantity);
    assert_eq!(error.help(), Some("one side must be a number, such as `2` or `50%`"));
    assert!(std::error::Error::source(&error).is_none());
}
