//! Readiness checks: the first few bytes of each server's protocol, written by hand.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use serde::Deserialize;

const TIMEOUT: Duration = Duration::from_secs(2);
/// Longer than any expected answer.
const MAX_ANSWER_BYTES: u32 = 1 << 20;

fn connect(address: SocketAddr) -> Result<TcpStream, String> {
    let open = || {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(stream)
    };
    open().map_err(|error: io::Error| format!("{address}: {error}"))
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Redis: PING must be answered by PONG; a server that still loads its file answers an error. A `login` is sent first and must be answered by OK.
pub(crate) fn redis_ping(port: u16, login: &str) -> Result<(), String> {
    let mut stream = connect(local(port))?;
    let mut answer = [0; 5];
    let mut log_in = || {
        let mut welcome = if login.is_empty() {
            Vec::new()
        } else {
            vec![0; "+OK\r\n".len()]
        };
        stream.write_all(login.as_bytes())?;
        stream.read_exact(&mut welcome)
    };
    log_in()
        .and_then(|()| stream.write_all(b"PING\r\n"))
        .and_then(|()| stream.read_exact(&mut answer))
        .map_err(|error| format!("PING: {error}"))?;
    if &answer == b"+PONG" {
        Ok(())
    } else {
        Err(format!(
            "PING answered {:?}",
            String::from_utf8_lossy(&answer)
        ))
    }
}

/// MariaDB: the server speaks first, with a greeting of protocol version 10 (an error packet begins with 255).
pub(crate) fn mariadb_greeting(port: u16) -> Result<(), String> {
    const PROTOCOL_VERSION: u8 = 10;
    let mut stream = connect(local(port))?;
    let mut packet = [0; 5];
    stream
        .read_exact(&mut packet)
        .map_err(|error| format!("greeting: {error}"))?;
    match packet[4] {
        PROTOCOL_VERSION => Ok(()),
        first => Err(format!("the greeting begins with {first}")),
    }
}

/// Kafka: a Metadata request must list at least `wanted` live brokers.
pub(crate) fn kafka_brokers(port: u16, wanted: u16) -> Result<(), String> {
    let mut stream = connect(local(port))?;
    let alive = kafka_metadata(&mut stream).map_err(|error| format!("Metadata: {error}"))?;
    if alive >= i32::from(wanted) {
        Ok(())
    } else {
        Err(format!("{alive} of {wanted} brokers are there"))
    }
}

/// Sends a Metadata request, version 8, for no topics, and returns the number of brokers in the answer.
fn kafka_metadata(stream: &mut TcpStream) -> io::Result<i32> {
    const CORRELATION_ID: i32 = 7;
    stream.write_all(&metadata_request(CORRELATION_ID))?;
    let length = u32::from_be_bytes(read_array(stream)?);
    if !(12..=MAX_ANSWER_BYTES).contains(&length) {
        return Err(io::Error::other(format!("an answer of {length} bytes")));
    }
    let correlation_id = i32::from_be_bytes(read_array(stream)?);
    if correlation_id != CORRELATION_ID {
        return Err(io::Error::other("the answer to another request"));
    }
    let _throttle_ms = i32::from_be_bytes(read_array(stream)?);
    Ok(i32::from_be_bytes(read_array(stream)?))
}

fn metadata_request(correlation_id: i32) -> Vec<u8> {
    const METADATA: i16 = 3;
    const VERSION: i16 = 8;
    const CLIENT_ID: &[u8; 8] = b"tidemark";
    const NO_TOPICS: i32 = 0;
    let mut body = Vec::new();
    body.extend(METADATA.to_be_bytes());
    body.extend(VERSION.to_be_bytes());
    body.extend(correlation_id.to_be_bytes());
    body.extend([0, 8]);
    body.extend(CLIENT_ID);
    body.extend(NO_TOPICS.to_be_bytes());
    // Create no topic, and list no authorized operations.
    body.extend([0, 0, 0]);
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    [length.to_be_bytes().as_slice(), &body].concat()
}

fn read_array<const N: usize>(stream: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// One thing that a service waits for, as `/readyz` names it: `<service>.<what>`.
#[derive(Debug, Deserialize)]
pub(crate) struct Gate {
    name: String,
    ready: bool,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Readiness {
    gates: Vec<Gate>,
}

/// Our services: a GET of the readiness path must be answered with status 200.
pub(crate) fn http_ok(address: SocketAddr, path: &str) -> Result<(), String> {
    let (status_line, body) = http_get(address, path)?;
    if status_line.split(' ').nth(1) == Some("200") {
        return Ok(());
    }
    match gates_of(&body) {
        Some(gates) => Err(closed(gates.iter())),
        None => Err(format!("GET {path} answered {status_line:?} {body}")),
    }
}

/// The gates in an answer of any status.
pub(crate) fn http_gates(address: SocketAddr, path: &str) -> Result<Vec<Gate>, String> {
    let (_, body) = http_get(address, path)?;
    Ok(gates_of(&body).unwrap_or_default())
}

/// Which gates of a service are closed, and why; nothing if there is no gate of that service.
pub(crate) fn closed_of(service: &str, gates: &[Gate]) -> Option<String> {
    let prefix = format!("{}.", service.replace('-', "_"));
    let of_service = |gate: &&Gate| gate.name.replace('-', "_").starts_with(&prefix);
    let mut own = gates.iter().filter(of_service).peekable();
    own.peek()?;
    Some(closed(own))
}

fn closed<'a>(gates: impl Iterator<Item = &'a Gate>) -> String {
    let closed: Vec<String> = gates
        .filter(|gate| !gate.ready)
        .map(|gate| match &gate.reason {
            Some(reason) => format!("{}: {reason}", gate.name),
            None => gate.name.clone(),
        })
        .collect();
    closed.join("; ")
}

fn gates_of(body: &str) -> Option<Vec<Gate>> {
    let readiness: Readiness = serde_json::from_str(body).ok()?;
    Some(readiness.gates)
}

/// The status line and the body.
fn http_get(address: SocketAddr, path: &str) -> Result<(String, String), String> {
    let mut stream = connect(address)?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    let mut answer = Vec::new();
    stream
        .write_all(request.as_bytes())
        .and_then(|()| {
            (&stream)
                .take(MAX_ANSWER_BYTES.into())
                .read_to_end(&mut answer)
        })
        .map_err(|error| format!("GET {path}: {error}"))?;
    let text = String::from_utf8_lossy(&answer);
    let status_line = text.lines().next().unwrap_or_default();
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok((status_line.to_owned(), body.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Accepts one connection, reads what comes first, and answers.
    fn answering(answer: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 256]).unwrap();
            stream.write_all(answer).unwrap();
        });
        address
    }

    #[test]
    fn only_status_200_is_ready() {
        assert_eq!(
            http_ok(answering(b"HTTP/1.0 200 OK\r\n\r\n"), "/readyz"),
            Ok(())
        );
        let reason = http_ok(
            answering(b"HTTP/1.0 503 Service Unavailable\r\n\r\nkafka: no"),
            "/readyz",
        )
        .unwrap_err();
        assert!(
            reason.contains("503") && reason.contains("kafka: no"),
            "{reason}"
        );
    }

    #[test]
    fn closed_gates_are_named_with_their_reasons() {
        let answer = b"HTTP/1.0 503 Service Unavailable\r\n\r\n{\"ready\":false,\"gates\":[\
            {\"name\":\"ingest.kafka\",\"ready\":true},\
            {\"name\":\"sequencer.partitions\",\"ready\":false,\"reason\":\"64 partitions are starting\"}]}";
        let closed = "sequencer.partitions: 64 partitions are starting";
        assert_eq!(http_ok(answering(answer), "/readyz").unwrap_err(), closed);
        let gates = http_gates(answering(answer), "/readyz").unwrap();
        assert_eq!(closed_of("sequencer", &gates).as_deref(), Some(closed));
        assert_eq!(closed_of("ingest", &gates).as_deref(), Some(""));
        assert_eq!(closed_of("query-api", &gates), None);
    }

    #[test]
    fn a_redis_that_loads_is_not_ready() {
        let loading = answering(b"-LOADING Redis is loading the dataset in memory\r\n");
        assert!(redis_ping(loading.port(), "").is_err());
        assert_eq!(redis_ping(answering(b"+PONG\r\n").port(), ""), Ok(()));
    }

    #[test]
    fn brokers_are_counted() {
        let two_brokers = b"\0\0\0\x0c\0\0\0\x07\0\0\0\0\0\0\0\x02";
        assert_eq!(kafka_brokers(answering(two_brokers).port(), 2), Ok(()));
        assert!(kafka_brokers(answering(two_brokers).port(), 3).is_err());
    }
}
