//! Commands other than sends, and whether a record repeats one of them (PROTOCOL S15).

use std::hash::Hasher as _;

use schemas::{
    AppliedCommand, CommandScope, HashKey, Partition, Recipient, UserId,
    command::{Command, InboundValue},
    dead_letter::Reason,
    event::{Body, Rules},
};
use siphasher::sip128::{Hasher128 as _, SipHasher13};

use super::{
    dedup::Lookup,
    expected::Expected,
    inbound::first_version,
    repeat_key::RepeatKey,
    routing::{belongs_to, scope_of},
    state_before::StateBefore,
};

/// The expected outcome of a record if its id alone decides: the id repeats an earlier command, is not valid, or is another command's.
pub(super) fn expected_by_id(
    asked: &InboundValue,
    partition: Partition,
    before: &StateBefore<'_>,
) -> Option<Expected> {
    if before.rules.rule_version < first_version(&asked.command).max(4) {
        return None;
    }
    let Ok(id) = asked.command_id() else {
        return Some(Expected::Refused(Reason::Malformed));
    };
    if !belongs_to(partition, &asked.command) {
        return None;
    }
    let applied = id.and_then(|_| applied(asked, before.rules));
    let repeat = match &asked.command {
        Command::ChangeMessage(asked) if asked.change.is_for_one() => {
            RepeatKey::of_view(asked.to, asked.mid, &asked.change)
        }
        _ => applied.as_ref().map(RepeatKey::of),
    };
    let (key, content) = repeat?;
    let author = scope_of(&asked.command);
    match before
        .dedup
        .lookup_command(author, (key, content), before.now, before.rules)
    {
        Lookup::Absent => None,
        Lookup::SamePayload => Some(Expected::Repeat),
        Lookup::OtherPayload => Some(Expected::Refused(Reason::Conflict)),
    }
}

/// The command as its event names it.
pub(super) fn applied_in_event(
    asked: &InboundValue,
    body: &Body,
    before: &Rules,
) -> Option<AppliedCommand> {
    let rules = match body {
        Body::Control(after) => after,
        _ => before,
    };
    match (&asked.command, body) {
        (Command::ChangeMessage(change), _) if change.change.is_for_one() => None,
        // A repeat of this read-ack finds the position already there.
        (Command::ReadAck(ack), Body::ReadPosition(read)) if ack.mid == Some(read.mid) => None,
        _ => applied(asked, rules),
    }
}

fn applied(asked: &InboundValue, rules: &Rules) -> Option<AppliedCommand> {
    let key = rules
        .hash_key
        .as_ref()
        .filter(|_| rules.rule_version >= 4)?;
    let id = asked.command_id().ok()??;
    let content = content(key, scope_of(&asked.command), id.as_str(), &asked.command);
    Some(AppliedCommand { id, content })
}

fn content(key: &HashKey, scope: CommandScope, id: &str, command: &Command) -> u32 {
    let author = scope.author.map_or(0, UserId::get).cast_unsigned() + (1 << 63);
    let to = match scope.to {
        None => 0,
        Some(Recipient::User(uid)) => uid.get().cast_unsigned(),
        Some(Recipient::Group(gid)) => gid.get().cast_unsigned() + (1 << 63),
    };
    let parts = [
        &author.to_le_bytes()[..],
        &to.to_le_bytes(),
        id.as_bytes(),
        &[0],
        &command.content(),
    ];
    let mut hasher = SipHasher13::new_with_key(key.bytes());
    hasher.write(&parts.concat());
    hasher.finish128().h1 as u32
}
