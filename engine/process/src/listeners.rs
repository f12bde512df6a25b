//! Where the processes of a container listen.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use crate::tree::Table;

/// The state of a TCP socket that listens, as `/proc/net/tcp` has it.
const LISTEN: &str = "0A";

/// Where everything below `supervisor` listens for TCP connections.
pub(crate) fn listeners(proc: &Path, supervisor: i32) -> Vec<SocketAddr> {
    let table = Table::read(proc);
    let processes = table.descendants(supervisor);
    let sockets: HashSet<u64> = processes.iter().flat_map(|entry| sockets(&proc.join(entry.pid.to_string()))).collect();
    let lists = ["self/net/tcp", "self/net/tcp6"].map(|list| fs::read_to_string(proc.join(list)).unwrap_or_default());
    let listening = lists.iter().flat_map(|list| list.lines().filter_map(parse));
    let ours: BTreeSet<SocketAddr> =
        listening.filter(|(_, socket)| sockets.contains(socket)).map(|(address, _)| address).collect();
    ours.into_iter().collect()
}

/// The inodes of the sockets that a process holds.
fn sockets(process: &Path) -> Vec<u64> {
    let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let targets = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    targets.filter_map(|target| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()).collect()
}

/// A line of `/proc/net/tcp` or `tcp6` whose socket listens: its address and inode.
fn parse(line: &str) -> Option<(SocketAddr, u64)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    if *fields.get(3)? != LISTEN {
        return None;
    }
    let (address, port) = fields.get(1)?.split_once(':')?;
    let address = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(address)?)),
        32 => {
            let mut bytes = [0; 16];
            for (index, chunk) in bytes.chunks_mut(4).enumerate() {
                chunk.copy_from_slice(&word(address.get(index * 8..index * 8 + 8)?)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some((SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?), fields.get(9)?.parse().ok()?))
}

/// The kernel prints words of the network as numbers of the machine.
fn word(hexadecimal: &str) -> Option<[u8; 4]> {
    Some(u32::from_str_radix(hexadecimal, 16).ok()?.to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn addresses_are_read_as_the_kernel_prints_them() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1";
        assert_eq!(parse(line), Some(("127.0.0.1:8080".parse().unwrap(), 4711)));
        let line =
            "   0: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 7";
        assert_eq!(parse(line), Some(("[::1]:80".parse().unwrap(), 7)));
        assert_eq!(parse("   0: 0100007F:1F90 00000000:0000 01 0:0 0:0 0 1000 0 4711 1"), None);
        assert_eq!(parse("  sl  local_address rem_address   st tx_queue rx_queue"), None);
    }

    #[test]
    fn the_socket_of_a_listener_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sockets = sockets(Path::new("/proc/self"));
        let list = fs::read_to_string("/proc/self/net/tcp").unwrap();
        let found = list.lines().filter_map(parse).find(|(_, socket)| sockets.contains(socket));
        assert!(found.is_some());
        assert!(list.lines().filter_map(parse).any(|(address, _)| address == listener.local_addr().unwrap()));
    }
}
