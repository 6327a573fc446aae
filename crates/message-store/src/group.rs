//! What the tables have of groups.

use std::collections::{BTreeMap, BTreeSet};

use schemas::{
    Change, Chg, ClientMsgId, GroupId, GroupRole, GroupSettings, Mid, Partition, PerDevice,
    TimestampMs, UserId,
};

use crate::{LastMessage, MessageState};

/// A row of `group_msg_<n>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMessageRow {
    /// The offset of the message's event in its partition of `chat.events`.
    pub id: i64,
    /// The event's time.
    pub ts: TimestampMs,
    /// The group.
    pub gid: GroupId,
    /// Who sent it.
    pub srcid: UserId,
    /// The sender's own id of the send.
    pub client_msg_id: ClientMsgId,
    /// Its newest text; empty once it is recalled or deleted.
    pub msg: String,
    /// Its number in the group: 1, 2, 3 …
    pub mid: Mid,
    /// What became of it.
    pub state: MessageState,
    /// When it was last edited. `None` where it never was, and once it is recalled or deleted.
    pub edited_ts: Option<TimestampMs>,
}

/// A change to a message of a group, or to what a member sees of it, with its place in the log. It goes to `msg_change_<n>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupChangeRow {
    /// The offset of the change's event in its partition of `chat.events`.
    pub id: i64,
    /// The event's time.
    pub ts: TimestampMs,
    /// The group.
    pub gid: GroupId,
    /// Who made the change.
    pub by: UserId,
    /// The message.
    pub mid: Mid,
    /// What became of it.
    pub change: Change,
    /// Its number among the changes of the group.
    pub chg: Chg,
}

/// Changes to a group's row of `group_<n>`, of one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDelta {
    /// The newest settings, with how many members there are, and the offset of their event.
    pub settings: Option<(i64, GroupSettings, i64)>,
    /// The newest message, or the last change to it.
    pub last: Option<LastMessage>,
    /// The last change of a message; 0 if there was none.
    pub chg: Chg,
    /// The offset of the last event.
    pub pos: i64,
}

impl Default for GroupDelta {
    fn default() -> Self {
        Self {
            settings: None,
            last: None,
            chg: Chg::ZERO,
            pos: -1,
        }
    }
}

impl GroupDelta {
    /// Adds a message, or what is known of it from a change.
    pub fn merge_last(&mut self, other: LastMessage) {
        self.last = Some(match self.last.take() {
            Some(last) => last.merge(other),
            None => other,
        });
    }
}

/// A row of `group_<n>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRow {
    /// The group.
    pub gid: GroupId,
    /// Its settings; `None` where the log no longer has its creation, nor any later change.
    pub settings: Option<GroupSettings>,
    /// How many members there are; 0 once it is dissolved.
    pub member_count: i64,
    /// The newest message.
    pub last: Option<LastMessage>,
    /// The last change of a message; 0 if there was none.
    pub chg: Chg,
    /// The offset of the last event that changed the row.
    pub pos: i64,
}

/// A group, and what it has of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupHead {
    /// The group.
    pub gid: GroupId,
    /// Its settings.
    pub settings: GroupSettings,
    /// How many members there are; 0 once it is dissolved.
    pub member_count: i64,
    /// The newest message.
    pub last: Option<LastMessage>,
    /// The last change of a message; 0 if there was none.
    pub chg: Chg,
    /// The offset of the last event that changed the group.
    pub pos: i64,
    /// The member's role.
    pub role: GroupRole,
    /// The member does not send.
    pub muted: bool,
    /// The newest message when the member joined last.
    pub join_mid: Mid,
}

impl GroupHead {
    /// The newest message that the member does not see because it was there before: 0 where the whole history is shown.
    #[must_use]
    pub fn unseen_mid(&self) -> Mid {
        if self.settings.whole_history {
            Mid::ZERO
        } else {
            self.join_mid
        }
    }

    /// The number of the newest message; 0 where there is none.
    #[must_use]
    pub fn last_mid(&self) -> Mid {
        self.last.as_ref().map_or(Mid::ZERO, |last| last.mid)
    }
}

/// A row of `group_member_<n>`; also what one event makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMemberRow {
    /// The group.
    pub gid: GroupId,
    /// The user.
    pub uid: UserId,
    /// The role; `None` for who is no member any more.
    pub role: Option<GroupRole>,
    /// Does not send.
    pub muted: bool,
    /// The newest message when the user joined last; 0 in a change that is no joining.
    pub join_mid: Mid,
    /// The offset of the last event that names the user.
    pub pos: i64,
}

impl GroupMemberRow {
    /// Merges a later one of the same user.
    pub fn merge(&mut self, later: Self) {
        let join_mid = self.join_mid.max(later.join_mid);
        *self = Self { join_mid, ..later };
    }
}

/// What a batch changes in groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupRows {
    /// In the order of each partition's log.
    pub messages: Vec<GroupMessageRow>,
    /// In the order of each partition's log.
    pub changes: Vec<GroupChangeRow>,
    /// Of `group_<n>`.
    pub groups: BTreeMap<GroupId, GroupDelta>,
    /// Of `group_member_<n>`.
    pub members: BTreeMap<(GroupId, UserId), GroupMemberRow>,
}

impl GroupRows {
    /// Drops what is of these partitions.
    pub fn forget(&mut self, partitions: &[Partition]) {
        let is_kept = |gid: GroupId| !partitions.contains(&gid.partition());
        self.messages.retain(|row| is_kept(row.gid));
        self.changes.retain(|row| is_kept(row.gid));
        self.groups.retain(|gid, _| is_kept(*gid));
        self.members.retain(|(gid, _), _| is_kept(*gid));
    }

    /// How many rows it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len() + self.changes.len() + self.groups.len() + self.members.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A row of `membership_<n>`, n = uid mod 64; also what one event makes of it. Everything in it is a maximum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The user.
    pub uid: UserId,
    /// The group.
    pub gid: GroupId,
    /// The offset of the event by which the user joined last; −1 if there was none.
    pub join_pos: i64,
    /// The offset of the event by which the user left last; −1 if there was none.
    pub left_pos: i64,
    /// The newest message when the user joined last.
    pub join_mid: Mid,
    /// The newest message that the user sent.
    pub own_last_mid: Mid,
    /// Up to where the user has read.
    pub read: PerDevice<Mid>,
    /// The newest message that the user has cleared.
    pub clear_mid: Mid,
    /// Messages that the user has hidden. They are stored in `hidden_<n>`; reads leave it empty.
    pub hidden: BTreeSet<Mid>,
    /// The offset of the last event.
    pub pos: i64,
}

impl Membership {
    /// One that changes nothing.
    #[must_use]
    pub fn new(uid: UserId, gid: GroupId) -> Self {
        Self {
            uid,
            gid,
            join_pos: -1,
            left_pos: -1,
            join_mid: Mid::ZERO,
            own_last_mid: Mid::ZERO,
            read: PerDevice::default(),
            clear_mid: Mid::ZERO,
            hidden: BTreeSet::new(),
            pos: -1,
        }
    }

    /// Whether the user is a member, unless the group was dissolved.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.join_pos > self.left_pos
    }

    /// Up to where nothing counts as unread (PROTOCOL G4).
    #[must_use]
    pub fn read_mids(&self) -> PerDevice<Mid> {
        let floor = self.join_mid.max(self.own_last_mid).max(self.clear_mid);
        self.read.map(|read| read.max(floor))
    }

    /// Merges a later, earlier or repeated one of the same row.
    pub fn merge(&mut self, other: Self) {
        debug_assert_eq!((self.uid, self.gid), (other.uid, other.gid));
        self.join_pos = self.join_pos.max(other.join_pos);
        self.left_pos = self.left_pos.max(other.left_pos);
        self.join_mid = self.join_mid.max(other.join_mid);
        self.own_last_mid = self.own_last_mid.max(other.own_last_mid);
        self.read = self.read.max(other.read);
        self.clear_mid = self.clear_mid.max(other.clear_mid);
        self.hidden.extend(other.hidden);
        self.pos = self.pos.max(other.pos);
    }
}
