use std::collections::{BTreeMap, BTreeSet};

use access::Caller;
use api::{ChangeItem, ChangesAfter, ChangesPage, utc};
use axum::Json;
use message_store::{GroupHead, MessageState, ReadTx, Sink, StoredChange};
use problem::{Path, Query};
use schemas::{ChangeSeq, ConversationId, Mid, Reactions, UserId, proto::ChangeKind};

use crate::{
    after::{AsOf, RequiredWatermarks, Watermarks},
    call::Call,
    deadline::Deadline,
    error::QueryError,
    openapi::Refusal,
    parameters::{ChgBound, ConversationPath, Limit, OffsetBound, query_parameters},
    sink_watermarks,
    view::{View, open_group},
};

query_parameters! {
    /// Which changes.
    struct ChangesQuery, after = "17:42" {
        /// Those above this number; all where absent.
        #[param(value_type = Option<i64>, minimum = 0)]
        pub(super) after_chg: Option<ChgBound>,
        /// Of what the user has hidden and cleared without a number: what is behind this offset in `chat.events`; all where absent.
        #[param(value_type = Option<i64>, minimum = 0)]
        pub(super) after_own_pos: Option<OffsetBound>,
        /// How many at most; 50 where absent.
        #[param(value_type = Option<u8>, minimum = 1, maximum = 200)]
        pub(super) limit: Option<Limit>,
    }
}

/// List what was changed in a conversation
///
/// A device that has all messages of a conversation and all changes up to its `chg` and `own_pos` (see the list of conversations) has all of it.
/// Changes are kept as long as the configuration says; a device that is further behind reads the messages again.
#[utoipa::path(
    get,
    path = "/v1/users/{uid}/conversations/{peer}/changes",
    tag = "query",
    params(ConversationPath, ChangesQuery),
    responses(
        (status = 200, description = "The changes; none is not an error.", body = ChangesPage),
        Refusal,
    ),
)]
pub(crate) async fn get_changes(
    call: Call,
    caller: Caller,
    Path(path): Path<ConversationPath>,
    Query(query): Query<ChangesQuery>,
) -> Result<Json<ChangesPage>, QueryError> {
    caller.may_read(path.uid)?;
    page(&call, path.uid, path.conversation().into(), query).await
}

/// What was changed in a conversation, with a user or in a group.
pub(super) async fn page(
    call: &Call,
    uid: UserId,
    conversation: ConversationId,
    query: ChangesQuery,
) -> Result<Json<ChangesPage>, QueryError> {
    let deadline = Deadline::in_time(query.timeout_ms);
    let partition = conversation.partition();
    let required =
        RequiredWatermarks::parse(&query.after, call.epoch.get())?.restrict_to(|p| p == partition);
    let after = ChangesAfter {
        change_seq: query.after_chg.unwrap_or_default().0,
        own_pos: query.after_own_pos.unwrap_or_default().0,
    };
    let limit = query.limit.unwrap_or_default();

    let attempt = || changes(call, uid, conversation, after, limit, &required);
    let (mut rows, mut reactions, head, watermarks) = call.poll(deadline, attempt).await?;
    let mut as_of = AsOf::from(watermarks);
    let more = limit.cut(&mut rows).is_some();
    let next = more.then(|| behind(after, &rows));
    if let Some(head) = &head {
        rows.retain(|row| row.mid > head.unseen_mid());
    }
    let edited = rows.iter().filter(|row| row.msg.is_some());
    let shown: BTreeSet<Mid> = edited
        .map(|row| row.mid)
        .chain(reactions.keys().copied())
        .collect();
    if !shown.is_empty() {
        let attempt = || view(call, uid, conversation, &shown, head.as_ref(), &required);
        let (view, watermarks) = call.poll(deadline, attempt).await?;
        as_of = as_of.and(watermarks);
        for row in rows.iter_mut().filter(|row| !view.shows(row.mid)) {
            row.msg = None;
            reactions.remove(&row.mid);
        }
    }
    // Of a message's reactions on the page, only the last one has all reactions to the message.
    let items = rows.into_iter().rev().map(|row| {
        let is_reaction = row.kind == ChangeKind::React;
        let all = is_reaction.then(|| reactions.remove(&row.mid));
        item(row, all.flatten())
    });
    let mut items: Vec<ChangeItem> = items.collect();
    items.reverse();
    Ok(Json(ChangesPage {
        items,
        next,
        begins_after_mid: head.map(|head| head.unseen_mid()),
        as_of: as_of.positions(),
    }))
}

/// The position up to which a device has all changes once it has these.
fn behind(mut after: ChangesAfter, rows: &[StoredChange]) -> ChangesAfter {
    for row in rows {
        match row.change_seq {
            ChangeSeq::ZERO => after.own_pos = row.id,
            change_seq => after.change_seq = change_seq,
        }
    }
    after
}

/// Reads one row more than the page shows, which tells whether there is a next page, and of a group what its member may see.
async fn changes(
    call: &Call,
    uid: UserId,
    conversation: ConversationId,
    after: ChangesAfter,
    limit: Limit,
    required: &RequiredWatermarks,
) -> Result<
    (
        Vec<StoredChange>,
        BTreeMap<Mid, Reactions>,
        Option<GroupHead>,
        Watermarks,
    ),
    QueryError,
> {
    let (mut tx, head, watermarks) = match conversation {
        ConversationId::Direct(direct) => {
            let shard = call.store.layout().shard_of(direct.partition());
            let opened = sink_watermarks::snapshot(call, shard, Sink::Messages, required);
            let (tx, watermarks) = opened.await?;
            (tx, None, watermarks)
        }
        ConversationId::Group(gid) => {
            let (tx, head, watermarks) = open_group(call, gid, uid, required).await?;
            (tx, Some(head), watermarks)
        }
    };
    let mut rows = tx
        .changes_after(conversation, uid, after.change_seq, limit.and_one())
        .await?;
    if rows.len() <= limit.get() {
        let own_after = (None, after.own_pos);
        let own = tx.own_changes_after(conversation, uid, own_after, limit.and_one());
        rows.extend(own.await?);
    }
    let reactions = reactions(&mut tx, conversation, &rows).await?;
    Ok((rows, reactions, head, watermarks))
}

/// The reactions to the messages of these reactions; of messages that are gone, recalled or deleted there are none.
async fn reactions(
    tx: &mut ReadTx,
    conversation: ConversationId,
    rows: &[StoredChange],
) -> Result<BTreeMap<Mid, Reactions>, QueryError> {
    let reactions = rows.iter().filter(|row| row.kind == ChangeKind::React);
    let mids: BTreeSet<Mid> = reactions.map(|row| row.mid).collect();
    let keys: Vec<_> = mids.into_iter().map(|mid| (conversation, mid)).collect();
    let found = tx.messages_by_mid(&keys).await?.into_iter();
    let shown = found.filter(|(_, row)| row.state == MessageState::Shown);
    Ok(shown.map(|((_, mid), row)| (mid, row.reactions)).collect())
}

/// What the user sees of these messages, whose texts or reactions a page has.
async fn view(
    call: &Call,
    uid: UserId,
    conversation: ConversationId,
    shown: &BTreeSet<Mid>,
    head: Option<&GroupHead>,
    required: &RequiredWatermarks,
) -> Result<(View, Watermarks), QueryError> {
    let (mut view, watermarks) = View::read(call, uid, conversation, required).await?;
    sink_watermarks::expect_reached(view.store(), required, &watermarks)?;
    if let Some(head) = head {
        view.restrict_to(head);
    }
    view.read_hidden(call, shown.iter().copied()).await?;
    Ok((view, watermarks))
}

fn item(row: StoredChange, reactions: Option<Reactions>) -> ChangeItem {
    ChangeItem {
        change_seq: row.change_seq,
        own_pos: (row.change_seq == ChangeSeq::ZERO).then_some(row.id),
        mid: row.mid,
        kind: row.kind.as_str().into(),
        ts: utc(row.ts),
        msg: row.msg,
        reactions,
    }
}
