//! `x-kubernetes-validations`: rules at any place of a schema, compiled once and evaluated on what is there.

use std::collections::BTreeMap;

use pillion_rules::field::{Error, Path};
use serde_json::Value as Json;

use crate::cel::types::Type;
use crate::cel::value::Value;
use crate::cel::{Bindings, Environment, Evaluation, Fault, Program, no_composed};
use crate::declared::Declared;
use crate::field_path;
use crate::ratchet::{Correlated, CorrelatedItems, OldItems};
use crate::schema::{Rule, Schema};

/// What one evaluation may cost, and all of one object together.
const CALL_LIMIT: u64 = 1_000_000;
const OBJECT_BUDGET: u64 = 10_000_000;
const MAX_MESSAGE: usize = 5 * 1024;

/// The rules of a schema and of what it is made of.
#[derive(Debug)]
pub(crate) struct Rules {
    own: Vec<Compiled>,
    /// Why rules could not be compiled at all.
    failed: Option<&'static str>,
    items: Option<Box<Rules>>,
    properties: BTreeMap<String, Rules>,
    additional: Option<Box<Rules>>,
}

/// One rule.
#[derive(Debug)]
pub(crate) struct Compiled {
    rule: Rule,
    /// What is wrong with it, in which case it never holds.
    pub(crate) program: Result<Program, String>,
    pub(crate) message: Option<Result<Program, String>>,
    pub(crate) uses_old_self: bool,
    /// Where the error is, below the schema.
    path: String,
}

impl Compiled {
    /// Compiles a rule of `schema`.
    pub(crate) fn new(rule: &Rule, schema: &Schema, declared: &Declared) -> Compiled {
        let old = declared.type_of.clone();
        let old = if rule.optional_old_self == Some(true) { Type::optional(old) } else { old };
        let environment = Environment {
            variables: [("self", declared.type_of.clone()), ("oldSelf", old)].into(),
            ..Environment::default()
        };
        let program =
            Program::compile(&rule.rule, &environment).map_err(|issues| format!("compilation failed: {issues}"));
        let program = program.and_then(|program| match program.result {
            Type::Bool => instantiated(program, "program"),
            _ => Err("cel expression must evaluate to a bool".to_owned()),
        });
        let message = (program.is_ok() && !rule.message_expression.is_empty()).then(|| {
            let message = Program::compile(&rule.message_expression, &environment);
            message.map_err(|issues| format!("messageExpression compilation failed: {issues}")).and_then(|program| {
                match program.result {
                    Type::String => instantiated(program, "messageExpression"),
                    _ => Err("messageExpression must evaluate to a string".to_owned()),
                }
            })
        });
        Compiled {
            uses_old_self: program
                .as_ref()
                .is_ok_and(|program| program.references.iter().any(|name| name == "oldSelf")),
            path: field_path::read(&rule.field_path, schema, true)
                .map(|(path, _)| path.to_string())
                .unwrap_or_default(),
            rule: rule.clone(),
            program,
            message,
        }
    }
}

/// Patterns are compiled when all else is right.
fn instantiated(mut program: Program, what: &str) -> Result<Program, String> {
    match program.bad_pattern.take() {
        None => Ok(program),
        Some(reason) => Err(format!("{what} instantiation failed: {reason}")),
    }
}

impl Rules {
    /// The rules of a schema; `None` if it has none.
    pub(crate) fn compile(schema: &Schema, is_resource: bool) -> Option<Rules> {
        let (mut own, mut failed) = (Vec::new(), None);
        if !schema.validations.is_empty() {
            match Declared::of(schema, is_resource, "selfType") {
                Some(declared) => {
                    let rules = schema.validations.iter().filter(|rule| !rule.rule.trim().is_empty());
                    own = rules.map(|rule| Compiled::new(rule, schema, &declared)).collect();
                }
                None => failed = Some("failed to convert to declType for CEL validation rules"),
            }
        }
        let below = |schema: &Schema| Rules::compile(schema, schema.embedded_resource);
        let items = schema.items.as_deref().and_then(below).map(Box::new);
        let additional = schema.additional_schema().and_then(below).map(Box::new);
        let properties: BTreeMap<String, Rules> =
            schema.properties.iter().filter_map(|(name, property)| Some((name.clone(), below(property)?))).collect();
        let some =
            !own.is_empty() || failed.is_some() || items.is_some() || additional.is_some() || !properties.is_empty();
        some.then_some(Rules { own, failed, items, properties, additional })
    }
}

/// What the rules found.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) errors: Vec<Error>,
    /// Of rules that did not hold before either.
    pub(crate) warnings: Vec<String>,
}

/// Evaluates all rules on a value below `path`.
pub(crate) fn evaluate(rules: &Rules, schema: &Schema, new: &Json, old: Option<&Json>, path: &Path) -> Findings {
    let mut run = Run { budget: OBJECT_BUDGET, findings: Findings::default() };
    let link = Link { current: old.map(|old| Correlated { schema, new, old }), nearest: None };
    // That the budget ran out is among the errors.
    let _ = run.value(rules, schema, new, old, link, path);
    run.findings
}

/// The budget ran out, or something else forbids to go on.
struct Stop;

/// Where in the old object a value came from; if that is not known, the nearest value around it for which it is.
#[derive(Clone, Copy)]
struct Link<'a> {
    current: Option<Correlated<'a>>,
    nearest: Option<Correlated<'a>>,
}

impl<'a> Link<'a> {
    fn key(self, key: &str) -> Link<'a> {
        match self.current {
            None => self,
            Some(_) if self.nearest.is_none() && matches!(key, "apiVersion" | "kind") => {
                Link { current: None, nearest: None }
            }
            Some(current) => Link { current: current.key(key), nearest: Some(current) },
        }
    }

    /// The link of an item of the list, whose items are `items`.
    fn item(self, items: Option<&CorrelatedItems<'a>>, item: &'a Json) -> Link<'a> {
        match self.current {
            None => self,
            Some(current) => Link { current: items.and_then(|items| items.get(item)), nearest: Some(current) },
        }
    }

    fn unchanged(self) -> bool {
        self.current.or(self.nearest).is_some_and(Correlated::unchanged)
    }
}

struct Run {
    budget: u64,
    findings: Findings,
}

impl Run {
    fn value<'a>(
        &mut self,
        rules: &Rules,
        schema: &'a Schema,
        new: &'a Json,
        old: Option<&'a Json>,
        link: Link<'a>,
        path: &Path,
    ) -> Result<(), Stop> {
        if new.is_null() {
            return Ok(());
        }
        self.own(rules, schema, new, old, link, path)?;
        match new {
            Json::Array(items) => {
                let (Some(rules), Some(item_schema)) = (&rules.items, &schema.items) else { return Ok(()) };
                let old_items = old.and_then(|old| OldItems::of(schema, old));
                let links = link.current.and_then(Correlated::items);
                for (index, item) in items.iter().enumerate() {
                    let old = old_items.as_ref().and_then(|old| old.get(item));
                    let link = link.item(links.as_ref(), item);
                    self.value(rules, item_schema, item, old, link, &path.index(index))?;
                }
            }
            Json::Object(entries) => {
                for (key, value) in entries {
                    let old = old.and_then(|old| old.get(key));
                    if let (Some(rules), Some(additional)) = (&rules.additional, schema.additional_schema()) {
                        self.value(rules, additional, value, old, link.key(key), &path.key(key.as_str()))?;
                    }
                    if let (Some(rules), Some(property)) = (rules.properties.get(key), schema.properties.get(key)) {
                        self.value(rules, property, value, old, link.key(key), &path.child(key.as_str()))?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn fail(&mut self, path: &Path, schema: &Schema, detail: String) {
        self.findings.errors.push(Error::invalid(&shown_path(path), schema.kind.as_str(), detail));
    }

    fn own(
        &mut self,
        rules: &Rules,
        schema: &Schema,
        new: &Json,
        old: Option<&Json>,
        link: Link<'_>,
        path: &Path,
    ) -> Result<(), Stop> {
        if let Some(reason) = rules.failed {
            self.fail(path, schema, format!("rule compiler initialization error: {reason}"));
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        for compiled in &rules.own {
            self.rule(compiled, schema, new, old, link, path)?;
        }
        Ok(())
    }

    fn rule<'a>(
        &mut self,
        compiled: &'a Compiled,
        schema: &'a Schema,
        new: &'a Json,
        old: Option<&'a Json>,
        link: Link<'_>,
        path: &Path,
    ) -> Result<(), Stop> {
        let name = compiled.rule.name();
        let program = match &compiled.program {
            Ok(program) => program,
            Err(reason) => {
                self.fail(path, schema, format!("rule compile error: {reason}"));
                return Ok(());
            }
        };
        let optional = compiled.rule.optional_old_self == Some(true);
        // A rule about a change holds where nothing changed into what is there.
        if compiled.uses_old_self && old.is_none() && !optional {
            return Ok(());
        }
        let bindings = match bind(schema, new, old, optional) {
            Ok(bindings) => bindings,
            Err(fault) => {
                self.fail(path, schema, format!("{} evaluating rule: {name}", fault.message()));
                return Ok(());
            }
        };
        let result = self.evaluate(program, &bindings, path, schema)?;
        match result {
            Ok(Value::Bool(true)) => return Ok(()),
            Ok(_) => {}
            Err(Fault::CostLimit) => {
                let detail = format!(
                    "'{}': no further validation rules will be run due to call cost exceeds limit for rule: {name}",
                    Fault::CostLimit.message()
                );
                self.fail(path, schema, detail);
                return Err(Stop);
            }
            Err(Fault::Error(message)) => {
                let detail = if message.starts_with("no such overload") {
                    format!(
                        "'{message}': call arguments did not match a supported operator, function or macro signature for rule: {name}"
                    )
                } else {
                    format!("{message} evaluating rule: {name}")
                };
                self.fail(path, schema, detail);
                return Ok(());
            }
        }
        let detail = self.message(compiled, &bindings, path, schema)?;
        let error = refused(compiled, schema, new, path, detail);
        if !compiled.uses_old_self && link.unchanged() {
            self.findings.warnings.push(error.to_string());
        } else {
            self.findings.errors.push(error);
        }
        Ok(())
    }

    /// Evaluates within the budget of the object.
    fn evaluate<'a>(
        &mut self,
        program: &'a Program,
        bindings: &Bindings<'a, '_>,
        path: &Path,
        schema: &Schema,
    ) -> Result<Result<Value<'a>, Fault>, Stop> {
        let evaluation = Evaluation::with_limit(CALL_LIMIT);
        let result = program.evaluate(bindings, &evaluation);
        match self.budget.checked_sub(evaluation.cost()) {
            Some(left) if self.budget > 0 => self.budget = left,
            _ => {
                let detail =
                    "validation failed due to running out of cost budget, no further validation rules will be run";
                self.fail(path, schema, detail.to_owned());
                return Err(Stop);
            }
        }
        Ok(result)
    }

    /// What is said of a rule that does not hold: its `messageExpression`, if it gives something sensible, else its `message`.
    fn message<'a>(
        &mut self,
        compiled: &'a Compiled,
        bindings: &Bindings<'a, '_>,
        path: &Path,
        schema: &Schema,
    ) -> Result<String, Stop> {
        if let Some(Ok(program)) = &compiled.message
            && let Ok(Value::String(text)) = self.evaluate(program, bindings, path, schema)?
        {
            let text = text.trim();
            if !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n') {
                return Ok(text.to_owned());
            }
        }
        let rule = &compiled.rule;
        Ok(if rule.message.is_empty() { format!("failed rule: {}", rule.name()) } else { rule.name().to_owned() })
    }
}

fn bind<'a>(
    schema: &'a Schema,
    new: &'a Json,
    old: Option<&'a Json>,
    optional: bool,
) -> Result<Bindings<'a, 'a>, Fault> {
    let mut variables = vec![("self", Value::of(new, Some(schema))?)];
    let old = old.map(|old| Value::of(old, Some(schema))).transpose()?;
    match (old, optional) {
        (Some(old), true) => variables.push(("oldSelf", Value::some(old))),
        (None, true) => variables.push(("oldSelf", Value::Optional(None))),
        (Some(old), false) => variables.push(("oldSelf", old)),
        (None, false) => {}
    }
    Ok(Bindings { variables, composed: &no_composed })
}

fn refused(compiled: &Compiled, schema: &Schema, new: &Json, path: &Path, detail: String) -> Error {
    let path = match compiled.path.as_str() {
        "" => shown_path(path),
        // As in the API server, the path of a rule is one part, after a dot even if it starts with a key.
        below => path.child(below.trim_start_matches('.')),
    };
    match compiled.rule.reason.as_deref() {
        Some("FieldValueForbidden") => Error::forbidden(&path, detail),
        Some("FieldValueRequired") => Error::required(&path, detail),
        Some("FieldValueDuplicate") => Error::duplicate(&path, crate::schema::sorted(new)),
        // Objects and lists are not shown.
        _ if matches!(schema.kind.as_str(), "object" | "array") => Error::malformed(&path, detail),
        _ => Error::invalid(&path, crate::schema::sorted(new), detail),
    }
}

/// An error about the whole object has no path, and Go says so.
fn shown_path(path: &Path) -> Path {
    if path.segments().is_empty() { crate::no_path() } else { path.clone() }
}

/// Evaluates all rules as if the value stayed as it is; without letting pass what was wrong before.
pub(crate) fn evaluate_unchanged(rules: &Rules, schema: &Schema, value: &Json, path: &Path) -> Findings {
    let mut run = Run { budget: OBJECT_BUDGET, findings: Findings::default() };
    let link = Link { current: None, nearest: None };
    // That the budget ran out is among the errors.
    let _ = run.value(rules, schema, value, Some(value), link, path);
    run.findings
}

#[cfg(test)]
mod upstream {
    use super::*;

    /// The table of `TestValidationExpressions` in apiextensions-apiserver, with the answers, costs and estimates of that code.
    #[test]
    fn rules_are_answered_as_upstream_answers() {
        let cases: Json = serde_json::from_str(include_str!("../tests/fixtures/rules.json")).unwrap();
        let (mut wrong, mut count) = (Vec::new(), 0);
        for case in cases.as_array().unwrap() {
            let is_resource = case["root"] == true;
            for rule in case["rules"].as_array().unwrap() {
                count += 1;
                let mut schema = Schema::read(&case["schema"]).unwrap();
                schema.validations = vec![Rule { rule: rule["rule"].as_str().unwrap().to_owned(), ..Rule::default() }];
                let rules = Rules::compile(&schema, is_resource).unwrap();
                let old = Some(&case["old"]).filter(|old| !old.is_null());
                let mut run = Run { budget: OBJECT_BUDGET, findings: Findings::default() };
                let _ = run.value(
                    &rules,
                    &schema,
                    &case["obj"],
                    old,
                    Link { current: None, nearest: None },
                    &Path::new("root"),
                );
                let found: Vec<String> = run.findings.errors.iter().map(ToString::to_string).collect();
                let declared = Declared::of(&schema, is_resource, "selfType");
                let estimate = match (rules.own.first().map(|rule| &rule.program), declared) {
                    (Some(Ok(program)), Some(declared)) => program.worst_cost(&declared),
                    _ => 0,
                };
                let wanted: Vec<&str> =
                    rule["errors"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
                let (cost, most) = (OBJECT_BUDGET - run.budget, rule["max"].as_u64().unwrap());
                if found != wanted || estimate != most || (wanted.is_empty() && rule["cost"] != cost) {
                    wrong.push(format!(
                        "{} {}\n  ours: {found:?} cost {cost} estimate {estimate}\n  real: {wanted:?} cost {} estimate {most}",
                        case["name"], rule["rule"], rule["cost"]
                    ));
                }
            }
        }
        assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    }
}
