use super::*;
use crate::schema::builtin;

fn schema(name: &str) -> Schema<'static> {
    builtin().get(name).unwrap_or_else(|| panic!("there is no {name}"))
}

fn read(name: &str, body: &str) -> Result<Decoded, TypeError> {
    decode(schema(name), parse(body.as_bytes()).expect("JSON"))
}

fn written(name: &str, body: &str) -> String {
    serde_json::to_string(&read(name, body).expect("an object").object).expect("JSON")
}

const POD: &str = "io.k8s.api.core.v1.Pod";
const CONFIG_MAP: &str = "io.k8s.api.core.v1.ConfigMap";
const DEPLOYMENT: &str = "io.k8s.api.apps.v1.Deployment";

/// The right sides are what Go writes.
#[test]
fn objects_are_written_as_go_writes_them() {
    for (name, body, expected) in [
        (
            CONFIG_MAP,
            r#"{"data":{"b":"1","a":null},"apiVersion":"v1","kind":"ConfigMap"}"#,
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{},"data":{"a":"","b":"1"}}"#,
        ),
        (
            POD,
            r#"{"spec":{"hostNetwork":false,"priority":0,"nodeName":"","volumes":[]}}"#,
            r#"{"metadata":{},"spec":{"containers":null,"priority":0},"status":{}}"#,
        ),
        (
            POD,
            r#"{"spec":{"containers":[{"name":"a","resources":{"limits":{"memory":1024,"cpu":"1000m"}},"securityContext":{}},null]}}"#,
            r#"{"metadata":{},"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1","memory":"1024"}},"securityContext":{}},{"name":"","resources":{}}]},"status":{}}"#,
        ),
        (
            DEPLOYMENT,
            r#"{"metadata":{"creationTimestamp":null},"spec":{"replicas":null}}"#,
            r#"{"metadata":{},"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}}"#,
        ),
        ("io.k8s.api.core.v1.Service", "{}", r#"{"metadata":{},"spec":{},"status":{"loadBalancer":{}}}"#),
        (
            "io.k8s.api.core.v1.Service",
            r#"{"spec":{"ports":[{"port":80},{"port":81,"targetPort":"http"}]}}"#,
            r#"{"metadata":{},"spec":{"ports":[{"port":80,"targetPort":0},{"port":81,"targetPort":"http"}]},"status":{"loadBalancer":{}}}"#,
        ),
        (
            "io.k8s.api.coordination.v1.Lease",
            r#"{"spec":{"renewTime":"2020-01-01T01:00:00.000001+01:00"}}"#,
            r#"{"metadata":{},"spec":{"renewTime":"2020-01-01T00:00:00.000001Z"}}"#,
        ),
        ("io.k8s.api.rbac.v1.Role", r#"{"rules":[]}"#, r#"{"metadata":{},"rules":[]}"#),
        ("io.k8s.api.rbac.v1.Role", "{}", r#"{"metadata":{},"rules":null}"#),
        (
            "io.k8s.api.core.v1.Secret",
            r#"{"data":{"a":"YQ==","b":""}}"#,
            r#"{"metadata":{},"data":{"a":"YQ==","b":""}}"#,
        ),
        (
            "io.k8s.api.apps.v1.ControllerRevision",
            r#"{"revision":2,"data":{"z":1,"a":[null]}}"#,
            r#"{"metadata":{},"data":{"z":1,"a":[null]},"revision":2}"#,
        ),
    ] {
        assert_eq!(written(name, body), expected, "{name} {body}");
    }
}

#[test]
fn json_schemas_within_objects_are_written_as_go_writes_them() {
    let body = r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"properties":{"a":{"items":{"x":1,"type":"string","maximum":10.0}}},
        "additionalProperties":{"type":"object","foo":1},"type":"object"}}}]}}"#;
    let object =
        read("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition", body).unwrap();
    assert_eq!(object.strict, [], "what reads itself is not strict");
    let schema = &object.object["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(
        schema.to_string(),
        r#"{"type":"object","properties":{"a":{"items":{"type":"string","maximum":10}}},"additionalProperties":{"type":"object"}}"#
    );
}

/// The messages are those of kube-apiserver 1.35.
#[test]
fn values_of_a_wrong_type_are_refused_in_the_words_of_go() {
    const QUANTITY: &str =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    for (name, body, expected) in [
        (CONFIG_MAP, "[]", "json: cannot unmarshal array into Go value of type v1.ConfigMap"),
        (
            CONFIG_MAP,
            r#"{"metadata":{"name":5}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
        ),
        (
            CONFIG_MAP,
            r#"{"metadata":[]}"#,
            "json: cannot unmarshal array into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
        ),
        (
            CONFIG_MAP,
            r#"{"data":{"a":5}}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (CONFIG_MAP, r#"{"binaryData":{"a":"!!!"}}"#, "illegal base64 data at input byte 0"),
        (
            CONFIG_MAP,
            r#"{"metadata":{"creationTimestamp":5}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            CONFIG_MAP,
            r#"{"metadata":{"creationTimestamp":"foo"}}"#,
            r#"parsing time "foo" as "2006-01-02T15:04:05Z07:00": cannot parse "foo" as "2006""#,
        ),
        (
            POD,
            r#"{"spec":{"containers":"foo"}}"#,
            "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            POD,
            r#"{"spec":{"containers":[{"name":1}]}}"#,
            "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string",
        ),
        (POD, r#"{"spec":{"containers":[{"resources":{"limits":{"cpu":true}}}]}}"#, QUANTITY),
        (
            POD,
            r#"{"spec":{"restartPolicy":5,"activeDeadlineSeconds":1.5}}"#,
            "json: cannot unmarshal number into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
        ),
        (
            POD,
            r#"{"spec":{"activeDeadlineSeconds":1.5}}"#,
            "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.activeDeadlineSeconds of type int64",
        ),
        (
            POD,
            r#"{"spec":{"containers":[{"ports":[{"containerPort":99999999999}]}]}}"#,
            "json: cannot unmarshal number 99999999999 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            POD,
            r#"{"spec":{"containers":[{"readinessProbe":{"httpGet":{"port":true}}}]}}"#,
            "json: cannot unmarshal bool into Go struct field HTTPGetAction.spec.containers.readinessProbe.ProbeHandler.httpGet.port of type int32",
        ),
        // What reads itself ends the reading, whatever was wrong before.
        (POD, r#"{"spec":{"restartPolicy":5,"overhead":{"cpu":"x"}}}"#, QUANTITY),
    ] {
        assert_eq!(read(name, body).unwrap_err().to_string(), expected, "{body}");
    }
}

#[test]
fn unknown_and_duplicate_fields_are_reported_in_the_order_of_the_text() {
    let body = r#"{"spec":{"foo":1,"replicas":1,"bar":2,"replicas":2,"template":{"spec":{"containers":[{"name":"a"},{"foo":1}]}}},
        "metadata":{"labels":{"a":"1","a":"2"}}}"#;
    let strict: Vec<String> = read(DEPLOYMENT, body).unwrap().strict.iter().map(ToString::to_string).collect();
    assert_eq!(
        strict,
        [
            r#"unknown field "spec.foo""#,
            r#"unknown field "spec.bar""#,
            r#"duplicate field "spec.replicas""#,
            r#"unknown field "spec.template.spec.containers[1].foo""#,
            r#"duplicate field "metadata.labels.a""#,
        ]
    );
}

#[test]
fn the_kind_of_a_body_is_read_first() {
    let error = |body: &str| type_meta(&parse(body.as_bytes()).unwrap().value).unwrap_err().to_string();
    assert_eq!(
        error("[]"),
        r#"json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#
    );
    assert_eq!(error(r#"{"kind":5}"#), "json: cannot unmarshal number into Go struct field .kind of type string");
    assert_eq!(type_meta(&Value::Null), Ok(TypeMeta::default()));
}

#[test]
fn what_never_was_text_is_refused_in_the_words_of_the_converter() {
    for (value, expected) in [
        (serde_json::json!({"spec": {"containers": "foo"}}), "cannot restore slice from string"),
        (serde_json::json!({"spec": "foo"}), "cannot restore struct from: string"),
        (serde_json::json!({"spec": {"nodeSelector": 5}}), "cannot restore map from int64"),
        (serde_json::json!({"spec": {"restartPolicy": 5}}), "cannot convert int64 to v1.RestartPolicy"),
        (serde_json::json!({"spec": {"restartPolicy": true}}), "unrecognized type: string"),
        (serde_json::json!({"spec": {"priority": "5"}}), "unrecognized type: int32"),
        (serde_json::json!({"spec": {"priority": 1.5}}), "cannot convert float64 to int32"),
    ] {
        assert_eq!(convert(schema(POD), value.clone()).unwrap_err().to_string(), expected, "{value}");
    }
    let unknown = convert(schema(POD), serde_json::json!({"z": 1, "spec": {"y": 1}, "a": 1})).unwrap().strict;
    assert_eq!(
        unknown.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [r#"unknown field "a""#, r#"unknown field "spec.y""#, r#"unknown field "z""#]
    );
}

#[test]
fn protobuf_does_not_tell_an_empty_list_from_none() {
    for (name, body, expected) in [
        ("io.k8s.api.rbac.v1.Role", r#"{"rules":[]}"#, r#"{"metadata":{},"rules":null}"#),
        ("io.k8s.api.core.v1.Secret", r#"{"data":{"a":null}}"#, r#"{"metadata":{},"data":{"a":""}}"#),
        (
            POD,
            r#"{"spec":{"containers":[{"name":"a"}]}}"#,
            r#"{"metadata":{},"spec":{"containers":[{"name":"a","resources":{}}]},"status":{}}"#,
        ),
    ] {
        let object = read(name, body).unwrap().object;
        assert_eq!(stored(schema(name), object).to_string(), expected);
    }
}

#[test]
fn every_type_of_the_table_is_written_the_same_twice() {
    for name in builtin().names() {
        let once = write(schema(name), Value::Null);
        assert_eq!(write(schema(name), once.clone()), once, "{name}");
        assert_eq!(read(name, &once.to_string()), Ok(Decoded { object: once, strict: Vec::new() }), "{name}");
    }
}
