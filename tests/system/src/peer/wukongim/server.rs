//! The one process of WuKongIM, with its settings.

use std::{fs, net::TcpListener, path::PathBuf, process::Stdio};

use anyhow::{Context as _, Result};
use schemas::{DeviceClass, UserId};
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    sync::Mutex,
};

use super::{GROUP, GROUP_TYPE, Receiver, device::WuKongImDevice, post, uid_text};
use crate::{
    peer::{Options, System, users},
    until,
};

/// A process of WuKongIM, with a directory of its own.
pub struct WuKongIm {
    program: PathBuf,
    directory: TempDir,
    process: Mutex<Child>,
    http: reqwest::Client,
    ports: [u16; 5],
}

impl System for WuKongIm {
    type Device = WuKongImDevice;

    async fn start(options: &Options) -> Result<Self> {
        let (program, _) = options.wukongim.clone().context("no program")?;
        let this = Self::run(program).await?;
        let members: Vec<String> = users(options)?.into_iter().map(uid_text).collect();
        let group =
            json!({"channel_id": GROUP, "channel_type": GROUP_TYPE, "subscribers": members});
        post(&this.http, &this.url("/channel"), &group).await?;
        Ok(this)
    }

    fn device(&self, uid: UserId, class: DeviceClass) -> Result<WuKongImDevice> {
        let (http, api) = (self.http.clone(), self.url(""));
        Ok(WuKongImDevice::new(uid, class, http, (api, self.ports[1])))
    }

    async fn kill(&self) -> Result<()> {
        let mut process = self.process.lock().await;
        process.kill().await?;
        *process = run(&self.program, &self.directory)?;
        drop(process);
        self.is_ready().await
    }
}

impl WuKongIm {
    /// Runs a program, and waits until it is ready.
    ///
    /// # Errors
    /// If it does not become ready.
    pub async fn run(program: PathBuf) -> Result<Self> {
        let directory = TempDir::new()?;
        let ports = free_ports()?;
        fs::write(directory.path().join("wukongim.toml"), config(&ports))?;
        let this = Self {
            process: Mutex::new(run(&program, &directory)?),
            program,
            directory,
            http: reqwest::Client::new(),
            ports,
        };
        this.is_ready().await?;
        Ok(this)
    }

    /// The port of its HTTP calls.
    #[must_use]
    pub fn api_port(&self) -> u16 {
        self.ports[0]
    }

    /// Its process.
    ///
    /// # Errors
    /// If it has ended.
    pub async fn pid(&self) -> Result<u32> {
        self.process.lock().await.id().context("it has ended")
    }

    /// The name of a user in its calls.
    #[must_use]
    pub fn uid_text(uid: UserId) -> String {
        uid_text(uid)
    }

    /// Connects a user.
    ///
    /// # Errors
    /// If it is refused.
    pub async fn receiver(&self, uid: UserId) -> Result<Receiver> {
        Receiver::connect(self.ports[1], &uid_text(uid)).await
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.ports[0])
    }

    async fn is_ready(&self) -> Result<()> {
        until("WuKongIM is ready", async || {
            let answer = self.http.get(self.url("/readyz")).send().await;
            let answer = answer.and_then(reqwest::Response::error_for_status);
            answer.map(drop).map_err(|error| error.to_string())
        })
        .await
    }
}

fn run(program: &PathBuf, directory: &TempDir) -> Result<Child> {
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(directory.path().join("log"))?;
    Command::new(program)
        .args(["-config", "wukongim.toml"])
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("{} does not run", program.display()))
}

fn free_ports() -> Result<[u16; 5]> {
    let mut ports = [0; 5];
    let mut open = Vec::new();
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        *port = listener.local_addr()?.port();
        open.push(listener);
    }
    Ok(ports)
}

/// The configuration of its example, on loopback only and without the parts that are not compared.
fn config([api, tcp, ws, cluster, manager]: &[u16; 5]) -> String {
    format!(
        r#"
[node]
id = 1
data_dir = "./data"
[cluster]
listen_addr = "127.0.0.1:{cluster}"
id = "single"
nodes = [{{ id = 1, addr = "127.0.0.1:{cluster}" }}]
join_token = "change-me"
initial_slot_count = 10
hash_slot_count = 256
slot_replica_n = 1
[api]
listen_addr = "127.0.0.1:{api}"
external_tcp_addr = "127.0.0.1:{tcp}"
external_ws_addr = "ws://127.0.0.1:{ws}"
[manager]
listen_addr = "127.0.0.1:{manager}"
auth_on = false
[gateway]
listeners = [
  {{ name = "tcp-wkproto", network = "tcp", address = "127.0.0.1:{tcp}", transport = "gnet", protocol = "wkproto" }},
  {{ name = "ws-gateway", network = "websocket", address = "127.0.0.1:{ws}", transport = "gnet", protocol = "wsmux" }},
]
[plugin]
enable = false
[log]
dir = "./logs"
"#
    )
}
