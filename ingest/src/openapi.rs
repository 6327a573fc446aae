//! `/openapi.json`.

use std::sync::Arc;

use axum::{Json, Router, routing::get};
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{routes, service::Ingest};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tidemark ingest",
        description = "Messages and read positions in; every answer of 202 is on the log."
    ),
    tags((name = "ingest", description = "What producers post"))
)]
struct Description;

/// The calls and their description.
pub(crate) fn router(ingest: Arc<Ingest>) -> Router {
    let (router, description) = OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(routes::messages::post_message))
        .routes(routes!(routes::read_acks::post_read_ack))
        .routes(routes!(routes::events::post_events))
        .split_for_parts();
    let description = Arc::new(description);
    router
        .route(
            "/openapi.json",
            get(async move || Json(Arc::clone(&description))),
        )
        .with_state(ingest)
}
