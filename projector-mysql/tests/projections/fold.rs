//! What the rows must be: written here once more, from the log's events alone.

use std::collections::{BTreeMap, BTreeSet};

use message_store::{
    ChangeRow, ContactDelta, FlagsAt, LastMessage, MessageRow, MessageState, ReadUpTo, StoredChange,
};
use schemas::{
    Change, ChangeSeq, ContactFlags, ConversationId, DirectConversation, MessageChange, Mid,
    PerDevice, Recipient, StoredProfile, TableNumber, TimestampMs, UserId,
    event::{Body, ReadPosition},
};

use crate::log::Appended;

/// All rows of a deployment.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rows {
    pub messages: BTreeMap<(TableNumber, i64), MessageRow>,
    pub changes: BTreeMap<(ConversationId, i64), StoredChange>,
    pub reads: BTreeMap<(UserId, DirectConversation), PerDevice<Mid>>,
    pub contacts: BTreeMap<(UserId, UserId), ContactDelta>,
    pub hidden: BTreeSet<(UserId, UserId, Mid)>,
    pub profiles: BTreeMap<UserId, StoredProfile>,
}

impl Rows {
    /// Without the hidden messages that their users have cleared, which the janitor deletes at some time.
    pub fn without_cleared(mut self) -> Self {
        let contacts = &self.contacts;
        self.hidden.retain(|(uid, peer, mid)| {
            let contact = contacts.get(&(*uid, *peer));
            contact.is_none_or(|contact| *mid > contact.clear_mid)
        });
        self
    }

    pub fn of(events: &[Appended]) -> Self {
        let mut rows = Self::default();
        for event in events {
            rows.add(event);
        }
        // As they are read.
        for contact in rows.contacts.values_mut() {
            let set = contact.flags.map(|set| set.flags);
            let set = set.filter(|flags| *flags != ContactFlags::default());
            let event_offset = contact.event_offset;
            contact.flags = set.map(|flags| FlagsAt {
                event_offset,
                flags,
            });
        }
        rows
    }

    fn add(
        &mut self,
        Appended {
            partition,
            offset,
            event,
        }: &Appended,
    ) {
        match &event.body {
            Body::Message(message) => {
                let Recipient::User(destid) = message.to else {
                    return;
                };
                let row = MessageRow::new(*offset, event.ts, message.clone());
                let last = LastMessage {
                    mid: message.mid,
                    ts: event.ts,
                    srcid: message.srcid,
                    preview: message.msg.chars().take(200).collect(),
                    change_seq: ChangeSeq::ZERO,
                    state: MessageState::Shown,
                };
                let own = self.contact(message.srcid, destid);
                own.last = Some(last.clone());
                own.own_ordinal = message.ordinal;
                own.event_offset = *offset;
                if message.srcid != destid {
                    let theirs = self.contact(destid, message.srcid);
                    theirs.last = Some(last);
                    theirs.peer_ordinal = message.ordinal;
                    theirs.event_offset = *offset;
                }
                self.messages.insert(((*partition).into(), *offset), row);
            }
            Body::MessageChange(change) => self.change(change, *offset, event.ts),
            Body::ContactChange(change) => {
                let row = self.contact(change.uid, change.peer);
                row.flags = Some(FlagsAt {
                    event_offset: *offset,
                    flags: change.flags,
                });
                row.event_offset = *offset;
                if let Some(deleted) = change.deleted {
                    row.deleted_mid = deleted.mid;
                }
            }
            Body::ReadPosition(position) => {
                self.contact(position.uid, user_of(position.to))
                    .event_offset = *offset;
            }
            Body::Profile(profile) => {
                let row = StoredProfile {
                    profile: profile.clone(),
                    ts: event.ts,
                    event_offset: *offset,
                };
                self.profiles.insert(profile.uid, row);
            }
            Body::Control(_) | Body::Progress | Body::GroupChange(_) => {}
        }
        for position in event.body.read_positions() {
            self.read(&position);
        }
    }

    fn change(&mut self, change: &MessageChange, id: i64, ts: TimestampMs) {
        let conversation = change.conversation();
        let stored = StoredChange::of(&ChangeRow::new(id, ts, change.clone()));
        self.changes.insert((conversation, stored.number()), stored);
        let key = (change.by, user_of(change.to));
        match change.change {
            Change::Hide => drop(self.hidden.insert((key.0, key.1, change.mid))),
            Change::Clear => self.contact(key.0, key.1).clear_mid = change.mid,
            _ => {}
        }
        let Some(state) = MessageState::after(&change.change) else {
            return self.touch(change, id, |_| {});
        };
        let edited = change.change.msg();
        let text = edited.unwrap_or_default();
        let is_it =
            |row: &&mut MessageRow| (row.conversation(), row.mid) == (conversation, change.mid);
        let row = self.messages.values_mut().find(is_it).unwrap();
        text.clone_into(&mut row.msg);
        row.state = state;
        row.edited_ts = edited.map(|_| ts);
        self.touch(change, id, |last| {
            if last.mid == change.mid {
                last.preview = text.chars().take(200).collect();
                last.change_seq = change.change_seq;
                last.state = state;
            }
        });
    }

    /// Both users' rows, or that of the author alone where the change has no number.
    fn touch(&mut self, change: &MessageChange, offset: i64, on_last: impl Fn(&mut LastMessage)) {
        let (by, to) = (change.by, user_of(change.to));
        if change.is_own() {
            let row = self.contact(by, to);
            (row.own_pos, row.event_offset) = (offset, offset);
            return;
        }
        for (uid, peer) in [(by, to), (to, by)] {
            let row = self.contact(uid, peer);
            row.change_seq = change.change_seq;
            row.event_offset = offset;
            row.last.iter_mut().for_each(&on_last);
        }
    }

    fn read(&mut self, position: &ReadPosition) {
        let peer = user_of(position.to);
        let key = (position.uid, DirectConversation::new(position.uid, peer));
        let mid = &mut self.reads.entry(key).or_default()[position.device];
        *mid = position.mid.max(*mid);
        let n = position
            .ordinal
            .or_else(|| self.ordinal(peer, position.uid, position.mid.get()));
        let read = ReadUpTo {
            mid: position.mid,
            ordinal: n,
        };
        let contact = self.contact(position.uid, peer);
        contact.read[position.device] = read.max(contact.read[position.device]);
    }

    fn contact(&mut self, uid: UserId, peer: UserId) -> &mut ContactDelta {
        self.contacts
            .entry((uid, peer))
            .or_insert_with(|| ContactDelta::new(uid, peer))
    }

    fn ordinal(&self, srcid: UserId, destid: UserId, mid: i64) -> Option<schemas::Ordinal> {
        let sent = self.messages.values().filter(|row| {
            (row.srcid, row.to) == (srcid, Recipient::User(destid)) && row.mid.get() <= mid
        });
        Some(sent.filter_map(|row| row.ordinal).max().unwrap_or_default())
    }
}

/// Logs of these tests have no groups, but for that of the tests of groups.
fn user_of(to: Recipient) -> UserId {
    match to {
        Recipient::User(uid) => uid,
        Recipient::Group(_) => panic!("it is of a group"),
    }
}
