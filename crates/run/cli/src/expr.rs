//! `pillion expr`: evaluate, check and draw expressions.

mod plot;

use pillion_expr::{Amount, Expr, ExprError, Outcome, Resource};
use serde_json::json;

use crate::args::{CheckArgs, EvalArgs, Output, PictureFormat, PlotArgs};
use crate::{Failure, io_reason, rendered};

/// The value of an expression.
pub(crate) fn eval(args: &EvalArgs) -> Result<String, Failure> {
    let expr = parse(&args.expression, args.resource)?;
    let fallback = if args.memory.is_some() && args.cpu.is_none() { Resource::Memory } else { Resource::Cpu };
    let resource = args.resource.or(expr.variable()).unwrap_or(fallback);
    let amount = match (expr.variable(), args.cpu, args.memory) {
        (Some(Resource::Cpu), Some(amount), _) | (Some(Resource::Memory), _, Some(amount)) => amount,
        (Some(variable), ..) => return Err(missing_value(&expr, variable)),
        // A constant does not look at it.
        (None, ..) => Amount::Unlimited,
    };
    let outcome = expr.evaluate(amount, resource);
    if let Outcome::Negative(value) = &outcome {
        let given = expr.variable().map(|variable| format!(" for {variable} = {amount}")).unwrap_or_default();
        return Err(Failure::no(format!(
            "`{expr}` is negative{given}: {value}\n  help: max(0, …) around it makes it 0; a pod with a negative result is refused"
        )));
    }
    let steps = if args.explain { expr.explain(amount, resource) } else { Vec::new() };
    if args.output == Output::Text {
        return Ok(text(&steps, &outcome));
    }
    let mut value = json!({"expression": expr.source(), "resource": resource.name()});
    if let Some(variable) = expr.variable() {
        value[variable.name()] = json!(amount.to_string());
    }
    if args.explain {
        value["steps"] = steps.iter().map(|step| json!({"part": step.what, "value": step.value})).collect();
    }
    value["value"] = json!(outcome.to_string());
    rendered(&value, args.output)
}

/// The steps in two columns; the last one is the outcome. Without steps, the outcome alone.
fn text(steps: &[pillion_expr::Step], outcome: &Outcome) -> String {
    if steps.is_empty() {
        return format!("{outcome}\n");
    }
    let width = steps.iter().map(|step| step.what.chars().count()).max().unwrap_or_default();
    let lines: Vec<String> = steps.iter().map(|step| format!("{:width$}  {}", step.what, step.value)).collect();
    lines.join("\n") + "\n"
}

fn missing_value(expr: &Expr, variable: Resource) -> Failure {
    let example = if variable == Resource::Cpu { "500m" } else { "256Mi" };
    Failure::misuse(format!(
        "`{expr}` uses {variable}, which has no value\n  help: add --{variable} {example}, or --{variable} unlimited"
    ))
}

/// What an expression is.
pub(crate) fn check(args: &CheckArgs) -> Result<String, Failure> {
    let expr = parse(&args.expression, args.resource)?;
    Ok(match expr.variable() {
        Some(variable) => format!("ok: a function of {variable}\n"),
        None => "ok: a constant\n".to_owned(),
    })
}

/// The curve of an expression: in the text, or in the file.
pub(crate) fn plot(args: &PlotArgs) -> Result<String, Failure> {
    let expr = parse(&args.expression, args.resource)?;
    if args.from >= args.to {
        return Err(Failure::misuse(format!("--from {} is not below --to {}", args.from, args.to)));
    }
    let resource = args.resource.or(expr.variable()).unwrap_or(Resource::Cpu);
    let chart = plot::Chart::new(&expr, resource, args.from, args.to);
    let Some(picture) = &args.output else {
        return Ok(plot::terminal(&chart, plot::terminal_width()));
    };
    let bytes = match picture.format {
        PictureFormat::Svg => plot::svg(&chart).into_bytes(),
        PictureFormat::Png => plot::png(&chart)?,
    };
    std::fs::write(&picture.path, bytes)
        .map_err(|error| Failure::misuse(format!("{}: {}", picture.path.display(), io_reason(&error))))?;
    Ok(String::new())
}

fn parse(source: &str, resource: Option<Resource>) -> Result<Expr, Failure> {
    let parsed = match resource {
        Some(resource) => Expr::parse(source, resource),
        None => Expr::parse_any(source),
    };
    parsed.map_err(|error: ExprError| Failure::no(error.render()))
}
