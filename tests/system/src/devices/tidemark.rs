//! A device of Tidemark, on Tidemark's own client.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, bail};
use client::{
    Client, ClientError,
    device::{Device as ClientDevice, DeviceSettings, DeviceState, MAX_MSG_BYTES, Outbox, Update},
};
use schemas::{ClientMsgId, ConversationId, DeviceClass, DeviceId, Mid, Recipient, UserId};
use tokio::time::{Instant, sleep, timeout_at};

use super::{Device, DeviceCounts};
use crate::TestEnv;

/// How long after a failed fetch it is repeated.
const AGAIN_AFTER: Duration = Duration::from_millis(300);
/// How many of the last updates an error shows.
const HISTORY: usize = 12;

pub(crate) struct TidemarkDevice {
    client: Client,
    settings: DeviceSettings,
    device: ClientDevice,
    /// Whether the device reports read positions, and fetches only chats that its user opens; otherwise it reports none, and fetches after each sync.
    reads: bool,
    /// Whether a sync has brought heads, whose messages are to be fetched.
    has_to_fetch: bool,
    /// Messages without an answer, by their texts, which are their ids.
    sent: BTreeMap<String, ConversationId>,
    /// The answered messages, with their numbers.
    acknowledged: Vec<(ConversationId, String, Option<Mid>)>,
    last_read: Mid,
    counts: DeviceCounts,
    /// The last updates, except messages.
    history: VecDeque<String>,
}

impl TidemarkDevice {
    /// A device that knows nothing yet. It may use all gateways, starting with `first`.
    pub(crate) fn new(
        env: &TestEnv,
        uid: UserId,
        class: DeviceClass,
        (id, first): (String, usize),
        reads: bool,
    ) -> Result<Self> {
        let client = env.client.api().clone();
        let mut gateways = env.gateway_urls()?;
        let first = first % gateways.len();
        gateways.rotate_left(first);
        let settings = DeviceSettings {
            gateways,
            device: DeviceId::try_from(id)?,
            class,
            name: String::new(),
            token: None,
            max_msg_bytes: MAX_MSG_BYTES,
        };
        let state = DeviceState::new(uid);
        Ok(Self {
            device: ClientDevice::new(client.clone(), settings.clone(), state, Outbox::default())?,
            client,
            settings,
            reads,
            has_to_fetch: false,
            sent: BTreeMap::new(),
            acknowledged: Vec::new(),
            last_read: Mid::ZERO,
            counts: DeviceCounts {
                devices: 1,
                ..DeviceCounts::default()
            },
            history: VecDeque::new(),
        })
    }

    pub(crate) fn state(&self) -> &DeviceState {
        self.device.state()
    }

    pub(crate) fn class(&self) -> DeviceClass {
        self.settings.class
    }

    /// The answered messages: conversation, id, and number.
    pub(crate) fn answers(&self) -> &[(ConversationId, String, Option<Mid>)] {
        &self.acknowledged
    }

    /// The last read position that the device has reported; it has one chat.
    pub(crate) fn last_read(&self) -> Mid {
        self.last_read
    }

    pub(crate) fn history(&self) -> String {
        format!("{:?}", self.history)
    }

    pub(crate) fn counts(&self) -> DeviceCounts {
        DeviceCounts {
            sent: self.acknowledged.len() as u64,
            full_syncs: self.state().full_syncs().saturating_sub(1),
            ..self.counts
        }
    }

    /// A device that has only the result of a sync, and of the fetches after it.
    async fn fresh(&self) -> Result<ClientDevice> {
        let mut state = DeviceState::new(self.state().uid());
        while state.take_sync(self.client.sync(state.uid(), state.token(), None).await?) {}
        let (client, settings) = (self.client.clone(), self.settings.clone());
        let mut fresh = ClientDevice::new(client, settings, state, Outbox::default())?;
        fetch_all(&mut fresh).await?;
        Ok(fresh)
    }

    fn take(&mut self, update: Update) -> Result<bool> {
        if !matches!(update, Update::Chat(_) | Update::Sent(..)) {
            let event = format!("{:?} {update:?}", SystemTime::now());
            self.history.push_back(event);
            self.history
                .drain(..self.history.len().saturating_sub(HISTORY));
        }
        match update {
            Update::Connected => self.counts.connections += 1,
            Update::Synced => {
                self.counts.syncs += 1;
                self.has_to_fetch = !self.reads;
            }
            Update::Sent(id, mid) => {
                let id = id.into_string();
                let chat = self.sent.remove(&id);
                let chat = chat.with_context(|| format!("{id} is answered twice"))?;
                self.acknowledged.push((chat, id, mid));
            }
            Update::Refused {
                client_msg_id,
                reason,
                detail,
            } => bail!("{client_msg_id} is refused: {reason} ({detail})"),
            Update::Disconnected(_) => return Ok(false),
            _ => {}
        }
        Ok(true)
    }

    async fn step(&mut self) -> Result<bool> {
        // If this is dropped before its end, the next call fetches again.
        if self.has_to_fetch {
            match fetch_all(&mut self.device).await {
                Ok(()) => self.has_to_fetch = false,
                Err(error) if error.is_retryable() => sleep(AGAIN_AFTER).await,
                Err(error) => return Err(error.into()),
            }
            return Ok(true);
        }
        let update = self.device.next().await?;
        self.take(update)
    }

    fn recipient(&self, chat: ConversationId) -> Recipient {
        match chat {
            ConversationId::Direct(direct) => Recipient::User(direct.peer_of(self.state().uid())),
            ConversationId::Group(gid) => Recipient::Group(gid),
        }
    }

    /// A chat in the state of the device.
    pub(crate) fn chat(&self, chat: ConversationId) -> Option<&client::device::Chat> {
        self.state().chats().get(&self.recipient(chat))
    }
}

async fn fetch_all(device: &mut ClientDevice) -> Result<(), ClientError> {
    let chats = device.state().chats().iter();
    let missing = chats.filter(|(_, chat)| chat.missing().is_some());
    let missing: Vec<Recipient> = missing.map(|(key, _)| *key).collect();
    for key in missing {
        device.fetch(key).await?;
    }
    Ok(())
}

impl Device for TidemarkDevice {
    async fn listen(&mut self, until: Instant) -> Result<bool> {
        let mut heard = false;
        while let Ok(stepped) = timeout_at(until, self.step()).await {
            heard |= stepped.with_context(|| {
                let (device, uid) = (&self.settings.device, self.state().uid());
                format!("{device} of {uid}: {:?}", self.history)
            })?;
        }
        Ok(heard)
    }

    /// As if the program was killed, and started again with its stored state. The device goes to another gateway, if there is one.
    fn drop_connection(&mut self) -> Result<()> {
        let stored = serde_json::to_string(&(self.device.state(), self.device.outbox()))?;
        let (state, outbox) = serde_json::from_str(&stored)?;
        self.settings.gateways.rotate_left(1);
        let (client, settings) = (self.client.clone(), self.settings.clone());
        self.device = ClientDevice::new(client, settings, state, outbox)?;
        Ok(())
    }

    async fn send(&mut self, chat: ConversationId, text: String) -> Result<()> {
        let id = ClientMsgId::try_from(text.clone())?;
        self.device.send(self.recipient(chat), id, text.clone())?;
        self.sent.insert(text, chat);
        Ok(())
    }

    fn read(&mut self, chat: ConversationId) {
        let last = self.chat(chat).map_or(Mid::ZERO, |chat| chat.last_mid);
        if self.reads && last > Mid::ZERO {
            self.counts.reads += 1;
            self.last_read = self.last_read.max(last);
            self.device.read(self.recipient(chat), last);
        }
    }

    fn unanswered(&self) -> usize {
        self.device.outbox().items().len()
    }

    async fn open_all(&mut self) -> Result<()> {
        match self.state().token() {
            None => self.device = self.fresh().await?,
            Some(_) => fetch_all(&mut self.device).await?,
        }
        Ok(())
    }
}
