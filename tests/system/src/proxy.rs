//! A proxy between clients and a server that can stop forwarding, like a network that loses packets: connections hang instead of closing. Bytes that
//! arrive meanwhile are delivered later, even if their sender has ended by then.

use std::{
    collections::HashSet,
    fs,
    net::{Ipv4Addr, TcpListener as StdListener},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU16, Ordering},
    },
};

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
    task::{AbortHandle, JoinSet},
};

const READ_BYTES: usize = 64 << 10;

/// A proxy on a port of 127.0.0.1, which ends when the value is dropped.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    _accepting: JoinSet<()>,
}

/// A port that is taken for a proxy whose target is not known yet.
pub struct Reserved {
    listener: StdListener,
    port: u16,
}

struct Shared {
    target: AtomicU16,
    connections: Mutex<Connections>,
}

#[derive(Default)]
struct Connections {
    /// Whether new connections begin held.
    hold_new: bool,
    open: Vec<Connection>,
}

struct Connection {
    /// The client's port.
    from: u16,
    held: watch::Sender<bool>,
    task: AbortHandle,
}

impl Reserved {
    /// Takes a free port.
    ///
    /// # Errors
    /// If no port is free.
    pub fn new() -> Result<Self> {
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).context("a port for a proxy")?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// The port to which clients will connect.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Begins to forward to a port of this machine.
    ///
    /// # Errors
    /// If this is not called on a runtime.
    pub fn forward_to(self, target: u16) -> Result<Proxy> {
        let shared = Arc::new(Shared {
            target: target.into(),
            connections: Mutex::default(),
        });
        let listener = TcpListener::from_std(self.listener)?;
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Proxy {
            port: self.port,
            shared,
            _accepting: accepting,
        })
    }
}

impl Proxy {
    /// The port to which clients connect.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Stops forwarding, in both directions, on connections open now and later.
    pub fn hold_all(&self) {
        let mut connections = self.shared.connections();
        connections.hold_new = true;
        connections.hold(|_| true);
    }

    /// Stops forwarding on the connections that a process has now.
    ///
    /// # Errors
    /// If there is no such process.
    pub fn hold_those_of(&self, pid: u32) -> Result<()> {
        let ports = ports_of(pid, self.port)?;
        self.shared
            .connections()
            .hold(|connection| ports.contains(&connection.from));
        Ok(())
    }

    /// Continues forwarding, starting with what was held back.
    pub fn release(&self) {
        let mut connections = self.shared.connections();
        connections.hold_new = false;
        for connection in &connections.open {
            connection.held.send_replace(false);
        }
    }

    /// Closes all connections, and forwards new ones elsewhere.
    pub fn move_to(&self, target: u16) {
        self.shared.target.store(target, Ordering::Relaxed);
        for connection in self.shared.connections().open.drain(..) {
            connection.task.abort();
        }
    }
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
    fn hold(&self, which: impl Fn(&Connection) -> bool) {
        for connection in self.open.iter().filter(|one| which(one)) {
            connection.held.send_replace(true);
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut running = JoinSet::new();
    loop {
        let Ok((client, from)) = listener.accept().await else {
            continue;
        };
        while running.try_join_next().is_some() {}
        let target = shared.target.load(Ordering::Relaxed);
        let mut connections = shared.connections();
        let (held, is_held) = watch::channel(connections.hold_new);
        let task = running.spawn(forward(client, target, is_held));
        connections.open.retain(|one| !one.task.is_finished());
        connections.open.push(Connection {
            from: from.port(),
            held,
            task,
        });
    }
}

/// If the server is closed to a client, the client's connection is closed.
async fn forward(client: TcpStream, target: u16, held: watch::Receiver<bool>) {
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await else {
        return;
    };
    for stream in [&client, &server] {
        // This matters for speed only.
        let _ = stream.set_nodelay(true);
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::join!(
        pass(from_client, to_server, held.clone()),
        pass(from_server, to_client, held)
    );
}

/// Reads whatever comes, even while nothing may be written: bytes that a process sent before its death must not be lost with its connection.
async fn pass(from: OwnedReadHalf, to: OwnedWriteHalf, held: watch::Receiver<bool>) {
    let (queue, queued) = mpsc::unbounded_channel();
    tokio::join!(read(from, queue), write(queued, to, held));
}

async fn read(mut from: OwnedReadHalf, queue: mpsc::UnboundedSender<Vec<u8>>) {
    loop {
        let mut bytes = Vec::with_capacity(READ_BYTES);
        match from.read_buf(&mut bytes).await {
            Ok(1..) if queue.send(bytes).is_ok() => {}
            _ => return,
        }
    }
}

async fn write(
    mut queued: mpsc::UnboundedReceiver<Vec<u8>>,
    mut to: OwnedWriteHalf,
    mut held: watch::Receiver<bool>,
) {
    while let Some(bytes) = queued.recv().await {
        let released = held.wait_for(|held| !held).await.is_ok();
        if !released || to.write_all(&bytes).await.is_err() {
            return;
        }
    }
    if held.wait_for(|held| !held).await.is_ok() {
        // The other side may be gone.
        let _ = to.shutdown().await;
    }
}

/// The ports from which a process is connected to a port of this machine.
fn ports_of(pid: u32, to: u16) -> Result<HashSet<u16>> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).context("descriptors")?;
    let sockets: HashSet<String> = descriptors
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| {
            let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            Some(inode.to_owned())
        })
        .collect();
    let table = fs::read_to_string("/proc/net/tcp")?;
    let of_process = table.lines().skip(1).filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (local, remote) = (port(columns.get(1)?)?, port(columns.get(2)?)?);
        (remote == to && sockets.contains(*columns.get(9)?)).then_some(local)
    });
    Ok(of_process.collect())
}

/// The port of an address of `/proc/net/tcp`: `0100007F:1CE0`.
fn port(address: &str) -> Option<u16> {
    let (_, port) = address.split_once(':')?;
    u16::from_str_radix(port, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    async fn server() -> (TcpListener, Proxy) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let target = listener.local_addr().unwrap().port();
        let proxy = Reserved::new().unwrap().forward_to(target).unwrap();
        (listener, proxy)
    }

    async fn connect(listener: &TcpListener, proxy: &Proxy) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port()));
        let (client, server) = tokio::join!(client, listener.accept());
        (client.unwrap(), server.unwrap().0)
    }

    #[tokio::test]
    async fn what_was_held_arrives_after_its_sender_is_gone() {
        let (listener, proxy) = server().await;
        let (mut client, mut served) = connect(&listener, &proxy).await;
        client.write_all(b"one ").await.unwrap();
        let mut first = [0; 4];
        served.read_exact(&mut first).await.unwrap();

        proxy.hold_those_of(process::id()).unwrap();
        client.write_all(b"two").await.unwrap();
        drop(client);
        // Later connections are not held.
        let (mut other, mut other_served) = connect(&listener, &proxy).await;
        other_served.write_all(b"?").await.unwrap();
        other.read_exact(&mut [0]).await.unwrap();
        assert!(served.try_read(&mut [0]).is_err());

        proxy.release();
        let mut rest = Vec::new();
        served.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"two");
    }

    #[tokio::test]
    async fn a_move_closes_what_is_open() {
        let (listener, proxy) = server().await;
        let (mut client, _served) = connect(&listener, &proxy).await;
        let elsewhere = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        proxy.move_to(elsewhere.local_addr().unwrap().port());
        assert_eq!(client.read(&mut [0]).await.unwrap_or(0), 0);
        connect(&elsewhere, &proxy).await;
    }
}
