//! A device that speaks WuKongIM's protocol.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use schemas::{ConversationId, DeviceClass, DirectConversation, UserId};
use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{GROUP, GROUP_TYPE, PERSON, SUCCESS, post, uid_text};
use crate::{
    devices::Device,
    peer::{
        Had, PeerDevice, group,
        wkproto::{Connection, FromServer, Received, ToServer},
    },
};

/// Forward, from a number on.
const PULL_UP: u64 = 1;
const PAGE: u64 = 500;
const AGAIN_AFTER: Duration = Duration::from_millis(300);

pub(in crate::peer) struct WuKongImDevice {
    uid: UserId,
    class: DeviceClass,
    http: reqwest::Client,
    api: String,
    port: u16,
    connection: Option<Connection>,
    /// The number of the next send.
    sends: u32,
    /// Whether the missed messages have been pulled since it connected.
    is_recovered: bool,
    attempt: Instant,
    chats: BTreeMap<ConversationId, BTreeMap<i64, Had>>,
    unanswered: BTreeMap<u32, (ConversationId, String)>,
    acknowledged: BTreeSet<(ConversationId, String)>,
}

impl WuKongImDevice {
    pub(super) fn new(
        uid: UserId,
        class: DeviceClass,
        http: reqwest::Client,
        (api, port): (String, u16),
    ) -> Self {
        Self {
            uid,
            class,
            http,
            api,
            port,
            connection: None,
            sends: 0,
            is_recovered: false,
            attempt: Instant::now(),
            chats: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
        }
    }

    /// Does the next step; if the call is dropped at any point, the next call does that step.
    async fn step(&mut self) -> Result<bool> {
        if self.connection.is_none() {
            sleep_until(self.attempt).await;
            self.attempt = Instant::now() + AGAIN_AFTER;
            self.connection = Connection::open(self.port).await.ok();
            self.is_recovered = false;
            let connect = ToServer::Connect {
                uid: &uid_text(self.uid),
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
                    self.keep(chat, seq, &uid_text(self.uid), &text);
                    self.acknowledged.insert((chat, text));
                }
            }
            FromServer::Recv(message) => self.receive(message).await?,
            // A failed send is sent again at the next connection, which is made soon.
            FromServer::ConnAck { .. } | FromServer::SendAck { .. } | FromServer::Disconnect => {
                self.connection = None;
            }
            FromServer::Other => {}
        }
        Ok(true)
    }

    async fn receive(&mut self, message: Received) -> Result<()> {
        let is_own = message.from == uid_text(self.uid);
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

    fn chat(&self, kind: u64, peer: &str) -> Result<ConversationId> {
        if kind != u64::from(PERSON) {
            return Ok(group()?.into());
        }
        let peer = peer.strip_prefix('u').and_then(|peer| peer.parse().ok());
        let peer = peer.context("a channel of nobody")?;
        Ok(DirectConversation::new(self.uid, peer).into())
    }

    fn keep(&mut self, chat: ConversationId, number: i64, from: &str, text: &str) {
        let had = Had {
            number,
            text: text.to_owned(),
            is_own: from == uid_text(self.uid),
        };
        self.chats.entry(chat).or_default().insert(number, had);
    }

    fn channel(&self, chat: ConversationId) -> (String, u8) {
        match chat {
            ConversationId::Direct(direct) => (uid_text(direct.peer_of(self.uid)), PERSON),
            ConversationId::Group(_) => (GROUP.to_owned(), GROUP_TYPE),
        }
    }

    async fn write_send(&mut self, number: u32, chat: ConversationId, text: &str) {
        let (channel, kind) = self.channel(chat);
        let send = ToServer::Send {
            number,
            client_msg_no: text,
            channel: &channel,
            kind,
        };
        self.write(&send).await;
    }

    /// A frame that cannot be written is lost with the connection, whose end shows when it is read.
    async fn write(&mut self, frame: &ToServer<'_>) {
        if let Some(connection) = &mut self.connection {
            let _ = connection.write(frame).await;
        }
    }

    /// Pulls the missed messages; if that fails, the connection is made again.
    async fn recover(&mut self) {
        self.is_recovered = self.open_all().await.is_ok();
        if !self.is_recovered {
            self.connection = None;
        }
    }

    /// The conversation list: the newest number and the unread count of each conversation.
    async fn conversations(&self) -> Result<BTreeMap<ConversationId, (i64, i64)>> {
        let (mut all, mut cursor) = (BTreeMap::new(), String::new());
        loop {
            let query = json!({"uid": uid_text(self.uid), "cursor": cursor, "limit": 100});
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

    /// Pulls all messages from the first number on that the device lacks.
    async fn pull(&mut self, chat: ConversationId, last: i64) -> Result<()> {
        let (channel, kind) = self.channel(chat);
        loop {
            let had = self.chats.entry(chat).or_default();
            let Some(from) = (1..=last).find(|number| !had.contains_key(number)) else {
                return Ok(());
            };
            let query = json!({
                "login_uid": uid_text(self.uid), "channel_id": channel, "channel_type": kind,
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
        // An earlier call was dropped in the middle of recovering.
        if self.connection.is_some() && !self.is_recovered {
            self.recover().await;
        }
        Ok(heard)
    }

    fn drop_connection(&mut self) -> Result<()> {
        self.connection = None;
        Ok(())
    }

    async fn send(&mut self, chat: ConversationId, text: String) -> Result<()> {
        self.sends += 1;
        let number = self.sends;
        self.write_send(number, chat, &text).await;
        self.unanswered.insert(number, (chat, text));
        Ok(())
    }

    fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    async fn open_all(&mut self) -> Result<()> {
        for (chat, (last, _)) in self.conversations().await? {
            self.pull(chat, last).await?;
        }
        Ok(())
    }
}

impl PeerDevice for WuKongImDevice {
    fn uid(&self) -> UserId {
        self.uid
    }

    fn acknowledged(&self) -> BTreeSet<(ConversationId, String)> {
        self.acknowledged.clone()
    }

    fn messages(&self, chat: ConversationId) -> Vec<Had> {
        let messages = self.chats.get(&chat).into_iter();
        messages.flat_map(BTreeMap::values).cloned().collect()
    }

    async fn unread(&mut self, chat: ConversationId) -> Result<Option<i64>> {
        let all = self.conversations().await?;
        Ok(all.get(&chat).map(|(_, unread)| *unread))
    }

    /// WuKongIM v3 takes a user's own send as a read up to there, in conversations of two persons, too.
    fn unread_of(_: ConversationId, all: &[Had]) -> i64 {
        let own = all.iter().filter(|message| message.is_own);
        let own_last = own.map(|message| message.number).max().unwrap_or_default();
        let last = all.iter().map(|message| message.number).max();
        last.unwrap_or_default() - own_last
    }
}
