//! The admission plugin `Priority`: a pod's class becomes a number.

use serde_json::{Value, json};

use pillion_rules::pod::read::{flag, number, pointer_number, pointer_text, text};

/// The class of pods that name none: the lowest of those that are marked so.
pub fn default_priority_class<'a>(classes: &[&'a Value]) -> Option<&'a Value> {
    classes.iter().copied().filter(|class| flag(class, "globalDefault")).min_by_key(|class| number(class, "value"))
}

/// Gives a new pod the priority of its class: the one that it names, or else that of [`default_priority_class`].
///
/// # Errors
/// Why the pod is forbidden, in the words of the plugin.
pub fn apply_priority(pod: &mut Value, class: Option<&Value>) -> Result<(), String> {
    let Some(spec) = pod.get_mut("spec") else { return Ok(()) };
    let named = text(spec, "priorityClassName").to_owned();
    let (value, policy) = match class {
        Some(class) => (number(class, "value"), pointer_text(class, "preemptionPolicy")),
        None if named.is_empty() => (0, Some("PreemptLowerPriority")),
        None => return Err(format!("no PriorityClass with name {named} was found")),
    };
    if let Some(own) = pointer_number(spec, "priority").filter(|own| *own != value) {
        return Err(format!(
            "the integer value of priority ({own}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        ));
    }
    if let (Some(own), Some(policy)) = (pointer_text(spec, "preemptionPolicy"), policy)
        && own != policy
    {
        return Err(format!(
            "the string value of PreemptionPolicy ({own}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        ));
    }
    if let Some(spec) = spec.as_object_mut() {
        if let (true, Some(class)) = (named.is_empty(), class) {
            spec.insert("priorityClassName".to_owned(), json!(text(&class["metadata"], "name")));
        }
        spec.insert("priority".to_owned(), json!(value));
        if let Some(policy) = policy {
            spec.insert("preemptionPolicy".to_owned(), json!(policy));
        }
    }
    Ok(())
}

/// A client that does not know of the priority does not clear it when it updates a pod.
pub fn keep_priority(new: &mut Value, old: &Value) {
    let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for field in ["priority", "preemptionPolicy"] {
        if let Some(value) = old["spec"].get(field)
            && !spec.contains_key(field)
        {
            spec.insert(field.to_owned(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_gives_the_priority() {
        let mut pod = json!({"spec": {}});
        apply_priority(&mut pod, None).unwrap();
        assert_eq!(pod["spec"], json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}));
        let low = json!({"metadata": {"name": "low"}, "value": 5, "globalDefault": true, "preemptionPolicy": "Never"});
        let high = json!({"metadata": {"name": "high"}, "value": 9, "globalDefault": true});
        let mut pod = json!({"spec": {}});
        apply_priority(&mut pod, default_priority_class(&[&high, &low])).unwrap();
        assert_eq!(pod["spec"], json!({"priorityClassName": "low", "priority": 5, "preemptionPolicy": "Never"}));
        let mut pod = json!({"spec": {"priorityClassName": "none"}});
        assert_eq!(apply_priority(&mut pod, None).unwrap_err(), "no PriorityClass with name none was found");
        let mut pod = json!({"spec": {"priority": 7}});
        assert_eq!(
            apply_priority(&mut pod, None).unwrap_err(),
            "the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name"
        );
    }
}
