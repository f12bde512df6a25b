//! What the rules of a `CustomResourceDefinition` can cost: each, and all of them together.

use pillion_rules::field::{Error, Path};

use crate::declared::Declared;
use crate::escape;
use crate::rules::Compiled;
use crate::schema::{Rule, Schema, shown_rule};

const RULE_LIMIT: u64 = 10_000_000;
const TOTAL_LIMIT: u64 = 100_000_000;

/// All rules together.
#[derive(Debug, Default)]
pub(super) struct Total {
    cost: u64,
    /// The rules that cost most, the most expensive first.
    expensive: Vec<(Path, u64)>,
}

impl Total {
    fn add(&mut self, path: Path, cost: u64) {
        self.cost = self.cost.saturating_add(cost);
        // What is below a hundredth of the limit is no one's problem.
        if cost >= TOTAL_LIMIT / 100 {
            self.expensive.push((path, cost));
            self.expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.expensive.truncate(4);
        }
    }

    pub(super) fn errors(self, path: &Path) -> Vec<Error> {
        if self.cost <= TOTAL_LIMIT {
            return Vec::new();
        }
        let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let mut errors: Vec<Error> = self.expensive.iter().map(|(path, _)| Error::forbidden(path, detail)).collect();
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(Error::forbidden(path, exceeds(name, self.cost, TOTAL_LIMIT)));
        errors
    }
}

#[allow(clippy::cast_precision_loss, reason = "a factor for people to read")]
fn exceeds(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// Where in a schema rules are: the types of what they read, and how often they can be evaluated for one object.
pub(super) struct Scope<'a> {
    pub(super) total: &'a mut Total,
    /// Of the schema, if it or one around it has rules and it has a type.
    declared: Option<Declared>,
    in_rules: bool,
    /// How often the schema can apply; `None` if nothing but the size of a request bounds it.
    times: Option<u64>,
    is_unchanged: bool,
}

impl<'a> Scope<'a> {
    pub(super) fn root(schema: &Schema, total: &'a mut Total, is_unchanged: bool) -> Scope<'a> {
        let in_rules = !schema.validations.is_empty();
        let declared = in_rules.then(|| Declared::of(schema, true, "selfType")).flatten();
        Scope { total, declared, in_rules, times: Some(1), is_unchanged }
    }

    /// The scope of a property, of the items (`""`) or of the additional properties (`""`) of `parent`.
    pub(super) fn below(&mut self, parent: &Schema, child: &Schema, property: &str) -> Scope<'_> {
        let in_rules = self.in_rules || !child.validations.is_empty();
        let inherited = match (&self.declared, property) {
            (Some(declared), "") => declared.element().cloned(),
            (Some(declared), property) => escape::escape(property).and_then(|name| declared.field(&name).cloned()),
            (None, _) => None,
        };
        let own = || Declared::of(child, child.embedded_resource, "selfType");
        let declared = if in_rules { inherited.or_else(own) } else { None };
        let times = self.times.and_then(|times| Some(times.saturating_mul(most_elements(parent)?)));
        Scope { total: self.total, declared, in_rules, times, is_unchanged: self.is_unchanged }
    }

    /// What is wrong with the rules of a schema. `uncorrelated` is the nearest thing around it whose items have no identity.
    pub(super) fn validate(&mut self, schema: &Schema, path: &Path, uncorrelated: Option<&Path>) -> Vec<Error> {
        let path = path.child("x-kubernetes-validations");
        let Some(declared) = self.declared.clone() else {
            let detail = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            return vec![Error::internal(&path, detail)];
        };
        let mut errors = Vec::new();
        for (index, rule) in schema.validations.iter().enumerate() {
            let compiled = Compiled::new(rule, schema, &declared);
            self.validate_rule(rule, &compiled, &declared, &path.index(index), uncorrelated, &mut errors);
        }
        errors
    }

    fn validate_rule(
        &mut self,
        rule: &Rule,
        compiled: &Compiled,
        declared: &Declared,
        path: &Path,
        uncorrelated: Option<&Path>,
        errors: &mut Vec<Error>,
    ) {
        let times = self.times.unwrap_or_else(|| declared.most_in_a_request());
        let worst = compiled.program.as_ref().map_or(0, |program| program.worst_cost(declared));
        let rule_path = path.child("rule");
        self.charge(worst.saturating_mul(times), "estimated rule cost", &rule_path, errors);
        if let Err(reason) = &compiled.program {
            errors.push(Error::invalid(&rule_path, shown_rule(rule), reason.as_str()));
        }
        let message_path = path.child("messageExpression");
        match &compiled.message {
            Some(Ok(program)) => {
                self.charge(program.worst_cost(declared), "estimated messageExpression cost", &message_path, errors);
            }
            Some(Err(reason)) => errors.push(Error::invalid(&message_path, shown_rule(rule), reason.as_str())),
            None => {}
        }
        if compiled.uses_old_self {
            if let Some(uncorrelated) = uncorrelated {
                let detail =
                    format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}");
                errors.push(Error::invalid(&rule_path, rule.rule.as_str(), detail));
            }
        } else if let Some(optional) = rule.optional_old_self {
            let detail = "may not be set if oldSelf is not used in rule";
            errors.push(Error::invalid(&path.child("optionalOldSelf"), optional, detail));
        }
    }

    fn charge(&mut self, cost: u64, name: &str, path: &Path, errors: &mut Vec<Error>) {
        if cost > RULE_LIMIT && !self.is_unchanged {
            errors.push(Error::forbidden(path, exceeds(name, cost, RULE_LIMIT)));
        }
        self.total.add(path.clone(), cost);
    }
}

/// How many values a value of the schema has; `None` if nothing bounds it.
fn most_elements(schema: &Schema) -> Option<u64> {
    let limit = match schema.kind.as_str() {
        "object" if schema.additional_properties.is_some() => schema.max_properties,
        "array" => schema.max_items,
        _ => Some(1),
    };
    limit.map(|limit| u64::try_from(limit).unwrap_or_default())
}
