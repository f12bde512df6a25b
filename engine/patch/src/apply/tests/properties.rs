//! What holds for all configurations.

use proptest::prelude::*;

use super::*;

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof!["[12]".prop_map(Value::from), Just(json!(""))]
}

fn map() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map("[ab]", leaf(), 1..3).prop_map(|fields| fields.into_iter().collect())
}

fn keyed(name: &'static str, items: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    proptest::collection::btree_map("[xyz]", items, 1..3).prop_map(move |items| {
        let items = items.into_iter().map(|(key, mut item)| {
            item[name] = key.into();
            item
        });
        items.collect()
    })
}

fn some(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(name, value)| proptest::option::of(value).prop_map(move |value| (name, value)))
        .collect();
    fields
        .prop_map(|fields| fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
        .boxed()
}

/// Configurations of a pod: leaves, maps, lists with keys inside lists with keys, sets, atomic values, nulls.
fn configuration() -> impl Strategy<Value = Value> {
    let env = keyed("name", some(vec![("value", leaf().boxed())]));
    let container = some(vec![
        ("image", leaf().boxed()),
        ("args", proptest::collection::vec(leaf(), 1..2).prop_map(Value::Array).boxed()),
        ("env", env.boxed()),
        ("resources", some(vec![("limits", map().boxed())])),
    ]);
    let security =
        prop_oneof![4 => some(vec![("runAsUser", (0..2).prop_map(Value::from).boxed())]), 1 => Just(Value::Null)];
    let spec = some(vec![
        ("nodeName", leaf().boxed()),
        ("nodeSelector", map().boxed()),
        ("securityContext", security.boxed()),
        ("containers", keyed("name", container).boxed()),
    ]);
    let finalizers =
        proptest::sample::subsequence(vec!["a", "b", "c"], 1..=3).prop_shuffle().prop_map(|list| json!(list));
    let metadata = some(vec![("labels", map().boxed()), ("finalizers", finalizers.boxed())]);
    some(vec![("spec", spec), ("metadata", metadata)])
}

/// The object as it is stored: without null, and with the old times if only they changed.
fn stored(live: Option<&Value>, mut object: Value) -> Value {
    fn tidy(value: &mut Value) {
        if let Some(fields) = value.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(tidy);
        } else if let Some(items) = value.as_array_mut() {
            items.iter_mut().for_each(tidy);
        }
    }
    tidy(&mut object);
    if let Some(live) = live {
        keep_times(live, &mut object);
    }
    object
}

fn applied(live: Option<&Value>, manager: &str, parts: &Value) -> Value {
    let context = context("Pod", manager);
    stored(live, apply(&context, live, &object(&context, parts.clone()), true).expect("force"))
}

fn updated(live: Option<&Value>, manager: &str, parts: &Value) -> Value {
    let context = context("Pod", manager);
    let mut new = object(&context, parts.clone());
    update(&context, live, &mut new);
    new
}

/// The scalars by their paths: empty structs come and go.
fn values(context: &Context<'_>, object: &Value) -> Vec<String> {
    let empty = json!({});
    let all = compare(Type::Known(context.schema), &empty, object);
    let structs = [".metadata", ".spec", "securityContext", "resources", ".status"];
    all.added.paths().into_iter().filter(|path| !structs.iter().any(|name| path.ends_with(name))).collect()
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(before in configuration(), other in configuration(), parts in configuration()) {
        // Null for what is not there is taken for a change each time, by Kubernetes too.
        prop_assume!(!parts.to_string().contains("null"));
        let live = applied(Some(&updated(None, "u", &before)), "other", &other);
        let once = applied(Some(&live), "me", &parts);
        let later = Context { now: at("2027-01-01T00:00:00Z"), ..context("Pod", "me") };
        let twice = apply(&later, Some(&once), &object(&later, parts), false).expect("its own fields");
        prop_assert_eq!(stored(Some(&once), twice), once);
    }

    #[test]
    fn applying_nothing_takes_back_just_what_was_applied(other in configuration(), parts in configuration()) {
        let live = applied(None, "other", &other);
        let context = context("Pod", "me");
        // A shared value that is not forced is the same for both.
        if let Ok(shared) = apply(&context, Some(&live), &object(&context, parts), false) {
            let back = applied(Some(&stored(Some(&live), shared)), "me", &json!({}));
            prop_assert_eq!(owners(&back), owners(&live));
            prop_assert_eq!(values(&context, &back), values(&context, &live));
        }
    }

    #[test]
    fn what_is_applied_is_there_and_owned(before in configuration(), parts in configuration()) {
        let live = updated(None, "u", &before);
        let context = context("Pod", "me");
        let schema = Type::Known(context.schema);
        let wanted = object(&context, parts);
        let result = apply(&context, Some(&live), &wanted, true).expect("force");
        let there = field_set(schema, &result).with_named_fields(schema);
        let missing = entries::without_identity(&field_set(schema, &wanted)).difference(&there);
        prop_assert!(missing.is_empty(), "{:?}", missing.paths());
        let again = merge::merge(schema, &result, &wanted);
        let changed = compare(schema, &result, &again);
        prop_assert!(changed.modified.is_empty() && changed.added.is_empty());
    }

    #[test]
    fn an_update_to_the_same_keeps_the_owners(before in configuration(), parts in configuration()) {
        let live = applied(Some(&updated(None, "u", &before)), "a", &parts);
        let mut same = live.clone();
        update(&context("Pod", "someone"), Some(&live), &mut same);
        prop_assert_eq!(same, live);
    }

    #[test]
    fn merged_and_pruned_objects_are_valid(before in configuration(), first in configuration(), second in configuration()) {
        let live = applied(Some(&updated(None, "u", &before)), "me", &first);
        let result = applied(Some(&live), "me", &second);
        prop_assert_eq!(validate(Type::Known(context("Pod", "me").schema), &result, Duplicates::Refused), Ok(()));
    }

    #[test]
    fn sets_read_and_write_the_same_fields(parts in configuration()) {
        let context = context("Pod", "me");
        let wanted = object(&context, parts);
        let set = field_set(Type::Known(context.schema), &wanted);
        let text = fields_v1::render(&set);
        prop_assert_eq!(fields_v1::parse(&text), Ok(set));
    }

    #[test]
    fn set_algebra_holds(a in configuration(), b in configuration()) {
        let context = context("Pod", "me");
        let schema = Type::Known(context.schema);
        let (a, b) = (object(&context, a), object(&context, b));
        let (a, b) = (field_set(schema, &a), field_set(schema, &b));
        let (union, both, less) = (a.union(&b), a.intersection(&b), a.difference(&b));
        prop_assert_eq!(&union, &b.union(&a));
        prop_assert_eq!(&both, &b.intersection(&a));
        prop_assert_eq!(less.union(&both), a.clone());
        prop_assert!(less.intersection(&b).is_empty());
        prop_assert_eq!(union.difference(&b), less);
        prop_assert!(a.recursive_difference(&a).is_empty());
    }
}
