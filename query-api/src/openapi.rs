//! What `/openapi.json` says.

use std::sync::Arc;

use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{routes, state::QueryApi};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tidemark query API",
        description = "Unread counts, conversations, groups, what was changed in them, what is new for a device, profiles, and what became of a send. Every answer is derived from the log; with `after=` it \
            reflects at least the event of that position."
    ),
    tags((name = "query", description = "What readers ask"))
)]
struct Description;

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
