//! The OpenAPI definitions of Kubernetes' own types, as k8s-openapi describes them.

use k8s_openapi::api::{
    admissionregistration, apps, authentication, authorization, autoscaling, batch, coordination, core, discovery,
    events, networking, policy, rbac, scheduling, storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta;
use k8s_openapi::schemars::generate::SchemaSettings;
use k8s_openapi::schemars::{JsonSchema, SchemaGenerator};
use serde_json::json;

/// Group, version and kind of each type, and the name of its definition.
#[derive(Default)]
struct Kinds(Vec<[String; 4]>);

/// Takes in each of the types.
macro_rules! kinds {
    ($table:ident, $generator:ident: $($package:ident::$version:ident { $($kind:ident),+ })+) => {
        $($($table.add::<$package::$version::$kind>(&mut $generator);)+)+
    };
}

/// The text of the table, a definition per line.
pub(crate) fn definitions() -> String {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    let mut table = Kinds::default();
    kinds!(table, generator:
        admissionregistration::v1 {
            MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration
        }
        apiextensions::v1 { CustomResourceDefinition }
        apps::v1 { ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet }
        authentication::v1 { SelfSubjectReview, TokenRequest, TokenReview }
        authorization::v1 { LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview }
        autoscaling::v1 { HorizontalPodAutoscaler, Scale }
        autoscaling::v2 { HorizontalPodAutoscaler }
        batch::v1 { CronJob, Job }
        coordination::v1 { Lease }
        core::v1 {
            Binding, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate,
            ReplicationController, ResourceQuota, Secret, Service, ServiceAccount
        }
        discovery::v1 { EndpointSlice }
        events::v1 { Event }
        meta::v1 { Status }
        networking::v1 { Ingress, IngressClass, NetworkPolicy }
        policy::v1 { Eviction, PodDisruptionBudget }
        rbac::v1 { ClusterRole, ClusterRoleBinding, Role, RoleBinding }
        scheduling::v1 { PriorityClass }
        storage::v1 { StorageClass }
    );
    generator.subschema_for::<meta::v1::DeleteOptions>();
    generator.subschema_for::<meta::v1::ListMeta>();
    generator.subschema_for::<meta::v1::Patch>();
    let definitions = generator.take_definitions(false);
    let lines: Vec<String> =
        definitions.iter().map(|(name, definition)| format!("{}:{definition}", json!(name))).collect();
    format!("{{\"kinds\":{},\n\"definitions\":{{\n{}\n}}}}\n", json!(table.0), lines.join(",\n"))
}

impl Kinds {
    fn add<T: JsonSchema + k8s_openapi::Resource>(&mut self, generator: &mut SchemaGenerator) {
        generator.subschema_for::<T>();
        let name = T::schema_name().into_owned();
        self.0.push([T::GROUP.to_owned(), T::VERSION.to_owned(), T::KIND.to_owned(), name]);
    }
}
