//! A device of a user: what it knows, and the connection that keeps it so.

mod chat;
mod link;
mod outbox;
mod pace;
mod reader;
mod settings;
mod socket;
mod state;
mod update;

#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    time::{Duration, SystemTime},
};

use api::{ClientFrame, FocusFrame, Resume, TypingFrame};
use schemas::{ClientMsgId, Mid, Recipient};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

pub use api::{
    ChangeEvent, ContactEvent, EventFrame, FramedEvent, GroupChangeEvent, HeadFrame, MemberEvent,
    MessageEvent, PresenceBody, ProfileEvent, ReadEvent, ServerFrame,
};

pub use self::{
    chat::{Chat, ChatWith, Missing},
    outbox::{Outbox, QueueItem},
    settings::{DeviceSettings, MAX_MSG_BYTES},
    state::{DeviceProfile, DeviceState},
    update::Update,
};
use self::{
    link::{Link, Running, finish},
    outbox::{Origin, Repeat},
    pace::Rates,
    reader::{ChatReader, Looked},
};
use crate::{Client, ClientError, SyncAnswer};

/// How often typing is told: a gateway passes on as much.
const TYPING_EVERY: Duration = Duration::from_secs(1);

/// A device that is connected, or tries to be.
pub struct Device {
    client: Client,
    state: DeviceState,
    outbox: Outbox,
    link: Link,
    /// A page of a sync that the gateway requires.
    syncing: Running<SyncAnswer>,
    /// Old sends of a chat are looked for.
    looking: Running<Looked>,
    /// The stream of this connection has begun.
    is_connected: bool,
    /// What the user looks at.
    focus: Option<Recipient>,
    /// The gateway knows of the focus.
    is_focus_told: bool,
    /// When the gateway takes the next item.
    flush_at: Option<Instant>,
    typed_at: Option<Instant>,
    /// What [`Self::next`] has yet to return.
    updates: VecDeque<Update>,
    /// Why the device does not connect any more, if it does not.
    ended: Option<ClientError>,
}

impl Device {
    /// A device that is not connected yet. `state` and `outbox` are as [`Self::into_parts`] gave them out; both are empty at first.
    ///
    /// # Errors
    /// A setting would fail at each attempt; the error names it.
    pub fn new(
        client: Client,
        settings: DeviceSettings,
        state: DeviceState,
        mut outbox: Outbox,
    ) -> Result<Self, ClientError> {
        outbox.disconnected();
        Ok(Self {
            link: Link::new(&client, settings, state.uid())?,
            client,
            state,
            outbox,
            syncing: JoinSet::new(),
            looking: JoinSet::new(),
            is_connected: false,
            focus: None,
            is_focus_told: true,
            flush_at: None,
            typed_at: None,
            updates: VecDeque::new(),
            ended: None,
        })
    }

    /// What the device knows.
    #[must_use]
    pub fn state(&self) -> &DeviceState {
        &self.state
    }

    /// What has not been answered.
    #[must_use]
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Both, to be stored if they are to outlive the program; the connection ends. An update that [`Self::next`] has not returned is lost.
    #[must_use]
    pub fn into_parts(self) -> (DeviceState, Outbox) {
        (self.state, self.outbox)
    }

    /// Waits for the next update. Connects, syncs and resumes as needed, and goes on after an earlier call was dropped.
    ///
    /// # Errors
    /// A gateway said that the device is not to come back, or a service that the call cannot be answered (a status below 500 other than 408 and 429):
    /// the next call ends in the same way.
    pub async fn next(&mut self) -> Result<Update, ClientError> {
        loop {
            if let Some(update) = self.updates.pop_front() {
                return Ok(update);
            }
            if let Some(error) = &self.ended {
                return Err(error.clone());
            }
            if let Err(error) = self.step().await {
                self.failed(error);
            }
        }
    }

    /// Does what is to be done next. If this call is dropped at any point, the next call does it.
    async fn step(&mut self) -> Result<(), ClientError> {
        if self.link.is_idle() {
            self.link.connect(self.since())?;
        }
        let again_at = self.outbox.again_at();
        tokio::select! {
            frame = self.link.next() => self.take(frame?),
            answer = finish(&mut self.syncing) => {
                self.synced(answer?);
                Ok(())
            }
            looked = finish(&mut self.looking) => {
                self.looked(looked?);
                Ok(())
            }
            () = sleep_until(again_at.unwrap_or_else(Instant::now)), if again_at.is_some() => {
                self.outbox.again();
                self.flush();
                Ok(())
            }
            () = sleep_until(self.flush_at.unwrap_or_else(Instant::now)), if self.flush_at.is_some() => {
                self.flush();
                Ok(())
            }
        }
    }

    /// Sends a message, as soon as there is a connection and [`Self::next`] is called; [`Update::Sent`] or [`Update::Refused`] tells the outcome.
    ///
    /// # Errors
    /// It would be refused each time: no text, or one that is too long or has a NUL character.
    pub fn send(
        &mut self,
        to: Recipient,
        client_msg_id: ClientMsgId,
        msg: String,
    ) -> Result<(), ClientError> {
        self.link.settings().check_message(&msg)?;
        let chat = self.state.chats().get(&to);
        let origin = Origin {
            sent_at: SystemTime::now(),
            after: chat.map_or(Mid::ZERO, |chat| chat.last_mid),
        };
        let item = QueueItem::Send {
            to,
            client_msg_id,
            msg,
        };
        self.outbox.send(item, origin);
        self.flush();
        Ok(())
    }

    /// Says that the user has read a chat up to a message, as soon as there is a connection and [`Self::next`] is called.
    pub fn read(&mut self, of: Recipient, mid: Mid) {
        self.outbox.push(QueueItem::Read { of, mid });
        self.flush();
    }

    /// Says that the user types in a chat: for every key that is pressed, since it is told once a second at most. Lost if there is no connection, or
    /// too much was written before.
    pub fn typing(&mut self, to: Recipient) {
        if self.is_connected && self.typed_at.is_none_or(|at| at.elapsed() >= TYPING_EVERY) {
            self.typed_at = Some(Instant::now());
            let (to, gid) = to.uid_or_gid();
            let frame = ClientFrame::Typing(TypingFrame { to, gid });
            let _ = self.link.try_write(&frame);
        }
    }

    /// Says which chat the user looks at, or none: [`Update::Presence`] tells whether its user is there, and [`Update::Typing`] who types in it if it
    /// is a group.
    pub fn focus(&mut self, at: Option<Recipient>) {
        self.focus = at;
        self.is_focus_told = false;
        self.flush();
    }

    fn write_focus(&mut self) -> Result<(), Instant> {
        if self.is_focus_told {
            return Ok(());
        }
        let (peer, gid) = self.focus.map(Recipient::uid_or_gid).unwrap_or_default();
        let focus = FocusFrame { peer, gid };
        self.link.try_write(&ClientFrame::Focus(focus))?;
        self.is_focus_told = true;
        Ok(())
    }

    /// Fetches what is missing of a chat. Pings are answered meanwhile; what else comes is for the next call of [`Self::next`].
    ///
    /// # Errors
    /// The call was refused, or not answered in time.
    pub async fn fetch(&mut self, key: Recipient) -> Result<(), ClientError> {
        while self.fetch_pages(key).await? {}
        Ok(())
    }

    /// Fetches messages, then changes. Returns whether the chat has begun anew meanwhile: then messages are missing again.
    async fn fetch_pages(&mut self, key: Recipient) -> Result<bool, ClientError> {
        let messages = |reader: ChatReader, missing: Missing| reader.messages(missing.after_mid);
        while let Some(page) = self.page(key, messages).await? {
            if self.state.take_messages(key, page).is_none() {
                break;
            }
        }
        let begun = self.missing(key);
        let mut next = begun.map(|missing| missing.after_changes);
        while let Some(after) = next {
            let changes = |reader: ChatReader, _| reader.changes(after);
            let Some(page) = self.page(key, changes).await? else {
                break;
            };
            if self.missing(key).map(|now| now.after_mid) < begun.map(|begun| begun.after_mid) {
                return Ok(true);
            }
            next = self.state.take_changes(key, after, page);
        }
        Ok(false)
    }

    fn missing(&self, key: Recipient) -> Option<Missing> {
        self.state.chats().get(&key)?.missing()
    }

    /// Asks for a page of a chat. A ping has to be answered meanwhile, and its pong says that everything before the ping is handled. If that has changed the
    /// chat, the page could undo the change, so another page is asked for, from where the chat is by then, since it may have begun anew. `None` if nothing of
    /// the chat is missing.
    async fn page<T, F: Future<Output = Result<T, ClientError>>>(
        &mut self,
        of: Recipient,
        ask: impl Fn(ChatReader, Missing) -> F,
    ) -> Result<Option<T>, ClientError> {
        while let Some(missing) = self.missing(of) {
            let reader = ChatReader::new(&self.client, &self.state, of);
            let mut asked = Box::pin(ask(reader, missing));
            loop {
                let heard = tokio::select! {
                    page = &mut asked => return page.map(Some),
                    heard = self.link.wait_for_ping(), if self.ended.is_none() => heard,
                };
                if self.take_waiting(heard, of) {
                    break;
                }
            }
        }
        Ok(None)
    }

    /// Takes the frames up to a ping, or none if the connection is gone. Returns whether the chat has changed.
    fn take_waiting(&mut self, heard: Result<(), ClientError>, of: Recipient) -> bool {
        let known = self.updates.len();
        let taken = heard.and_then(|()| {
            while let Some(frame) = self.link.take_waiting() {
                self.take(frame)?;
            }
            Ok(())
        });
        if let Err(error) = taken {
            self.failed(error);
        }
        let mut learned = self.updates.range(known..);
        learned.any(|update| *update == Update::Chat(of))
    }

    /// Takes a page of a sync. After the last one the stream goes on.
    fn synced(&mut self, answer: SyncAnswer) {
        if self.state.take_sync(answer) {
            return self.sync(Duration::ZERO);
        }
        let since = self.since().unwrap_or_default();
        self.link.write(&ClientFrame::Resume(Resume { since }));
        self.updates.push_back(Update::Synced);
    }

    /// Asks for the next page of a sync.
    fn sync(&mut self, after: Duration) {
        self.syncing
            .spawn(reader::sync(&self.client, &self.state, after));
    }

    fn since(&self) -> Option<String> {
        self.state.token().map(ToString::to_string)
    }

    fn take(&mut self, frame: ServerFrame<'static>) -> Result<(), ClientError> {
        let update = match frame {
            ServerFrame::Welcome {
                frames_per_s,
                bytes_per_s,
                ..
            } => {
                self.is_connected = true;
                self.link.welcomed(Rates {
                    frames_per_s,
                    bytes_per_s,
                });
                self.is_focus_told = self.focus.is_none();
                self.settle_repeats();
                self.flush();
                Some(Update::Connected)
            }
            ServerFrame::SyncRequired { after_ms, .. } => {
                self.sync(Duration::from_millis(after_ms));
                None
            }
            ServerFrame::Event(event) => self.take_event(event).map(Update::Chat),
            ServerFrame::Head(head) => self.state.take_head(head).map(Update::Chat),
            ServerFrame::Ping { token } => {
                if let Some(token) = token {
                    let invalid = |error| ClientError::invalid_response(self.link.url(), error);
                    self.state.take_ping(&token.parse().map_err(invalid)?);
                }
                self.link.write(&ClientFrame::Pong {});
                None
            }
            answer @ (ServerFrame::Accepted { .. }
            | ServerFrame::Sent { .. }
            | ServerFrame::Refused { .. }) => self.take_answer(answer),
            ServerFrame::Typing { from, gid, .. } => {
                let chat = gid.map_or(Recipient::User(from), Recipient::Group);
                Some(Update::Typing(chat, from))
            }
            ServerFrame::Presence(presence) => Some(Update::Presence(presence)),
            ServerFrame::Reconnect { after_ms } => {
                let after = Duration::from_millis(after_ms);
                self.disconnected("the gateway ends".into(), after);
                None
            }
            ServerFrame::Error { detail } => Some(Update::Error(detail.into_owned())),
            // The close that follows says the same.
            ServerFrame::Replaced | ServerFrame::Unknown => None,
        };
        self.updates.extend(update);
        Ok(())
    }

    /// Takes an event. An event that is known already is no progress of the device: a gateway may tell the same again and then close.
    fn take_event(&mut self, event: EventFrame<'static>) -> Option<Recipient> {
        let at = event.at;
        if self.state.knows(at) {
            return None;
        }
        self.link.gets_on();
        let changed = self.state.take_event(event);
        let profile = self.state.profile();
        if profile.is_some_and(|profile| profile.at == at) {
            self.updates.push_back(Update::Profile);
        }
        changed
    }

    /// What has become of a send or a read.
    fn take_answer(&mut self, frame: ServerFrame<'static>) -> Option<Update> {
        match frame {
            ServerFrame::Accepted { reference, .. } => {
                self.outbox.accepted(&reference);
                self.flush();
                None
            }
            ServerFrame::Sent { reference, mid, .. } => {
                let mid = mid.and_then(|mid| Mid::try_from(mid).ok());
                let item = self.answered(&reference)?;
                self.link.gets_on();
                match item {
                    QueueItem::Send { client_msg_id, .. } => Some(Update::Sent(client_msg_id, mid)),
                    QueueItem::Read { .. } => None,
                }
            }
            ServerFrame::Refused {
                reference,
                retry: true,
                ..
            } => {
                self.outbox.refused(&reference);
                None
            }
            ServerFrame::Refused {
                reference,
                reason,
                detail,
                ..
            } => Some(match self.answered(&reference)? {
                QueueItem::Send { client_msg_id, .. } => Update::Refused {
                    client_msg_id,
                    reason: reason.into_owned(),
                    detail: detail.into_owned(),
                },
                QueueItem::Read { of, mid } => Update::ReadRefused {
                    of,
                    mid,
                    reason: reason.into_owned(),
                    detail: detail.into_owned(),
                },
            }),
            _ => None,
        }
    }

    /// What was answered, by its `ref`.
    fn answered(&mut self, reference: &str) -> Option<QueueItem> {
        let answered = self.outbox.answered(reference);
        self.flush();
        answered
    }

    /// Writes what is next, as much as may be under way and as fast as the gateway takes it.
    fn flush(&mut self) {
        if !self.is_connected {
            return;
        }
        self.look_for_old();
        let written = self.write_focus().and_then(|()| {
            let link = &mut self.link;
            let write = |frame: &_| link.try_write(frame);
            self.outbox.write(SystemTime::now(), write)
        });
        self.flush_at = written.err();
    }

    /// Settles each send whose message the device has: the send is on the log, and its answer was lost with an earlier connection.
    fn settle_repeats(&mut self) {
        let repeats: Vec<Repeat> = self.outbox.repeats().collect();
        for Repeat {
            seq,
            to,
            client_msg_id,
            ..
        } in repeats
        {
            if let Some(mid) = self.state.mid_of(to, &client_msg_id) {
                self.found(seq, mid);
            }
        }
    }

    /// Looks for sends that are too old to be known as repeats, one chat after the other: one that is on the log already would be there twice.
    fn look_for_old(&mut self) {
        if !self.looking.is_empty() {
            return;
        }
        let now = SystemTime::now();
        let Some(Repeat { to, .. }) = self.outbox.unsure(now).next() else {
            return;
        };
        let sends = self.outbox.unsure(now).filter(|send| send.to == to);
        let look = reader::look(&self.client, &self.state, to, sends.collect());
        self.looking.spawn(look);
    }

    fn looked(&mut self, looked: Looked) {
        for (seq, mid) in looked {
            match mid {
                Some(mid) => self.found(seq, mid),
                None => self.outbox.looked_for(seq),
            }
        }
        self.flush();
    }

    /// Settles a send that is on the log.
    fn found(&mut self, seq: u64, mid: Mid) {
        let item = self.outbox.answered(&seq.to_string());
        if let Some(QueueItem::Send { client_msg_id, .. }) = item {
            let sent = Update::Sent(client_msg_id, Some(mid));
            self.updates.push_back(sent);
        }
    }

    /// Prepares the next attempt to connect, or ends the device if that attempt would end in the same way.
    fn failed(&mut self, error: ClientError) {
        let ends = match &error {
            // The failure of a server, or of a proxy before it while servers change, says nothing about the device.
            ClientError::Problem(problem) => {
                problem.status < 500 && !matches!(problem.status, 408 | 429)
            }
            ClientError::Closed { .. } => !error.is_retryable(),
            ClientError::InvalidField(_) | ClientError::InvalidSettings(_) => true,
            ClientError::Timeout { .. }
            | ClientError::Unreachable { .. }
            | ClientError::BrokenResponse { .. }
            | ClientError::InvalidResponse { .. } => false,
        };
        if !ends {
            return self.disconnected(error.to_string(), Duration::ZERO);
        }
        self.link.disconnect(Duration::ZERO);
        self.is_connected = false;
        self.ended = Some(error);
    }

    fn disconnected(&mut self, why: String, at_least: Duration) {
        self.link.disconnect(at_least);
        self.outbox.disconnected();
        self.syncing = JoinSet::new();
        self.looking = JoinSet::new();
        self.is_connected = false;
        self.flush_at = None;
        self.updates.push_back(Update::Disconnected(why));
    }
}
