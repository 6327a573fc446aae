//! Finds the process that listens on a port of this machine, from `/proc`.

use std::fs;

/// State LISTEN in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// The process that listens on the port, `pid 17 (nc -l 7301)`, as far as this user may see it.
pub(crate) fn describe(port: u16) -> String {
    let sockets: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listening(&table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let holder = pids().find(|pid| holds(*pid, &sockets));
    match holder {
        Some(pid) => format!("pid {pid} ({})", command_line(pid)),
        None => "another process, which this user may not see".to_owned(),
    }
}

/// The pids of all processes.
pub(crate) fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The inodes of the sockets that listen on the port, in a table such as `/proc/net/tcp`.
fn listening(table: &str, port: u16) -> Vec<String> {
    let inode_of = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, local_port) = fields.get(1)?.rsplit_once(':')?;
        let wanted = u16::from_str_radix(local_port, 16).ok()? == port && fields.get(3)? == &LISTEN;
        wanted.then(|| fields.get(9).map(|inode| (*inode).to_owned()))?
    };
    table.lines().filter_map(inode_of).collect()
}

fn holds(pid: u32, sockets: &[String]) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    descriptors
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .any(|target| {
            sockets
                .iter()
                .any(|socket| target.as_os_str() == socket.as_str())
        })
}

fn command_line(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&line).replace('\0', " ");
    words.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_distinguished_from_connections() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1C85 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1\n\
             1: 0100007F:1C85 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 4243 1\n\
             2: 0100007F:1C86 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4244 1\n";
        assert_eq!(listening(table, 0x1c85), ["4242"]);
    }

    #[test]
    fn a_listener_is_named_by_pid_and_command() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let named = describe(listener.local_addr().unwrap().port());
        let own = format!("pid {} (", std::process::id());
        assert!(named.starts_with(&own), "{named}");
        assert!(named.contains("dev_stack"), "{named}");
    }
}
