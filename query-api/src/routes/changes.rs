use access::Caller;
use axum::Json;
use message_store::{GroupHead, Sink, StoredChange};
use problem::{Path, Query};
use schemas::{Chg, ConversationId, UserId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    after::{AsOf, RequiredWatermarks, Watermarks},
    api::Api,
    deadline::Deadline,
    error::QueryError,
    message_item::utc,
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

/// Changes of one conversation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChangesPage {
    /// The changes, by number, then what the user has hidden and cleared without one, in the order of the log. What other users hide and clear is left out, and of a group what concerns messages from before
    /// joining, so a page may hold fewer than `limit`; only `next` tells whether it is the last.
    items: Vec<ChangeItem>,
    /// The parameter that goes on where this page ends; null where nothing is left.
    #[schema(example = "after_chg=1")]
    next: Option<String>,
    /// Of a group: up to this message it shows the user nothing, who joined behind it; 0 where it shows its whole history.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, example = 2)]
    begins_after_mid: Option<i64>,
    /// With `after=`: how far the stores had come, by partition.
    #[serde(skip_serializing_if = "AsOf::is_empty")]
    #[schema(value_type = Option<Vec<String>>, example = json!(["17:45"]))]
    as_of: AsOf,
}

/// A change to a message, or to what the user sees of the conversation.
#[derive(Debug, Serialize, ToSchema)]
struct ChangeItem {
    /// Its number among the changes of the conversation: 1, 2, 3 … From rule version 4 on a hide and a clear have none: 0.
    #[schema(minimum = 0, example = 1)]
    chg: i64,
    /// Of one without a number: where it is in `chat.events`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, example = 57)]
    own_pos: Option<i64>,
    /// The message; of a clear the newest that is cleared.
    #[schema(minimum = 1, example = 3)]
    mid: i64,
    /// `recall`, `edit`, `delete` (a recall after which the message is not shown at all), `hide` or `clear` (both for the user only).
    #[schema(value_type = String, example = "recall")]
    kind: &'static str,
    /// When, UTC.
    #[schema(example = "2025-11-21T08:01:00.123Z")]
    ts: String,
    /// Of an edit the newest text of the message, which may be that of a later edit. Absent where the message was recalled since, or the
    /// user does not see it any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<String>,
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
    api: Api,
    caller: Caller,
    Path(path): Path<ConversationPath>,
    Query(query): Query<ChangesQuery>,
) -> Result<Json<ChangesPage>, QueryError> {
    caller.may_read(path.uid)?;
    page(&api, path.uid, path.conversation().into(), query).await
}

/// What was changed in a conversation, with a user or in a group.
pub(super) async fn page(
    api: &Api,
    uid: UserId,
    conversation: ConversationId,
    query: ChangesQuery,
) -> Result<Json<ChangesPage>, QueryError> {
    let deadline = Deadline::in_time(query.timeout_ms);
    let partition = conversation.partition();
    let required =
        RequiredWatermarks::parse(&query.after, api.epoch.get())?.restrict_to(|p| p == partition);
    let after = After {
        chg: query.after_chg.map_or(Chg::ZERO, |ChgBound(chg)| chg),
        own_pos: query.after_own_pos.unwrap_or_default().0,
    };
    let limit = query.limit.unwrap_or_default();

    let attempt = || changes(api, uid, conversation, after, limit, &required);
    let (mut rows, head, watermarks) = api.poll(deadline, attempt).await?;
    let mut as_of = AsOf::from(watermarks);
    let more = rows.len() > limit.get();
    rows.truncate(limit.get());
    let next = more.then(|| after.behind(&rows).parameters());
    if let Some(head) = &head {
        rows.retain(|row| row.mid > head.unseen_mid());
    }
    if rows.iter().any(|row| row.msg.is_some()) {
        let attempt = || view(api, uid, conversation, &rows, head.as_ref(), &required);
        let (view, watermarks) = api.poll(deadline, attempt).await?;
        as_of = as_of.and(watermarks);
        for row in rows.iter_mut().filter(|row| !view.shows(row.mid)) {
            row.msg = None;
        }
    }
    Ok(Json(ChangesPage {
        items: rows.into_iter().map(ChangeItem::from).collect(),
        next,
        begins_after_mid: head.map(|head| head.unseen_mid().get()),
        as_of,
    }))
}

/// Up to where a device has the changes.
#[derive(Clone, Copy)]
struct After {
    chg: Chg,
    own_pos: i64,
}

impl After {
    fn behind(mut self, rows: &[StoredChange]) -> Self {
        for row in rows {
            match row.chg {
                Chg::ZERO => self.own_pos = row.id,
                chg => self.chg = chg,
            }
        }
        self
    }

    fn parameters(self) -> String {
        match self {
            Self { chg, own_pos: 0 } => format!("after_chg={chg}"),
            Self { chg, own_pos } => format!("after_chg={chg}&after_own_pos={own_pos}"),
        }
    }
}

/// Reads one row more than the page shows, which tells whether there is a next page, and of a group what its member may see.
async fn changes(
    api: &Api,
    uid: UserId,
    conversation: ConversationId,
    after: After,
    limit: Limit,
    required: &RequiredWatermarks,
) -> Result<(Vec<StoredChange>, Option<GroupHead>, Watermarks), QueryError> {
    let (mut tx, head, watermarks) = match conversation {
        ConversationId::Direct(direct) => {
            let shard = api.store.layout().shard_of(direct.partition());
            let opened = sink_watermarks::snapshot(api, shard, Sink::Messages, required);
            let (tx, watermarks) = opened.await?;
            (tx, None, watermarks)
        }
        ConversationId::Group(gid) => {
            let (tx, head, watermarks) = open_group(api, gid, uid, required).await?;
            (tx, Some(head), watermarks)
        }
    };
    let mut rows = tx
        .changes_after(conversation, uid, after.chg, limit.and_one())
        .await?;
    if rows.len() <= limit.get() {
        let own_after = (None, after.own_pos);
        let own = tx.own_changes_after(conversation, uid, own_after, limit.and_one());
        rows.extend(own.await?);
    }
    Ok((rows, head, watermarks))
}

/// What the user sees of the messages whose texts are in these changes.
async fn view(
    api: &Api,
    uid: UserId,
    conversation: ConversationId,
    rows: &[StoredChange],
    head: Option<&GroupHead>,
    required: &RequiredWatermarks,
) -> Result<(View, Watermarks), QueryError> {
    let (mut view, watermarks) = View::read(api, uid, conversation, required).await?;
    sink_watermarks::expect_reached(view.store(), required, &watermarks)?;
    if let Some(head) = head {
        view.restrict_to(head);
    }
    let edited = rows.iter().filter(|row| row.msg.is_some());
    view.read_hidden(api, edited.map(|row| row.mid)).await?;
    Ok((view, watermarks))
}

impl From<StoredChange> for ChangeItem {
    fn from(row: StoredChange) -> Self {
        Self {
            chg: row.chg.get(),
            own_pos: (row.chg == Chg::ZERO).then_some(row.id),
            mid: row.mid.get(),
            kind: row.kind.as_str(),
            ts: utc(row.ts),
            msg: row.msg,
        }
    }
}
