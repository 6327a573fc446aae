//! Makes a cluster of Redis servers that do not know each other yet.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::StackError;

const SLOTS: usize = 16_384;
const POLL: Duration = Duration::from_millis(50);
const TIMEOUT: Duration = Duration::from_secs(5);

/// Gives the first half of these servers equal shares of the slots, and makes each of the others the replica of one. Leaves a cluster that
/// was formed before as it is.
pub(crate) fn form(ports: &[u16], timeout: Duration) -> Result<(), StackError> {
    let failed = |why: String| StackError::CommandFailed {
        what: "form the Redis Cluster".to_owned(),
        status: "an error".to_owned(),
        tail: why,
    };
    try_form(ports, Instant::now() + timeout).map_err(failed)
}

fn try_form(ports: &[u16], deadline: Instant) -> Result<(), String> {
    let (masters, replicas) = ports.split_at(ports.len() / 2);
    if !info(masters[0])?.contains("cluster_known_nodes:1\r") {
        return Ok(());
    }
    for (index, port) in masters.iter().enumerate() {
        let share = |index: usize| index * SLOTS / masters.len();
        let (first, last) = (share(index), share(index + 1) - 1);
        command(*port, &format!("CLUSTER ADDSLOTSRANGE {first} {last}"))?;
        command(*port, &format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1))?;
    }
    let bus_port = |port: u16| usize::from(port) + ports.len();
    for port in &ports[1..] {
        let meet = format!("CLUSTER MEET 127.0.0.1 {port} {}", bus_port(*port));
        command(masters[0], &meet)?;
    }
    let all_known = format!("cluster_known_nodes:{}\r", ports.len());
    for port in ports {
        until(deadline, || Ok(info(*port)?.contains(&all_known)))?;
    }
    for (master, replica) in masters.iter().zip(replicas) {
        let id = command(*master, "CLUSTER MYID")?;
        // The replica may not know yet that the other server is a master.
        until(deadline, || {
            Ok(command(*replica, &format!("CLUSTER REPLICATE {id}")).is_ok())
        })?;
    }
    for port in ports {
        until(deadline, || Ok(info(*port)?.contains("cluster_state:ok")))?;
    }
    for port in replicas {
        until(deadline, || {
            Ok(command(*port, "INFO replication")?.contains("master_link_status:up"))
        })?;
    }
    Ok(())
}

fn info(port: u16) -> Result<String, String> {
    command(port, "CLUSTER INFO")
}

fn until(deadline: Instant, mut holds: impl FnMut() -> Result<bool, String>) -> Result<(), String> {
    while !holds()? {
        if Instant::now() > deadline {
            return Err("the nodes do not agree in time".to_owned());
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// The answer to an inline command: a line, or a string after its length.
fn command(port: u16, command: &str) -> Result<String, String> {
    let run = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(format!("{command}\r\n").as_bytes())?;
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line)?;
        if line.starts_with('-') {
            return Err(std::io::Error::other(line));
        }
        let Some(length) = line.strip_prefix('$') else {
            return Ok(line.trim_end()[1..].to_owned());
        };
        let length = length.trim_end().parse().map_err(std::io::Error::other)?;
        let mut text = vec![0; length];
        stream.read_exact(&mut text)?;
        String::from_utf8(text).map_err(std::io::Error::other)
    };
    run().map_err(|error| format!("{command} on port {port}: {}", error.to_string().trim_end()))
}
