//! Groups, as the tables have them.

use std::collections::BTreeSet;

use schemas::{ChangeSeq, GroupId, GroupRole, GroupSettings, Mid, PerDevice, UserId};

use crate::LastMessage;

/// The settings of a group from an event on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsAt {
    /// The offset of the event.
    pub event_offset: i64,
    /// The settings.
    pub settings: GroupSettings,
    /// The number of members.
    pub member_count: i64,
}

/// Changes to a group's row of `group_<n>`, of one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDelta {
    /// The newest settings, if there were some.
    pub settings: Option<SettingsAt>,
    /// The newest message, or the last change to it.
    pub last: Option<LastMessage>,
    /// The last change of a message that has a number; 0 if there was none.
    pub change_seq: ChangeSeq,
    /// The offset of the last event.
    pub event_offset: i64,
}

impl Default for GroupDelta {
    fn default() -> Self {
        Self {
            settings: None,
            last: None,
            change_seq: ChangeSeq::ZERO,
            event_offset: -1,
        }
    }
}

impl GroupDelta {
    /// Adds a message, or what a change says about it.
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
    /// Its settings; `None` if the log has neither its creation nor a later change any more.
    pub settings: Option<GroupSettings>,
    /// The number of members; 0 once the group is dissolved.
    pub member_count: i64,
    /// The newest message.
    pub last: Option<LastMessage>,
    /// The last change of a message that has a number; 0 if there was none.
    pub change_seq: ChangeSeq,
    /// The offset of the last event that changed the row.
    pub event_offset: i64,
}

/// A group, with its data about one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupHead {
    /// The group.
    pub gid: GroupId,
    /// Its settings.
    pub settings: GroupSettings,
    /// The number of members; 0 once the group is dissolved.
    pub member_count: i64,
    /// The newest message.
    pub last: Option<LastMessage>,
    /// The last change of a message that has a number; 0 if there was none.
    pub change_seq: ChangeSeq,
    /// The offset of the last event that changed the group.
    pub event_offset: i64,
    /// The member's role.
    pub role: GroupRole,
    /// Whether the member is muted, that is, cannot send.
    pub muted: bool,
    /// The newest message when the member joined last.
    pub join_mid: Mid,
}

impl GroupHead {
    /// The newest message from before the member joined, which the member does not see; 0 if the group shows its whole history.
    #[must_use]
    pub fn unseen_mid(&self) -> Mid {
        if self.settings.whole_history {
            Mid::ZERO
        } else {
            self.join_mid
        }
    }

    /// The number of the newest message; 0 if there is none.
    #[must_use]
    pub fn last_mid(&self) -> Mid {
        self.last.as_ref().map_or(Mid::ZERO, |last| last.mid)
    }
}

/// A row of `group_member_<n>`, or the change that one event makes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMemberRow {
    /// The group.
    pub gid: GroupId,
    /// The user.
    pub uid: UserId,
    /// The role; `None` if the user is not a member any more.
    pub role: Option<GroupRole>,
    /// Whether the user is muted, that is, cannot send.
    pub muted: bool,
    /// The newest message when the user joined last; 0 in a change by which the user does not join.
    pub join_mid: Mid,
    /// The offset of the last event that names the user.
    pub event_offset: i64,
}

impl GroupMemberRow {
    /// The row of a user whom an event leaves outside of the group.
    #[must_use]
    pub fn new(gid: GroupId, uid: UserId, event_offset: i64) -> Self {
        Self {
            gid,
            uid,
            role: None,
            muted: false,
            join_mid: Mid::ZERO,
            event_offset,
        }
    }

    /// Merges a later row or change of the same user.
    pub fn merge(&mut self, later: Self) {
        let join_mid = self.join_mid.max(later.join_mid);
        *self = Self { join_mid, ..later };
    }
}

/// A row of `membership_<n>`, n = uid mod 64, or the change that one event makes to it. All its values are maxima.
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
    /// The read positions of the user.
    pub read: PerDevice<Mid>,
    /// The newest message that the user has cleared.
    pub clear_mid: Mid,
    /// The offset of the last event without a number by which the user hid a message or cleared the history; 0 if there was none.
    pub own_pos: i64,
    /// Messages that the user has hidden. They are stored in `hidden_<n>`; reads leave this empty.
    pub hidden: BTreeSet<Mid>,
    /// The offset of the last event.
    pub event_offset: i64,
}

impl Membership {
    /// A change that changes nothing.
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
            own_pos: 0,
            hidden: BTreeSet::new(),
            event_offset: -1,
        }
    }

    /// Whether the user is a member, unless the group was dissolved.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.join_pos > self.left_pos
    }

    /// The last messages that count as read (PROTOCOL G4).
    #[must_use]
    pub fn read_mids(&self) -> PerDevice<Mid> {
        let floor = self.join_mid.max(self.own_last_mid).max(self.clear_mid);
        self.read.map(|read| read.max(floor))
    }

    /// Merges a later, earlier or repeated change of the same row.
    pub fn merge(&mut self, other: Self) {
        debug_assert_eq!((self.uid, self.gid), (other.uid, other.gid));
        self.join_pos = self.join_pos.max(other.join_pos);
        self.left_pos = self.left_pos.max(other.left_pos);
        self.join_mid = self.join_mid.max(other.join_mid);
        self.own_last_mid = self.own_last_mid.max(other.own_last_mid);
        self.read = self.read.max(other.read);
        self.clear_mid = self.clear_mid.max(other.clear_mid);
        self.own_pos = self.own_pos.max(other.own_pos);
        self.hidden.extend(other.hidden);
        self.event_offset = self.event_offset.max(other.event_offset);
    }
}
