//! Ports on 127.0.0.1: whether one is free, and finding free ones for throw-away servers.

use std::net::{Ipv4Addr, TcpListener};
use std::time::{SystemTime, UNIX_EPOCH};

/// Below the range that Linux hands out for outgoing connections, so that none of those takes a port between the
/// check and the start of the server.
const FREE_FROM: u16 = 15_000;
const FREE_SPAN: u16 = 16_000;

/// Whether no process listens on the port.
pub(crate) fn is_free(port: u16) -> bool {
    bind(port).is_some()
}

/// Finds `count` free ports, beginning at a different place each time.
pub fn find_free(count: usize) -> Vec<u16> {
    let nanos = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.subsec_nanos());
    let seed = nanos.wrapping_mul(31).wrapping_add(std::process::id());
    let offset = u16::try_from(seed % u32::from(FREE_SPAN)).unwrap_or(0);
    // All stay bound until the last is found, so that they differ.
    let held: Vec<(u16, TcpListener)> = (0..FREE_SPAN)
        .map(|step| FREE_FROM + (offset + step) % FREE_SPAN)
        .filter_map(|port| Some((port, bind(port)?)))
        .take(count)
        .collect();
    held.iter().map(|(port, _)| *port).collect()
}

fn bind(port: u16) -> Option<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_differ_and_are_free_afterwards() {
        let ports = find_free(4);
        let distinct: std::collections::HashSet<_> = ports.iter().collect();
        assert_eq!(distinct.len(), 4);
        assert!(ports.iter().all(|port| is_free(*port)));
    }

    #[test]
    fn a_port_with_a_listener_is_not_free() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(!is_free(listener.local_addr().unwrap().port()));
    }
}
