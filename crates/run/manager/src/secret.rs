//! Certificates as a Secret keeps them.
//!
//! `tls.crt` and `tls.key` are what is served, `ca.crt` the authorities to trust; `next.crt` and `next.key` wait for their time. When each
//! of them ends is in annotations, so that nobody has to read certificates.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::core::ObjectMeta;
use pillion_api::names::{
    CERTIFICATE_HOST as HOST, CERTIFICATE_NEXT_NOT_AFTER as NEXT_NOT_AFTER, CERTIFICATE_NEXT_SINCE as NEXT_SINCE,
    CERTIFICATE_NOT_AFTER as NOT_AFTER,
};

use crate::certificate::{Kept, Pair};

/// Name of the Secret.
pub(crate) const NAME: &str = "pillion-webhook-certificate";

/// The Secret to write. `stored` is the one that it replaces.
pub(crate) fn write(kept: &Kept, namespace: &str, stored: Option<&Secret>) -> Secret {
    let mut annotations = BTreeMap::from([
        (HOST.to_owned(), kept.host.clone()),
        (NOT_AFTER.to_owned(), kept.current.not_after.to_string()),
    ]);
    let mut data = BTreeMap::from([
        ("tls.crt".to_owned(), bytes(&kept.current.certificate)),
        ("tls.key".to_owned(), bytes(&kept.current.key)),
        ("ca.crt".to_owned(), bytes(&kept.bundle.concat())),
    ]);
    if let Some((next, since)) = &kept.next {
        annotations.insert(NEXT_NOT_AFTER.to_owned(), next.not_after.to_string());
        annotations.insert(NEXT_SINCE.to_owned(), since.to_string());
        data.insert("next.crt".to_owned(), bytes(&next.certificate));
        data.insert("next.key".to_owned(), bytes(&next.key));
    }
    Secret {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            namespace: Some(namespace.to_owned()),
            annotations: Some(annotations),
            // Whoever was faster wins, and the other one reads again.
            resource_version: stored.and_then(kube::ResourceExt::resource_version),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(data),
        ..Secret::default()
    }
}

/// What a Secret keeps; `None` if something is missing or malformed.
pub(crate) fn read(secret: &Secret) -> Option<Kept> {
    let text = |key: &str| String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok();
    let note = |key: &str| secret.annotations().get(key);
    let time = |key: &str| note(key)?.parse::<Timestamp>().ok();
    let pair = |certificate, key, not_after| {
        Some(Pair { certificate: text(certificate)?, key: text(key)?, not_after: time(not_after)? })
    };
    Some(Kept {
        host: note(HOST)?.clone(),
        current: pair("tls.crt", "tls.key", NOT_AFTER)?,
        next: pair("next.crt", "next.key", NEXT_NOT_AFTER).zip(time(NEXT_SINCE)),
        bundle: certificates(&text("ca.crt")?),
    })
    .filter(|kept| !kept.bundle.is_empty())
}

/// The certificates of a PEM text, one by one.
fn certificates(pem: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    pem.split_inclusive(END).filter(|part| part.ends_with(END)).map(|part| format!("{}\n", part.trim())).collect()
}

fn bytes(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::certificate::{Step, take};

    #[test]
    fn what_is_written_is_read() {
        let (now, lifetime) = ("2026-01-01T00:00:00.5Z".parse().unwrap(), SignedDuration::from_hours(24));
        let made = take(Step::Make, None, "a.b.svc", now, lifetime).unwrap();
        assert_eq!(read(&write(&made, "pillion-system", None)), Some(made.clone()));
        let staged = take(Step::Stage, Some(made), "a.b.svc", now, lifetime).unwrap();
        assert_eq!(staged.bundle.len(), 2);
        assert_eq!(read(&write(&staged, "pillion-system", None)), Some(staged));
    }

    #[test]
    fn a_secret_of_somebody_elses_is_not_read() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let made = take(Step::Make, None, "a.b.svc", now, SignedDuration::from_hours(24)).unwrap();
        assert_eq!(read(&Secret::default()), None);
        for key in ["tls.crt", "tls.key", "ca.crt"] {
            let mut secret = write(&made, "pillion-system", None);
            secret.data.as_mut().unwrap().insert(key.to_owned(), ByteString(vec![0xff]));
            assert_eq!(read(&secret), None, "{key}");
        }
    }
}
