//! The certificate of the webhooks: until when it is valid, and whether API servers trust it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use x509_parser::pem::parse_x509_pem;

use crate::finding::Finding;
use crate::snapshot::Snapshot;

const CHECK: &str = "certificate";

/// What is renewed by itself is renewed long before this much is left.
const SHORT: SignedDuration = SignedDuration::from_hours(7 * 24);

/// `bundles` are what API servers trust, with where it is registered.
pub(crate) fn findings(snapshot: &Snapshot, secret_name: &str, bundles: &[(String, &Value)]) -> Vec<Finding> {
    let secret = match &snapshot.secret {
        Ok(Some(secret)) => secret,
        Ok(None) => {
            let message =
                format!("there is no Secret {}/{secret_name} with the webhooks' certificate", snapshot.namespace);
            let remedy = format!("see `kubectl --namespace={} logs deployment/pillion-manager`", snapshot.namespace);
            return vec![Finding::error(CHECK, message, remedy)];
        }
        Err(why) => return vec![Finding::unread(CHECK, why)],
    };
    let place = format!("Secret {}/{secret_name}", snapshot.namespace);
    let authority = decoded(&secret["data"]["ca.crt"]).unwrap_or_default();
    let certificate = decoded(&secret["data"]["tls.crt"]);
    let mut findings = vec![stored(&place, certificate.as_deref(), &authority, snapshot.now)];
    let others = bundles.iter().filter(|(_, bundle)| !trusts(&decoded(bundle).unwrap_or_default(), authority.trim()));
    let others: Vec<String> = others.map(|(place, _)| place.clone()).collect();
    if !others.is_empty() {
        let message = format!("API servers are to trust another authority than that of {place}");
        let remedy = "the manager sets this right within seconds; if it stays so, its log says why";
        findings.push(Finding::error(CHECK, message, remedy).with_details(others));
    }
    findings
}

/// An authority that was renewed is registered beside the one before, until every replica has followed. Without an authority of its own the
/// certificate is one that API servers trust as long as they are given no bundle.
fn trusts(bundle: &str, authority: &str) -> bool {
    if authority.is_empty() { bundle.trim().is_empty() } else { bundle.contains(authority) }
}

/// The certificate of the Secret. In one that the manager keeps it is that of the authority, which signs what replicas serve.
fn stored(place: &str, certificate: Option<&str>, authority: &str, now: Timestamp) -> Finding {
    let Some((not_after, pem)) = certificate.and_then(|pem| Some((not_after(pem)?, pem))) else {
        let remedy = "delete it, and the manager makes another; one of cert-manager is made again by its Certificate";
        return Finding::error(CHECK, format!("{place} has no certificate in tls.crt"), remedy);
    };
    let whose = if authority.contains(pem.trim()) { "authority" } else { "certificate" };
    expiry(&format!("the {whose} of {place}"), not_after, SHORT, now)
}

/// What each replica serves.
pub(crate) fn of_replicas(snapshot: &Snapshot, is_of_usual_lifetime: bool) -> Vec<Finding> {
    // Certificates that live shorter than usual are near their end all the time.
    let short = if is_of_usual_lifetime { SHORT } else { SignedDuration::ZERO };
    let replicas = snapshot.replicas.iter().flatten();
    let served = replicas.filter_map(|replica| Some((&replica.name, replica.certificate?)));
    served
        .map(|(name, not_after)| {
            expiry(&format!("the certificate that replica {name} serves"), not_after, short, snapshot.now)
        })
        .collect()
}

fn expiry(what: &str, not_after: Timestamp, short: SignedDuration, now: Timestamp) -> Finding {
    let remedy = "the manager and cert-manager renew certificates long before; their logs say why they have not";
    if not_after <= now {
        return Finding::error(CHECK, format!("{what} expired at {not_after}"), remedy);
    }
    if not_after.duration_since(now) < short {
        return Finding::warning(CHECK, format!("{what} expires at {not_after}")).with_remedy(remedy);
    }
    Finding::ok(CHECK, format!("{what} is valid until {not_after}"))
}

fn not_after(pem: &str) -> Option<Timestamp> {
    let (_, pem) = parse_x509_pem(pem.as_bytes()).ok()?;
    let certificate = pem.parse_x509().ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

fn decoded(base64: &Value) -> Option<String> {
    String::from_utf8(STANDARD.decode(base64.as_str()?).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;
    use crate::snapshot::Replica;

    /// Valid until 2026-04-01T00:00:00Z.
    fn pem() -> String {
        let mut params = rcgen::CertificateParams::new(["pillion".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2026, 4, 1);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
    }

    #[test]
    fn a_certificate_is_reported_a_week_before_it_expires() {
        let pem = pem();
        let rows = [
            ("2026-01-01T00:00:00Z", Severity::Ok),
            ("2026-03-25T00:00:00Z", Severity::Ok),
            ("2026-03-25T00:00:01Z", Severity::Warning),
            ("2026-04-01T00:00:00Z", Severity::Error),
        ];
        for (now, severity) in rows {
            assert_eq!(stored("Secret a/b", Some(&pem), "", now.parse().unwrap()).severity, severity, "{now}");
        }
        let start = "2026-01-01T00:00:00Z".parse().unwrap();
        let rows = [("", "the certificate of Secret a/b"), (&pem, "the authority of Secret a/b")];
        for (authority, what) in rows {
            let message = stored("Secret a/b", Some(&pem), authority, start).message;
            assert_eq!(message, format!("{what} is valid until 2026-04-01T00:00:00Z"));
        }
        let broken = stored("Secret a/b", Some("PEM"), "", start);
        assert_eq!((broken.severity, &*broken.message), (Severity::Error, "Secret a/b has no certificate in tls.crt"));
    }

    #[test]
    fn a_replica_whose_certificate_is_not_renewed_is_reported() {
        let replica = |name: &str, certificate: &str| Replica {
            name: name.to_owned(),
            is_ready: true,
            readiness: Ok("ok".to_owned()),
            certificate: certificate.parse().ok(),
        };
        let replicas = vec![
            replica("a", "2026-03-01T00:00:00Z"),
            replica("b", "2026-01-02T00:00:00Z"),
            replica("c", "2025-12-31T00:00:00Z"),
            replica("silent", ""),
        ];
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let snapshot = Snapshot { replicas: Ok(replicas), ..Snapshot::empty(now) };
        let found =
            |usual| of_replicas(&snapshot, usual).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(found(true), @"
        ok       the certificate that replica a serves is valid until 2026-03-01T00:00:00Z
        warning  the certificate that replica b serves expires at 2026-01-02T00:00:00Z; the manager and cert-manager renew certificates long before; their logs say why they have not
        error    the certificate that replica c serves expired at 2025-12-31T00:00:00Z; the manager and cert-manager renew certificates long before; their logs say why they have not
        ");
        assert!(found(false).contains("ok       the certificate that replica b serves"), "{}", found(false));
    }

    #[test]
    fn a_registration_that_trusts_somebody_else_is_reported() {
        let secret = serde_json::json!({"data": {"tls.crt": STANDARD.encode(pem()), "ca.crt": STANDARD.encode("A\n")}});
        let snapshot =
            Snapshot { secret: Ok(Some(secret)), ..Snapshot::empty("2026-01-01T00:00:00Z".parse().unwrap()) };
        let (same, other) = (Value::from(STANDARD.encode("A")), Value::from(STANDARD.encode("B")));
        let bundles = [("the conversion".to_owned(), &same), ("webhook pods.pillion.dev".to_owned(), &other)];
        let found = findings(&snapshot, "certificate", &bundles);
        assert_eq!((found.len(), &*found[1].details), (2, ["webhook pods.pillion.dev".to_owned()].as_slice()));
        assert_eq!(findings(&snapshot, "certificate", &bundles[..1]).len(), 1);
    }

    #[test]
    fn an_authority_that_was_renewed_is_trusted_beside_the_one_before() {
        let rows = [
            ("OLD\nNEW\n", "NEW", true),
            ("NEW\n", "NEW", true),
            ("OLD\n", "NEW", false),
            ("", "NEW", false),
            ("", "", true),
            ("OLD\n", "", false),
        ];
        for (bundle, authority, expected) in rows {
            assert_eq!(trusts(bundle, authority), expected, "{bundle:?} {authority:?}");
        }
    }
}
