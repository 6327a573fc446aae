//! The content of `/openapi.json`.

use std::sync::Arc;

use problem::Problem;
use utoipa::{IntoResponses, OpenApi};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{routes, state::QueryApi};

#[derive(OpenApi)]
#[openapi(
    components(schemas(Problem)),
    info(
        title = "Tidemark query API",
        description = "Unread counts, conversations, groups, what was changed in them, what is new for a device, profiles, and what became of a send. Every answer is derived from the log; with `after=` it \
            reflects at least the event of that position."
    ),
    tags((name = "query", description = "What readers ask"))
)]
struct Description;

/// How every call may be refused; a call that says more of a status has that status again, behind it.
#[derive(IntoResponses)]
#[expect(
    dead_code,
    reason = "it is only described; handlers answer with the problem itself"
)]
pub(crate) enum Refusal {
    /// A parameter is not as it should be.
    #[response(status = 400, content_type = "application/problem+json")]
    Invalid(Problem),
    /// Too many calls are under way, or too many of the caller's.
    #[response(status = 429, content_type = "application/problem+json")]
    TooMany(Problem),
    /// MySQL does not answer.
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(Problem),
    /// The event of `after=` was not stored in time.
    #[response(status = 504, content_type = "application/problem+json")]
    Late(Problem),
}

/// The calls and their description.
pub(crate) fn calls() -> OpenApiRouter<Arc<QueryApi>> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(routes::unread::get_unread))
        .routes(routes!(routes::conversations::get_conversations))
        .routes(routes!(routes::messages::get_messages))
        .routes(routes!(routes::changes::get_changes))
        .routes(routes!(routes::groups::get_groups))
        .routes(routes!(routes::group::get_group))
        .routes(routes!(routes::group_members::get_group_members))
        .routes(routes!(routes::group_messages::get_group_messages))
        .routes(routes!(routes::group_changes::get_group_changes))
        .routes(routes!(routes::sync::get_sync))
        .routes(routes!(routes::devices::get_devices))
        .routes(routes!(routes::profiles::get_profile))
        .routes(routes!(routes::profiles::get_profiles))
        .routes(routes!(routes::inbound::get_inbound))
}
