//! A device as an app would be: a WebSocket to a gateway, a sync where that says so, and what it knows from both.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, bail};
use futures::{SinkExt as _, StreamExt as _};
use schemas::{NextOffset, Partition, SyncToken};
use serde_json::{Value, json};
use system_tests::TestEnv;
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// For so long a device waits for a frame before others have their turn.
const TURN: Duration = Duration::from_millis(2);
const ANSWER: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    last_mid: i64,
    chg: i64,
    pinned: bool,
    muted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    name: String,
    last_mid: i64,
}

pub struct Device {
    pub uid: i64,
    id: &'static str,
    class: &'static str,
    token: Option<SyncToken>,
    conversations: BTreeMap<String, Conversation>,
    groups: BTreeMap<String, Group>,
    socket: Option<Socket>,
    /// How many syncs had everything, and how many hellos were answered with a stream.
    pub full: usize,
    pub resumed: usize,
}

impl Device {
    pub fn new(uid: i64, id: &'static str, class: &'static str) -> Self {
        Self {
            uid,
            id,
            class,
            token: None,
            conversations: BTreeMap::new(),
            groups: BTreeMap::new(),
            socket: None,
            full: 0,
            resumed: 0,
        }
    }

    pub fn knows(&self) -> (&BTreeMap<String, Conversation>, &BTreeMap<String, Group>) {
        (&self.conversations, &self.groups)
    }

    /// The connection breaks.
    pub fn lose(&mut self) {
        self.socket = None;
    }

    /// Connects where it is not connected, and handles what is there.
    pub async fn turn(&mut self, env: &TestEnv, port: u16) -> Result<()> {
        let mut socket = match self.socket.take() {
            Some(socket) => socket,
            None => match self.connect(env, port).await? {
                Some(socket) => socket,
                None => return Ok(()),
            },
        };
        loop {
            match timeout(TURN, socket.next()).await {
                // Nothing is there.
                Err(_) => {
                    self.socket = Some(socket);
                    return Ok(());
                }
                Ok(Some(Ok(Message::Text(text)))) => {
                    let frame: Value = serde_json::from_str(&text)?;
                    if self.take(&frame)?
                        && send(&mut socket, &json!({"type": "pong"})).await.is_err()
                    {
                        return Ok(());
                    }
                }
                Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
                // The gateway is gone, or goes.
                Ok(_) => return Ok(()),
            }
        }
    }

    /// `None` where the gateway is not there, or goes meanwhile.
    async fn connect(&mut self, env: &TestEnv, port: u16) -> Result<Option<Socket>> {
        let url = format!("ws://127.0.0.1:{port}/v1/connect?uid={}", self.uid);
        let Ok(Ok((mut socket, _))) = timeout(ANSWER, connect_async(url)).await else {
            return Ok(None);
        };
        let token = self.token.as_ref().map(ToString::to_string);
        let device = json!({"id": self.id, "class": self.class});
        let mut frame = json!({"type": "hello", "device": device, "since": token});
        loop {
            if send(&mut socket, &frame).await.is_err() {
                return Ok(None);
            }
            let Ok(Some(Ok(Message::Text(text)))) = timeout(ANSWER, socket.next()).await else {
                return Ok(None);
            };
            let answer: Value = serde_json::from_str(&text)?;
            match answer["type"].as_str() {
                Some("welcome") => {
                    self.resumed += 1;
                    return Ok(Some(socket));
                }
                Some("sync_required") => {
                    let pause = answer["after_ms"].as_u64().context("no pause")?;
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                    self.sync(env).await?;
                    frame = json!({"type": "resume", "since": self.token.as_ref().map(ToString::to_string)});
                }
                Some("reconnect" | "ping") => return Ok(None),
                _ => bail!("{answer}"),
            }
        }
    }

    /// Follows the pages of a sync.
    pub async fn sync(&mut self, env: &TestEnv) -> Result<()> {
        let mut is_first = true;
        loop {
            let since = self.token.as_ref().map(|token| format!("&since={token}"));
            let path = format!(
                "/v1/users/{}/sync?limit=3{}",
                self.uid,
                since.unwrap_or_default()
            );
            let answer: Value = env.client.ask(&path).await?;
            if answer["full"] == true && is_first {
                (self.conversations, self.groups) = Default::default();
                self.full += 1;
            }
            is_first = false;
            self.take_page(&answer)?;
            if answer["more"] == false {
                return Ok(());
            }
        }
    }

    fn take_page(&mut self, answer: &Value) -> Result<()> {
        let rows = |name: &str| answer[name].as_array().with_context(|| format!("{answer}"));
        for row in rows("conversations")? {
            let conversation = Conversation {
                last_mid: number(row, "last_mid")?,
                chg: number(row, "chg")?,
                pinned: row["pinned"] == true,
                muted: row["muted"] == true,
            };
            self.conversations.insert(text(row, "peer")?, conversation);
        }
        for row in rows("groups")? {
            let group = Group {
                name: text(row, "name")?,
                last_mid: number(row, "last_mid")?,
            };
            self.groups.insert(text(row, "gid")?, group);
        }
        for gid in rows("left")? {
            self.groups.remove(gid.as_str().context("no gid")?);
        }
        self.token = Some(text(answer, "next")?.parse()?);
        Ok(())
    }

    /// Handles a frame; whether it is to be answered.
    fn take(&mut self, frame: &Value) -> Result<bool> {
        match frame["type"].as_str() {
            Some("ping") => {
                let covered: SyncToken = text(frame, "token")?.parse()?;
                for partition in Partition::all() {
                    self.advance(partition, covered.get(partition))?;
                }
                return Ok(true);
            }
            Some("head") => {
                let (mid, gid) = (number(frame, "mid")?, text(frame, "gid")?);
                if let Some(group) = self.groups.get_mut(&gid) {
                    group.last_mid = group.last_mid.max(mid);
                }
            }
            Some("event") => self.take_event(frame)?,
            Some("reconnect") => return Ok(false),
            _ => bail!("{frame}"),
        }
        let at = text(frame, "at")?;
        let (partition, offset) = at.split_once(':').context("no position")?;
        let partition = partition.parse::<i64>()?.try_into()?;
        self.advance(partition, NextOffset::after(offset.parse()?))?;
        Ok(false)
    }

    fn advance(&mut self, partition: Partition, next: NextOffset) -> Result<()> {
        let token = self.token.as_mut().context("no token")?;
        token.advance(partition, next);
        Ok(())
    }

    fn take_event(&mut self, frame: &Value) -> Result<()> {
        let me = self.uid.to_string();
        if let Some(message) = frame.get("message") {
            let mid = number(message, "mid")?;
            if let Some(gid) = message.get("gid").and_then(Value::as_str) {
                if let Some(group) = self.groups.get_mut(gid) {
                    group.last_mid = group.last_mid.max(mid);
                }
            } else {
                let other = other(&me, message, "srcid", "destid")?;
                let conversation = self.conversations.entry(other).or_default();
                conversation.last_mid = conversation.last_mid.max(mid);
            }
        } else if let Some(change) = frame.get("message_change") {
            let other = other(&me, change, "by", "peer")?;
            let conversation = self.conversations.entry(other).or_default();
            conversation.chg = conversation.chg.max(number(change, "chg")?);
        } else if let Some(change) = frame.get("contact_change") {
            let conversation = self.conversations.entry(text(change, "peer")?).or_default();
            conversation.pinned = change["pinned"] == true;
            conversation.muted = change["muted"] == true;
        } else if let Some(change) = frame.get("group_change") {
            self.take_group_change(&me, change)?;
        } else if frame.get("read_position").is_none() {
            bail!("{frame}");
        }
        Ok(())
    }

    fn take_group_change(&mut self, me: &str, change: &Value) -> Result<()> {
        let gid = text(change, "gid")?;
        let members = change["members"].as_array().context("no members")?;
        let named = members.iter().find(|member| member["uid"] == me);
        if named.is_some_and(|member| member["role"].is_null()) {
            self.groups.remove(&gid);
        } else if self.groups.contains_key(&gid) || named.is_some() {
            let group = Group {
                name: text(change, "name")?,
                last_mid: number(change, "last_mid")?,
            };
            self.groups.insert(gid, group);
        }
        Ok(())
    }
}

/// The other user of a conversation.
fn other(me: &str, value: &Value, one: &str, two: &str) -> Result<String> {
    let (one, two) = (text(value, one)?, text(value, two)?);
    Ok(if one == me { two } else { one })
}

fn text(value: &Value, name: &str) -> Result<String> {
    let text = value[name].as_str();
    Ok(text
        .with_context(|| format!("no {name}: {value}"))?
        .to_owned())
}

fn number(value: &Value, name: &str) -> Result<i64> {
    let number = value[name].as_i64();
    number.with_context(|| format!("no {name}: {value}"))
}

async fn send(socket: &mut Socket, frame: &Value) -> Result<()> {
    socket.send(Message::text(frame.to_string())).await?;
    Ok(())
}
