use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    hash::{BuildHasher as _, RandomState},
    sync::LazyLock,
};

use schemas::{
    Change, DeviceClass, GroupChange, GroupChangeKind, GroupId, GroupRole, GroupSettings,
    PerDevice, TimestampMs, UserId, event::Body,
};

use super::{contact::LastMessage, message_state::MessageState, preview_digest};

/// The author of a message, and whether it was recalled, are known while it is among this many of the newest (PROTOCOL C).
const REACH: usize = 4_096;

/// The state of one group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// `None` if the log does not have its creation.
    pub(crate) settings: Option<GroupSettings>,
    pub(crate) last: LastMessage,
    /// How many changes of messages there were.
    pub(crate) change_seq: i64,
    /// The offset of the last event that changed the group, its messages or its members.
    pub(crate) event_offset: i64,
    /// The member count in the last change.
    pub(crate) member_count: i64,
    /// The place of the newest message in the recall window; see [`RecallWindow`](super::recall_window::RecallWindow).
    pub(super) last_place: u64,
    /// The digest of the command that created it.
    creation: u64,
    /// The number of present members.
    now_members: i64,
    /// The number of former members who were muted when they left.
    muted_who_left: i64,
    /// All users who were ever members, or named as members.
    members: HashMap<UserId, Member>,
    /// The authors of the newest messages, oldest first.
    authors: VecDeque<UserId>,
    recalled: BTreeSet<i64>,
}

/// What the log says of a user in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// `None` for a user who is no longer a member.
    pub(crate) role: Option<GroupRole>,
    pub(crate) muted: bool,
    /// The offset of the change by which the user last became a member, and the newest message at that time; −1 for none.
    pub(crate) joined_at: i64,
    pub(crate) join_mid: i64,
    /// The offset of the change by which the user last left; −1 for none.
    pub(crate) left_at: i64,
    pub(crate) own_last_mid: i64,
    pub(crate) reads: PerDevice<i64>,
    pub(crate) clear_mid: i64,
    /// The offset of the last hide or clear without a number; 0 for none.
    pub(crate) own_pos: i64,
    /// The messages that the user has hidden, ascending.
    pub(crate) hidden: Vec<i64>,
    /// The offset of the last change that named the user; −1 for none.
    pub(crate) changed_at: i64,
    /// The offset of the last event that changed any of this.
    pub(crate) event_offset: i64,
}

impl Default for Member {
    fn default() -> Self {
        Self {
            role: None,
            muted: false,
            joined_at: -1,
            join_mid: 0,
            left_at: -1,
            own_last_mid: 0,
            reads: PerDevice::default(),
            clear_mid: 0,
            own_pos: 0,
            hidden: Vec::new(),
            changed_at: -1,
            event_offset: -1,
        }
    }
}

impl Member {
    fn has_left_muted(&self) -> bool {
        self.role.is_none() && self.muted
    }

    /// The message up to which the user has read (PROTOCOL G4).
    pub(crate) fn read_mid(&self, device: DeviceClass) -> i64 {
        let others = self.own_last_mid.max(self.join_mid).max(self.clear_mid);
        self.reads[device].max(others)
    }
}

impl Group {
    /// Role and mute of a user who is a member.
    pub(super) fn member(&self, uid: UserId) -> Option<(GroupRole, bool)> {
        let member = self.members.get(&uid)?;
        Some((member.role?, member.muted))
    }

    pub(super) fn is_dissolved(&self) -> bool {
        self.settings.as_ref().is_some_and(|set| set.dissolved)
    }

    pub(super) fn is_owned_by(&self, uid: UserId) -> bool {
        self.settings.as_ref().is_some_and(|set| set.owner == uid)
    }

    /// The number of present members, if the group is not dissolved.
    pub(super) fn now_members(&self) -> i64 {
        self.now_members
    }

    /// How many left muted: their places are kept (PROTOCOL G6).
    pub(super) fn muted_who_left(&self) -> i64 {
        self.muted_who_left
    }

    /// Whether the user left muted.
    pub(super) fn has_left_muted(&self, uid: UserId) -> bool {
        self.members.get(&uid).is_some_and(Member::has_left_muted)
    }

    pub(super) fn read_mid(&self, uid: UserId, device: DeviceClass) -> i64 {
        let member = self.members.get(&uid);
        member.map_or(0, |member| member.read_mid(device))
    }

    /// Who wrote a message, as far as the sequencer remembers.
    pub(super) fn known_author(&self, mid: i64) -> Option<UserId> {
        let back = usize::try_from(self.last.mid - mid).ok()?;
        let place = self.authors.len().checked_sub(back + 1)?;
        self.authors.get(place).copied()
    }

    /// Whether a message is remembered as recalled.
    pub(super) fn is_recalled(&self, mid: i64) -> bool {
        self.known_author(mid).is_some() && self.recalled.contains(&mid)
    }

    /// Whether a creation with this content created the group.
    pub(super) fn was_created_as(
        &self,
        settings: &GroupSettings,
        members: &BTreeSet<UserId>,
    ) -> bool {
        self.creation == creation(settings, members)
    }

    pub(crate) fn everybody(&self) -> impl Iterator<Item = UserId> {
        self.members.keys().copied()
    }

    pub(crate) fn of_user(&self, uid: UserId) -> Option<&Member> {
        self.members.get(&uid)
    }

    /// Applies an event of the group; returns what is wrong with its numbers. `is_whole` says whether the log has everything before it.
    pub(crate) fn apply(
        &mut self,
        gid: GroupId,
        body: &Body,
        ts: TimestampMs,
        at: i64,
        is_whole: bool,
    ) -> Option<String> {
        match body {
            Body::Message(message) => {
                let sent = LastMessage {
                    mid: message.mid.get(),
                    ts: ts.0,
                    srcid: message.srcid.get(),
                    preview: preview_digest(&message.msg),
                    ..LastMessage::default()
                };
                self.message(gid, message.srcid, sent, at, is_whole)
            }
            Body::ReadPosition(position) => {
                let member = self.touch(position.uid, at);
                let read = &mut member.reads[position.device];
                *read = position.mid.get().max(*read);
                None
            }
            Body::MessageChange(changed) => {
                let before = self.change_seq;
                let change_seq = changed.change_seq.get();
                self.change_seq = before.max(change_seq);
                self.message_change(
                    changed.by,
                    changed.mid.get(),
                    &changed.change,
                    change_seq,
                    at,
                );
                if changed.is_own() {
                    self.touch(changed.by, at).own_pos = at;
                    return None;
                }
                self.event_offset = at;
                let is_wrong = change_seq != before + 1 && (is_whole || before > 0);
                is_wrong.then(|| format!("chg {change_seq} of g:{gid} follows {before}"))
            }
            Body::GroupChange(change) => {
                self.change(change, at);
                None
            }
            Body::ContactChange(_) | Body::Profile(_) | Body::Control(_) | Body::Progress => None,
        }
    }

    fn touch(&mut self, uid: UserId, at: i64) -> &mut Member {
        let member = self.members.entry(uid).or_default();
        member.event_offset = at;
        member
    }

    fn message(
        &mut self,
        gid: GroupId,
        by: UserId,
        sent: LastMessage,
        at: i64,
        is_whole: bool,
    ) -> Option<String> {
        let (mid, before) = (sent.mid, self.last.mid);
        self.event_offset = at;
        let member = self.touch(by, at);
        member.own_last_mid = member.own_last_mid.max(mid);
        // As in every store, a mid that is not above the newest changes nothing.
        if mid > before {
            self.last = sent;
            self.authors.push_back(by);
            if self.authors.len() > REACH {
                self.authors.pop_front();
            }
        }
        let is_wrong = mid != before + 1 && (is_whole || before > 0);
        is_wrong.then(|| format!("mid {mid} of g:{gid} follows {before}"))
    }

    fn message_change(&mut self, by: UserId, mid: i64, change: &Change, change_seq: i64, at: i64) {
        if let Some((msg, state)) = MessageState::after(change) {
            self.change_text(mid, change_seq, msg, state);
        }
        match change {
            Change::Hide => {
                let hidden = &mut self.touch(by, at).hidden;
                if let Err(place) = hidden.binary_search(&mid) {
                    hidden.insert(place, mid);
                }
            }
            Change::Clear => {
                let clear_mid = &mut self.touch(by, at).clear_mid;
                *clear_mid = mid.max(*clear_mid);
            }
            _ => {}
        }
    }

    /// A recalled message stays recalled.
    fn change_text(&mut self, mid: i64, change_seq: i64, msg: &str, state: MessageState) {
        if self.recalled.contains(&mid) {
            return;
        }
        if state != MessageState::Shown {
            self.recalled.insert(mid);
        }
        if mid == self.last.mid {
            self.last.preview = preview_digest(msg);
            self.last.change_seq = change_seq;
            self.last.state = state;
        }
    }

    fn change(&mut self, change: &GroupChange, at: i64) {
        self.event_offset = at;
        self.member_count = change.member_count;
        if change.kind == GroupChangeKind::Create {
            let members = change.members.iter().map(|member| member.uid).collect();
            self.creation = creation(&change.settings, &members);
        }
        self.settings = Some(change.settings.clone());
        for of_event in &change.members {
            let member = self.touch(of_event.uid, at);
            let (was_member, had_left_muted) = (member.role.is_some(), member.has_left_muted());
            member.role = of_event.role;
            member.muted = of_event.muted;
            member.changed_at = at;
            match (was_member, of_event.role.is_some()) {
                (false, true) => {
                    (member.joined_at, member.join_mid) = (at, change.last_mid.get());
                }
                (true, false) => member.left_at = at,
                _ => {}
            }
            self.muted_who_left += i64::from(member.has_left_muted()) - i64::from(had_left_muted);
            self.now_members += i64::from(of_event.role.is_some()) - i64::from(was_member);
        }
    }
}

/// A digest of the content of a creation. Its owner is among the members.
fn creation(settings: &GroupSettings, members: &BTreeSet<UserId>) -> u64 {
    // With its own random keys, so that nobody can search for two creations with equal digests.
    static HASHES: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let GroupSettings {
        name,
        owner,
        open,
        whole_history,
        ..
    } = settings;
    HASHES.hash_one((name, owner, open, whole_history, members))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size in a slot of a hash table, which is between 7/16 and 7/8 full.
    #[test]
    fn a_member_costs_what_the_docs_say() {
        assert!(size_of::<(UserId, Member)>() <= 128);
    }
}
