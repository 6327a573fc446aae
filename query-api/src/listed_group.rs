//! Groups in a user's lists: the membership is in the user's database, the group in its own.

use std::collections::{BTreeMap, BTreeSet};

use api::MessageItem;
use message_store::{GroupHead, LastMessage, Membership, MessageState, Shard, Sink};
use schemas::{ChangeSeq, GroupId, Mid, PerDevice, Recipient, TimestampMs, UserId};

use crate::{
    after::{AsOf, RequiredWatermarks, Watermarks},
    call::Call,
    cursor::ListPosition,
    deadline::Deadline,
    error::QueryError,
    message_item, sink_watermarks,
};

pub(crate) struct ListedGroup {
    pub(crate) head: GroupHead,
    pub(crate) membership: Membership,
    last_is_hidden: bool,
}

/// Reads the groups of these memberships, in their order, with one statement for each database that holds some of them. The result lacks groups that
/// the user has left, and groups that are not in their database yet: the two sinks are independent.
pub(crate) async fn read(
    call: &Call,
    uid: UserId,
    memberships: Vec<Membership>,
    required: &RequiredWatermarks,
    deadline: Deadline,
    mut as_of: AsOf,
) -> Result<(Vec<ListedGroup>, AsOf), QueryError> {
    let mut by_shard: BTreeMap<Shard, Vec<GroupId>> = BTreeMap::new();
    for row in memberships.iter().filter(|row| row.is_member()) {
        let shard = call.store.layout().shard_of(row.gid.partition());
        by_shard.entry(shard).or_default().push(row.gid);
    }
    let mut heads: BTreeMap<GroupId, GroupHead> = BTreeMap::new();
    for (shard, gids) in by_shard {
        let attempt = || heads_of(call, uid, shard, &gids, required);
        let (found, watermarks) = call.poll(deadline, attempt).await?;
        heads.extend(found.into_iter().map(|head| (head.gid, head)));
        as_of = as_of.and(watermarks);
    }
    let listed = |membership: Membership| {
        let head = heads.remove(&membership.gid)?;
        Some(ListedGroup::new(head, membership))
    };
    Ok((memberships.into_iter().filter_map(listed).collect(), as_of))
}

/// Reads the memberships part by part, and returns the groups that a list has after `begin`. Reads no further part once there are `enough`.
///
/// # Errors
/// As [`read`].
pub(crate) async fn read_listed(
    call: &Call,
    uid: UserId,
    parts: impl IntoIterator<Item = Vec<Membership>>,
    (begin, enough): (Option<ListPosition>, usize),
    required: &RequiredWatermarks,
    deadline: Deadline,
    mut as_of: AsOf,
) -> Result<(Vec<ListedGroup>, AsOf), QueryError> {
    let mut listed = Vec::new();
    for memberships in parts {
        let groups;
        (groups, as_of) = read(call, uid, memberships, required, deadline, as_of).await?;
        listed.extend(groups.into_iter().filter(|group| group.is_listed(begin)));
        if listed.len() >= enough {
            break;
        }
    }
    Ok((listed, as_of))
}

async fn heads_of(
    call: &Call,
    uid: UserId,
    shard: Shard,
    gids: &[GroupId],
    required: &RequiredWatermarks,
) -> Result<(Vec<GroupHead>, Watermarks), QueryError> {
    let is_of_one = |partition| gids.iter().any(|gid| gid.partition() == partition);
    let required = required.clone().restrict_to(is_of_one);
    let (mut tx, watermarks) =
        sink_watermarks::snapshot(call, shard, Sink::Messages, &required).await?;
    Ok((tx.group_heads(uid, gids).await?, watermarks))
}

/// Reads, in one statement, in which of these groups the user has hidden the newest message. A group without changes is not read: nothing is hidden
/// in it.
pub(crate) async fn read_hidden<'a>(
    call: &Call,
    uid: UserId,
    groups: impl IntoIterator<Item = &'a mut ListedGroup>,
    deadline: Deadline,
) -> Result<(), QueryError> {
    let changed = groups
        .into_iter()
        .filter(|group| group.head.change_seq > ChangeSeq::ZERO || group.membership.own_pos > 0);
    let mut changed: BTreeMap<(GroupId, Mid), &'a mut ListedGroup> = changed
        .map(|group| ((group.head.gid, group.head.last_mid()), group))
        .collect();
    if changed.is_empty() {
        return Ok(());
    }
    let newest: Vec<(GroupId, Mid)> = changed.keys().copied().collect();
    let attempt = || hidden(call, uid, &newest);
    for key in call.poll(deadline, attempt).await? {
        if let Some(group) = changed.get_mut(&key) {
            group.last_is_hidden = true;
        }
    }
    Ok(())
}

async fn hidden(
    call: &Call,
    uid: UserId,
    messages: &[(GroupId, Mid)],
) -> Result<BTreeSet<(GroupId, Mid)>, QueryError> {
    let shard = call.store.layout().shard_of_user(uid);
    let mut tx = call.snapshot(shard).await?;
    Ok(tx.hidden_in_groups(uid, messages).await?)
}

impl ListedGroup {
    pub(crate) fn new(head: GroupHead, membership: Membership) -> Self {
        Self {
            head,
            membership,
            last_is_hidden: false,
        }
    }

    /// Whether a list has the group after `begin`: the group has a message that the user may see, and its position is after `begin`.
    fn is_listed(&self, begin: Option<ListPosition>) -> bool {
        self.head.last_mid() > self.head.unseen_mid()
            && begin.is_none_or(|begin| self.position() < begin)
    }

    /// The position of the group in a list.
    pub(crate) fn position(&self) -> ListPosition {
        ListPosition::of_group(self.head.gid, self.last_ts())
    }

    /// When the newest message was sent.
    pub(crate) fn last_ts(&self) -> TimestampMs {
        let last = self.head.last.as_ref();
        last.map_or(TimestampMs(0), |last| last.ts)
    }

    /// The preview of the newest message; `None` if it is deleted, or the user does not see it.
    pub(crate) fn last(&self) -> Option<MessageItem> {
        let floor = self.head.unseen_mid().max(self.membership.clear_mid);
        let is_shown = |last: &&LastMessage| {
            last.mid > floor && last.state != MessageState::Deleted && !self.last_is_hidden
        };
        let last = self.head.last.as_ref().filter(is_shown)?;
        Some(message_item::preview(
            last.clone(),
            Recipient::Group(self.head.gid),
        ))
    }

    /// The last message that counts as read (PROTOCOL G4). A message of the user's own may be in the group before it is in the membership.
    pub(crate) fn read_mids(&self) -> PerDevice<Mid> {
        let last = self.head.last.as_ref();
        let own = last.filter(|last| last.srcid == self.membership.uid);
        let own = own.map_or(Mid::ZERO, |last| last.mid);
        self.membership.read_mids().map(|mid| mid.max(own))
    }

    /// The number of messages after [`Self::read_mids`]; 0 in a dissolved group, where members can no longer move their read positions.
    pub(crate) fn unread(&self) -> PerDevice<i64> {
        if self.head.settings.dissolved {
            return PerDevice::default();
        }
        let last = self.head.last_mid().get();
        self.read_mids().map(|mid| (last - mid.get()).max(0))
    }
}
