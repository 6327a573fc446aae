//! WuKongIM v3: one process with its own storage, and devices that speak its own protocol over TCP, and do at each connection what its clients do: list
//! conversations, and pull what is missing of each. (Its JSON-RPC over WebSocket cannot be used: the version that was looked at has `connect` end the
//! connection as an unsupported frame.)

use std::{
    collections::BTreeMap, fs, net::TcpListener, path::PathBuf, process::Stdio, time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use schemas::DeviceClass;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    sync::Mutex,
    time::{Instant, sleep_until, timeout_at},
};

use super::{
    Chat, Device, Had, Options, System,
    wkproto::{Connection, FromServer, Received, ToServer},
};
use crate::until;

const GROUP: &str = "all";
/// Its channel types.
const PERSON: u8 = 1;
const GROUP_TYPE: u8 = 2;
/// Its reason for what has succeeded.
const SUCCESS: u8 = 1;
/// Forward, from a number on.
const PULL_UP: u64 = 1;
const PAGE: u64 = 500;
const AGAIN_AFTER: Duration = Duration::from_millis(300);

pub(crate) struct WuKongIm {
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
        let members: Vec<String> = (0..options.users).map(uid).collect();
        let group =
            json!({"channel_id": GROUP, "channel_type": GROUP_TYPE, "subscribers": members});
        post(&this.http, &this.url("/channel"), &group).await?;
        Ok(this)
    }

    fn device(&self, user: usize, class: DeviceClass) -> Result<WuKongImDevice> {
        Ok(WuKongImDevice {
            user,
            class,
            http: self.http.clone(),
            api: self.url(""),
            port: self.ports[1],
            connection: None,
            sends: 0,
            is_recovered: false,
            attempt: Instant::now(),
            chats: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            acknowledged: Vec::new(),
        })
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

/// What its example has, on loopback only and without what is not looked at.
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

fn uid(user: usize) -> String {
    format!("u{user}")
}

async fn post(http: &reqwest::Client, url: &str, body: &Value) -> Result<Value> {
    let answer = http
        .post(url)
        .header("content-type", "application/json")
        .body(body.to_string())
        .send()
        .await?;
    let (status, text) = (answer.status(), answer.text().await?);
    ensure!(status.is_success(), "{url}: {status}: {text}");
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

pub(crate) struct WuKongImDevice {
    user: usize,
    class: DeviceClass,
    http: reqwest::Client,
    api: String,
    port: u16,
    connection: Option<Connection>,
    /// The number of the next send.
    sends: u32,
    /// What it missed has been pulled since it connected.
    is_recovered: bool,
    attempt: Instant,
    chats: BTreeMap<Chat, BTreeMap<i64, Had>>,
    unanswered: BTreeMap<u32, (Chat, String)>,
    acknowledged: Vec<(Chat, String)>,
}

impl WuKongImDevice {
    /// What is to be done next; dropped at any point, the next call does it.
    async fn step(&mut self) -> Result<bool> {
        if self.connection.is_none() {
            sleep_until(self.attempt).await;
            self.attempt = Instant::now() + AGAIN_AFTER;
            self.connection = Connection::open(self.port).await.ok();
            self.is_recovered = false;
            let connect = ToServer::Connect {
                uid: &uid(self.user),
                device: &self.class.to_string(),
                flag: u8::from(self.class != DeviceClass::Mobile),
            };
            self.write(&connect).await;
        }
        let Some(connection) = &mut self.connection else {
            return Ok(false);
        };
        let Ok(frame) = connection.next().await else {
            self.connection = None;
            return Ok(false);
        };
        match frame {
            FromServer::ConnAck { reason: SUCCESS } => {
                for (number, (chat, text)) in self.unanswered.clone() {
                    self.write_send(number, chat, &text).await;
                }
                self.recover().await;
            }
            FromServer::SendAck {
                number,
                seq,
                reason: SUCCESS,
            } => {
                if let Some((chat, text)) = self.unanswered.remove(&number) {
                    self.keep(chat, seq, &uid(self.user), &text);
                    self.acknowledged.push((chat, text));
                }
            }
            FromServer::Recv(message) => self.receive(message).await?,
            // What has not succeeded goes out again at the next connection, which is made soon.
            FromServer::ConnAck { .. } | FromServer::SendAck { .. } | FromServer::Disconnect => {
                self.connection = None;
            }
            FromServer::Other => {}
        }
        Ok(true)
    }

    async fn receive(&mut self, message: Received) -> Result<()> {
        let is_own = message.from == uid(self.user);
        let peer = if is_own {
            &message.channel
        } else {
            &message.from
        };
        let chat = self.chat(message.kind.into(), peer)?;
        self.keep(chat, message.seq, &message.from, &message.client_msg_no);
        let (id, seq) = (message.id, message.seq);
        self.write(&ToServer::RecvAck { id, seq }).await;
        Ok(())
    }

    fn chat(&self, kind: u64, peer: &str) -> Result<Chat> {
        if kind != u64::from(PERSON) {
            return Ok(Chat::Group);
        }
        let peer = peer.strip_prefix('u').and_then(|peer| peer.parse().ok());
        Ok(Chat::of(self.user, peer.context("a channel of nobody")?))
    }

    fn keep(&mut self, chat: Chat, number: i64, from: &str, text: &str) {
        let had = Had {
            number,
            text: text.to_owned(),
            is_own: from == uid(self.user),
        };
        self.chats.entry(chat).or_default().insert(number, had);
    }

    fn channel(&self, chat: Chat) -> (String, u8) {
        match chat.peer_of(self.user) {
            Some(peer) => (uid(peer), PERSON),
            None => (GROUP.to_owned(), GROUP_TYPE),
        }
    }

    async fn write_send(&mut self, number: u32, chat: Chat, text: &str) {
        let (channel, kind) = self.channel(chat);
        let send = ToServer::Send {
            number,
            client_msg_no: text,
            channel: &channel,
            kind,
        };
        self.write(&send).await;
    }

    /// What cannot be written is lost with the connection, whose end shows where it is read.
    async fn write(&mut self, frame: &ToServer<'_>) {
        if let Some(connection) = &mut self.connection {
            let _ = connection.write(frame).await;
        }
    }

    /// Pulls what it missed; where that fails, the connection is made anew.
    async fn recover(&mut self) {
        self.is_recovered = self.open_all().await.is_ok();
        if !self.is_recovered {
            self.connection = None;
        }
    }

    /// Its conversation list: the newest number and the unread count of each.
    async fn conversations(&self) -> Result<BTreeMap<Chat, (i64, i64)>> {
        let (mut all, mut cursor) = (BTreeMap::new(), String::new());
        loop {
            let query = json!({"uid": uid(self.user), "cursor": cursor, "limit": 100});
            let url = format!("{}/conversation/list", self.api);
            let page = post(&self.http, &url, &query).await?;
            let unresolved = page["unresolved"].as_array().map_or(0, Vec::len);
            ensure!(unresolved == 0, "{unresolved} conversations are unresolved");
            for item in page["conversations"].as_array().into_iter().flatten() {
                let peer = item["channel_id"].as_str().unwrap_or_default();
                let chat = self.chat(item["channel_type"].as_u64().unwrap_or_default(), peer)?;
                let last = item["last_message"]["message_seq"].as_i64();
                let unread = item["unread"].as_i64().unwrap_or_default();
                all.insert(chat, (last.unwrap_or_default(), unread));
            }
            cursor = page["next_cursor"].as_str().unwrap_or_default().to_owned();
            if page["done"] == true || cursor.is_empty() {
                return Ok(all);
            }
        }
    }

    /// Everything from the first number on that the device does not have.
    async fn pull(&mut self, chat: Chat, last: i64) -> Result<()> {
        let (channel, kind) = self.channel(chat);
        loop {
            let had = self.chats.entry(chat).or_default();
            let Some(from) = (1..=last).find(|number| !had.contains_key(number)) else {
                return Ok(());
            };
            let query = json!({
                "login_uid": uid(self.user), "channel_id": channel, "channel_type": kind,
                "start_message_seq": from, "limit": PAGE, "pull_mode": PULL_UP,
            });
            let url = format!("{}/channel/messagesync", self.api);
            let page = post(&self.http, &url, &query).await?;
            let messages = page["messages"].as_array().cloned().unwrap_or_default();
            for message in &messages {
                let from = message["from_uid"].as_str().unwrap_or_default();
                let text = message["client_msg_no"].as_str().unwrap_or_default();
                let seq = message["message_seq"].as_i64().unwrap_or_default();
                self.keep(chat, seq, from, text);
            }
            let is_there = self.chats[&chat].contains_key(&from);
            if messages.is_empty() || !is_there {
                return Ok(());
            }
        }
    }
}

impl Device for WuKongImDevice {
    async fn listen(&mut self, until: Instant) -> Result<bool> {
        let mut heard = false;
        while let Ok(stepped) = timeout_at(until, self.step()).await {
            heard |= stepped?;
        }
        // It was dropped in the middle of that.
        if self.connection.is_some() && !self.is_recovered {
            self.recover().await;
        }
        Ok(heard)
    }

    fn drop_connection(&mut self) -> Result<()> {
        self.connection = None;
        Ok(())
    }

    async fn send(&mut self, chat: Chat, text: String) {
        self.sends += 1;
        let number = self.sends;
        self.write_send(number, chat, &text).await;
        self.unanswered.insert(number, (chat, text));
    }

    fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    fn acknowledged(&self) -> &[(Chat, String)] {
        &self.acknowledged
    }

    async fn open_all(&mut self) -> Result<()> {
        for (chat, (last, _)) in self.conversations().await? {
            self.pull(chat, last).await?;
        }
        Ok(())
    }

    fn messages(&self, chat: Chat) -> Vec<Had> {
        let messages = self.chats.get(&chat).into_iter();
        messages.flat_map(BTreeMap::values).cloned().collect()
    }

    async fn unread(&mut self, chat: Chat) -> Result<Option<i64>> {
        let all = self.conversations().await?;
        Ok(all.get(&chat).map(|(_, unread)| *unread))
    }

    /// Its v3 takes what one sends as read up to there, of a person, too.
    fn unread_of(_: Chat, all: &[Had]) -> i64 {
        let own = all.iter().filter(|message| message.is_own);
        let own_last = own.map(|message| message.number).max().unwrap_or_default();
        let last = all.iter().map(|message| message.number).max();
        last.unwrap_or_default() - own_last
    }
}
