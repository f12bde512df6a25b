//! Whether a request to the agent may come from a web page: a browser on the same machine sends what any page asks it to send.

use std::net::IpAddr;

/// Checks what a browser cannot lie about: `Host`, which is the name in the page's URL, and `Origin`, the page that sends the request. A page of
/// a foreign site has another origin. A page whose own name was made to lead to the pod (DNS rebinding) has that name in `Host`.
///
/// `own` are the addresses of the pod, besides loopback.
///
/// # Errors
/// A sentence that says what is refused, and what to do.
pub fn check_origin(hosts: &[&str], origins: &[&str], own: &[IpAddr]) -> Result<(), String> {
    if let Some(host) = hosts.iter().find(|host| !is_own(host, own)) {
        return Err(format!(
            "the request is for the host {host:?}, which is not this pod, and may come from a web page: send it to localhost or to the address of the pod, or with the token of `tokenSecretRef`"
        ));
    }
    check_page(hosts, origins)
}

/// Checks a request with the right token. A web page cannot send it, so its `Host` is not checked.
///
/// # Errors
/// As above.
pub fn check_page(hosts: &[&str], origins: &[&str]) -> Result<(), String> {
    let is_same = |origin: &&&str| {
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        authority.is_some_and(|authority| hosts.iter().any(|host| host.eq_ignore_ascii_case(authority)))
    };
    match origins.iter().find(|origin| !is_same(origin)) {
        None => Ok(()),
        Some(origin) => {
            Err(format!("the request comes from the web page {origin:?}: requests of web pages are refused"))
        }
    }
}

/// Whether a `Host` is loopback or an address of the pod. Its port says nothing: it may be forwarded.
fn is_own(host: &str, own: &[IpAddr]) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    if let Ok(address) = name.parse::<IpAddr>() {
        let address = address.to_canonical();
        return address.is_loopback() || own.iter().any(|own| own.to_canonical() == address);
    }
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_pod_are_hosts() {
        let own = ["10.0.0.7".parse().unwrap(), "fd00::7".parse().unwrap()];
        let own_hosts = [
            "localhost",
            "localhost:5000",
            "LocalHost.:5000",
            "agent.localhost",
            "127.0.0.1:5000",
            "127.10.0.3",
            "[::1]:5000",
            "10.0.0.7:5000",
            "[fd00::7]",
            "[::ffff:10.0.0.7]:5000",
        ];
        for host in own_hosts {
            assert_eq!(check_origin(&[host], &[], &own), Ok(()), "{host}");
        }
        let foreign = [
            "",
            "evil.example.com",
            "evil.example.com:5000",
            "localhost.evil.com",
            "evillocalhost",
            "127.0.0.1.evil.com",
            "10.0.0.8",
            "0.0.0.0:5000",
            "[::]:5000",
            "[evil",
            "2130706433",
        ];
        for host in foreign {
            assert!(check_origin(&[host], &[], &own).is_err(), "{host}");
            assert!(check_origin(&["localhost", host], &[], &own).is_err(), "{host}, the second");
        }
        assert_eq!(check_origin(&[], &[], &own), Ok(()), "a browser always sends a host");
    }

    #[test]
    fn only_pages_of_the_agent_itself_are_origins() {
        let check = |origin| check_origin(&["localhost:5000"], &[origin], &[]);
        assert_eq!(check("http://localhost:5000"), Ok(()));
        for origin in [
            "null",
            "",
            "https://evil.example.com",
            "http://localhost",
            "http://localhost:5001",
            "http://127.0.0.1:5000",
        ] {
            assert!(check(origin).is_err(), "{origin}");
        }
        assert!(check_page(&["agent.games.svc"], &["http://evil.example.com"]).is_err());
        assert_eq!(check_page(&["agent.games.svc"], &[]), Ok(()));
    }
}
