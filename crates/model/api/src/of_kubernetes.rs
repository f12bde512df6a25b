//! Kubernetes' own types within the schemas of ours.
//!
//! Code that describes all of them is large, and only the generator needs it: without the feature `schemas` they have no schema.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};

/// Stands for a type of Kubernetes' own.
pub(crate) struct OfKubernetes<T>(PhantomData<T>);

#[cfg(feature = "schemas")]
impl<T: JsonSchema> JsonSchema for OfKubernetes<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

#[cfg(not(feature = "schemas"))]
impl<T> JsonSchema for OfKubernetes<T> {
    fn schema_name() -> Cow<'static, str> {
        "OfKubernetes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        Schema::default()
    }
}
