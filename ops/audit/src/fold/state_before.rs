//! The known state of a partition when a record is judged.

use schemas::{GroupRole, UserId, event::Rules};

use super::{
    begun::BegunConversations, conversation::Conversation, dedup::DedupWindow, group::Group,
    memberships::Memberships, recall_window::RecallWindow,
};

/// The state of a partition before a record.
pub(crate) struct StateBefore<'a> {
    /// The conversation of the command; `group` is its group.
    pub(crate) conversation: Option<&'a Conversation>,
    pub(crate) group: Option<&'a Group>,
    /// The group was dissolved under rule version 3: its members and the authors of its messages are not remembered.
    pub(crate) is_forgotten: bool,
    pub(crate) dedup: &'a DedupWindow,
    pub(crate) begun: &'a BegunConversations,
    pub(crate) memberships: &'a Memberships,
    pub(crate) recent: &'a RecallWindow,
    pub(crate) rules: &'a Rules,
    /// Log time at the record.
    pub(crate) now: i64,
    /// The command was derived from an event: its client_id is not known.
    pub(crate) is_of_event: bool,
}

impl StateBefore<'_> {
    /// A member of the group, dissolved or not, as far as the sequencer remembers.
    pub(super) fn member(&self, uid: UserId) -> Option<(GroupRole, bool)> {
        self.group.filter(|_| !self.is_forgotten)?.member(uid)
    }

    /// Whether a user who posts a command has reached the limit of conversations begun in a day (PROTOCOL S14).
    pub(super) fn has_begun_enough(&self, user: UserId, by_user: bool) -> bool {
        let limit = self.rules.new_conversations_per_day;
        by_user && limit > 0 && self.begun.of(user, self.now) >= limit
    }
}
