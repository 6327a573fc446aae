//! The state as a [`SequencerSnapshot`], the message of `chat.snapshots`.

mod groups;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Buf;
use hashbrown::HashMap;
use prost::{
    DecodeError, Message as _,
    encoding::{DecodeContext, decode_key},
};
use schemas::{
    ChangeSeq, ContactFlags, DirectConversation, GroupId, Mid, PerDevice, TimestampMs, UserId,
    event::{Rules, Source, UnknownRules, known_version},
    proto::{self, SequencerSnapshot},
};

use self::groups::{read_group, read_removed, write_group, write_removed};
use super::{
    State,
    changes::{Changes, ContactState, OlderSenders, Recalled},
    chunked_queue::ChunkedQueue,
    conversation::{Conversation, RecentSenders},
    dedup::{DedupEntries, KeyedEntry, UnkeyedEntry},
    group::Group,
    memberships::Memberships,
    recent_messages::{RecentMessage, RecentMessages},
};

/// The format version that this program writes and reads.
pub const FORMAT_VERSION: u32 = 1;

/// A snapshot that holds no valid state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSnapshot {
    /// Its format version is not the one that this program reads.
    #[error("format version {0}, {FORMAT_VERSION} is read")]
    Format(u32),
    /// A field is outside what its docs allow.
    #[error("{0}")]
    Field(&'static str),
    /// Its rules are of a version that this program does not know.
    #[error(transparent)]
    Rules(#[from] UnknownRules),
}

/// A copy of a state, made quickly on the thread of the sequencer: the dedup entries are shared, the conversations copied unsorted.
/// [`Self::into_message`] does the slow part, on another thread.
#[derive(Clone, Debug)]
pub struct Snapshot {
    src: Source,
    events_offset: i64,
    src_before_offset: Option<Source>,
    clock: TimestampMs,
    rules: Rules,
    conversations: Vec<(DirectConversation, Conversation)>,
    dedup: DedupEntries,
    begun: HashMap<UserId, u32>,
    recent: RecentMessages,
    groups: Vec<(GroupId, Box<Group>)>,
    group_members: usize,
    new_memberships: HashMap<UserId, u32>,
    removed: BTreeMap<UserId, BTreeMap<UserId, u32>>,
}

impl Snapshot {
    /// Copies the state after the event with this source, the snapshot's watermark. The snapshot's offset in `chat.events` is not known yet;
    /// [`Self::at`] sets it.
    #[must_use]
    pub fn of(state: &State, src: Source) -> Self {
        let conversations = state.conversations.iter();
        let groups = state.groups.iter();
        Self {
            src,
            events_offset: 0,
            src_before_offset: None,
            clock: state.clock,
            rules: state.rules,
            conversations: conversations.map(|(id, of)| (*id, of.clone())).collect(),
            dedup: state.dedup.entries(),
            begun: state.begun.clone(),
            recent: state.recent.clone(),
            groups: groups.map(|(gid, of)| (*gid, of.clone())).collect(),
            group_members: state.group_members,
            new_memberships: state.memberships.new.clone(),
            removed: state.memberships.removed.clone(),
        }
    }

    /// The snapshot's watermark.
    #[must_use]
    pub fn src(&self) -> Source {
        self.src
    }

    /// The number of conversations, groups, members and remembered commands in it.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.conversations.len() + self.groups.len() + self.group_members + self.dedup.len()
    }

    /// Sets the offset of `chat.events` at which a fold must continue, and the source of the record before that.
    #[must_use]
    pub fn at(self, events_offset: i64, src_before_offset: Option<Source>) -> Self {
        Self {
            events_offset,
            src_before_offset,
            ..self
        }
    }

    /// The snapshot as a message. Equal states give equal bytes.
    #[must_use]
    pub fn into_message(mut self) -> SequencerSnapshot {
        self.conversations.sort_unstable_by_key(|(id, _)| *id);
        self.groups.sort_unstable_by_key(|(gid, _)| *gid);
        let conversations = self.conversations.iter();
        let groups = self.groups.iter();
        SequencerSnapshot {
            format_version: FORMAT_VERSION,
            src: Some(self.src.into()),
            events_offset: self.events_offset,
            src_before_offset: self.src_before_offset.map(Into::into),
            clock_ms: self.clock.0,
            rules: Some(self.rules.into()),
            conversations: conversations.map(write_conversation).collect(),
            dedup: self.dedup.unkeyed.iter().map(write_unkeyed).collect(),
            keyed_dedup: write_keyed(&self.dedup.keyed),
            senders: write_senders(&self.dedup, &self.begun, &self.new_memberships),
            recent_messages: pieces(self.recent.queue.iter().map(|message| message.to_bytes())),
            recent_messages_from: self.recent.from,
            groups: groups.flat_map(|(gid, of)| write_group(*gid, of)).collect(),
            removed_members: self.removed.iter().flat_map(write_removed).collect(),
        }
    }
}

/// What a snapshot holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Restored {
    /// The state after the event with the source `src`.
    pub state: State,
    /// The snapshot's watermark.
    pub src: Source,
    /// The offset of `chat.events` at which a fold continues.
    pub events_offset: i64,
    /// The source of the record before `events_offset`.
    pub src_before_offset: Option<Source>,
}

/// The offset of `chat.events` at which a fold continues after an encoded [`SequencerSnapshot`]; `None` if the payload is not one.
#[must_use]
pub fn events_offset(mut payload: impl Buf) -> Option<i64> {
    let mut fields = SequencerSnapshot::default();
    let mut entries = Entries::default();
    while payload.has_remaining() && !entries.take_from(&mut fields).ok()? {
        next_field(&mut fields, &mut payload).ok()?;
    }
    Some(fields.events_offset)
}

/// Reads an encoded [`SequencerSnapshot`]. It decodes one entry at a time: a whole message takes several times the memory of the state.
///
/// # Errors
/// [`InvalidSnapshot`] if the snapshot does not hold a valid state.
pub fn read(mut payload: impl Buf) -> Result<Restored, InvalidSnapshot> {
    let mut fields = SequencerSnapshot::default();
    let mut entries = Entries::default();
    // An entry may seem invalid only because the rules, which are checked below, are of a later version.
    let mut first_invalid = Ok(());
    while payload.has_remaining() {
        next_field(&mut fields, &mut payload).map_err(|_| InvalidSnapshot::Field("payload"))?;
        let taken = entries.take_from(&mut fields).map(drop);
        first_invalid = first_invalid.and(taken);
    }
    if fields.format_version != FORMAT_VERSION {
        return Err(InvalidSnapshot::Format(fields.format_version));
    }
    let rules = fields.rules.ok_or(InvalidSnapshot::Field("rules"))?;
    known_version(rules.rule_version)?;
    let rules = Rules::try_from(rules).map_err(|_| InvalidSnapshot::Field("rules"))?;
    first_invalid?;
    let (Some(Ok(src)), Ok(src_before_offset)) = (
        fields.src.map(Source::try_from),
        fields.src_before_offset.map(Source::try_from).transpose(),
    ) else {
        return Err(InvalidSnapshot::Field("src"));
    };
    if fields.events_offset < 0 {
        return Err(InvalidSnapshot::Field("events_offset"));
    }
    Ok(Restored {
        state: entries.into_state(
            TimestampMs(fields.clock_ms),
            rules,
            fields.recent_messages_from,
        ),
        src,
        events_offset: fields.events_offset,
        src_before_offset,
    })
}

/// Decodes one field; for a repeated field, one entry.
fn next_field(fields: &mut SequencerSnapshot, payload: &mut impl Buf) -> Result<(), DecodeError> {
    let (tag, wire_type) = decode_key(payload)?;
    fields.merge_field(tag, wire_type, payload, DecodeContext::default())
}

/// The entries of the repeated fields.
#[derive(Default)]
struct Entries {
    conversations: HashMap<DirectConversation, Conversation>,
    dedup: DedupEntries,
    begun: HashMap<UserId, u32>,
    recent: ChunkedQueue<RecentMessage>,
    groups: HashMap<GroupId, Box<Group>>,
    memberships: Memberships,
}

impl Entries {
    /// Takes the entry that was decoded, if it was one.
    fn take_from(&mut self, fields: &mut SequencerSnapshot) -> Result<bool, InvalidSnapshot> {
        if let Some(conversation) = fields.conversations.pop() {
            let (id, conversation) = read_conversation(&conversation)?;
            self.conversations.insert(id, conversation);
        } else if let Some(entry) = fields.dedup.pop() {
            self.dedup.unkeyed.push_back(read_unkeyed(&entry)?);
        } else if let Some(piece) = fields.keyed_dedup.pop() {
            read_keyed(&mut self.dedup.keyed, &piece)?;
        } else if let Some(piece) = fields.recent_messages.pop() {
            read_recent(&mut self.recent, &piece)?;
        } else if let Some(piece) = fields.groups.pop() {
            read_group(&mut self.groups, &mut self.memberships, piece)?;
        } else if let Some(removed) = fields.removed_members.pop() {
            read_removed(&mut self.memberships, &removed)?;
        } else if let Some(sender) = fields.senders.pop() {
            self.take_sender(&sender)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn take_sender(&mut self, sender: &proto::SenderState) -> Result<(), InvalidSnapshot> {
        let uid = UserId::try_from(sender.sender);
        let uid = uid.map_err(|_| InvalidSnapshot::Field("senders.sender"))?;
        if sender.in_round > 0 {
            self.dedup.round.insert(uid, sender.in_round);
        }
        if sender.begun > 0 {
            self.begun.insert(uid, sender.begun);
        }
        if sender.memberships > 0 {
            self.memberships.new.insert(uid, sender.memberships);
        }
        for piece in &sender.own {
            read_keyed(self.dedup.own.entry(uid).or_default(), piece)?;
        }
        Ok(())
    }

    fn into_state(self, clock: TimestampMs, rules: Rules, recent_from: u64) -> State {
        let members = self.groups.values().map(|group| group.members.len());
        State {
            group_members: members.sum(),
            groups: self.groups,
            memberships: self.memberships,
            clock,
            rules,
            conversations: self.conversations,
            dedup: self.dedup.into(),
            begun: self.begun,
            recent: RecentMessages {
                // 0 in snapshots of programs without this field.
                from: recent_from.max(1),
                queue: self.recent,
            },
        }
    }
}

fn write_conversation(
    (id, conversation): &(DirectConversation, Conversation),
) -> proto::ConversationState {
    proto::ConversationState {
        lo: id.lo().get(),
        hi: id.hi().get(),
        last_mid: conversation.last_mid.get(),
        lo_count: conversation.lo_count,
        recent_senders_low: conversation.recent.low,
        recent_senders_high: conversation.recent.high,
        lo_read: Some(write_read_mids(conversation.lo_read)),
        hi_read: Some(write_read_mids(conversation.hi_read)),
        last_place: conversation.last_place,
        changes: conversation.changes.as_deref().map(write_changes),
    }
}

fn write_read_mids(mids: PerDevice<Mid>) -> proto::ReadMids {
    proto::ReadMids {
        pc: mids.pc.get(),
        mobile: mids.mobile.get(),
    }
}

fn write_unkeyed(entry: &UnkeyedEntry) -> proto::DedupEntry {
    proto::DedupEntry {
        key: entry.key.to_vec(),
        payload_hash: entry.payload_hash,
        ts_ms: entry.ts.0,
        mid: entry.mid.get(),
    }
}

fn read_conversation(
    conversation: &proto::ConversationState,
) -> Result<(DirectConversation, Conversation), InvalidSnapshot> {
    let uid = |uid| UserId::try_from(uid).map_err(|_| InvalidSnapshot::Field("conversations.lo"));
    let last_mid = mid(conversation.last_mid)?;
    if !(0..=last_mid.get()).contains(&conversation.lo_count) {
        return Err(InvalidSnapshot::Field("conversations.lo_count"));
    }
    let id = DirectConversation::new(uid(conversation.lo)?, uid(conversation.hi)?);
    let state = Conversation {
        last_mid,
        lo_count: conversation.lo_count,
        recent: RecentSenders {
            low: conversation.recent_senders_low,
            high: conversation.recent_senders_high,
        },
        lo_read: read_read_mids(conversation.lo_read.as_ref())?,
        hi_read: read_read_mids(conversation.hi_read.as_ref())?,
        last_place: conversation.last_place,
        changes: conversation
            .changes
            .as_ref()
            .map(read_changes)
            .transpose()?
            .map(Box::new),
    };
    Ok((id, state))
}

fn read_read_mids(mids: Option<&proto::ReadMids>) -> Result<PerDevice<Mid>, InvalidSnapshot> {
    let mids = mids.ok_or(InvalidSnapshot::Field("conversations.lo_read"))?;
    Ok(PerDevice {
        pc: mid(mids.pc)?,
        mobile: mid(mids.mobile)?,
    })
}

fn write_keyed(entries: &ChunkedQueue<KeyedEntry>) -> Vec<Vec<u8>> {
    pieces(entries.iter().map(|entry| entry.to_bytes()))
}

/// Joins up to 4,000 entries into a piece, so that neither the writer nor a reader needs a large block of memory.
fn pieces<const N: usize>(entries: impl Iterator<Item = [u8; N]>) -> Vec<Vec<u8>> {
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    for entry in entries {
        match pieces.last_mut() {
            Some(last) if last.len() < 4_000 * N => last.extend(entry),
            _ => pieces.push(entry.to_vec()),
        }
    }
    pieces
}

fn write_senders(
    DedupEntries { round, own, .. }: &DedupEntries,
    begun: &HashMap<UserId, u32>,
    memberships: &HashMap<UserId, u32>,
) -> Vec<proto::SenderState> {
    let counted = begun.keys().chain(memberships.keys());
    let senders = round.keys().chain(own.keys()).chain(counted);
    let senders: BTreeSet<&UserId> = senders.collect();
    let write = |sender: &UserId| proto::SenderState {
        sender: sender.get(),
        in_round: round.get(sender).copied().unwrap_or_default(),
        own: own.get(sender).map(write_keyed).unwrap_or_default(),
        begun: begun.get(sender).copied().unwrap_or_default(),
        memberships: memberships.get(sender).copied().unwrap_or_default(),
    };
    senders.into_iter().map(write).collect()
}

fn read_keyed(entries: &mut ChunkedQueue<KeyedEntry>, piece: &[u8]) -> Result<(), InvalidSnapshot> {
    let (of_piece, []) = piece.as_chunks() else {
        return Err(InvalidSnapshot::Field("keyed_dedup"));
    };
    for entry in of_piece {
        entries.push_back(KeyedEntry::from_bytes(entry));
    }
    Ok(())
}

fn read_recent(
    messages: &mut ChunkedQueue<RecentMessage>,
    piece: &[u8],
) -> Result<(), InvalidSnapshot> {
    let (of_piece, []) = piece.as_chunks() else {
        return Err(InvalidSnapshot::Field("recent_messages"));
    };
    for message in of_piece {
        messages.push_back(RecentMessage::from_bytes(*message));
    }
    Ok(())
}

fn write_changes(changes: &Changes) -> proto::ConversationChanges {
    proto::ConversationChanges {
        chg: changes.change_seq.get(),
        older_senders: changes.older.words.clone(),
        older_from: changes.older.from,
        older_messages: changes.older.len,
        recalled: changes.recalled.words.clone(),
        recalled_from: changes.recalled.from,
        lo: Some(write_contact(&changes.lo)),
        hi: Some(write_contact(&changes.hi)),
    }
}

fn write_contact(contact: &ContactState) -> proto::ContactState {
    proto::ContactState {
        favourite: contact.flags.favourite,
        pinned: contact.flags.pinned,
        muted: contact.flags.muted,
        blocked: contact.flags.blocked,
        deleted_mid: contact.deleted.get(),
        cleared_mid: contact.cleared.get(),
    }
}

fn read_changes(changes: &proto::ConversationChanges) -> Result<Changes, InvalidSnapshot> {
    let invalid = InvalidSnapshot::Field("conversations.changes");
    let words = changes.older_senders.len() as i64;
    let fits = changes.older_from >= 0
        && (words - 1).max(0) * 64 <= changes.older_messages
        && changes.older_messages <= words * 64;
    let from = changes.recalled_from;
    let is_aligned = from >= 0 && from % 64 == 0;
    if !fits || !is_aligned {
        return Err(invalid);
    }
    Ok(Changes {
        change_seq: ChangeSeq::try_from(changes.chg).map_err(|_| invalid)?,
        older: OlderSenders {
            from: changes.older_from,
            len: changes.older_messages,
            words: changes.older_senders.clone(),
        },
        recalled: Recalled {
            from,
            words: changes.recalled.clone(),
        },
        lo: read_contact(changes.lo.as_ref())?,
        hi: read_contact(changes.hi.as_ref())?,
    })
}

fn read_contact(contact: Option<&proto::ContactState>) -> Result<ContactState, InvalidSnapshot> {
    let contact = contact.ok_or(InvalidSnapshot::Field("conversations.changes"))?;
    Ok(ContactState {
        flags: ContactFlags {
            favourite: contact.favourite,
            pinned: contact.pinned,
            muted: contact.muted,
            blocked: contact.blocked,
        },
        deleted: mid(contact.deleted_mid)?,
        cleared: mid(contact.cleared_mid)?,
    })
}

fn read_unkeyed(entry: &proto::DedupEntry) -> Result<UnkeyedEntry, InvalidSnapshot> {
    let key = <[u8; 16]>::try_from(entry.key.as_slice());
    Ok(UnkeyedEntry {
        key: key.map_err(|_| InvalidSnapshot::Field("dedup.key"))?,
        payload_hash: entry.payload_hash,
        ts: TimestampMs(entry.ts_ms),
        mid: mid(entry.mid)?,
    })
}

fn mid(value: i64) -> Result<Mid, InvalidSnapshot> {
    Mid::try_from(value).map_err(|_| InvalidSnapshot::Field("mid"))
}
