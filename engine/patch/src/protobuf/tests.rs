use k8s_openapi::ByteString;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::schema::{Schema, builtin};

/// Objects as Go encodes them, and as it writes what it decodes from that.
const CASES: &str = include_str!("cases.jsonl");

#[derive(Deserialize)]
struct Case {
    #[serde(rename = "type")]
    type_name: String,
    protobuf: ByteString,
    json: Value,
}

fn cases() -> impl Iterator<Item = Case> {
    CASES.lines().map(|line| serde_json::from_str(line).expect("a case"))
}

fn schema(name: &str) -> Schema<'static> {
    builtin().get(name).expect("it is in the table")
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).expect("short");
    assert!(length < 0x80, "short");
    [&[number << 3 | 2, length], bytes].concat()
}

fn read(kind: &str, raw: &[u8]) -> Result<Value, String> {
    to_json(schema(&format!("io.k8s.api.core.v1.{kind}")), raw).map_err(|error| error.to_string())
}

#[test]
fn objects_are_read_as_go_reads_them() {
    for Case { type_name, protobuf, json } in cases() {
        let envelope = decode(&protobuf.0).expect("an envelope");
        let schema = schema(&type_name);
        let mut object = to_json(schema, envelope.raw).unwrap_or_else(|error| panic!("{type_name}: {error}"));
        object["kind"] = envelope.kind.into();
        object["apiVersion"] = envelope.api_version.into();
        let decoded = crate::decode::decode(schema, object).unwrap_or_else(|error| panic!("{type_name}: {error}"));
        assert_eq!(decoded.object.to_string(), json.to_string(), "{type_name}");
        assert_eq!(decoded.strict, [], "{type_name}");
    }
}

#[test]
fn what_is_no_envelope_is_refused_as_kube_apiserver_refuses_it() {
    for (bytes, expected) in [
        (&b""[..], "empty data"),
        (b"hello", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (b"k8s\0", "empty body"),
        (b"k8s\0\x0a\x50a", "unexpected EOF"),
        (b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "proto: integer overflow"),
        (b"k8s\0\x0c", "proto: Unknown: wiretype end group for non-group"),
        (b"k8s\0\x02\x00", "proto: Unknown: illegal tag 0 (wire type 2)"),
        (b"k8s\0\x08\x01", "proto: wrong wireType = 0 for field TypeMeta"),
    ] {
        assert_eq!(decode(bytes).unwrap_err().to_string(), expected);
    }
}

#[test]
fn what_is_no_message_is_refused_as_kube_apiserver_refuses_it() {
    for (raw, expected) in [
        (&b"\x0a\x50a"[..], "unexpected EOF"),
        (b"\x0a\x03\x0a\x50a", "unexpected EOF"),
        (b"\x08\x01", "proto: wrong wireType = 0 for field ObjectMeta"),
        (b"\x0c", "proto: ConfigMap: wiretype end group for non-group"),
        (b"\x02\x00", "proto: ConfigMap: illegal tag 0 (wire type 2)"),
        (b"\xfe\x01", "proto: illegal wireType 6"),
        (b"\xfb\x01", "unexpected EOF"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "proto: negative length found during unmarshaling"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "proto: integer overflow"),
        (b"{\"metadata\":{\"name\":\"x\"}}", "unexpected EOF"),
    ] {
        assert_eq!(read("ConfigMap", raw).unwrap_err(), expected);
    }
    // The source of a volume is a message of its own, though JSON has no object for it.
    assert_eq!(read("Volume", b"\x12\x01\x0c").unwrap_err(), "proto: VolumeSource: wiretype end group for non-group");
}

#[test]
fn unknown_numbers_are_passed_over() {
    let number = b"\xa0\x06\x01";
    let fixed = b"\xa1\x06\0\0\0\0\0\0\0\0\xa5\x06\0\0\0\0";
    let groups = b"\xa3\x06\x0b\x10\x01\x0c\x12\x01x\xa4\x06";
    let bytes = b"\xa2\x06\x01x";
    let raw = [number, &fixed[..], groups, bytes, &field(1, &field(1, b"c"))].concat();
    assert_eq!(read("ConfigMap", &raw), Ok(json!({"metadata": {"name": "c"}})));
}

#[test]
fn a_message_in_parts_is_merged_and_of_a_value_the_last_counts() {
    let raw = [
        field(1, &[field(1, b"one"), field(3, b"ns")].concat()),
        field(1, &field(1, b"two")),
        field(2, &[field(1, b"key"), field(2, b"one")].concat()),
        field(2, &field(1, b"key")),
    ];
    let expected = json!({"metadata": {"name": "two", "namespace": "ns"}, "data": {"key": null}});
    assert_eq!(read("ConfigMap", &raw.concat()), Ok(expected));
}

#[test]
fn numbers_may_be_packed() {
    // supplementalGroups
    assert_eq!(
        read("PodSecurityContext", b"\x20\x05\x22\x03\x06\xac\x02"),
        Ok(json!({"supplementalGroups": [5, 6, 300]}))
    );
}

#[test]
fn bytes_that_are_not_text_are_replaced_one_by_one() {
    let raw = field(1, &field(1, b"x\xff\xe2\x82"));
    assert_eq!(read("ConfigMap", &raw).unwrap()["metadata"]["name"], "x\u{fffd}\u{fffd}\u{fffd}");
}

#[test]
fn what_cannot_be_written_is_refused() {
    // httpGet.port
    let port = |raw: &[u8]| read("HTTPGetAction", &field(2, raw));
    assert_eq!(port(b""), Ok(json!({"port": 0})));
    assert_eq!(port(b"\x08\x01\x1a\x01x"), Ok(json!({"port": "x"})));
    assert_eq!(port(b"\x08\x02").unwrap_err(), "impossible IntOrString.Type");
    // startedAt
    let started = |raw: &[u8]| read("ContainerStateRunning", &field(1, raw));
    assert_eq!(started(b""), Ok(json!({"startedAt": null})));
    assert_eq!(started(b"\x10\x01"), Ok(json!({"startedAt": "1970-01-01T00:00:00Z"})));
    let later = b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f";
    assert_eq!(started(later).unwrap_err(), "Time.MarshalJSON: year outside of range [0,9999]");
    let revision = |raw: &[u8]| to_json(schema("io.k8s.api.apps.v1.ControllerRevision"), &field(2, raw));
    assert_eq!(revision(b""), Ok(json!({"data": null})));
    assert_eq!(revision(&field(1, b"{")), Err(ProtobufError::Json(SyntaxError::End)));
}

#[test]
fn durations_are_written_as_go_writes_them() {
    for (nanos, expected) in [
        (0_i64, "0s"),
        (1, "1ns"),
        (1_100, "1.1µs"),
        (2_200_000, "2.2ms"),
        (1_000_000_000, "1s"),
        (-90_500_000_000, "-1m30.5s"),
        (3_600_000_000_001, "1h0m0.000000001s"),
        (i64::MAX, "2562047h47m16.854775807s"),
        (i64::MIN, "-2562047h47m16.854775808s"),
    ] {
        let mut bytes = vec![1 << 3];
        let mut rest = nanos.cast_unsigned();
        while rest >= 0x80 {
            bytes.push(rest.to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        bytes.push(rest.to_le_bytes()[0]);
        assert_eq!(value::duration(&bytes).as_deref(), Ok(expected));
    }
}

#[test]
fn messages_within_messages_have_a_bound() {
    let mut raw = Vec::new();
    for _ in 0..10_000 {
        // not: {…}
        let mut length = raw.len();
        let mut outer = vec![0xe2, 0x01];
        while length >= 0x80 {
            outer.push(length.to_le_bytes()[0] | 0x80);
            length >>= 7;
        }
        outer.push(length.to_le_bytes()[0]);
        outer.append(&mut raw);
        raw = outer;
    }
    assert_eq!(to_json(schema(crate::decode::JSON_SCHEMA), &raw), Err(ProtobufError::Json(SyntaxError::Depth)));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
        for case in cases() {
            let _ = to_json(schema(&case.type_name), &bytes);
        }
    }

    /// Most of what is damaged still has much to be read.
    #[test]
    fn no_damage_makes_it_panic(place in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        for case in cases() {
            let mut bytes = case.protobuf.0;
            let place = place.index(bytes.len());
            if cut {
                bytes.truncate(place);
            } else if let Some(place) = bytes.get_mut(place) {
                *place = byte;
            }
            if let Ok(envelope) = decode(&bytes)
                && let Ok(object) = to_json(schema(&case.type_name), envelope.raw)
            {
                let _ = crate::decode::decode(schema(&case.type_name), object);
            }
        }
    }
}
