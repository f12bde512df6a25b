//! The certificates of the webhooks: when a new one is made, and when it is served.
//!
//! Each serving certificate has an authority of its own, whose key is thrown away after the one signature. A successor is made early, and
//! its authority goes into the bundles that API servers trust; only when they have had time to learn of it is the successor served.
//! The authority before stays in the bundle, for replicas that still serve the certificate before.
//!
//! ```text
//!  Make ─▶ [A] serves A ─▶ Stage ─▶ [A, B] serves A ─▶ Promote ─▶ [A, B] serves B ─▶ Stage ─▶ [B, C] serves B ─▶ …
//! ```

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

/// API servers have so long to learn of an authority before a certificate of it is served.
const SETTLING: SignedDuration = SignedDuration::from_mins(10);

/// Clocks differ: a certificate is good from a little before it was made.
const SKEW: SignedDuration = SignedDuration::from_hours(1);

/// A certificate and its key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
    /// The end of it.
    pub(crate) not_after: Timestamp,
}

/// What is kept from one start of the manager to the next, and between replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Whom the certificates are for.
    pub(crate) host: String,
    /// What is served.
    pub(crate) current: Pair,
    /// What is served next, and since when its authority is in the bundle.
    pub(crate) next: Option<(Pair, Timestamp)>,
    /// The authorities to trust, as PEM, the latest one last.
    pub(crate) bundle: Vec<String>,
}

/// What is to be done about the certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is none that could be served: make one.
    Make,
    /// The end of it is in sight: make the next one, and have its authority trusted.
    Stage,
    /// The next one is trusted by now: serve it.
    Promote,
    /// Nothing before this time.
    Keep(Timestamp),
}

/// What is to be done now, about certificates that are good for `lifetime`.
pub(crate) fn plan(kept: Option<&Kept>, host: &str, now: Timestamp, lifetime: SignedDuration) -> Step {
    let Some(kept) = kept.filter(|kept| kept.host == host && now < kept.current.not_after) else { return Step::Make };
    match &kept.next {
        Some((_, since)) if now >= later(*since, SETTLING) => Step::Promote,
        Some((_, since)) => Step::Keep(later(*since, SETTLING)),
        None => {
            let renewal = later(kept.current.not_after, -(lifetime / 3));
            if now >= renewal { Step::Stage } else { Step::Keep(renewal) }
        }
    }
}

/// Takes a step.
pub(crate) fn take(
    step: Step,
    kept: Option<Kept>,
    host: &str,
    now: Timestamp,
    lifetime: SignedDuration,
) -> Result<Kept, rcgen::Error> {
    match (step, kept) {
        (Step::Stage, Some(mut kept)) => {
            let (next, authority) = issue(host, now, lifetime)?;
            kept.bundle.drain(..kept.bundle.len().saturating_sub(1));
            kept.bundle.push(authority);
            kept.next = Some((next, now));
            Ok(kept)
        }
        (Step::Promote | Step::Keep(_), Some(mut kept)) => {
            if let (Step::Promote, Some((next, _))) = (step, kept.next.take()) {
                kept.current = next;
            }
            Ok(kept)
        }
        (_, _) => {
            let (current, authority) = issue(host, now, lifetime)?;
            Ok(Kept { host: host.to_owned(), current, next: None, bundle: vec![authority] })
        }
    }
}

/// A certificate for `host`, and the authority that signed it.
fn issue(host: &str, now: Timestamp, lifetime: SignedDuration) -> Result<(Pair, String), rcgen::Error> {
    let (not_before, not_after) = (later(now, -SKEW), later(now, lifetime));
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let mut authority = CertificateParams::default();
    // The two authorities of a bundle have different names.
    authority.distinguished_name.push(DnType::CommonName, format!("pillion webhooks {}", now.as_second()));
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    (authority.not_before, authority.not_after) = (epoch + since_epoch(not_before), epoch + since_epoch(not_after));
    let authority_key = KeyPair::generate()?;
    let authority_pem = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);

    let mut server = CertificateParams::new([host.to_owned()])?;
    server.distinguished_name.push(DnType::CommonName, "pillion webhooks");
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.use_authority_key_identifier_extension = true;
    (server.not_before, server.not_after) = (epoch + since_epoch(not_before), epoch + since_epoch(not_after));
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &issuer)?.pem();
    // A certificate knows only whole seconds.
    let not_after = Timestamp::from_second(not_after.as_second()).unwrap_or(not_after);
    Ok((Pair { certificate, key: key.serialize_pem(), not_after }, authority_pem))
}

/// At the end of time, time stands still.
fn later(time: Timestamp, duration: SignedDuration) -> Timestamp {
    time.saturating_add(duration).unwrap_or(time)
}

/// In whole seconds, as a certificate counts.
fn since_epoch(time: Timestamp) -> Duration {
    Duration::from_secs(u64::try_from(time.as_second()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: SignedDuration = SignedDuration::from_hours(90 * 24);

    fn at(hours: i64) -> Timestamp {
        "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_hours(hours)
    }

    fn step(kept: Option<Kept>, now: Timestamp) -> (Step, Kept) {
        let step = plan(kept.as_ref(), "a.b.svc", now, LIFETIME);
        (step, take(step, kept, "a.b.svc", now, LIFETIME).unwrap())
    }

    #[test]
    fn a_successor_is_trusted_before_it_is_served_and_its_predecessor_after() {
        let (made, first) = step(None, at(0));
        assert_eq!((made, first.current.not_after), (Step::Make, at(90 * 24)));
        let (kept, same) = step(Some(first.clone()), at(59 * 24));
        assert_eq!((kept, &same), (Step::Keep(at(60 * 24)), &first));

        let (staged, both) = step(Some(first.clone()), at(60 * 24));
        assert_eq!(staged, Step::Stage);
        assert_eq!(both.current, first.current);
        assert_eq!((both.bundle.len(), &both.bundle[0]), (2, &first.bundle[0]));
        let (settling, _) = step(Some(both.clone()), at(60 * 24));
        assert_eq!(settling, Step::Keep(at(60 * 24) + SETTLING));

        let (promoted, second) = step(Some(both.clone()), at(60 * 24 + 1));
        assert_eq!(promoted, Step::Promote);
        assert_eq!(second.current, both.next.unwrap().0);
        assert_eq!(second.bundle, both.bundle, "a replica may still serve the certificate before");
        assert_eq!(second.next, None);

        let (_, third) = step(Some(second.clone()), at(120 * 24 + 1));
        assert_eq!((third.bundle.len(), &third.bundle[0]), (2, &second.bundle[1]), "the first authority is forgotten");
    }

    #[test]
    fn what_cannot_be_served_is_made_anew() {
        let (_, kept) = step(None, at(0));
        assert_eq!(plan(Some(&kept), "other", at(1), LIFETIME), Step::Make, "for another host");
        assert_eq!(plan(Some(&kept), "a.b.svc", at(90 * 24), LIFETIME), Step::Make, "at its end");
    }

    #[test]
    fn certificates_are_made_at_either_end_of_time() {
        for now in [Timestamp::MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX] {
            issue("127.0.0.1", now, LIFETIME).unwrap();
        }
    }
}
