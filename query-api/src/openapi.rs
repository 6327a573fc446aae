//! `/openapi.json`.

use std::sync::Arc;

use axum::{Json, Router, routing::get};
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{routes, service::QueryApi};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tidemark query API",
        description = "Unread counts, conversations and what became of a send. Every answer is derived from the log; with `after=` it \
            reflects at least the event of that position."
    ),
    tags((name = "query", description = "What readers ask"))
)]
struct Description;

/// The calls and their description.
pub(crate) fn router(api: Arc<QueryApi>) -> Router {
    let (router, description) = OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(routes::unread::get_unread))
        .routes(routes!(routes::conversations::get_conversations))
        .routes(routes!(routes::messages::get_messages))
        .routes(routes!(routes::inbound::get_inbound))
        .split_for_parts();
    let description = Arc::new(description);
    router
        .route(
            "/openapi.json",
            get(async move || Json(Arc::clone(&description))),
        )
        .with_state(api)
}
