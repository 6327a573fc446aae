//! What a user sees of a conversation: nothing that the user has cleared or hidden and, of a group, nothing from before joining, unless the
//! group shows its whole history.

use std::collections::BTreeSet;

use message_store::{ChangeKind, GroupHead, ReadTx, Shard, Sink};
use problem::Problem;
use schemas::{Chg, ConversationId, GroupId, Mid, NextOffset, PerDevice, UserId};

use crate::{
    after::{RequiredWatermarks, Watermarks},
    call::Call,
    error::{LaggingStore, QueryError},
    sink_watermarks,
    snapshot::Snapshot,
};

/// How many hides and clears [`View::catch_up`] reads; with more, `after=` waits for the contact row.
const CATCH_UP_LIMIT: u32 = 200;

/// Opens a group for who has not read his membership before.
///
/// # Errors
/// Those of [`View::open_group`].
pub(crate) async fn open_group(
    call: &Call,
    gid: GroupId,
    uid: UserId,
    required: &RequiredWatermarks,
) -> Result<(Snapshot, GroupHead, Watermarks), QueryError> {
    let any = RequiredWatermarks::default();
    let (view, _) = View::read(call, uid, gid.into(), &any).await?;
    view.open_group(call, gid, required).await
}

pub(crate) struct View {
    uid: UserId,
    conversation: ConversationId,
    /// The user's database.
    shard: Shard,
    /// If the user is no member of the group there: the end of the events of the group's partition that say so.
    not_a_member_below: Option<NextOffset>,
    /// The read positions of the contact row.
    pub(crate) read_mids: PerDevice<Mid>,
    /// The newest message that the user has cleared, or does not see because it was there before; nothing up to it is shown.
    pub(crate) floor: Mid,
    /// The changes of the conversation that the contact row reflects; all of a group.
    chg: Chg,
    /// What the user has hidden and cleared without a number, as far as the row reflects it.
    own_pos: i64,
    hidden: BTreeSet<Mid>,
}

impl View {
    /// Reads the user's contact row or membership, and the watermarks of its sink. Of a group, [`Self::restrict_to`] belongs to it.
    pub(crate) async fn read(
        call: &Call,
        uid: UserId,
        conversation: ConversationId,
        required: &RequiredWatermarks,
    ) -> Result<(Self, Watermarks), QueryError> {
        let shard = call.store.layout().shard_of_user(uid);
        let mut tx = call.snapshot(shard).await?;
        let watermarks =
            sink_watermarks::read(&mut tx, Sink::Contacts, &call.events_topic, required).await?;
        let mut view = Self {
            uid,
            conversation,
            shard,
            not_a_member_below: None,
            read_mids: PerDevice::default(),
            floor: Mid::ZERO,
            chg: Chg::ZERO,
            own_pos: 0,
            hidden: BTreeSet::new(),
        };
        match conversation {
            ConversationId::Direct(direct) => {
                if let Some(row) = tx.contact(uid, direct.peer_of(uid)).await? {
                    view.read_mids = row.read_mids();
                    (view.floor, view.chg) = (row.contact.clear_mid, row.contact.chg);
                    view.own_pos = row.contact.own_pos;
                }
            }
            ConversationId::Group(gid) => {
                let row = tx.membership(uid, gid).await?;
                if let Some(row) = &row {
                    (view.floor, view.own_pos) = (row.clear_mid, row.own_pos);
                }
                if !row.is_some_and(|row| row.is_member()) {
                    let next =
                        sink_watermarks::next(&mut tx, Sink::Contacts, call, gid.partition());
                    view.not_a_member_below = Some(next.await?);
                }
            }
        }
        Ok((view, watermarks))
    }

    /// Opens a snapshot of the group's database in which the messages have reached `required`, and reads the group from it.
    ///
    /// Both databases know the members, and the one that has read more events is right. Messages that are read again have the members of
    /// earlier days, of whom those who left may be forgotten.
    ///
    /// # Errors
    /// The same 404 for a group that there is not and for one of which the user is no member: who is not in a group does not learn of it.
    pub(crate) async fn open_group(
        &self,
        call: &Call,
        gid: GroupId,
        required: &RequiredWatermarks,
    ) -> Result<(Snapshot, GroupHead, Watermarks), QueryError> {
        let shard = call.store.layout().shard_of(gid.partition());
        let (mut tx, watermarks) =
            sink_watermarks::snapshot(call, shard, Sink::Messages, required).await?;
        let mut head = tx.group_heads(self.uid, &[gid]).await?.pop();
        if head.is_some()
            && let Some(below) = self.not_a_member_below
            && below
                >= sink_watermarks::next(&mut tx, Sink::Messages, call, gid.partition()).await?
        {
            head = None;
        }
        let head = head.ok_or_else(|| {
            let uid = self.uid;
            Problem::not_found(format!("group {gid}, or the membership of {uid} in it,"))
        })?;
        Ok((tx, head, watermarks))
    }

    /// Adds what the group says of its member.
    pub(crate) fn restrict_to(&mut self, head: &GroupHead) {
        self.floor = self.floor.max(head.unseen_mid());
        self.chg = head.chg;
    }

    /// The store that it is read from.
    pub(crate) fn store(&self) -> LaggingStore {
        LaggingStore::Sink(self.shard, Sink::Contacts)
    }

    /// Adds what the user has cleared and hidden since the contact row, and says whether that is all of it. The changes are in the
    /// conversation's own database, with its messages.
    pub(crate) async fn catch_up(&mut self, tx: &mut ReadTx) -> Result<bool, QueryError> {
        let after = (Some(self.chg), self.own_pos);
        let changes = tx
            .own_changes_after(self.conversation, self.uid, after, CATCH_UP_LIMIT)
            .await?;
        for change in &changes {
            match change.kind {
                ChangeKind::Clear => self.floor = self.floor.max(change.mid),
                ChangeKind::Hide => {
                    self.hidden.insert(change.mid);
                }
                ChangeKind::Recall | ChangeKind::Delete | ChangeKind::Edit => {}
            }
        }
        Ok(changes.len() < CATCH_UP_LIMIT as usize)
    }

    /// Reads which of these messages are hidden. Where nothing in the conversation was changed, by nobody or the user alone, none is.
    pub(crate) async fn read_hidden(
        &mut self,
        call: &Call,
        mids: impl Iterator<Item = Mid>,
    ) -> Result<(), QueryError> {
        if self.chg == Chg::ZERO && self.own_pos == 0 {
            return Ok(());
        }
        let mids: BTreeSet<Mid> = mids.collect();
        if !mids.is_empty() {
            let mut tx = call.snapshot(self.shard).await?;
            let hidden = tx.hidden_among(self.uid, self.conversation, &mids);
            self.hidden.extend(hidden.await?);
        }
        Ok(())
    }

    /// Whether the user sees this message, if it is among those of [`Self::read_hidden`].
    pub(crate) fn shows(&self, mid: Mid) -> bool {
        mid > self.floor && !self.hidden.contains(&mid)
    }
}
