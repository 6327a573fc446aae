//! Tidemark: all services and servers of an environment, and the client that comes with it.

use std::time::Duration;

use anyhow::{Result, bail};
use client::{
    ClientError, Event,
    device::{ChatKey, Device as ClientDevice, DeviceSettings, DeviceState, Update},
};
use rustix::process::Signal;
use schemas::{
    ChangeGroup, ClientMsgId, CreateGroup, DeviceClass, DeviceId, GroupAction, GroupId, UserId,
};
use tokio::time::{Instant, sleep, timeout_at};

use super::{Chat, Device, Had, Options, System};
use crate::{SERVICES, Settings, TestEnv};

/// The uid of the first user, and the number of the group.
const FIRST: i64 = 8_000_000;
/// How long after a fetch that failed.
const AGAIN_AFTER: Duration = Duration::from_millis(300);
const SERVERS: [&str; 3] = ["kafka", "redis", "mariadb"];

pub(crate) struct Tidemark {
    env: TestEnv,
}

impl System for Tidemark {
    type Device = TidemarkDevice;

    async fn start(options: &Options) -> Result<Self> {
        let env = TestEnv::start(Settings::USUAL).await?;
        let members = (1..options.users).map(uid).collect::<Result<_>>()?;
        let create = GroupAction::Create(CreateGroup {
            name: "all".to_owned(),
            members,
            open: false,
            whole_history: true,
        });
        let create = Event::GroupChange(ChangeGroup {
            gid: gid()?,
            by: uid(0)?,
            by_user: false,
            action: create,
        });
        let at = env.client.post_event(&create).await?;
        let path = format!("/v1/groups/{FIRST}?uid={FIRST}&after={at}");
        let _: serde_json::Value = env.client.ask(&path).await?;
        Ok(Self { env })
    }

    fn device(&self, user: usize, class: DeviceClass) -> Result<TidemarkDevice> {
        let client = self.env.client.api().clone();
        let settings = DeviceSettings {
            gateways: self.env.gateway_urls()?,
            device: DeviceId::try_from(class.to_string())?,
            class,
            name: String::new(),
            token: None,
        };
        let uid = uid(user)?;
        let device = ClientDevice::new(client.clone(), settings.clone(), DeviceState::new(uid))?;
        Ok(TidemarkDevice {
            client,
            settings,
            user,
            device,
            unanswered: Vec::new(),
            is_new: true,
            has_to_fetch: false,
            acknowledged: Vec::new(),
        })
    }

    async fn kill(&self) -> Result<()> {
        for name in SERVICES.into_iter().chain(SERVERS) {
            self.env.end(name, Signal::KILL).await?;
        }
        self.env.start_servers().await?;
        self.env.start_services(&SERVICES).await
    }
}

fn uid(user: usize) -> Result<UserId> {
    Ok(UserId::try_from(FIRST + user as i64)?)
}

fn gid() -> Result<GroupId> {
    Ok(GroupId::try_from(FIRST)?)
}

pub(crate) struct TidemarkDevice {
    client: client::Client,
    settings: DeviceSettings,
    user: usize,
    device: ClientDevice,
    /// An application stores what it sends until it is answered.
    unanswered: Vec<(Chat, ClientMsgId)>,
    /// The client has not been told yet what is unanswered.
    is_new: bool,
    /// A sync brings heads: their messages are fetched.
    has_to_fetch: bool,
    acknowledged: Vec<(Chat, String)>,
}

impl TidemarkDevice {
    fn key(&self, chat: Chat) -> Result<ChatKey> {
        Ok(match chat.peer_of(self.user) {
            Some(peer) => ChatKey::User(uid(peer)?),
            None => ChatKey::Group(gid()?),
        })
    }

    fn take(&mut self, update: Update) -> Result<bool> {
        match update {
            Update::Sent(id, _) => {
                let sent = self.unanswered.iter().position(|(_, sent)| *sent == id);
                if let Some(sent) = sent {
                    let (chat, id) = self.unanswered.remove(sent);
                    self.acknowledged.push((chat, id.to_string()));
                }
            }
            Update::Refused(id, reason) => bail!("{id} is refused: {reason}"),
            Update::Synced => self.has_to_fetch = true,
            Update::Disconnected(_) => return Ok(false),
            _ => {}
        }
        Ok(true)
    }

    async fn step(&mut self) -> Result<bool> {
        if self.is_new {
            for (chat, id) in self.unanswered.clone() {
                let key = self.key(chat)?;
                self.device.send(key, id.clone(), id.to_string()).await;
            }
            self.is_new = false;
        }
        // Dropped before its end, the next call fetches again.
        if self.has_to_fetch {
            match self.fetch_all().await {
                Ok(()) => self.has_to_fetch = false,
                Err(error) if error.is_retryable() => sleep(AGAIN_AFTER).await,
                Err(error) => return Err(error.into()),
            }
            return Ok(true);
        }
        let update = self.device.next().await?;
        self.take(update)
    }

    async fn fetch_all(&mut self) -> Result<(), ClientError> {
        let chats = self.device.state().chats().iter();
        let missing = chats.filter(|(_, chat)| chat.missing().is_some());
        let missing: Vec<ChatKey> = missing.map(|(key, _)| *key).collect();
        for key in missing {
            self.device.fetch(key).await?;
        }
        Ok(())
    }
}

impl Device for TidemarkDevice {
    async fn listen(&mut self, until: Instant) -> Result<bool> {
        let mut heard = false;
        while let Ok(stepped) = timeout_at(until, self.step()).await {
            heard |= stepped?;
        }
        Ok(heard)
    }

    fn drop_connection(&mut self) -> Result<()> {
        let state = self.device.state().clone();
        self.device = ClientDevice::new(self.client.clone(), self.settings.clone(), state)?;
        self.is_new = true;
        Ok(())
    }

    async fn send(&mut self, chat: Chat, text: String) {
        // Both are made here, and right.
        if let (Ok(id), Ok(key)) = (ClientMsgId::try_from(text.clone()), self.key(chat)) {
            self.unanswered.push((chat, id.clone()));
            if !self.is_new {
                self.device.send(key, id, text).await;
            }
        }
    }

    fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    fn acknowledged(&self) -> &[(Chat, String)] {
        &self.acknowledged
    }

    async fn open_all(&mut self) -> Result<()> {
        Ok(self.fetch_all().await?)
    }

    fn messages(&self, chat: Chat) -> Vec<Had> {
        let chat = self.key(chat).ok();
        let chat = chat.and_then(|key| self.device.state().chats().get(&key));
        let messages = chat.into_iter().flat_map(|chat| chat.messages.values());
        messages
            .map(|message| Had {
                number: message.mid.get(),
                text: message.msg.clone(),
                is_own: message.srcid == self.device.state().uid(),
            })
            .collect()
    }

    async fn unread(&mut self, chat: Chat) -> Result<Option<i64>> {
        let key = self.key(chat)?;
        let chat = self.device.state().chats().get(&key);
        Ok(chat.and_then(|chat| chat.unread[self.settings.class]))
    }

    /// Nobody says that something is read; who sends to a group has read it up to there.
    fn unread_of(chat: Chat, all: &[Had]) -> i64 {
        let of_others = all.iter().filter(|message| !message.is_own);
        let own_last = all.iter().filter(|message| message.is_own);
        let own_last = own_last.map(|message| message.number).max();
        let own_last = own_last.filter(|_| chat == Chat::Group).unwrap_or_default();
        of_others
            .filter(|message| message.number > own_last)
            .count() as i64
    }
}
