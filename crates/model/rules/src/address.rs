//! Addresses and networks in fields that are older than strict rules for them: leading zeros are read as they always were, and warned of.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::field::{Error, Path};

/// An address, leading zeros allowed.
pub fn parse(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Some(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4));
    }
    let octets: Vec<u8> = text.split('.').map(octet).collect::<Option<_>>()?;
    let octets: [u8; 4] = octets.try_into().ok()?;
    Some(IpAddr::V4(Ipv4Addr::from(octets)))
}

fn octet(text: &str) -> Option<u8> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    // However many zeros lead, three digits are the most that can count.
    digits
        .then(|| text.trim_start_matches('0'))
        .and_then(|text| if text.is_empty() { Some(0) } else { text.parse().ok() })
}

/// A network: its address as written, its own address and the length of its prefix.
fn parse_network(text: &str) -> Option<(IpAddr, IpAddr, u32)> {
    let (address, length) = text.split_once('/')?;
    let address = parse(address)?;
    let length: u32 = length.bytes().all(|b| b.is_ascii_digit()).then(|| length.parse().ok()).flatten()?;
    let network = match address {
        IpAddr::V4(v4) if length <= 32 => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) if length <= 128 => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
        _ => return None,
    };
    Some((address, network, length))
}

/// Refuses what is no address.
pub fn validate(text: &str, path: &Path, errors: &mut Vec<Error>) -> bool {
    let valid = parse(text).is_some();
    if !valid {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(Error::invalid(path, text, detail));
    }
    valid
}

/// Refuses what is no network.
pub fn validate_network(text: &str, path: &Path, errors: &mut Vec<Error>) {
    if parse_network(text).is_none() {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        errors.push(Error::invalid(path, text, detail));
    }
}

/// Warns of an address that will be refused one day.
pub fn warning(text: &str, path: &Path) -> Option<String> {
    let address = parse(text)?;
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => None,
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_none() => (v6.to_string() != text).then(|| {
            format!("{path}: IPv6 address {text:?} should be in RFC 5952 canonical format ({:?})", v6.to_string())
        }),
        _ => Some(format!(
            "{path}: non-standard IP address {text:?} will be considered invalid in a future Kubernetes release: use {:?}",
            address.to_string()
        )),
    }
}

/// Warns of a network that will be refused one day.
pub fn network_warnings(text: &str, path: &Path) -> Vec<String> {
    let Some((address, network, length)) = parse_network(text) else { return Vec::new() };
    let mut warnings = Vec::new();
    if address != network {
        let all = if address.is_ipv4() { 32 } else { 128 };
        warnings.push(format!(
            "{path}: CIDR value {text:?} is ambiguous in this context (should be \"{network}/{length}\" or \"{address}/{all}\"?)"
        ));
    }
    let (written, written_length) = text.split_once('/').unwrap_or_default();
    let standard =
        written.parse::<IpAddr>().is_ok_and(|written| written == address) && written_length == length.to_string();
    if !standard {
        warnings.push(format!(
            "{path}: non-standard CIDR value {text:?} will be considered invalid in a future Kubernetes release: use \"{network}/{length}\""
        ));
    }
    if warnings.is_empty() && address.is_ipv6() && format!("{address}/{length}") != text {
        warnings.push(format!(
            "{path}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format (\"{address}/{length}\")"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_forms_of_addresses_are_read_and_warned_of() {
        let path = Path::new("ip");
        assert_eq!(parse("010.002.3.4").map(|ip| ip.to_string()).as_deref(), Some("10.2.3.4"));
        assert_eq!(parse("256.1.1.1"), None);
        assert_eq!(parse("1.2.3"), None);
        assert_eq!(warning("10.0.0.1", &path), None);
        insta::assert_snapshot!(warning("010.0.0.1", &path).unwrap(), @r#"ip: non-standard IP address "010.0.0.1" will be considered invalid in a future Kubernetes release: use "10.0.0.1""#);
        insta::assert_snapshot!(warning("2001:DB8::1", &path).unwrap(), @r#"ip: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")"#);
        insta::assert_snapshot!(network_warnings("10.1.2.3/8", &path).join("\n"), @r#"ip: CIDR value "10.1.2.3/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.1.2.3/32"?)"#);
    }
}
