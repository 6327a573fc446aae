//! What a device has to tell its gateway, until it is answered.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use api::{ClientFrame, ReadFrame, SendFrame, ShortText};
use schemas::{ClientMsgId, Mid, Recipient};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// How many may be under way at a time: a gateway closes a connection that sends too fast.
const WINDOW: usize = 32;
/// What is refused for the moment goes out again after this.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// By default the sequencer knows a repeat for three days. A send that has waited for longer than this is looked for first: it could become a second message.
const SURE: Duration = Duration::from_secs(24 * 60 * 60);

/// Messages and read-acks that have not been answered, in order. All go out again on each new connection: a repeat is not a second message. A message
/// waits until the one before it to the same conversation is accepted, which is when the place of that one in the conversation is decided.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outbox {
    /// By `ref`.
    items: BTreeMap<u64, QueueItem>,
    last: u64,
    /// The origins of sends, by `ref`; absent for a send that an earlier version of this program has stored.
    #[serde(default)]
    origins: BTreeMap<u64, Origin>,
    /// Sends that are certainly not on the log: no run of the program has written them yet, or they were looked for since.
    #[serde(skip)]
    fresh: BTreeSet<u64>,
    /// What was written, by `ref`, and whether it is accepted.
    #[serde(skip)]
    written: BTreeMap<u64, bool>,
    #[serde(skip)]
    again: VecDeque<(Instant, u64)>,
}

/// When a message was sent, and after which one of its chat.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Origin {
    pub(super) sent_at: SystemTime,
    pub(super) after: Mid,
}

/// A send that may be on the log already.
#[derive(Clone, Debug)]
pub(super) struct Repeat {
    pub(super) seq: u64,
    pub(super) to: Recipient,
    pub(super) client_msg_id: ClientMsgId,
    /// The newest message of the chat that was known when it was sent.
    pub(super) after: Mid,
}

/// What waits for a connection, or for its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueItem {
    /// A message, until it is known what became of it.
    Send {
        /// To whom.
        to: Recipient,
        /// A repeat with the same id is not a second message.
        client_msg_id: ClientMsgId,
        /// The text.
        msg: String,
    },
    /// A read-ack, until it is on the log.
    Read {
        /// The chat.
        of: Recipient,
        /// The newest message that is read.
        mid: Mid,
    },
}

impl Outbox {
    /// What is not answered yet, oldest first.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &QueueItem> {
        self.items.values()
    }

    /// Puts a message last.
    pub(super) fn send(&mut self, item: QueueItem, origin: Origin) {
        self.push(item);
        self.fresh.insert(self.last);
        self.origins.insert(self.last, origin);
    }

    /// Puts an item last. Of the read-acks of a chat that were not written yet the one with the highest number stands for all.
    pub(super) fn push(&mut self, mut item: QueueItem) {
        if let QueueItem::Read { of, mid } = &mut item {
            let written = &self.written;
            self.items.retain(|seq, earlier| match earlier {
                QueueItem::Read {
                    of: same,
                    mid: before,
                } if same == of && !written.contains_key(seq) => {
                    *mid = (*mid).max(*before);
                    false
                }
                _ => true,
            });
        }
        self.last += 1;
        self.items.insert(self.last, item);
    }

    /// Sends that may be on the log already, oldest first.
    pub(super) fn repeats(&self) -> impl Iterator<Item = Repeat> {
        let stale = self
            .items
            .iter()
            .filter(|(seq, _)| !self.fresh.contains(seq));
        stale.filter_map(|(seq, item)| match item {
            QueueItem::Send {
                to, client_msg_id, ..
            } => Some(Repeat {
                seq: *seq,
                to: *to,
                client_msg_id: client_msg_id.clone(),
                after: self
                    .origins
                    .get(seq)
                    .map_or(Mid::ZERO, |origin| origin.after),
            }),
            QueueItem::Read { .. } => None,
        })
    }

    /// Repeats that the sequencer may not know as such any more: they are to be looked for, and wait until then.
    pub(super) fn unsure(&self, now: SystemTime) -> impl Iterator<Item = Repeat> {
        let is_unsure = move |repeat: &Repeat| self.is_unsure(repeat.seq, now);
        self.repeats().filter(is_unsure)
    }

    fn is_unsure(&self, seq: u64, now: SystemTime) -> bool {
        if self.fresh.contains(&seq) || self.written.contains_key(&seq) {
            return false;
        }
        let sent_at = self.origins.get(&seq).map(|origin| origin.sent_at);
        let age = now.duration_since(sent_at.unwrap_or(UNIX_EPOCH));
        // If the clock went back, the age of the send is not known, so the send counts as old.
        age.map_or(true, |age| age >= SURE)
    }

    /// A send was looked for, and is not on the log.
    pub(super) fn looked_for(&mut self, seq: u64) {
        if self.items.contains_key(&seq) {
            self.fresh.insert(seq);
        }
    }

    /// Writes what may be written now, in order, until `write` refuses a frame.
    ///
    /// # Errors
    /// When the next one may be written, as `write` says.
    pub(super) fn write<Later>(
        &mut self,
        now: SystemTime,
        mut write: impl FnMut(&ClientFrame) -> Result<(), Later>,
    ) -> Result<(), Later> {
        let posting = self.written.iter().filter(|(_, accepted)| !**accepted);
        let mut posting_to: BTreeSet<Recipient> = posting
            .filter_map(|(seq, _)| self.items.get(seq)?.sent_to())
            .collect();
        for (seq, item) in &self.items {
            if self.written.len() >= WINDOW {
                break;
            }
            let is_free = |to| posting_to.insert(to) && !self.is_unsure(*seq, now);
            if !self.written.contains_key(seq) && item.sent_to().is_none_or(is_free) {
                write(&item.frame(*seq))?;
                self.written.insert(*seq, false);
            }
        }
        Ok(())
    }

    /// What was answered, by its `ref`: it is done. `None` if it was answered before.
    pub(super) fn answered(&mut self, reference: &str) -> Option<QueueItem> {
        let seq = reference.parse().ok()?;
        self.written.remove(&seq);
        self.origins.remove(&seq);
        self.fresh.remove(&seq);
        self.items.remove(&seq)
    }

    /// An item is accepted, that is, on the log. A read-ack is done then. A message waits for its number, but the next one to its conversation need not wait.
    pub(super) fn accepted(&mut self, reference: &str) {
        let Some(seq) = reference.parse().ok() else {
            return;
        };
        match self.items.get(&seq) {
            Some(QueueItem::Read { .. }) => drop(self.answered(reference)),
            _ => self.set_accepted(seq, true),
        }
    }

    fn set_accepted(&mut self, seq: u64, is_accepted: bool) {
        if let Some(accepted) = self.written.get_mut(&seq) {
            *accepted = is_accepted;
        }
    }

    /// An item was refused for the moment, and is to be written again.
    pub(super) fn refused(&mut self, reference: &str) {
        if let Ok(seq) = reference.parse() {
            self.set_accepted(seq, false);
            self.again.push_back((Instant::now() + AGAIN_AFTER, seq));
        }
    }

    /// When the next one is to be written again.
    pub(super) fn again_at(&self) -> Option<Instant> {
        self.again.front().map(|(at, _)| *at)
    }

    /// It is time to write the next one again.
    pub(super) fn again(&mut self) {
        if let Some((_, seq)) = self.again.pop_front() {
            self.written.remove(&seq);
        }
    }

    /// Everything is to be written again, on the next connection.
    pub(super) fn disconnected(&mut self) {
        let written = &self.written;
        self.fresh.retain(|seq| !written.contains_key(seq));
        self.written.clear();
        self.again.clear();
    }
}

impl QueueItem {
    /// The recipient of a message.
    fn sent_to(&self) -> Option<Recipient> {
        match self {
            Self::Send { to, .. } => Some(*to),
            Self::Read { .. } => None,
        }
    }

    fn frame(&self, seq: u64) -> ClientFrame {
        let reference = ShortText(seq.to_string());
        match self {
            Self::Send {
                to,
                client_msg_id,
                msg,
            } => {
                let (to, gid) = to.uid_or_gid();
                ClientFrame::Send(SendFrame {
                    reference,
                    to,
                    gid,
                    client_msg_id: client_msg_id.clone(),
                    msg: msg.clone(),
                })
            }
            Self::Read { of, mid } => {
                let (peer, gid) = of.uid_or_gid();
                ClientFrame::Read(ReadFrame {
                    reference,
                    peer,
                    gid,
                    mid: *mid,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    fn chat(given: &Value) -> Recipient {
        match given["chat"].as_str().unwrap().split_once(':').unwrap() {
            ("group", gid) => Recipient::Group(gid.parse().unwrap()),
            (_, uid) => Recipient::User(uid.parse().unwrap()),
        }
    }

    fn message(to: Recipient, client_msg_id: &str, msg: &str) -> QueueItem {
        QueueItem::Send {
            to,
            client_msg_id: client_msg_id.to_owned().try_into().unwrap(),
            msg: msg.to_owned(),
        }
    }

    /// What is written now.
    fn frames(outbox: &mut Outbox, now: SystemTime) -> Vec<Value> {
        let mut frames = Vec::new();
        let written = outbox.write(now, |frame| {
            frames.push(json!(frame));
            Ok::<(), ()>(())
        });
        written.unwrap();
        frames
    }

    fn send(outbox: &mut Outbox, item: QueueItem, sent_at: SystemTime, after: i64) {
        let after = after.try_into().unwrap();
        outbox.send(item, Origin { sent_at, after });
    }

    fn take(outbox: &mut Outbox, now: &mut SystemTime, name: &str, given: &Value) {
        let text = |name: &str| given[name].as_str().unwrap();
        let reference = given.as_str().unwrap_or_default();
        match name {
            "send" => {
                let item = message(chat(given), text("client_msg_id"), text("msg"));
                let after = given["after_mid"].as_i64().unwrap_or_default();
                send(outbox, item, *now, after);
            }
            "sends" => {
                let to = |n: i64| Recipient::User((1001 + n).try_into().unwrap());
                let numbers = 0..given.as_i64().unwrap();
                let item = |n: i64| message(to(n), &format!("id-{n}"), "text");
                numbers.for_each(|n| send(outbox, item(n), *now, 0));
            }
            "read" => outbox.push(QueueItem::Read {
                of: chat(given),
                mid: given["mid"].as_i64().unwrap().try_into().unwrap(),
            }),
            "frames" => assert_eq!(Value::from(frames(outbox, *now)), *given),
            "written" => {
                let frames = frames(outbox, *now).into_iter();
                let refs: Value = frames.map(|mut frame| frame["ref"].take()).collect();
                assert_eq!(refs, *given);
            }
            "unanswered" => assert_eq!(json!(outbox.items().len()), *given),
            "accepted" => outbox.accepted(reference),
            "sent" | "refused" => drop(outbox.answered(reference)),
            "held" => outbox.refused(reference),
            "again" => outbox.again(),
            "disconnected" => outbox.disconnected(),
            "hours" => {
                let hours = given.as_i64().unwrap();
                let by = Duration::from_secs(3_600 * hours.unsigned_abs());
                *now = if hours < 0 { *now - by } else { *now + by };
            }
            "ends" => {
                let stored = serde_json::to_string(outbox).unwrap();
                *outbox = serde_json::from_str(&stored).unwrap();
            }
            "unsure" => {
                let unsure = outbox.unsure(*now);
                let unsure = unsure.map(|repeat| (repeat.seq.to_string(), repeat.after));
                assert_eq!(json!(unsure.collect::<Vec<_>>()), *given);
            }
            "looked_for" => outbox.looked_for(reference.parse().unwrap()),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn what_may_not_be_written_yet_is_written_later_in_its_order() {
        let mut outbox = Outbox::default();
        let to = Recipient::User(1001.try_into().unwrap());
        for id in ["a", "b"] {
            send(&mut outbox, message(to, id, "text"), UNIX_EPOCH, 0);
        }
        outbox.push(QueueItem::Read {
            of: to,
            mid: Mid::try_from(1).unwrap(),
        });
        let (mut written, mut budget) = (Vec::new(), 1);
        for _ in 0..2 {
            let outcome = outbox.write(UNIX_EPOCH, |frame| {
                if written.len() >= budget {
                    return Err("later");
                }
                written.push(json!(frame)["ref"].clone());
                Ok(())
            });
            assert_eq!(outcome.is_err(), budget == 1);
            budget = 3;
        }
        assert_eq!(written, ["1", "3"]);
    }

    #[test]
    fn an_outbox_does_what_that_of_the_device_in_typescript_does() {
        for steps in [
            include_str!("../../../../tests/device-vectors/outbox.json"),
            include_str!("../../../../tests/device-vectors/outbox-order.json"),
            include_str!("../../../../tests/device-vectors/outbox-old.json"),
        ] {
            let steps: Vec<Map<String, Value>> = serde_json::from_str(steps).unwrap();
            let mut outbox = Outbox::default();
            let mut now = SystemTime::now();
            for (name, given) in steps.iter().flatten() {
                take(&mut outbox, &mut now, name, given);
            }
        }
    }
}
