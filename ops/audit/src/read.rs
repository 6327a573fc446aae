//! Reads records of the log. Written apart from what the sequencer and the projections read with, so that a mistake there is not made
//! here as well.

mod group;
mod profile;

use std::fmt::Display;

use event_log::Record;
use prost::Message as _;
use schemas::{
    AppliedCommand, Change, ChangeContact, ChangeMessage, Chg, ContactChange, ContactFlags,
    DeletedContact, DeviceClass, MessageChange, Mid, Ordinal, Partition, Recipient, UserId,
    WordVerdict,
    command::{Command, Control, InboundValue, ReadAck, SendMessage},
    event::{
        Body, Event, KNOWN_RULE_VERSION, Message, ReadPosition, Rules, Source, SourceOffset,
        UnknownRules,
    },
    proto::{self, inbound_command, sequenced_event},
};

use crate::AuditError;

/// The event of a record of `chat.events`, or why readers skip the record (PROTOCOL S10).
///
/// # Errors
/// [`AuditError::UnknownRules`] (PROTOCOL S5).
pub(crate) fn event(record: &Record) -> Result<Result<Event, String>, AuditError> {
    match parse(record) {
        Ok(event) => Ok(Ok(event)),
        Err(NoEvent::Skipped(why)) => Ok(Err(why)),
        Err(NoEvent::UnknownRules(unknown)) => Err(AuditError::unknown_rules(record, unknown)),
    }
}

enum NoEvent {
    Skipped(String),
    UnknownRules(UnknownRules),
}

impl From<String> for NoEvent {
    fn from(why: String) -> Self {
        Self::Skipped(why)
    }
}

impl From<&str> for NoEvent {
    fn from(why: &str) -> Self {
        Self::Skipped(why.to_owned())
    }
}

fn parse(record: &Record) -> Result<Event, NoEvent> {
    let decoded = proto::SequencedEvent::decode(record.bytes())
        .map_err(|e| format!("is no SequencedEvent ({e})"))?;
    let src = decoded.src.ok_or("src is absent")?;
    if src.offset < -1 {
        return Err("src.offset is below -1".into());
    }
    match &decoded.event {
        None if decoded.encoded_len() < record.bytes().len() => {
            return Err(NoEvent::UnknownRules(UnknownRules::EventKind));
        }
        Some(sequenced_event::Event::Control(rules)) if rules.rule_version > KNOWN_RULE_VERSION => {
            let version = UnknownRules::Version(rules.rule_version);
            return Err(NoEvent::UnknownRules(version));
        }
        _ => {}
    }
    let words = words(decoded.words)?;
    let command = decoded.command.map(applied_command).transpose()?;
    let body = body(decoded.event.ok_or("event is absent")?)?;
    if partition_of(&body).is_some_and(|right| right != i128::from(record.partition.get())) {
        return Err("it belongs to another partition".into());
    }
    Ok(Event {
        src: Source {
            offset: SourceOffset {
                epoch: src.epoch,
                offset: src.offset,
            },
            leader_epoch: src.leader_epoch,
        },
        ts: record.timestamp,
        body,
        command: command.map(Box::new),
        words,
    })
}

/// The command of a record of `chat.inbound` with its id and what the filter of words did with its text, or why it is none.
pub(crate) fn value(record: &Record) -> Result<InboundValue, String> {
    let decoded = proto::InboundCommand::decode(record.bytes())
        .map_err(|e| format!("is no InboundCommand ({e})"))?;
    let words = words(decoded.words)?;
    let command = decoded.command.ok_or("command is absent")?;
    Ok(InboundValue {
        command: command_of(command)?,
        id: decoded.command_id,
        words,
    })
}

fn applied_command(command: proto::AppliedCommand) -> Result<AppliedCommand, String> {
    Ok(AppliedCommand {
        id: field("command.id", command.id)?,
        content: command.content,
    })
}

fn words(verdict: Option<proto::WordVerdict>) -> Result<Option<WordVerdict>, String> {
    let Some(verdict) = verdict else {
        return Ok(None);
    };
    if !(1..=2).contains(&verdict.action) {
        return Err(format!("words.action is {}", verdict.action));
    }
    Ok(Some(WordVerdict {
        masked: verdict.action == 2,
        dictionary: verdict.dictionary,
    }))
}

fn command_of(command: inbound_command::Command) -> Result<Command, String> {
    Ok(match command {
        inbound_command::Command::SendMessage(send) => Command::Send(SendMessage {
            srcid: field("srcid", send.srcid)?,
            to: recipient("destid", send.destid, send.gid)?,
            client_msg_id: field("client_msg_id", send.client_msg_id)?,
            msg: text(send.msg)?,
            by_user: send.by_user,
        }),
        inbound_command::Command::ReadAck(ack) => Command::ReadAck(ReadAck {
            uid: field("uid", ack.uid)?,
            to: recipient("peer", ack.peer, ack.gid)?,
            device: device(ack.device)?,
            mid: ack.mid.map(mid).transpose()?,
        }),
        inbound_command::Command::Control(control) => Command::Control(rules_asked_for(control)?),
        inbound_command::Command::ChangeMessage(asked) => Command::ChangeMessage(ChangeMessage {
            by: field("by", asked.by)?,
            to: recipient("peer", asked.peer, asked.gid)?,
            mid: mid(asked.mid)?,
            change: change(asked.kind, asked.msg)?,
        }),
        inbound_command::Command::ChangeContact(asked) => {
            Command::ChangeContact(contact_change_asked_for(&asked)?)
        }
        inbound_command::Command::SetProfile(asked) => Command::SetProfile(profile::profile(
            asked.uid,
            asked.nick,
            asked.avatar,
            asked.extra,
        )?),
        inbound_command::Command::ChangeGroup(asked) => {
            Command::ChangeGroup(group::change(&asked)?)
        }
    })
}

/// Whether the records of what the command is about are in this partition. Control records are in all.
pub(crate) fn belongs_to(partition: Partition, command: &Command) -> bool {
    let partition_of_it = match command {
        Command::Send(send) => partition_with(send.srcid, send.to),
        Command::ReadAck(ack) => partition_with(ack.uid, ack.to),
        Command::ChangeMessage(asked) => partition_with(asked.by, asked.to),
        Command::ChangeContact(asked) => of_users(asked.uid, asked.peer),
        Command::ChangeGroup(asked) => i128::from(asked.gid.get()) % 64,
        Command::SetProfile(asked) => i128::from(asked.uid.get()) % 64,
        Command::Control(_) => return true,
    };
    partition_of_it == i128::from(partition.get())
}

fn partition_of(body: &Body) -> Option<i128> {
    match body {
        Body::Message(message) => Some(partition_with(message.srcid, message.to)),
        Body::ReadPosition(position) => Some(partition_with(position.uid, position.to)),
        Body::MessageChange(change) => Some(partition_with(change.by, change.to)),
        Body::ContactChange(change) => Some(of_users(change.uid, change.peer)),
        Body::GroupChange(change) => Some(i128::from(change.gid.get()) % 64),
        Body::Profile(profile) => Some(i128::from(profile.uid.get()) % 64),
        Body::Control(_) | Body::Progress => None,
    }
}

/// The number of the partition of what `uid` says.
fn partition_with(uid: UserId, to: Recipient) -> i128 {
    match to {
        Recipient::User(peer) => of_users(uid, peer),
        Recipient::Group(gid) => i128::from(gid.get()) % 64,
    }
}

/// The number of the partition of two users' conversation.
fn of_users(one: UserId, other: UserId) -> i128 {
    (i128::from(one.get()) + i128::from(other.get())) % 64
}

fn body(event: sequenced_event::Event) -> Result<Body, String> {
    Ok(match event {
        sequenced_event::Event::Message(message) => Body::Message(Message {
            srcid: field("srcid", message.srcid)?,
            to: recipient("destid", message.destid, message.gid)?,
            client_msg_id: field("client_msg_id", message.client_msg_id)?,
            msg: text(message.msg)?,
            mid: mid(message.mid)?,
            n: ordinal(Some(message.n), message.gid)?.unwrap_or_default(),
        }),
        sequenced_event::Event::ReadPosition(position) => Body::ReadPosition(ReadPosition {
            uid: field("uid", position.uid)?,
            to: recipient("peer", position.peer, position.gid)?,
            device: device(position.device)?,
            mid: mid(position.mid)?,
            n: ordinal(position.n, position.gid)?,
        }),
        sequenced_event::Event::Control(rules) => Body::Control(Rules {
            rule_version: rules.rule_version,
            dedup_window_ms: rules.dedup_window_ms,
            dedup_max_entries: rules.dedup_max_entries,
            max_msg_bytes: rules.max_msg_bytes,
            hash_key: match rules.hash_key.as_slice() {
                [] => None,
                key => Some(field("hash_key", key)?),
            },
            dedup_max_per_sender: rules.dedup_max_per_sender,
            new_conversations_per_day: rules.new_conversations_per_day,
            recall_window_ms: rules.recall_window_ms,
            delete_for_all: rules.delete_for_all,
            max_group_members: rules.max_group_members,
            new_memberships_per_day: rules.new_memberships_per_day,
            max_memberships_by_others: rules.max_memberships_by_others,
        }),
        sequenced_event::Event::Progress(proto::Progress {}) => Body::Progress,
        sequenced_event::Event::MessageChange(changed) => {
            let change = change(changed.kind, changed.msg)?;
            Body::MessageChange(MessageChange {
                by: field("by", changed.by)?,
                to: recipient("peer", changed.peer, changed.gid)?,
                mid: mid(changed.mid)?,
                chg: chg(changed.chg, &change)?,
                change,
                n: ordinal(changed.n, changed.gid)?,
            })
        }
        sequenced_event::Event::ContactChange(changed) => Body::ContactChange(ContactChange {
            uid: field("uid", changed.uid)?,
            peer: field("peer", changed.peer)?,
            flags: ContactFlags {
                favourite: changed.favourite,
                pinned: changed.pinned,
                muted: changed.muted,
                blocked: changed.blocked,
            },
            deleted: match changed.deleted {
                None => None,
                Some(deleted) => Some(DeletedContact {
                    mid: field("deleted.mid", deleted.mid)?,
                    n: field("n", deleted.n)?,
                }),
            },
        }),
        sequenced_event::Event::Profile(set) => {
            Body::Profile(profile::profile(set.uid, set.nick, set.avatar, set.extra)?)
        }
        sequenced_event::Event::GroupChange(changed) => {
            Body::GroupChange(Box::new(group::changed(&changed)?))
        }
    })
}

fn contact_change_asked_for(asked: &proto::ChangeContact) -> Result<ChangeContact, String> {
    let flags = [asked.favourite, asked.pinned, asked.muted, asked.blocked];
    if flags.iter().all(Option::is_none) && !asked.deleted {
        return Err("nothing is asked for".to_owned());
    }
    if asked.uid == asked.peer && asked.blocked == Some(true) {
        return Err("blocked is true for oneself".to_owned());
    }
    let [favourite, pinned, muted, blocked] = flags;
    Ok(ChangeContact {
        uid: field("uid", asked.uid)?,
        peer: field("peer", asked.peer)?,
        favourite,
        pinned,
        muted,
        blocked,
        deleted: asked.deleted,
        by_user: asked.by_user,
    })
}

/// A user, or the group in his place.
fn recipient(name: &'static str, uid: i64, gid: i64) -> Result<Recipient, String> {
    match (uid, gid) {
        (_, 0) => field(name, uid).map(Recipient::User),
        (0, _) => field("gid", gid).map(Recipient::Group),
        _ => Err("a user is given beside gid".to_owned()),
    }
}

/// Nobody counts in a group.
fn ordinal(n: Option<i64>, gid: i64) -> Result<Option<Ordinal>, String> {
    let n = n.filter(|_| gid == 0);
    n.map(|n| field("n", n)).transpose()
}

/// Of a kind by its number; the text is an edit's, and no other's.
fn change(kind: i32, msg: String) -> Result<Change, String> {
    if kind != 3 && !msg.is_empty() {
        return Err("msg is given, and it is no edit".to_owned());
    }
    match kind {
        1 => Ok(Change::Recall),
        2 => Ok(Change::Delete),
        3 => text(msg).map(Change::Edit),
        4 => Ok(Change::Hide),
        5 => Ok(Change::Clear),
        _ => Err(format!("kind is {kind}")),
    }
}

fn rules_asked_for(control: proto::Control) -> Result<Control, String> {
    let numbers = [
        control.dedup_window_ms,
        control.dedup_max_entries,
        control.max_msg_bytes,
    ];
    if numbers.into_iter().flatten().any(|number| number < 0) {
        return Err("a rule is below 0".to_owned());
    }
    Ok(Control {
        rule_version: control.rule_version,
        dedup_window_ms: control.dedup_window_ms,
        dedup_max_entries: control.dedup_max_entries,
        max_msg_bytes: control.max_msg_bytes,
        hash_key: control.hash_key,
        dedup_max_per_sender: control.dedup_max_per_sender,
        new_conversations_per_day: control.new_conversations_per_day,
        recall_window_ms: control.recall_window_ms,
        delete_for_all: control.delete_for_all,
        max_group_members: control.max_group_members,
        new_memberships_per_day: control.new_memberships_per_day,
        max_memberships_by_others: control.max_memberships_by_others,
    })
}

fn field<V, T: TryFrom<V, Error: Display>>(name: &str, value: V) -> Result<T, String> {
    T::try_from(value).map_err(|wrong| format!("{name} {wrong}"))
}

fn mid(value: i64) -> Result<Mid, String> {
    let mid: Mid = field("mid", value)?;
    if mid == Mid::ZERO {
        return Err("mid is 0".to_owned());
    }
    Ok(mid)
}

fn chg(value: i64, change: &Change) -> Result<Chg, String> {
    let chg: Chg = field("chg", value)?;
    if chg == Chg::ZERO && !matches!(change, Change::Hide | Change::Clear) {
        return Err("chg is 0".to_owned());
    }
    Ok(chg)
}

fn device(value: i32) -> Result<DeviceClass, String> {
    match value {
        1 => Ok(DeviceClass::Pc),
        2 => Ok(DeviceClass::Mobile),
        _ => Err(format!("device is {value}")),
    }
}

fn text(msg: String) -> Result<String, String> {
    if msg.is_empty() || msg.contains('\0') {
        return Err("msg is empty or has a NUL character".to_owned());
    }
    Ok(msg)
}
