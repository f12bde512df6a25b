use insta::assert_snapshot;

use super::*;

fn chart(expression: &str, from: &str, to: &str) -> Chart {
    let expr = Expr::parse_any(expression).unwrap();
    let resource = expr.variable().unwrap_or(Resource::Cpu);
    Chart::new(&expr, resource, from.parse().unwrap(), to.parse().unwrap())
}

fn bends(chart: &Chart) -> Vec<String> {
    chart.curve.bends.iter().map(|(bend, _)| chart.describe(*bend)).collect()
}

fn negative(chart: &Chart) -> Vec<String> {
    let unit = chart.x.unit;
    chart.curve.negative.iter().map(|(from, to)| format!("{}..{}", unit.exact(*from), unit.exact(*to))).collect()
}

fn ticks(axis: &Axis) -> String {
    axis.ticks().into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" ")
}

const STORY_5: &str = "0.5*cpu - 0.3*max(0, cpu-4) + 0.3*max(0, cpu-8)";

#[test]
fn bends_are_found_exactly() {
    for (expression, from, to, expected) in [
        (STORY_5, "0", "16", vec!["4 → 2", "8 → 2800m"]),
        ("max(cpu*50%, 50m)", "0", "200m", vec!["100m → 50m"]),
        ("min(cpu/3, 700m)", "0", "4", vec!["2100m → 700m"]),
        ("max(memory*25%, 100Mi)", "128Mi", "2Gi", vec!["400Mi → 100Mi"]),
        ("min(memory/7, 100Mi)", "0", "1Gi", vec!["700Mi → 100Mi"]),
        ("max(memory, 1Gi/3)", "0", "1Gi", vec!["≈341.3Mi → ≈341.3Mi"]),
        ("min(cpu, 1000) + cpu/1000", "0", "1500", vec!["1k → 1001"]),
        ("max(cpu, 5m)", "0", "10m", vec!["5m → 5m"]),
        ("cpu", "0", "1", vec![]),
        ("250m", "0", "1", vec![]),
        ("cpu*0", "0", "1", vec![]),
    ] {
        assert_eq!(bends(&chart(expression, from, to)), expected, "{expression}");
    }
}

#[test]
fn where_the_value_is_negative_there_is_a_gap() {
    assert_eq!(negative(&chart("cpu-2", "0", "5")), ["0..2"]);
    assert_eq!(negative(&chart("2-cpu", "0", "3")), ["2..3"]);
    assert_eq!(negative(&chart("max(1-cpu, cpu-2)", "0", "3")), ["1..2"]);
    assert_eq!(negative(&chart("cpu-7", "0", "3")), ["0..3"]);
    assert_eq!(negative(&chart("cpu", "0", "3")), Vec::<String>::new());
    let chart = chart("max(1-cpu, cpu-2)", "0", "3");
    assert_eq!(chart.curve.lines.len(), 2);
    assert_eq!((chart.curve.at(0.5), chart.curve.at(1.5), chart.curve.at(3.0)), (Some(0.5), None, Some(1.0)));
}

#[test]
fn ticks_are_round_numbers_of_the_unit() {
    for (expression, from, to, x, y) in [
        (STORY_5, "0", "16", "0 2 4 6 8 10 12 14 16", "0 1 2 3 4 5 6 7"),
        ("cpu/2", "0", "2500m", "0 0.5 1 1.5 2 2.5", "0 0.2 0.4 0.6 0.8 1 1.2 1.4"),
        ("cpu/2", "100m", "300m", "100m 150m 200m 250m 300m", "0 20m 40m 60m 80m 100m 120m 140m 160m"),
        (
            "memory/4",
            "128Mi",
            "1Gi",
            "128Mi 256Mi 384Mi 512Mi 640Mi 768Mi 896Mi 1Gi",
            "0 32Mi 64Mi 96Mi 128Mi 160Mi 192Mi 224Mi 256Mi",
        ),
        ("memory/4", "0", "1G", "0 200M 400M 600M 800M 1G", "0 50M 100M 150M 200M 250M"),
        ("cpu*0", "0", "1", "0 200m 400m 600m 800m 1", "0 200m 400m 600m 800m 1"),
    ] {
        let chart = chart(expression, from, to);
        assert_eq!((ticks(&chart.x).as_str(), ticks(&chart.y).as_str()), (x, y), "{expression} to {to}");
    }
}

#[test]
fn the_terminal_shows_the_curve_and_says_where_it_bends() {
    let text = terminal(&chart("max(1-cpu, cpu-2) + max(cpu-3, 0)", "0", "4"), 60);
    assert_snapshot!(anstream::adapter::strip_str(&text).to_string(), @"
    max(1-cpu, cpu-2) + max(cpu-3, 0)
    cpu of the sidecar (cores)
      3 ┤                                                   ⢀⠜
        │                                                  ⢠⠊
    2.5 ┤                                                 ⡠⠃
        │                                                ⡔⠁
        │                                              ⢀⠜
      2 ┤                                             ⢠⠊
        │                                            ⡠⠃
        │                                           ⡔⠁
    1.5 ┤                                         ⢀⠜
        │                                        ⢠⠊
      1 ┤⢄                                     ⢀⡠⠃
        │ ⠉⠢⡀                                ⣀⠔⠁
        │   ⠈⠑⢄                           ⢀⡠⠊
    0.5 ┤      ⠉⠢⡀                      ⣀⠔⠁
        │        ⠈⠑⢄                 ⢀⡠⠊
      0 ┤           ⠉⠢⡀            ⢀⠔⠁
        └┬──────┬─────┬──────┬─────┬──────┬─────┬──────┬─────┬
         0     0.5    1     1.5    2     2.5    3     3.5    4
                                cpu of the application (cores)
    negative, and so refused, from 1 to 2
    bends at 3 → 1
    ");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in [40, 80, 120] {
        for (expression, to) in [("cpu/3", "7"), ("memory/3", "2Gi"), ("memory/3", "1T"), ("cpu", "1000000")] {
            let text = terminal(&chart(expression, "0", to), width);
            let text = anstream::adapter::strip_str(&text).to_string();
            assert!(text.lines().all(|line| line.chars().count() <= width), "{expression} at {width}:\n{text}");
        }
    }
}

#[test]
fn the_svg_has_the_curve_and_escapes_what_it_shows() {
    let text = svg(&chart("max(cpu - 1, 0)", "0", "2"));
    assert!(text.contains("<title>max(cpu - 1, 0)</title>"));
    assert!(text.contains("<polyline points=\"84,464 500,464 916,96\""), "{text}");
    assert!(text.contains(">1 → 0</text>"));
    assert_eq!(text.matches("<text").count(), text.matches("</text>").count());
    let expr = Expr::parse("1+1", Resource::Cpu).unwrap();
    let odd = Chart {
        title: "<&>".to_owned(),
        ..Chart::new(&expr, Resource::Cpu, "0".parse().unwrap(), "1".parse().unwrap())
    };
    assert!(svg(&odd).contains("<title>&lt;&amp;&gt;</title>"));
}

#[test]
fn the_png_is_a_picture_with_words_in_it() {
    let bytes = png(&chart(STORY_5, "0", "16")).unwrap();
    let page = tiny_skia::Pixmap::decode_png(&bytes).unwrap();
    assert_eq!((page.width(), page.height()), (1920, 1080));
    let dark_pixels = |left, right, top, bottom| {
        let columns = move |y: u32| (left..right).map(move |x| (x, y));
        (top..bottom).flat_map(columns).filter(|(x, y)| page.pixel(*x, *y).unwrap().red() < 0x60).count()
    };
    assert!(dark_pixels(168, 1200, 50, 100) > 2000, "the title is missing");
    assert!(dark_pixels(1200, 1900, 0, 100) == 0, "the title is too long");
    assert!(dark_pixels(168, 1832, 192, 928) > 2000, "the curve is missing");
}

#[test]
fn hostile_ranges_and_expressions_draw_something() {
    let long = format!("cpu{}", "+cpu".repeat(200));
    for (expression, from, to) in [
        ("cpu", "0", "1n"),
        ("cpu", "9E", "9223372036854775807"),
        ("cpu*1e18", "0", "1e18"),
        ("memory", "0", "8Ei"),
        ("memory/1e18", "0", "1"),
        (long.as_str(), "0", "1"),
    ] {
        let chart = chart(expression, from, to);
        assert!(!terminal(&chart, 80).is_empty());
        assert!(svg(&chart).len() < 100_000);
    }
}
