//! The types of `meta/v1` that a SidecarSet uses.

use super::Kind::{Any, Bool, Int64, List, Object, String, Time};
use super::{STRING_MAP, STRINGS, Shape, always, if_set, or_null, unless_empty};

pub(super) static LABEL_SELECTOR: Shape = Shape::new(&[
    unless_empty("matchLabels", STRING_MAP),
    unless_empty("matchExpressions", List(&Object(&LABEL_SELECTOR_REQUIREMENT))),
]);

static LABEL_SELECTOR_REQUIREMENT: Shape =
    Shape::new(&[always("key", String), always("operator", String), unless_empty("values", STRINGS)]);

pub(super) static OBJECT_META: Shape = Shape::new(&[
    unless_empty("name", String),
    unless_empty("generateName", String),
    unless_empty("namespace", String),
    unless_empty("selfLink", String),
    unless_empty("uid", String),
    unless_empty("resourceVersion", String),
    unless_empty("generation", Int64),
    or_null("creationTimestamp", Time),
    if_set("deletionTimestamp", Time),
    if_set("deletionGracePeriodSeconds", Int64),
    unless_empty("labels", STRING_MAP),
    unless_empty("annotations", STRING_MAP),
    unless_empty("ownerReferences", List(&Object(&OWNER_REFERENCE))),
    unless_empty("finalizers", STRINGS),
    unless_empty("managedFields", List(&Object(&MANAGED_FIELDS_ENTRY))),
]);

static OWNER_REFERENCE: Shape = Shape::new(&[
    always("apiVersion", String),
    always("kind", String),
    always("name", String),
    always("uid", String),
    if_set("controller", Bool),
    if_set("blockOwnerDeletion", Bool),
]);

static MANAGED_FIELDS_ENTRY: Shape = Shape::new(&[
    unless_empty("manager", String),
    unless_empty("operation", String),
    unless_empty("apiVersion", String),
    if_set("time", Time),
    unless_empty("fieldsType", String),
    if_set("fieldsV1", Any),
    unless_empty("subresource", String),
]);
