//! Who may ask for an update, and what is fetched.

use super::expand::stand_in;
use super::reader::Field;
use super::secret::SecretKey;

/// What the agent trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Security {
    /// `security: permissive`: as open as the Go agent.
    pub permissive: bool,
    /// Where the agent listens.
    pub listen: String,
    /// The token that a POST must carry.
    pub token: Option<SecretKey>,
    /// Hosts that updates are fetched from: `host`, `host:port`, or `*.domain`.
    pub allowed_hosts: Vec<String>,
    /// Whether a SHA-256 must come with each update.
    pub require_checksum: bool,
}

/// Top-level keys that this reads.
pub(super) const KNOWN: &[&str] = &["security", "listen", "tokenSecretRef", "allowedHosts", "requireChecksum"];

impl Default for Security {
    fn default() -> Security {
        Security {
            permissive: false,
            listen: "127.0.0.1:5000".to_owned(),
            token: None,
            allowed_hosts: Vec::new(),
            require_checksum: true,
        }
    }
}

impl Security {
    pub(super) fn read(field: &Field<'_>) -> Security {
        let permissive = field
            .get(&["security"])
            .is_some_and(|security| security.one_of(&[("permissive", true), ("strict", false)]).unwrap_or_default());
        let default = if permissive {
            field.warn(
                "security: permissive: everybody who reaches port 5000 of the pod can replace its files from any host, without a token or a checksum",
            );
            Security { permissive, listen: ":5000".to_owned(), require_checksum: false, ..Security::default() }
        } else {
            Security::default()
        };
        let listen = field.get(&["listen"]).map_or(default.listen, |listen| {
            let text = listen.word();
            if stand_in(&text).rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
                listen.wrong(format!("{text:?} is not an address to listen on, such as 127.0.0.1:5000"));
            }
            text
        });
        let token = field.get(&["tokenSecretRef"]).map(|token| SecretKey::read(&token));
        let security = Security {
            permissive,
            listen,
            token,
            allowed_hosts: field.get(&["allowedHosts"]).map(|hosts| hosts.words()).unwrap_or_default(),
            require_checksum: field.get(&["requireChecksum"]).map_or(default.require_checksum, |flag| flag.flag()),
        };
        if !security.on_loopback() && security.token.is_none() && !permissive {
            let place = field.get(&["listen"]).unwrap_or_else(|| field.clone());
            place.wrong("an address off loopback needs `tokenSecretRef: {name: SECRET, key: KEY}`");
        }
        security
    }

    /// Where the agent listens in a pod with this address. Pods that share the machine's network, as in `pillion up`, have loopback addresses of their own:
    /// there the pod's own loopback is its address, so that two agents do not need one port.
    pub fn address(&self, pod_ip: &str) -> String {
        let own = pod_ip.parse().ok().filter(std::net::IpAddr::is_loopback);
        match (own, self.listen.rsplit_once(':')) {
            (Some(ip), Some(("127.0.0.1" | "localhost" | "[::1]", port))) => match port.parse() {
                Ok(port) => std::net::SocketAddr::new(ip, port).to_string(),
                Err(_) => self.listen.clone(),
            },
            _ => self.listen.clone(),
        }
    }

    /// Whether only this pod can connect.
    pub fn on_loopback(&self) -> bool {
        let host = self.listen.rsplit_once(':').map_or("", |(host, _)| host);
        host == "localhost" || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_that_share_a_loopback_listen_on_the_addresses_of_their_pods() {
        let address = |listen: &str, pod_ip| Security { listen: listen.into(), ..Security::default() }.address(pod_ip);
        let rows = [
            ("127.0.0.1:5000", "127.10.0.3", "127.10.0.3:5000"),
            ("localhost:5000", "127.10.0.3", "127.10.0.3:5000"),
            ("127.0.0.1:5000", "10.0.0.7", "127.0.0.1:5000"),
            ("127.0.0.1:5000", "", "127.0.0.1:5000"),
            ("127.0.0.2:5000", "127.10.0.3", "127.0.0.2:5000"),
            (":5000", "127.10.0.3", ":5000"),
            ("10.0.0.7:5000", "127.10.0.3", "10.0.0.7:5000"),
        ];
        for (listen, pod_ip, expected) in rows {
            assert_eq!(address(listen, pod_ip), expected, "{listen} {pod_ip}");
        }
    }
}
