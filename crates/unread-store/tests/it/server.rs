use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use redis::FromRedisValue;
use tempfile::TempDir;

/// Longer than a command takes; a test that waits for so long has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A Redis server on a free port, with an append-only file as in production; it ends with the value.
pub struct RedisServer {
    pub port: u16,
    /// Where it would listen for the other nodes of a cluster.
    bus_port: Option<u16>,
    dir: TempDir,
    process: Child,
}

impl RedisServer {
    pub fn start() -> Self {
        Self::start_with(|| None)
    }

    /// The only node of a cluster: it has all hash slots.
    pub async fn start_cluster() -> Self {
        let server = Self::start_with(|| Some(free_port()));
        let all = ["CLUSTER", "ADDSLOTSRANGE", "0", "16383"];
        let _: String = server.command(&all).await;
        let deadline = Instant::now() + Duration::from_secs(20);
        while !server.cluster_info().await.contains("cluster_state:ok") {
            assert!(Instant::now() < deadline, "the cluster is not ready");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        server
    }

    async fn cluster_info(&self) -> String {
        self.command(&["CLUSTER", "INFO"]).await
    }

    fn start_with(bus_port: impl Fn() -> Option<u16>) -> Self {
        loop {
            let dir = TempDir::new().unwrap();
            let (port, bus_port) = (free_port(), bus_port());
            let process = spawn(port, bus_port, &dir);
            let mut server = Self {
                port,
                bus_port,
                dir,
                process,
            };
            // Another process may take the port in between; then the next one is tried.
            if server.becomes_ready() {
                return server;
            }
        }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends a command of a test's own, on a connection of its own.
    pub async fn command<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let client = redis::Client::open(self.url()).unwrap();
        // Its own half a second is too short where the machine is busy.
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = connection.await.unwrap();
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut connection).await.unwrap()
    }

    /// SIGKILL, as a crash would be.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        self.process.wait().unwrap();
    }

    /// Starts again on the same port and data.
    pub fn restart(&mut self) {
        self.process = spawn(self.port, self.bus_port, &self.dir);
        assert!(self.becomes_ready(), "redis does not come back");
    }

    /// How much has been written to the append-only file.
    pub fn log_length(&self) -> u64 {
        fs::metadata(self.log()).unwrap().len()
    }

    /// Loses what was written behind `length`, as a machine that loses its power does.
    pub fn cut_log(&self, length: u64) {
        let log = File::options().write(true).open(self.log()).unwrap();
        log.set_len(length).unwrap();
    }

    fn log(&self) -> PathBuf {
        self.dir
            .path()
            .join("appendonlydir/appendonly.aof.1.incr.aof")
    }

    fn becomes_ready(&mut self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            if answers_ping(self.port) {
                return true;
            }
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("redis on port {} is not ready after 20 s", self.port);
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn spawn(port: u16, bus_port: Option<u16>, dir: &TempDir) -> Child {
    let mut command = Command::new("redis-server");
    if let Some(bus_port) = bus_port {
        command
            .args([
                "--cluster-enabled",
                "yes",
                "--cluster-port",
                &bus_port.to_string(),
            ])
            .args(["--cluster-require-full-coverage", "no"]);
    }
    command
        .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
        // Every write reaches the file before its answer, which the tests that cut the file rely on.
        .args(["--appendonly", "yes", "--appendfsync", "no", "--save", ""])
        .arg("--dir")
        .arg(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed")
}

fn answers_ping(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    let mut answer = [0; 5];
    stream.write_all(b"PING\r\n").is_ok()
        && stream.read_exact(&mut answer).is_ok()
        && &answer == b"+PONG"
}
