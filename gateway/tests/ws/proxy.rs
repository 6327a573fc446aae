//! A proxy before a server that is far away, or stops answering: what it holds back is delivered later.

use std::{net::Ipv4Addr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep_until},
};

pub struct Proxy {
    pub port: u16,
    is_held: watch::Sender<bool>,
    _accepting: JoinSet<()>,
}

impl Proxy {
    /// Each byte takes so long in each direction.
    pub async fn start(target: u16, delay: Duration) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (is_held, held) = watch::channel(false);
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut running = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                running.spawn(forward(client, target, delay, held.clone()));
            }
        });
        Self {
            port,
            is_held,
            _accepting: accepting,
        }
    }

    /// Forwards nothing from now on, on connections of later neither; or goes on.
    pub fn hold(&self, holds: bool) {
        self.is_held.send_replace(holds);
    }
}

async fn forward(client: TcpStream, target: u16, delay: Duration, held: watch::Receiver<bool>) {
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await else {
        return;
    };
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
    }
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    tokio::join!(
        pass(from_client, to_server, delay, held.clone()),
        pass(from_server, to_client, delay, held)
    );
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    delay: Duration,
    mut held: watch::Receiver<bool>,
) {
    let (queue, mut queued) = mpsc::unbounded_channel();
    let reading = async move {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes).await {
            let read = (Instant::now() + delay, bytes[..count].to_vec());
            if queue.send(read).is_err() {
                return;
            }
        }
    };
    let writing = async move {
        while let Some((at, bytes)) = queued.recv().await {
            sleep_until(at).await;
            let is_released = held.wait_for(|held| !held).await.is_ok();
            if !is_released || to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(reading, writing);
}
