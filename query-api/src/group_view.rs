//! Who reads a group, and what a member sees of it: nothing from before joining, unless the group shows its whole history, and nothing that
//! the member has cleared or hidden.

use std::collections::BTreeSet;

use message_store::{GroupHead, ReadTx, Shard, Sink};
use problem::Problem;
use schemas::{Chg, GroupId, Mid, TableNumber, UserId};

use crate::{
    after::{RequiredWatermarks, Watermarks},
    error::QueryError,
    sink_watermarks,
    state::QueryApi,
};

/// Opens a snapshot of the group's database in which the messages have reached `required`, and reads the group from it.
///
/// # Errors
/// The same 404 for a group that there is not and for one of which `uid` is no member: who is not in a group does not learn of it.
pub(crate) async fn open(
    api: &QueryApi,
    gid: GroupId,
    uid: UserId,
    required: &RequiredWatermarks,
) -> Result<(ReadTx, GroupHead, Watermarks), QueryError> {
    let shard = api.store.layout().shard_of(gid.partition());
    let (mut tx, watermarks) =
        sink_watermarks::snapshot(api, shard, Sink::Messages, required).await?;
    let head = tx.group_heads(uid, &[gid]).await?.pop();
    let head = head.ok_or_else(|| {
        Problem::not_found(format!("group {gid}, or the membership of {uid} in it,"))
    })?;
    Ok((tx, head, watermarks))
}

/// What a user has cleared and hidden in a group. It is in the user's own database.
pub(crate) struct GroupView {
    uid: UserId,
    gid: GroupId,
    shard: Shard,
    /// The newest message that the user has cleared; those before it are cleared, too.
    pub(crate) clear_mid: Mid,
    hidden: BTreeSet<Mid>,
}

impl GroupView {
    /// Reads up to where the user has cleared the group.
    pub(crate) async fn read(
        api: &QueryApi,
        gid: GroupId,
        uid: UserId,
        required: &RequiredWatermarks,
    ) -> Result<(Self, Watermarks), QueryError> {
        let shard = api.store.layout().shard_of(TableNumber::of_user(uid));
        let (mut tx, watermarks) =
            sink_watermarks::snapshot(api, shard, Sink::Contacts, required).await?;
        let row = tx.membership(uid, gid).await?;
        let view = Self {
            uid,
            gid,
            shard,
            clear_mid: row.map_or(Mid::ZERO, |row| row.clear_mid),
            hidden: BTreeSet::new(),
        };
        Ok((view, watermarks))
    }

    /// Reads which of these messages are hidden. Where nothing in the group was changed, none is.
    pub(crate) async fn read_hidden(
        &mut self,
        api: &QueryApi,
        head: &GroupHead,
        mids: impl Iterator<Item = Mid> + Clone,
    ) -> Result<(), QueryError> {
        if head.chg == Chg::ZERO {
            return Ok(());
        }
        if let (Some(first), Some(last)) = (mids.clone().min(), mids.max()) {
            let mut tx = api.store.snapshot(self.shard).await?;
            self.hidden = tx.hidden_in_group(self.uid, self.gid, first..=last).await?;
        }
        Ok(())
    }

    /// The newest message that the user does not see, nor those before it.
    pub(crate) fn floor(&self, head: &GroupHead) -> Mid {
        self.clear_mid.max(head.unseen_mid())
    }

    /// Whether the user sees this message, if it is among those of [`Self::read_hidden`].
    pub(crate) fn shows(&self, head: &GroupHead, mid: Mid) -> bool {
        mid > self.floor(head) && !self.hidden.contains(&mid)
    }
}
