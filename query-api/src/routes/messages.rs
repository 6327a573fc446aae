use std::{collections::BTreeSet, time::SystemTime};

use access::Caller;
use api::{MessageItem, MessagesPage, NextMessages};
use axum::Json;
use message_store::{MessageRow, MessageState, ReadTx, Sink, UNREAD_LIMIT};
use problem::{Path, Problem, Query};
use schemas::{ConversationId, DeviceClass, Mid};

use crate::{
    after::{AsOf, RequiredWatermarks},
    call::Call,
    deadline::Deadline,
    error::{LaggingStore, QueryError},
    message_item,
    openapi::Refusal,
    parameters::{ConversationPath, Device, Limit, MidBound, Switch, query_parameters},
    profiles, sink_watermarks,
    view::View,
};

query_parameters! {
    /// Which messages. At most one of `device`, `before_mid` and `after_mid`; none of them is the newest page.
    struct MessagesQuery, after = "17:42" {
        /// Those above the user's read position on this class, newest first, at most a month old: `pc` or `mobile`.
        #[param(value_type = Option<String>, pattern = "^(pc|mobile)$", example = "pc")]
        device: Option<Device>,
        /// Those below this number, newest first.
        #[param(value_type = Option<i64>, minimum = 0)]
        before_mid: Option<MidBound>,
        /// Those above this number, oldest first.
        #[param(value_type = Option<i64>, minimum = 0)]
        after_mid: Option<MidBound>,
        /// How many at most: 50 where absent, with `device` 200.
        #[param(value_type = Option<u8>, minimum = 1, maximum = 200)]
        limit: Option<Limit>,
        /// Whether the answer has the profiles of the users in it, as of now: `true` or `false`.
        #[serde(default)]
        #[param(value_type = Option<bool>)]
        profiles: Switch,
    }
}

/// Read a conversation
///
/// Its unread messages on one class of device, or a page of its history.
#[utoipa::path(
    get,
    path = "/v1/users/{uid}/conversations/{peer}/messages",
    tag = "query",
    params(ConversationPath, MessagesQuery),
    responses(
        (status = 200, description = "The messages; none is not an error.", body = MessagesPage),
        Refusal,
        (status = 400, description = "A parameter is not as it should be, or does not go with another.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get_messages(
    call: Call,
    caller: Caller,
    Path(path): Path<ConversationPath>,
    Query(query): Query<MessagesQuery>,
) -> Result<Json<MessagesPage>, QueryError> {
    caller.may_read(path.uid)?;
    let deadline = Deadline::in_time(query.timeout_ms);
    let after = RequiredWatermarks::parse(&query.after, call.epoch.get())?;
    // All events of a conversation are in its partition.
    let partition = path.conversation().partition();
    let required = after.clone().restrict_to(|p| p == partition);
    let selection = Selection::of(&query)?;
    let attempt = || page(&call, &path, selection, &required);
    let (page, as_of) = call.poll(deadline, attempt).await?;
    let users = if page.items.is_empty() {
        BTreeSet::new()
    } else {
        BTreeSet::from([path.uid, path.peer])
    };
    let (profiles, as_of) =
        profiles::join(&call, query.profiles, users, &after, deadline, as_of).await?;
    Ok(Json(MessagesPage {
        profiles,
        as_of: as_of.positions(),
        ..page
    }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Selection {
    Unread(DeviceClass, Limit),
    History(Bound, Limit),
}

/// Which page of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Newest,
    Before(Mid),
    After(Mid),
}

impl Bound {
    /// Of `before_mid` and `after_mid`.
    pub(super) fn of(before: Option<MidBound>, after: Option<MidBound>) -> Result<Self, Problem> {
        match (before, after) {
            (None, None) => Ok(Self::Newest),
            (Some(MidBound(mid)), None) => Ok(Self::Before(mid)),
            (None, Some(MidBound(mid))) => Ok(Self::After(mid)),
            (Some(_), Some(_)) => Err(only_one("after_mid", "before_mid")),
        }
    }
}

impl Selection {
    fn of(query: &MessagesQuery) -> Result<Self, Problem> {
        let limit = query.limit.unwrap_or_default();
        match (query.device, query.before_mid, query.after_mid) {
            (Some(Device(device)), None, None) => {
                Ok(Self::Unread(device, query.limit.unwrap_or(Limit::MAX)))
            }
            (None, before, after) => Ok(Self::History(Bound::of(before, after)?, limit)),
            (Some(_), Some(_), _) => Err(only_one("before_mid", "device")),
            (Some(_), None, Some(_)) => Err(only_one("after_mid", "device")),
        }
    }
}

fn only_one(field: &'static str, beside: &str) -> Problem {
    let wrong = format!("is given beside {beside}");
    Problem::invalid_field(field, wrong, format!("absent where {beside} is given"))
}

async fn page(
    call: &Call,
    path: &ConversationPath,
    selection: Selection,
    required: &RequiredWatermarks,
) -> Result<(MessagesPage, AsOf), QueryError> {
    let conversation = path.conversation();
    let view = View::read(call, path.uid, conversation.into(), required);
    let (mut view, contact_watermarks) = view.await?;
    let shard = call.store.layout().shard_of(conversation.partition());
    let (mut tx, watermarks) =
        sink_watermarks::snapshot(call, shard, Sink::Messages, required).await?;
    let mut as_of = AsOf::from(watermarks);
    let has_caught_up = view.catch_up(&mut tx).await?;
    if !has_caught_up || required.missing_in(&contact_watermarks).is_empty() {
        sink_watermarks::expect_reached(view.store(), required, &contact_watermarks)?;
        as_of = as_of.and(contact_watermarks.clone());
    }
    let (rows, next) = match selection {
        Selection::Unread(device, limit) => {
            let read_watermarks =
                sink_watermarks::read(&mut tx, Sink::Reads, &call.events_topic, required);
            // The position is the larger of the two, so it reflects the events of both sinks.
            let position_watermarks = contact_watermarks.or(read_watermarks.await?);
            let store = LaggingStore::ReadPositions;
            sink_watermarks::expect_reached(store, required, &position_watermarks)?;
            as_of = as_of.and(position_watermarks);
            unread(&mut tx, path, device, limit, &view).await?
        }
        Selection::History(bound, limit) => {
            history(&mut tx, conversation.into(), bound, limit, view.floor).await?
        }
    };
    // Other reads need the connection of this snapshot.
    drop(tx);
    let items = shown(call, view, rows).await?;
    Ok((page_of(items, next, None), as_of))
}

/// A page without its profiles and its `as_of`, which are added later.
pub(super) fn page_of(
    items: Vec<MessageItem>,
    next: Option<NextMessages>,
    begins_after_mid: Option<Mid>,
) -> MessagesPage {
    MessagesPage {
        items,
        next,
        begins_after_mid,
        profiles: None,
        as_of: Vec::new(),
    }
}

/// The messages above the read position, which is the larger of the two that are stored, and the parameter of the next page.
async fn unread(
    tx: &mut ReadTx,
    path: &ConversationPath,
    device: DeviceClass,
    limit: Limit,
    view: &View,
) -> Result<(Vec<MessageRow>, Option<NextMessages>), QueryError> {
    let conversation = path.conversation();
    let by_reads = tx.read_mids(conversation, path.uid).await?;
    let read_mid = view.read_mids.max(by_reads)[device];
    let now = SystemTime::now().into();
    let mut rows = tx.unread_messages(conversation, read_mid, now).await?;
    // The store never returns more than its limit, so at that many there may be more.
    let more = rows.len() > limit.get() || rows.len() == UNREAD_LIMIT;
    rows.truncate(limit.get());
    // There is no next page if the user has cleared all messages below the last row.
    let last = rows
        .last()
        .filter(|row| more && row.mid > view.floor.next());
    let next = last.map(|row| NextMessages::Before(row.mid));
    Ok((rows, next))
}

/// The messages of a page above `floor`, and the parameter of the next page.
pub(super) async fn history(
    tx: &mut ReadTx,
    conversation: ConversationId,
    bound: Bound,
    limit: Limit,
    floor: Mid,
) -> Result<(Vec<MessageRow>, Option<NextMessages>), QueryError> {
    let count = limit.and_one();
    let rows = match bound {
        Bound::Newest => tx.page_before(conversation, None, floor, count).await,
        Bound::Before(mid) => tx.page_before(conversation, Some(mid), floor, count).await,
        Bound::After(mid) => tx.page_after(conversation, mid.max(floor), count).await,
    };
    let mut rows = rows?;
    let next_after = match bound {
        Bound::Newest | Bound::Before(_) => NextMessages::Before,
        Bound::After(_) => NextMessages::After,
    };
    let next = limit.cut(&mut rows).map(|row| next_after(row.mid));
    Ok((rows, next))
}

/// Those of these messages that the user sees.
pub(super) async fn shown(
    call: &Call,
    mut view: View,
    rows: Vec<MessageRow>,
) -> Result<Vec<MessageItem>, QueryError> {
    view.read_hidden(call, rows.iter().map(|row| row.mid))
        .await?;
    let is_shown = |row: &MessageRow| row.state != MessageState::Deleted && view.shows(row.mid);
    let shown = rows.into_iter().filter(is_shown);
    Ok(shown.map(message_item::of_row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(device: bool, before: bool, after: bool) -> MessagesQuery {
        let mid = || MidBound(Mid::ZERO.next());
        MessagesQuery {
            device: device.then_some(Device(DeviceClass::Pc)),
            before_mid: before.then(mid),
            after_mid: after.then(mid),
            limit: None,
            profiles: Switch::default(),
            after: vec![],
            timeout_ms: None,
        }
    }

    #[test]
    fn selections_exclude_each_other() {
        for (device, before, after, refused) in [
            (false, true, true, Some("after_mid")),
            (true, true, false, Some("before_mid")),
            (true, false, true, Some("after_mid")),
            (true, true, true, Some("before_mid")),
            (true, false, false, None),
            (false, true, false, None),
            (false, false, true, None),
            (false, false, false, None),
        ] {
            let field = Selection::of(&query(device, before, after))
                .err()
                .map(|problem| problem.errors[0].field.clone());
            assert_eq!(field.as_deref(), refused, "{device} {before} {after}");
        }
    }

    #[test]
    fn limits_differ_by_kind() {
        let limit = |query| match Selection::of(&query).unwrap() {
            Selection::Unread(_, limit) | Selection::History(_, limit) => limit.get(),
        };
        assert_eq!(limit(query(true, false, false)), 200);
        assert_eq!(limit(query(false, false, false)), 50);
    }
}
