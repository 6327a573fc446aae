//! Ports on 127.0.0.1: whether one is free, and finding free ones for throw-away servers.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

/// Below the range that Linux hands out for outgoing connections, so that none of those takes a port between the
/// check and the start of the server.
const FREE_FROM: u16 = 15_000;
const FREE_SPAN: u16 = 16_000;
/// How far apart processes with successive pids begin to look.
const PORTS_OF_PROCESS: u32 = 97;

/// Whether no process listens on the port.
pub(crate) fn is_free(port: u16) -> bool {
    bind(port).is_some()
}

/// Finds `count` free ports. A process gets none twice, so that tests that run at the same time do not look at each other's; processes begin at
/// different places.
pub fn find_free(count: usize) -> Vec<u16> {
    static NEXT: Mutex<Option<u16>> = Mutex::new(None);
    let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
    let begin = std::process::id().wrapping_mul(PORTS_OF_PROCESS) % u32::from(FREE_SPAN);
    let mut offset = next.unwrap_or(begin as u16);
    // All stay bound until the last is found.
    let mut held: Vec<(u16, TcpListener)> = Vec::new();
    for _ in 0..FREE_SPAN {
        if held.len() == count {
            break;
        }
        let port = FREE_FROM + offset;
        offset = (offset + 1) % FREE_SPAN;
        held.extend(bind(port).map(|listener| (port, listener)));
    }
    *next = Some(offset);
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
        let ports = [find_free(2), find_free(2)].concat();
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
