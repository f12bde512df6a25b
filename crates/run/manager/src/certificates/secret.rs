//! The authorities of the webhooks as a Secret holds them.
//!
//! `tls.crt` and `tls.key` are the authority that signs, `next.crt` and `next.key` its successor, `previous.crt` the certificate of its
//! predecessor; `ca.crt` is what API servers are to trust, for people to read. When each of them expires is in annotations, so that
//! certificates need not be parsed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::core::ObjectMeta;
use pillion_api::names::{
    AUTHORITY_NEXT_NOT_AFTER as NEXT_NOT_AFTER, AUTHORITY_NEXT_SINCE as NEXT_SINCE, AUTHORITY_NOT_AFTER as NOT_AFTER,
};

use crate::certificates::certificate::{Authorities, Pair};

pub(crate) const NAME: &str = "pillion-webhook-certificate";

/// The Secret to write. `stored` is the one that it replaces.
pub(crate) fn write(authorities: &Authorities, namespace: &str, stored: Option<&Secret>) -> Secret {
    let mut annotations = BTreeMap::from([(NOT_AFTER.to_owned(), authorities.current.not_after.to_string())]);
    let mut data = BTreeMap::from([
        ("tls.crt".to_owned(), bytes(&authorities.current.certificate)),
        ("tls.key".to_owned(), bytes(&authorities.current.key)),
        ("ca.crt".to_owned(), bytes(&authorities.bundle())),
    ]);
    if let Some((next, since)) = &authorities.next {
        annotations.insert(NEXT_NOT_AFTER.to_owned(), next.not_after.to_string());
        annotations.insert(NEXT_SINCE.to_owned(), since.to_string());
        data.insert("next.crt".to_owned(), bytes(&next.certificate));
        data.insert("next.key".to_owned(), bytes(&next.key));
    }
    if let Some(previous) = &authorities.previous {
        data.insert("previous.crt".to_owned(), bytes(previous));
    }
    Secret {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            namespace: Some(namespace.to_owned()),
            annotations: Some(annotations),
            // Whichever replica writes first wins, and the others read again.
            resource_version: stored.and_then(kube::ResourceExt::resource_version),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(data),
        ..Secret::default()
    }
}

/// What a Secret holds; `None` if something is missing or malformed.
pub(crate) fn read(secret: &Secret) -> Option<Authorities> {
    let text = |key: &str| String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok();
    let time = |key: &str| secret.annotations().get(key)?.parse::<Timestamp>().ok();
    let pair = |certificate, key, not_after| {
        Some(Pair { certificate: text(certificate)?, key: text(key)?, not_after: time(not_after)? })
    };
    Some(Authorities {
        current: pair("tls.crt", "tls.key", NOT_AFTER)?,
        next: pair("next.crt", "next.key", NEXT_NOT_AFTER).zip(time(NEXT_SINCE)),
        previous: text("previous.crt"),
    })
}

fn bytes(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::certificates::certificate::{Step, carry_out};

    #[test]
    fn what_is_written_is_read() {
        let (now, lifetime) = ("2026-01-01T00:00:00.5Z".parse().unwrap(), SignedDuration::from_hours(24));
        let mut authorities = None;
        for step in [Step::Make, Step::Stage, Step::Promote, Step::Stage] {
            let taken = carry_out(step, authorities, now, lifetime).unwrap();
            assert_eq!(read(&write(&taken, "pillion-system", None)).as_ref(), Some(&taken), "{step:?}");
            authorities = Some(taken);
        }
    }

    #[test]
    fn a_secret_of_somebody_elses_is_not_read() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let made = carry_out(Step::Make, None, now, SignedDuration::from_hours(24)).unwrap();
        assert_eq!(read(&Secret::default()), None);
        for key in ["tls.crt", "tls.key"] {
            let mut secret = write(&made, "pillion-system", None);
            secret.data.as_mut().unwrap().insert(key.to_owned(), ByteString(vec![0xff]));
            assert_eq!(read(&secret), None, "{key}");
        }
    }
}
