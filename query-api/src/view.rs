//! The part of a conversation that a user sees: nothing that the user has cleared or hidden and, in a group, nothing from before joining, unless the
//! group shows its whole history.

use std::collections::BTreeSet;

use message_store::{GroupHead, ReadTx, Shard, Sink};
use problem::Problem;
use schemas::{
    ChangeSeq, ConversationId, GroupId, Mid, NextOffset, PerDevice, UserId, proto::ChangeKind,
};

use crate::{
    after::{RequiredWatermarks, Watermarks},
    call::Call,
    error::{LaggingStore, QueryError},
    sink_watermarks,
    snapshot::Snapshot,
};

/// How many hides and clears [`View::catch_up`] reads; with as many or more, `after=` waits for the contact row.
const CATCH_UP_LIMIT: u32 = 200;

/// Opens a group for a user whose membership has not been read yet.
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
    /// Set if the user's database does not have the user as a member of the group: the offset below which that database has applied the events of the
    /// group's partition.
    not_a_member_below: Option<NextOffset>,
    /// The read positions of the contact row.
    pub(crate) read_mids: PerDevice<Mid>,
    /// The newest message that the user has cleared, or that is from before joining; nothing up to it is shown.
    pub(crate) floor: Mid,
    /// The number of the last change that the contact row reflects; for a group, of its last change.
    change_seq: ChangeSeq,
    /// The offset of the user's last hide or clear without a number that the row reflects.
    own_pos: i64,
    hidden: BTreeSet<Mid>,
}

impl View {
    /// Reads the user's contact row or membership, and the watermarks of its sink. For a group, [`Self::restrict_to`] has to follow.
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
            change_seq: ChangeSeq::ZERO,
            own_pos: 0,
            hidden: BTreeSet::new(),
        };
        match conversation {
            ConversationId::Direct(direct) => {
                if let Some(row) = tx.contact(uid, direct.peer_of(uid)).await? {
                    view.read_mids = row.read_mids();
                    (view.floor, view.change_seq) = (row.contact.clear_mid, row.contact.change_seq);
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

    /// Opens a snapshot of the group's database in which the messages sink has reached `required`, and reads the group from it.
    ///
    /// Both databases know the members; the one that has applied more events is right. While the messages sink re-reads the log, it has the members
    /// of earlier days, and members who have left since may have been forgotten.
    ///
    /// # Errors
    /// The same 404 for a group that does not exist and for a group of which the user is not a member: a stranger does not learn that the group
    /// exists.
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

    /// Adds what the group says about its member.
    pub(crate) fn restrict_to(&mut self, head: &GroupHead) {
        self.floor = self.floor.max(head.unseen_mid());
        self.change_seq = head.change_seq;
    }

    /// The store that the view is read from.
    pub(crate) fn store(&self) -> LaggingStore {
        LaggingStore::Sink(self.shard, Sink::Contacts)
    }

    /// Adds what the user has cleared and hidden since the contact row, and returns whether that is all. The changes are in the conversation's own
    /// database, with its messages.
    pub(crate) async fn catch_up(&mut self, tx: &mut ReadTx) -> Result<bool, QueryError> {
        let after = (Some(self.change_seq), self.own_pos);
        let changes = tx
            .own_changes_after(self.conversation, self.uid, after, CATCH_UP_LIMIT)
            .await?;
        for change in &changes {
            match change.kind {
                ChangeKind::Clear => self.floor = self.floor.max(change.mid),
                ChangeKind::Hide => {
                    self.hidden.insert(change.mid);
                }
                _ => {}
            }
        }
        Ok(changes.len() < CATCH_UP_LIMIT as usize)
    }

    /// Reads which of these messages are hidden. If the conversation has no changes, for all members or for this user alone, none of them is hidden.
    pub(crate) async fn read_hidden(
        &mut self,
        call: &Call,
        mids: impl Iterator<Item = Mid>,
    ) -> Result<(), QueryError> {
        if self.change_seq == ChangeSeq::ZERO && self.own_pos == 0 {
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

    /// Whether the user sees this message, provided that [`Self::read_hidden`] has read it.
    pub(crate) fn shows(&self, mid: Mid) -> bool {
        mid > self.floor && !self.hidden.contains(&mid)
    }
}
