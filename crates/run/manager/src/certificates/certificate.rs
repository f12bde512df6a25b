//! The certificates of the webhooks: one authority that all replicas share, and a serving certificate that each makes for itself.
//!
//! API servers trust the authority, so a replica renews its own certificate without asking anyone. An authority is succeeded early: the
//! successor goes into the bundles that API servers trust, and signs only after they have had time to learn of it. Its predecessor stays
//! in the bundle for replicas that still serve a certificate of it.
//!
//! ```text
//!  Make ─▶ [A] A signs ─▶ Stage ─▶ [A, B] A signs ─▶ Promote ─▶ [A, B] B signs ─▶ Stage ─▶ [A, B, C] B signs ─▶ …
//! ```

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

/// API servers have at most this long to learn of an authority before it signs.
const LONGEST_SETTLING: SignedDuration = SignedDuration::from_mins(10);

/// Clocks differ: a certificate is valid from a little before it was made.
const SKEW: SignedDuration = SignedDuration::from_hours(1);

/// How many times longer than a serving certificate an authority is valid: 10 years for 90 days.
const AUTHORITY: i32 = 40;

/// A certificate and its key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) not_after: Timestamp,
}

/// The authorities of the webhooks, as replicas share them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authorities {
    /// Signs.
    pub(crate) current: Pair,
    /// Signs next, and since when it is in the bundle.
    pub(crate) next: Option<(Pair, Timestamp)>,
    /// The certificate of the authority that signed before.
    pub(crate) previous: Option<String>,
}

impl Authorities {
    /// The certificates that API servers are to trust, as PEM.
    pub(crate) fn bundle(&self) -> String {
        let next = self.next.as_ref().map(|(next, _)| next.certificate.as_str());
        self.previous.as_deref().into_iter().chain([self.current.certificate.as_str()]).chain(next).collect()
    }
}

/// What is to be done about the authorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// No authority can be used: make one.
    Make,
    /// The current one expires before long: make its successor, and have it trusted.
    Stage,
    /// The successor is trusted by now: let it sign.
    Promote,
    /// Nothing before this time.
    Keep(Timestamp),
}

/// What is to be done now, where serving certificates are valid for `lifetime`.
pub(crate) fn plan(authorities: Option<&Authorities>, now: Timestamp, lifetime: SignedDuration) -> Step {
    let Some(authorities) = authorities.filter(|authorities| now < authorities.current.not_after) else {
        return Step::Make;
    };
    let settling = LONGEST_SETTLING.min(lifetime / 3);
    match &authorities.next {
        Some((_, since)) if now >= later(*since, settling) => Step::Promote,
        Some((_, since)) => Step::Keep(later(*since, settling)),
        None => {
            // Whatever it signs until then is valid for as long as it should be.
            let renewal = later(authorities.current.not_after, -(lifetime * 2));
            if now >= renewal { Step::Stage } else { Step::Keep(renewal) }
        }
    }
}

/// Takes a step.
pub(crate) fn carry_out(
    step: Step,
    authorities: Option<Authorities>,
    now: Timestamp,
    lifetime: SignedDuration,
) -> Result<Authorities, rcgen::Error> {
    match (step, authorities) {
        (Step::Stage, Some(authorities)) => {
            Ok(Authorities { next: Some((authority(now, lifetime)?, now)), ..authorities })
        }
        (Step::Promote, Some(Authorities { current, next: Some((next, _)), .. })) => {
            Ok(Authorities { current: next, next: None, previous: Some(current.certificate) })
        }
        (Step::Keep(_) | Step::Promote, Some(authorities)) => Ok(authorities),
        (_, _) => Ok(Authorities { current: authority(now, lifetime)?, next: None, previous: None }),
    }
}

/// A new authority.
fn authority(now: Timestamp, lifetime: SignedDuration) -> Result<Pair, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut parameters = authority_of(&key);
    let not_after = set_validity(&mut parameters, now, lifetime * AUTHORITY);
    let certificate = parameters.self_signed(&key)?.pem();
    Ok(Pair { certificate, key: key.serialize_pem(), not_after })
}

/// The authority that a key is the key of, so that its certificate never has to be parsed.
fn authority_of(key: &KeyPair) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    // Authorities of a bundle must have different names, or a client may check a signature with the wrong one.
    let number =
        key.public_key_raw().iter().rev().take(8).fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    parameters.distinguished_name.push(DnType::CommonName, format!("pillion webhooks {number}"));
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    parameters
}

/// A serving certificate for `hosts`, signed by `authority`.
pub(crate) fn issue(
    authority: &Pair,
    hosts: &[String],
    now: Timestamp,
    lifetime: SignedDuration,
) -> Result<Pair, rcgen::Error> {
    let authority_key = KeyPair::from_pem(&authority.key)?;
    let issuer = Issuer::new(authority_of(&authority_key), authority_key);
    let mut parameters = CertificateParams::new(hosts)?;
    parameters.distinguished_name.push(DnType::CommonName, "pillion webhooks");
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.use_authority_key_identifier_extension = true;
    let left = authority.not_after.duration_since(now);
    let not_after = set_validity(&mut parameters, now, lifetime.min(left));
    let key = KeyPair::generate()?;
    Ok(Pair { certificate: parameters.signed_by(&key, &issuer)?.pem(), key: key.serialize_pem(), not_after })
}

/// When a serving certificate is renewed: a third of its life before its end.
pub(crate) fn renewal(certificate: &Pair, lifetime: SignedDuration) -> Timestamp {
    later(certificate.not_after, -(lifetime / 3))
}

/// Makes a certificate valid for `lifetime` from now on. Returns when it expires, in whole seconds, as a certificate counts.
fn set_validity(parameters: &mut CertificateParams, now: Timestamp, lifetime: SignedDuration) -> Timestamp {
    let (not_before, not_after) = (later(now, -SKEW), later(now, lifetime));
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    (parameters.not_before, parameters.not_after) = (epoch + since_epoch(not_before), epoch + since_epoch(not_after));
    Timestamp::from_second(not_after.as_second()).unwrap_or(not_after)
}

/// At the end of time, time stands still.
fn later(time: Timestamp, duration: SignedDuration) -> Timestamp {
    time.saturating_add(duration).unwrap_or(time)
}

fn since_epoch(time: Timestamp) -> Duration {
    Duration::from_secs(u64::try_from(time.as_second()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: SignedDuration = SignedDuration::from_hours(90 * 24);

    fn at(days: i64) -> Timestamp {
        "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_hours(24 * days)
    }

    fn step(authorities: Option<Authorities>, now: Timestamp) -> (Step, Authorities) {
        let step = plan(authorities.as_ref(), now, LIFETIME);
        (step, carry_out(step, authorities, now, LIFETIME).unwrap())
    }

    #[test]
    fn a_successor_is_trusted_before_it_signs_and_its_predecessor_after() {
        let (made, first) = step(None, at(0));
        assert_eq!((made, first.current.not_after), (Step::Make, at(3600)));
        let (kept, same) = step(Some(first.clone()), at(3419));
        assert_eq!((kept, &same), (Step::Keep(at(3420)), &first));

        let (staged, both) = step(Some(first.clone()), at(3420));
        assert_eq!((staged, &both.current), (Step::Stage, &first.current));
        assert!(both.bundle().contains(&first.bundle()) && both.bundle() != first.bundle());
        let (settling, _) = step(Some(both.clone()), at(3420));
        assert_eq!(settling, Step::Keep(at(3420) + LONGEST_SETTLING));

        let (promoted, second) = step(Some(both.clone()), at(3421));
        assert_eq!((promoted, &second.current), (Step::Promote, &both.next.as_ref().unwrap().0));
        assert_eq!(second.bundle(), both.bundle(), "a replica may still serve a certificate of the one before");

        let (_, third) = step(Some(second.clone()), at(3421 + 3420));
        assert!(third.bundle().contains(&second.bundle()));
        let (_, third) = step(Some(third), at(3421 + 3421));
        assert!(!third.bundle().contains(&first.current.certificate), "the first authority is forgotten");
    }

    #[test]
    fn an_authority_that_has_expired_is_replaced() {
        let (_, authorities) = step(None, at(0));
        assert_eq!(plan(Some(&authorities), at(3600), LIFETIME), Step::Make);
    }

    #[test]
    fn a_serving_certificate_is_renewed_before_it_expires_and_expires_before_its_authority() {
        let (_, authorities) = step(None, at(0));
        let served = issue(&authorities.current, &["a.b.svc".to_owned()], at(1), LIFETIME).unwrap();
        assert_eq!((served.not_after, renewal(&served, LIFETIME)), (at(91), at(61)));
        let last = issue(&authorities.current, &["a.b.svc".to_owned()], at(3599), LIFETIME).unwrap();
        assert_eq!(last.not_after, at(3600));
    }

    #[test]
    fn certificates_are_made_at_either_end_of_time() {
        for now in [Timestamp::MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX] {
            let (_, authorities) = step(None, now);
            issue(&authorities.current, &["127.0.0.1".to_owned()], now, LIFETIME).unwrap();
        }
    }
}
