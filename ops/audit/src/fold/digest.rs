use std::{
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use message_store::Month;
use schemas::{
    Change, ChangeSeq, ClientMsgId, ConversationId, MessageChange, Mid, Reactions, TimestampMs,
    UserId,
    event::{Body, Event, Message},
};

use super::message_state::MessageState;

/// How many characters of a text `contact_<n>` keeps.
const PREVIEW_CHARS: usize = 200;

/// The bits of a digest for what a change can change: text, state and time of the edit.
const TEXT_BITS: u64 = 0xffff_ffff;

/// The messages of a partition.
#[derive(Default)]
pub(crate) struct Messages {
    /// Offset and digest of every direct message as it was sent, ascending.
    pub(crate) digests: Vec<(i64, u64)>,
    /// The same of messages in groups.
    pub(crate) group_digests: Vec<(i64, u64)>,
    /// When the newest message was sent.
    pub(crate) newest: Option<TimestampMs>,
    /// The offset of the first message of each month.
    pub(crate) months: BTreeMap<Month, i64>,
    /// The texts of the messages that were changed.
    pub(crate) changed: ChangedTexts,
    /// The rows of `msg_change_<n>`, in log order.
    pub(crate) changes: Vec<LoggedChange>,
}

impl Messages {
    pub(crate) fn add(&mut self, at: i64, event: &Event) {
        if let Some((sent, msg)) = SentMessage::of_event(&event.body) {
            let digest = MessageDigest::of(event.ts, &sent, &Text::sent(msg));
            match sent.conversation {
                ConversationId::Direct(_) => self.digests.push((at, digest.0)),
                ConversationId::Group(_) => self.group_digests.push((at, digest.0)),
            }
            self.newest = self.newest.max(Some(event.ts));
            if let Ok(month) = Month::of(event.ts) {
                self.months.entry(month).or_insert(at);
            }
        }
        if let Body::MessageChange(changed) = &event.body {
            self.changed.add(at, event.ts, changed);
            self.changes.push(LoggedChange::of(at, event.ts, changed));
        }
    }
}

/// A message without its text.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct SentMessage<'a> {
    pub(crate) conversation: ConversationId,
    pub(crate) srcid: UserId,
    pub(crate) client_msg_id: &'a ClientMsgId,
    pub(crate) mid: Mid,
    /// n of the message; 0 in a group.
    pub(crate) ordinal: i64,
}

impl<'a> SentMessage<'a> {
    pub(crate) fn of_message(message: &'a Message) -> Self {
        Self {
            conversation: message.conversation(),
            srcid: message.srcid,
            client_msg_id: &message.client_msg_id,
            mid: message.mid,
            ordinal: message.ordinal.get(),
        }
    }

    /// The user or the group that it was sent to.
    pub(crate) fn receiver(&self) -> i64 {
        match self.conversation {
            ConversationId::Direct(id) => id.peer_of(self.srcid).get(),
            ConversationId::Group(gid) => gid.get(),
        }
    }

    /// The message with its text, if the event is a message.
    pub(crate) fn of_event(body: &'a Body) -> Option<(Self, &'a str)> {
        match body {
            Body::Message(message) => Some((Self::of_message(message), &message.msg)),
            _ => None,
        }
    }
}

/// A change as `msg_change_<n>` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoggedChange {
    pub(crate) conversation: ConversationId,
    pub(crate) change_seq: ChangeSeq,
    pub(crate) mid: Mid,
    pub(crate) by: UserId,
    pub(crate) kind: &'static str,
    pub(crate) ts: TimestampMs,
    /// The offset of its event.
    pub(crate) id: i64,
}

impl LoggedChange {
    fn of(at: i64, ts: TimestampMs, change: &MessageChange) -> Self {
        Self {
            conversation: change.conversation(),
            change_seq: change.change_seq,
            mid: change.mid,
            by: change.by,
            kind: change.change.kind(),
            ts,
            id: at,
        }
    }
}

/// The key of a message.
pub(crate) type Place = (ConversationId, Mid);

/// The messages whose text was changed, or to which users reacted, and their present digests.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangedTexts(HashMap<Place, ChangedText>);

#[derive(Clone, Debug, Default)]
pub(crate) struct ChangedText {
    /// The offset of the last change.
    pub(crate) at: i64,
    /// The digest of the changed text; `None` if the text is as it was sent.
    text: Option<u64>,
    is_recalled: bool,
    reactions: Reactions,
}

impl ChangedTexts {
    /// A recalled message stays recalled.
    pub(crate) fn add(&mut self, at: i64, ts: TimestampMs, change: &MessageChange) {
        if change.change.is_for_one() {
            return;
        }
        let place = (change.conversation(), change.mid);
        let held = self.0.entry(place).or_default();
        if held.is_recalled {
            return;
        }
        held.at = at;
        if let Some(text) = Text::changed(&change.change, ts) {
            held.text = Some(text.digest());
            held.is_recalled = text.state != MessageState::Shown;
        }
        match change.change.emoji() {
            _ if held.is_recalled => held.reactions.clear(),
            None => {}
            Some("") => drop(held.reactions.remove(&change.by)),
            Some(emoji) => drop(held.reactions.insert(change.by, emoji.to_owned())),
        }
    }

    pub(crate) fn get(&self, place: &Place) -> Option<&ChangedText> {
        self.0.get(place)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Place, &ChangedText)> {
        self.0.iter()
    }
}

/// What is shown of a message.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Text<'a> {
    pub(crate) msg: &'a str,
    pub(crate) state: MessageState,
    pub(crate) edited_ts: Option<TimestampMs>,
}

impl<'a> Text<'a> {
    fn sent(msg: &'a str) -> Self {
        Self {
            msg,
            state: MessageState::Shown,
            edited_ts: None,
        }
    }

    /// The text after a change; `None` if the change leaves the text alone.
    fn changed(change: &'a Change, ts: TimestampMs) -> Option<Self> {
        let (msg, state) = MessageState::after(change)?;
        Some(Self {
            msg,
            state,
            edited_ts: (state == MessageState::Shown).then_some(ts),
        })
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish() & TEXT_BITS
    }
}

/// A hash over every column of a message's row but its id, so that a partition's rows need not be held: 32 bits for what a change can change, 32 for
/// all other columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageDigest(pub(crate) u64);

impl MessageDigest {
    pub(crate) fn of(ts: TimestampMs, sent: &SentMessage<'_>, text: &Text<'_>) -> Self {
        let mut hasher = DefaultHasher::new();
        // Conversation and sender name the receiver as well.
        sent.hash(&mut hasher);
        ts.hash(&mut hasher);
        Self(hasher.finish() & !TEXT_BITS | text.digest())
    }

    /// The digest after the changes to its text, and with the reactions.
    pub(crate) fn changed(self, changed: Option<&ChangedText>) -> Self {
        let Some(changed) = changed else { return self };
        let text = changed.text.unwrap_or(self.0) & TEXT_BITS;
        Self(self.0 & !TEXT_BITS | text).with_reactions(&changed.reactions)
    }

    /// The digest of a message to which users have reacted.
    pub(crate) fn with_reactions(self, reactions: &Reactions) -> Self {
        if reactions.is_empty() {
            return self;
        }
        let mut hasher = DefaultHasher::new();
        reactions.hash(&mut hasher);
        Self(self.0 ^ hasher.finish() & TEXT_BITS)
    }

    /// Whether two messages differ in the text only, if at all.
    pub(crate) fn has_same_columns(self, other: Self) -> bool {
        self.0 & !TEXT_BITS == other.0 & !TEXT_BITS
    }
}

/// A hash of what a contact shows of a text.
pub(crate) fn preview_digest(text: &str) -> u64 {
    let end = text
        .char_indices()
        .nth(PREVIEW_CHARS)
        .map_or(text.len(), |(at, _)| at);
    let mut hasher = DefaultHasher::new();
    text[..end].hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use schemas::Recipient;

    use super::*;

    fn change(change: Change) -> MessageChange {
        MessageChange {
            by: 1.try_into().unwrap(),
            to: Recipient::User(2.try_into().unwrap()),
            mid: Mid::ZERO.next(),
            change,
            change_seq: ChangeSeq::ZERO.next(),
            ordinal: None,
        }
    }

    #[test]
    fn a_digest_follows_the_changes_of_the_text_and_a_recall_is_the_last() {
        let message = Message {
            srcid: 1.try_into().unwrap(),
            to: Recipient::User(2.try_into().unwrap()),
            client_msg_id: "c".to_owned().try_into().unwrap(),
            msg: "as it was sent".to_owned(),
            mid: Mid::ZERO.next(),
            ordinal: schemas::Ordinal::ZERO.next(),
        };
        let (sent_at, edited_at) = (TimestampMs(5), TimestampMs(7));
        let of_row = |msg, state, edited_ts| {
            let text = Text {
                msg,
                state,
                edited_ts,
            };
            MessageDigest::of(sent_at, &SentMessage::of_message(&message), &text)
        };
        let sent = of_row(&message.msg, MessageState::Shown, None);
        let edited = of_row("edited", MessageState::Shown, Some(edited_at));
        let recalled = of_row("", MessageState::Recalled, None);
        let mut changed = ChangedTexts::default();
        let place = (message.conversation(), message.mid);
        let mut after = |of: Change| {
            let of = change(of);
            changed.add(9, edited_at, &of);
            sent.changed(changed.get(&place))
        };
        let like = || Change::React("👍".to_owned());
        let liked: Reactions = [(1.try_into().unwrap(), "👍".to_owned())].into();
        assert_eq!(after(Change::Hide), sent);
        assert_eq!(after(like()), sent.with_reactions(&liked));
        let edit = Change::Edit("edited".to_owned());
        assert_eq!(after(edit), edited.with_reactions(&liked));
        assert_eq!(after(Change::React(String::new())), edited);
        after(like());
        assert_eq!(after(Change::Recall), recalled);
        assert_eq!(after(Change::Edit("again".to_owned())), recalled);
        assert_ne!(sent, edited);
        assert!(sent.has_same_columns(recalled));
    }
}
