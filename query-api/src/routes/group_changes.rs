use access::Caller;
use api::ChangesPage;
use axum::Json;
use problem::{Path, Problem, Query};

use super::changes::{self, ChangesQuery};
use crate::{
    call::Call,
    error::QueryError,
    openapi::Refusal,
    parameters::{ChgBound, GroupPath, Limit, OffsetBound, query_parameters},
};

query_parameters! {
    /// Which changes.
    struct GroupChangesQuery, uid = "1000", after = "17:42" {
        /// Those above this number; all where absent.
        #[param(value_type = Option<i64>, minimum = 0)]
        after_chg: Option<ChgBound>,
        /// Of what the user has hidden and cleared without a number: what is behind this offset in `chat.events`; all where absent.
        #[param(value_type = Option<i64>, minimum = 0)]
        after_own_pos: Option<OffsetBound>,
        /// How many at most; 50 where absent.
        #[param(value_type = Option<u8>, minimum = 1, maximum = 200)]
        limit: Option<Limit>,
    }
}

/// List what was changed in a group
///
/// As in a conversation with a user. Changes of messages from before the user joined are left out, unless the group shows its whole history.
#[utoipa::path(
    get,
    path = "/v1/groups/{gid}/changes",
    tag = "query",
    params(GroupPath, GroupChangesQuery),
    responses(
        (status = 200, description = "The changes; none is not an error.", body = ChangesPage),
        Refusal,
        (status = 404, description = "There is no such group, or the user is no member of it.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get_group_changes(
    call: Call,
    caller: Caller,
    Path(GroupPath { gid }): Path<GroupPath>,
    Query(query): Query<GroupChangesQuery>,
) -> Result<Json<ChangesPage>, QueryError> {
    caller.may_read(query.uid)?;
    let of_conversation = ChangesQuery {
        after_chg: query.after_chg,
        after_own_pos: query.after_own_pos,
        limit: query.limit,
        after: query.after,
        timeout_ms: query.timeout_ms,
    };
    changes::page(&call, query.uid, gid.into(), of_conversation).await
}
