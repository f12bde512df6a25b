//! The one table of what a pod or a SidecarSet can say about sidecars. Admission, the webhook, `pillion why` and docs/lifecycle.md use it.

use std::fmt;

use pillion_api::names;
use pillion_api::pod::Container;
use pillion_api::sidecarset::SidecarMode;
use pillion_rules::pod::SIDECAR_FIELD;
use serde_json::Value;

/// One thing that can be said about sidecars.
#[derive(Debug)]
pub(super) struct Setting {
    /// Where it is written.
    pub(super) place: Place,
    /// The values that count.
    pub(super) values: Values,
    /// What it means, for docs/lifecycle.md.
    meaning: &'static str,
    /// Where it is honoured, likewise.
    honoured: &'static str,
}

/// Where something is written, and its name there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A field of a container of the pod.
    Field(&'static str),
    /// An annotation of the pod.
    Annotation(&'static str),
    /// An environment variable of a container of the pod. As in Kruise, only a literal value counts.
    Variable(&'static str),
    /// A field of a container of a SidecarSet.
    SidecarSet(&'static str),
}

/// The values that count.
#[derive(Clone, Copy, Debug)]
pub(super) enum Values {
    True,
    TrueInAnyCase,
    NotEmpty,
    /// Names of containers.
    Containers,
    OneOf(&'static [&'static str]),
}

const SET: &str = "where the SidecarSet is injected";

/// What marks a container as a sidecar. Of several marks of one container the first one counts.
pub(super) static MARKS: [Setting; 5] = [
    Setting {
        place: Place::Field(SIDECAR_FIELD),
        values: Values::True,
        meaning: "the container is a sidecar",
        honoured: "on pods and templates of the embedded cluster; a real API server does not know the field",
    },
    Setting {
        place: Place::Annotation(names::SIDECARS),
        values: Values::Containers,
        meaning: "these containers are sidecars",
        honoured: "on pods and pod templates, everywhere",
    },
    Setting {
        place: Place::Variable(names::KRUISE_TERMINATE),
        values: Values::TrueInAnyCase,
        meaning: "the container is a sidecar, by phase if no mode is given and the API server does not have the field",
        honoured: "everywhere",
    },
    Setting {
        place: Place::Variable(names::KRUISE_TERMINATE_WITH_IMAGE),
        values: Values::NotEmpty,
        meaning: "the same",
        honoured: "everywhere",
    },
    Setting {
        place: Place::SidecarSet(SIDECAR_FIELD),
        values: Values::True,
        meaning: "the container is a sidecar",
        honoured: SET,
    },
];

/// How the sidecars of a pod end.
pub(super) static MODE: Setting = Setting {
    place: Place::Annotation(names::SIDECAR_MODE),
    values: Values::OneOf(SidecarMode::NAMES),
    meaning: "the mode of the sidecars that the pod itself marks",
    honoured: "everywhere",
};

/// Whether an error of a sidecar before the end of the work fails the pod.
pub(super) static FAIL_POD: Setting = Setting {
    place: Place::Annotation(names::FAIL_POD_ON_SIDECAR_ERROR),
    values: Values::True,
    meaning: "an error of a sidecar that the pod itself marks fails the pod, while there is work to do",
    honoured: "in the mode Native; in the others it does so anyway",
};

/// Whether the errors of a sidecar never count.
pub(super) static IGNORE_ERRORS: Setting = Setting {
    place: Place::Variable(names::KRUISE_IGNORE_EXIT_CODE),
    values: Values::TrueInAnyCase,
    meaning: "no error of the sidecar fails the pod",
    honoured: "in the mode Strict, which then ends the pod by phase",
};

/// The same in a SidecarSet.
static OF_SETS: [Setting; 2] = [
    Setting {
        place: Place::SidecarSet("sidecarMode"),
        values: Values::OneOf(SidecarMode::NAMES),
        meaning: "the mode of the sidecar, unless the pod gives one",
        honoured: SET,
    },
    Setting {
        place: Place::SidecarSet("failPodOnSidecarError"),
        values: Values::True,
        meaning: "an error of the sidecar fails the pod, while there is work to do",
        honoured: "in the mode Native; in the others it does so anyway",
    },
];

/// Every setting, in the order of docs/lifecycle.md.
pub(super) fn settings() -> impl Iterator<Item = &'static Setting> {
    let [mode_of_set, fail_pod_of_set] = &OF_SETS;
    MARKS.iter().chain([&MODE, mode_of_set, &FAIL_POD, fail_pod_of_set, &IGNORE_ERRORS])
}

/// The environment variables among the settings.
const VARIABLES: [&str; 3] =
    [names::KRUISE_TERMINATE, names::KRUISE_TERMINATE_WITH_IMAGE, names::KRUISE_IGNORE_EXIT_CODE];

/// Returns whether an environment variable says something about sidecars, so that admission has to read it. It is called for each variable of a
/// new pod.
#[inline]
pub fn is_variable(name: &str) -> bool {
    VARIABLES.contains(&name)
}

/// The names in the annotation `pillion.dev/sidecars`.
pub(super) fn listed(annotation: &str) -> impl Iterator<Item = &str> {
    annotation.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// The table of docs/lifecycle.md.
pub fn table() -> String {
    let rows = settings().map(|it| format!("| {} | {} | {} | {} |\n", it.place, it.values, it.meaning, it.honoured));
    ["| where | value | meaning | honoured |\n".to_owned(), "|---|---|---|---|\n".to_owned()]
        .into_iter()
        .chain(rows)
        .collect()
}

impl Setting {
    /// Whether a container of a pod has it, as a field or as a variable.
    pub(super) fn is_on(&self, container: Container<'_>) -> bool {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).is_some_and(|text| self.values.accept(text));
        match self.place {
            Place::Field(name) => container.0.get(name) == Some(&Value::Bool(true)),
            Place::Variable(name) => text(container.env_var(name).and_then(|variable| variable.get("value"))),
            Place::Annotation(_) | Place::SidecarSet(_) => false,
        }
    }
}

impl Place {
    /// Returns the name of the field, annotation or variable.
    pub(super) fn name(self) -> &'static str {
        match self {
            Place::Field(name) | Place::Annotation(name) | Place::Variable(name) | Place::SidecarSet(name) => name,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Field(name) => write!(f, "field `{name}` of a container"),
            Place::Annotation(name) => write!(f, "annotation `{name}`"),
            Place::Variable(name) => write!(f, "variable `{name}` of a container"),
            Place::SidecarSet(name) => write!(f, "SidecarSet `spec.containers[].{name}`"),
        }
    }
}

impl Values {
    /// Whether a text counts.
    pub(super) fn accept(self, text: &str) -> bool {
        match self {
            Values::True => text == "true",
            Values::TrueInAnyCase => text.eq_ignore_ascii_case("true"),
            Values::NotEmpty => !text.is_empty(),
            Values::Containers => listed(text).next().is_some(),
            Values::OneOf(names) => names.contains(&text),
        }
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Values::True => f.write_str("`true`"),
            Values::TrueInAnyCase => f.write_str("`true`, in any case"),
            Values::NotEmpty => f.write_str("any text"),
            Values::Containers => f.write_str("names of containers, joined by commas"),
            Values::OneOf(names) => write!(f, "`{}`", names.join("` or `")),
        }
    }
}

#[cfg(test)]
mod tests {
    use pillion_api::sidecarset::SidecarContainer;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_fields_of_sidecarsets_are_those_of_the_type() {
        let all = SidecarContainer {
            sidecar: Some(true),
            sidecar_mode: Some(SidecarMode::Strict),
            fail_pod_on_sidecar_error: Some(true),
            ..SidecarContainer::default()
        };
        let all = serde_json::to_value(all).unwrap();
        for setting in settings() {
            let Place::SidecarSet(name) = setting.place else { continue };
            let value = &all[name];
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            assert!(setting.values.accept(&text), "{}: {value}", setting.place);
        }
    }

    #[test]
    fn the_variables_that_are_read_are_those_of_the_settings() {
        for setting in settings() {
            let is_read = is_variable(setting.place.name());
            assert_eq!(is_read, matches!(setting.place, Place::Variable(_)), "{}", setting.place);
        }
        assert!(!is_variable("sidecar") && !is_variable(names::SIDECARS));
    }

    #[test]
    fn a_container_has_a_setting_only_with_a_value_that_counts() {
        let is_on = |setting: &Setting, container: Value| setting.is_on(Container(container.as_object().unwrap()));
        let variable = |value: &str| json!({"env": [{"name": names::KRUISE_IGNORE_EXIT_CODE, "value": value}]});
        assert!(is_on(&IGNORE_ERRORS, variable("TRUE")) && !is_on(&IGNORE_ERRORS, variable("1")));
        assert!(is_on(&MARKS[0], json!({"sidecar": true})) && !is_on(&MARKS[0], json!({"sidecar": "true"})));
        assert!(!is_on(&MARKS[1], json!({})));
    }
}
