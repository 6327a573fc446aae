//! Rows as types. A value that its type refuses does not come from the log: another program wrote it.

use std::{collections::BTreeSet, fmt::Display};

use schemas::{
    ChangeSeq, ContactFlags, ConversationId, DirectConversation, GroupRole, GroupSettings,
    LogPosition, Mid, NextOffset, Ordinal, Partition, PartitionMap, PerDevice, Profile, Reactions,
    Recipient, StoredProfile, TimestampMs, UserId, event::SourceOffset, proto::ChangeKind,
};
use sqlx::{Row as _, mysql::MySqlRow, types::time::PrimitiveDateTime};

use crate::{
    ContactDelta, ContactRow, FlagsAt, GroupHead, GroupMemberRow, GroupRow, LastMessage,
    Membership, MessageRow, MessageState, ReadRow, ReadUpTo, StoreError, StoredChange,
    StoredOffset, StoredRead, conversation::Kind, datetime,
};

/// Rows of `resume_offset`.
pub(crate) fn resume_offsets(rows: &[MySqlRow]) -> Result<PartitionMap<LogPosition>, StoreError> {
    by_partition(rows, log_position)
}

/// The values in rows of `resume_offset`, by partition. Rows of partitions that do not exist are left out, so that the others can be read; the audit
/// reports them.
pub(crate) fn by_partition<T>(
    rows: &[MySqlRow],
    value: impl Fn(&MySqlRow) -> Result<T, StoreError>,
) -> Result<PartitionMap<T>, StoreError> {
    let mut values = PartitionMap::new();
    for row in rows {
        let partition = i64::from(row.try_get::<u8, _>("partition_no")?);
        if let Ok(partition) = Partition::try_from(partition) {
            values.insert(partition, value(row)?);
        }
    }
    Ok(values)
}

pub(crate) fn stored_offset(row: &MySqlRow) -> Result<StoredOffset, StoreError> {
    Ok(StoredOffset {
        sink: row.try_get("sink")?,
        topic: row.try_get("topic")?,
        partition: row.try_get("partition_no")?,
        position: log_position(row)?,
        forgotten_below: row.try_get("forgotten_below")?,
    })
}

fn log_position(row: &MySqlRow) -> Result<LogPosition, StoreError> {
    Ok(LogPosition {
        next: NextOffset::new(row.try_get("next_offset")?),
        watermark: SourceOffset {
            epoch: row.try_get("src_epoch")?,
            offset: row.try_get("src_offset")?,
        },
    })
}

pub(super) fn message(kind: Kind, row: &MySqlRow) -> Result<MessageRow, StoreError> {
    let (to, n) = match kind {
        Kind::Direct => (
            Recipient::User(number(row, "destid")?),
            Some(number(row, "n")?),
        ),
        Kind::Group => (Recipient::Group(number(row, "gid")?), None),
    };
    Ok(MessageRow {
        id: row.try_get("id")?,
        ts: timestamp(row, "ts")?,
        srcid: number(row, "srcid")?,
        to,
        client_msg_id: row
            .try_get::<String, _>("client_msg_id")?
            .try_into()
            .map_err(|error| refused("client_msg_id", error))?,
        msg: row.try_get("msg")?,
        mid: number(row, "mid")?,
        ordinal: n,
        state: state(row, "state")?,
        edited_ts: row
            .try_get::<Option<PrimitiveDateTime>, _>("edited_ts")?
            .map(datetime::from_column),
        reactions: reactions(row)?,
    })
}

fn reactions(row: &MySqlRow) -> Result<Reactions, StoreError> {
    let json: Option<String> = row.try_get("reactions")?;
    let parsed = json.map_or(Ok(Reactions::new()), |json| serde_json::from_str(&json));
    parsed.map_err(|error| refused("reactions", error))
}

pub(super) fn profile(row: &MySqlRow) -> Result<StoredProfile, StoreError> {
    Ok(StoredProfile {
        profile: Profile {
            uid: number(row, "uid")?,
            nick: row.try_get("nick")?,
            avatar: row.try_get("avatar")?,
            extra: row.try_get("extra")?,
        },
        ts: timestamp(row, "ts")?,
        event_offset: row.try_get("pos")?,
    })
}

pub(super) fn change(row: &MySqlRow) -> Result<StoredChange, StoreError> {
    let kind: String = row.try_get("change_kind")?;
    let id: i64 = row.try_get("id")?;
    let change_seq = match row.try_get::<i64, _>("chg")? {
        own if own < 0 && own == -id => ChangeSeq::ZERO,
        _ => number(row, "chg")?,
    };
    Ok(StoredChange {
        conversation: conversation(row)?,
        change_seq,
        mid: number(row, "mid")?,
        by: number(row, "uid")?,
        kind: ChangeKind::named(&kind)
            .ok_or_else(|| refused("change_kind", format!("there is no {kind:?}")))?,
        ts: timestamp(row, "ts")?,
        id,
        msg: row.try_get("msg")?,
    })
}

/// lo is 0 in a group. A row with lo above hi is refused: a scan continues after the conversation of its last row, and would never end.
fn conversation(row: &MySqlRow) -> Result<ConversationId, StoreError> {
    if row.try_get::<i64, _>("lo")? == 0 {
        return number(row, "hi").map(ConversationId::Group);
    }
    let (lo, hi): (UserId, UserId) = (number(row, "lo")?, number(row, "hi")?);
    if lo > hi {
        return Err(refused("lo", format!("{lo} is above hi, {hi}")));
    }
    Ok(DirectConversation::new(lo, hi).into())
}

/// The columns of a group that reads select.
pub(super) const GROUP: &str = "gid, name, owner, open, whole_history, muted, dissolved, member_count, \
    last_mid, last_ts, last_srcid, preview, last_chg, last_state, chg, pos";

pub(super) fn group(row: &MySqlRow) -> Result<GroupRow, StoreError> {
    let settings = match row.try_get::<i64, _>("owner")? {
        0 => None,
        _ => Some(GroupSettings {
            name: row.try_get("name")?,
            owner: number(row, "owner")?,
            open: is_set(row, "open")?,
            whole_history: is_set(row, "whole_history")?,
            muted: is_set(row, "muted")?,
            dissolved: is_set(row, "dissolved")?,
        }),
    };
    Ok(GroupRow {
        gid: number(row, "gid")?,
        settings,
        member_count: row.try_get("member_count")?,
        last: last_message(row)?,
        change_seq: number(row, "chg")?,
        event_offset: row.try_get("pos")?,
    })
}

pub(super) const GROUP_MEMBER: &str = "gid, uid, role, muted, join_mid, pos";

pub(super) fn group_member(row: &MySqlRow) -> Result<GroupMemberRow, StoreError> {
    Ok(GroupMemberRow {
        gid: number(row, "gid")?,
        uid: number(row, "uid")?,
        role: role(row, "role")?,
        muted: is_set(row, "muted")?,
        join_mid: number(row, "join_mid")?,
        event_offset: row.try_get("pos")?,
    })
}

/// The columns of a group `g` with a member `m`.
pub(super) fn group_head_columns() -> String {
    let of_group = GROUP.replace(", ", ", g.");
    format!("g.{of_group}, m.role AS member_role, m.muted AS member_muted, m.join_mid")
}

pub(super) fn group_head(row: &MySqlRow) -> Result<GroupHead, StoreError> {
    let group = group(row)?;
    Ok(GroupHead {
        gid: group.gid,
        settings: group
            .settings
            .ok_or_else(|| refused("owner", "there is none"))?,
        member_count: group.member_count,
        last: group.last,
        change_seq: group.change_seq,
        event_offset: group.event_offset,
        role: role(row, "member_role")?.ok_or_else(|| refused("member_role", "there is none"))?,
        muted: is_set(row, "member_muted")?,
        join_mid: number(row, "join_mid")?,
    })
}

fn role(row: &MySqlRow, column: &str) -> Result<Option<GroupRole>, StoreError> {
    match row.try_get::<i8, _>(column)? {
        0 => Ok(None),
        role => GroupRole::from_proto(role.into())
            .map(Some)
            .ok_or_else(|| refused(column, format!("there is no {role}"))),
    }
}

pub(super) const MEMBERSHIP: &str = "uid, gid, join_pos, left_pos, join_mid, own_last_mid, \
    pc_read_mid, mobile_read_mid, clear_mid, own_pos, pos";

pub(super) fn membership(row: &MySqlRow) -> Result<Membership, StoreError> {
    Ok(Membership {
        uid: number(row, "uid")?,
        gid: number(row, "gid")?,
        join_pos: row.try_get("join_pos")?,
        left_pos: row.try_get("left_pos")?,
        join_mid: number(row, "join_mid")?,
        own_last_mid: number(row, "own_last_mid")?,
        read: PerDevice {
            pc: number(row, "pc_read_mid")?,
            mobile: number(row, "mobile_read_mid")?,
        },
        clear_mid: number(row, "clear_mid")?,
        own_pos: row.try_get("own_pos")?,
        hidden: BTreeSet::new(),
        event_offset: row.try_get("pos")?,
    })
}

pub(super) const CONTACT: &str = "uid, peer, last_mid, last_ts, last_srcid, preview, peer_n, own_n, \
    pc_read_mid, pc_read_n, mobile_read_mid, mobile_read_n, \
    chg, own_pos, pos, last_chg, last_state, favourite, pinned, muted, blocked, deleted_mid, clear_mid";

pub(super) fn contact(row: &MySqlRow) -> Result<ContactRow, StoreError> {
    let event_offset = row.try_get("pos")?;
    let flags = flags(row)?;
    let contact = ContactDelta {
        uid: number(row, "uid")?,
        peer: number(row, "peer")?,
        last: last_message(row)?,
        peer_ordinal: number(row, "peer_n")?,
        own_ordinal: number(row, "own_n")?,
        read: PerDevice {
            pc: read_up_to(row, "pc_read_mid", "pc_read_n")?,
            mobile: read_up_to(row, "mobile_read_mid", "mobile_read_n")?,
        },
        change_seq: number(row, "chg")?,
        own_pos: row.try_get("own_pos")?,
        event_offset,
        flags: (flags != ContactFlags::default()).then_some(FlagsAt {
            event_offset,
            flags,
        }),
        deleted_mid: number(row, "deleted_mid")?,
        clear_mid: number(row, "clear_mid")?,
        hidden: BTreeSet::new(),
    };
    Ok(ContactRow { contact })
}

/// A row of a page, which says whether the newest message is hidden.
pub(super) fn listed_contact(row: &MySqlRow) -> Result<ContactRow, StoreError> {
    let mut listed = contact(row)?;
    if row.try_get::<i64, _>("last_is_hidden")? != 0 {
        let last = listed.contact.last.as_ref().map(|last| last.mid);
        listed.contact.hidden.extend(last);
    }
    Ok(listed)
}

fn flags(row: &MySqlRow) -> Result<ContactFlags, StoreError> {
    Ok(ContactFlags {
        favourite: is_set(row, "favourite")?,
        pinned: is_set(row, "pinned")?,
        muted: is_set(row, "muted")?,
        blocked: is_set(row, "blocked")?,
    })
}

fn last_message(row: &MySqlRow) -> Result<Option<LastMessage>, StoreError> {
    let mid: Mid = number(row, "last_mid")?;
    if mid == Mid::ZERO {
        return Ok(None);
    }
    Ok(Some(LastMessage {
        mid,
        ts: timestamp(row, "last_ts")?,
        srcid: number(row, "last_srcid")?,
        preview: row.try_get("preview")?,
        change_seq: number(row, "last_chg")?,
        state: state(row, "last_state")?,
    }))
}

fn read_up_to(row: &MySqlRow, mid_column: &str, n_column: &str) -> Result<ReadUpTo, StoreError> {
    let n: Option<i64> = row.try_get(n_column)?;
    Ok(ReadUpTo {
        mid: number(row, mid_column)?,
        ordinal: n
            .map(Ordinal::try_from)
            .transpose()
            .map_err(|error| refused(n_column, error))?,
    })
}

pub(super) fn read_mids(row: &MySqlRow) -> Result<PerDevice<Mid>, StoreError> {
    Ok(PerDevice {
        pc: number(row, "pcMid")?,
        mobile: number(row, "mobileMid")?,
    })
}

pub(super) fn stored_read(row: &MySqlRow) -> Result<StoredRead, StoreError> {
    let conversation: DirectConversation = row
        .try_get::<String, _>("sessionId")?
        .parse()
        .map_err(|error| refused("sessionId", error))?;
    Ok(StoredRead {
        id: row.try_get("id")?,
        row: ReadRow {
            uid: number(row, "uid")?,
            conversation,
            mids: read_mids(row)?,
        },
    })
}

/// A number as its type.
pub(crate) fn number<T>(row: &MySqlRow, column: &str) -> Result<T, StoreError>
where
    T: TryFrom<i64, Error: Display>,
{
    T::try_from(row.try_get::<i64, _>(column)?).map_err(|error| refused(column, error))
}

fn is_set(row: &MySqlRow, column: &str) -> Result<bool, StoreError> {
    Ok(row.try_get::<i8, _>(column)? != 0)
}

fn timestamp(row: &MySqlRow, column: &str) -> Result<TimestampMs, StoreError> {
    Ok(datetime::from_column(row.try_get(column)?))
}

fn state(row: &MySqlRow, column: &str) -> Result<MessageState, StoreError> {
    let value = row.try_get(column)?;
    MessageState::from_column(value).ok_or_else(|| refused(column, format!("there is no {value}")))
}

fn refused(column: &str, error: impl Display) -> StoreError {
    StoreError::fatal(format!("column {column}: {error}"))
}
