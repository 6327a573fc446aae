//! A conversation as the sequencer would number it.

use std::sync::atomic::{AtomicI64, Ordering};

use message_store::{ChangeRow, ContactDelta, LastMessage, MessageRow, ReadUpTo};
use schemas::{
    Change, ChangeSeq, DirectConversation, Mid, Ordinal, Partition, PerDevice, Recipient,
    TimestampMs, UserId, event::Message,
};
use uuid::Uuid;

use crate::deployment::{now, user};

/// Rows of one table need ids of their own.
static NEXT_ID: AtomicI64 = AtomicI64::new(0);

/// Two users that no other test has, and what they wrote to each other.
pub struct Chat {
    pub me: UserId,
    pub peer: UserId,
    pub rows: Vec<MessageRow>,
    /// What was changed since, which [`Self::rows`] do not show.
    pub changes: Vec<ChangeRow>,
}

impl Chat {
    pub fn new() -> Self {
        Self::between(fresh_user(), fresh_user())
    }

    pub fn between(me: UserId, peer: UserId) -> Self {
        Self {
            me,
            peer,
            rows: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// A conversation in this partition.
    pub fn in_partition(partition: Partition) -> Self {
        loop {
            let chat = Self::new();
            if chat.partition() == partition {
                return chat;
            }
        }
    }

    pub fn conversation(&self) -> DirectConversation {
        DirectConversation::new(self.me, self.peer)
    }

    pub fn partition(&self) -> Partition {
        self.conversation().partition()
    }

    pub fn path(&self) -> String {
        let (me, peer) = (self.me, self.peer);
        format!("/v1/users/{me}/conversations/{peer}/messages")
    }

    /// Where the other side reads the same conversation.
    pub fn peers_path(&self) -> String {
        Self::between(self.peer, self.me).path()
    }

    pub fn changes_path(&self) -> String {
        let (me, peer) = (self.me, self.peer);
        format!("/v1/users/{me}/conversations/{peer}/changes")
    }

    /// The next message, `age_ms` old.
    pub fn say(&mut self, srcid: UserId, msg: &str, age_ms: i64) -> &MessageRow {
        let destid = if srcid == self.me { self.peer } else { self.me };
        let sent_before = self.rows.iter().filter(|row| row.srcid == srcid).count();
        let message = Message {
            srcid,
            to: Recipient::User(destid),
            client_msg_id: Uuid::now_v7().to_string().try_into().unwrap(),
            msg: msg.to_owned(),
            mid: mid(self.rows.len() as i64 + 1),
            ordinal: ordinal(sent_before as i64 + 1),
        };
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let ts = TimestampMs(now().0 - age_ms);
        self.rows.push(MessageRow::new(id, ts, message));
        self.rows.last().unwrap()
    }

    /// `count` messages, now from one side and now from the other.
    pub fn talk(&mut self, count: usize) {
        for i in 0..count {
            let srcid = if i % 3 == 0 { self.me } else { self.peer };
            self.say(srcid, &format!("message {i}"), 1_000);
        }
    }

    /// The next change.
    pub fn change(&mut self, by: UserId, of: i64, change: Change) {
        let numbered = self
            .changes
            .iter()
            .filter(|row| row.change_seq > ChangeSeq::ZERO);
        let number = numbered.count() as i64 + 1;
        self.changes.push(ChangeRow {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            ts: now(),
            conversation: self.conversation().into(),
            by,
            mid: mid(of),
            change,
            change_seq: change_seq(number),
        });
    }

    /// A hide or a clear without a number: its offset.
    pub fn change_alone(&mut self, by: UserId, of: i64, change: Change) -> i64 {
        // The first row has id 0, which is no change's.
        NEXT_ID.fetch_max(1, Ordering::Relaxed);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        self.changes.push(ChangeRow {
            id,
            ts: now(),
            conversation: self.conversation().into(),
            by,
            mid: mid(of),
            change,
            change_seq: ChangeSeq::ZERO,
        });
        id
    }

    /// How many of the first `mid` messages are the peer's.
    pub fn peer_ordinal(&self, mid: i64) -> Ordinal {
        let theirs = self
            .rows
            .iter()
            .take(mid as usize)
            .filter(|row| row.srcid == self.peer);
        ordinal(theirs.count() as i64)
    }

    /// My contact row, with these read positions and whatever was changed.
    pub fn contact(&self, pc: i64, mobile: i64) -> ContactDelta {
        let read = |read: i64| ReadUpTo {
            mid: mid(read),
            ordinal: Some(self.peer_ordinal(read)),
        };
        let all = self.rows.len() as i64;
        let mut contact = ContactDelta {
            last: self
                .rows
                .last()
                .map(|row| LastMessage::new(row.mid, row.srcid, &row.msg, row.ts)),
            peer_ordinal: self.peer_ordinal(all),
            own_ordinal: ordinal(all - self.peer_ordinal(all).get()),
            read: PerDevice {
                pc: read(pc),
                mobile: read(mobile),
            },
            ..ContactDelta::new(self.me, self.peer)
        };
        for row in &self.changes {
            contact.merge(self.contact_after(row));
        }
        contact
    }

    /// What a change adds to my contact row.
    fn contact_after(&self, row: &ChangeRow) -> ContactDelta {
        let is_own = row.change_seq == ChangeSeq::ZERO;
        if is_own && row.by != self.me {
            return ContactDelta::new(self.me, self.peer);
        }
        let mut contact = ContactDelta {
            own_pos: if is_own { row.id } else { 0 },
            last: LastMessage::changed(row.mid, row.by, &row.change, row.change_seq, row.ts),
            change_seq: row.change_seq,
            event_offset: row.id,
            ..ContactDelta::new(self.me, self.peer)
        };
        match row.change {
            Change::Hide if row.by == self.me => {
                contact.hidden.insert(row.mid);
            }
            Change::Clear if row.by == self.me => {
                let (mid, n) = (row.mid, Some(self.peer_ordinal(row.mid.get())));
                contact.clear_mid = mid;
                contact.read = PerDevice {
                    pc: ReadUpTo { mid, ordinal: n },
                    mobile: ReadUpTo { mid, ordinal: n },
                };
            }
            _ => {}
        }
        contact
    }
}

/// The message of a row.
pub fn message(row: &MessageRow) -> Message {
    Message {
        srcid: row.srcid,
        to: row.to,
        client_msg_id: row.client_msg_id.clone(),
        msg: row.msg.clone(),
        mid: row.mid,
        ordinal: row.ordinal.unwrap(),
    }
}

pub fn fresh_user() -> UserId {
    let random = Uuid::new_v4().as_u128() as i64;
    user((random & i64::MAX).max(1))
}

pub fn mid(mid: i64) -> Mid {
    mid.try_into().unwrap()
}

pub fn change_seq(change_seq: i64) -> ChangeSeq {
    change_seq.try_into().unwrap()
}

pub fn ordinal(n: i64) -> Ordinal {
    n.try_into().unwrap()
}

/// The mids of an answer's items.
pub fn mids(body: &serde_json::Value) -> Vec<i64> {
    let items = body["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["mid"].as_i64().unwrap())
        .collect()
}
