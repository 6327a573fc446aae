//! `/openapi.json` of every process.

use std::sync::Arc;

use axum::{Json, Router, routing::get};
use utoipa::{
    OpenApi,
    openapi::{InfoBuilder, OpenApi as Description, OpenApiBuilder},
};
use utoipa_axum::router::OpenApiRouter;

use crate::probes;

#[derive(OpenApi)]
#[openapi(
    paths(probes::livez, probes::readyz, probes::render),
    tags((name = "probes", description = "For whoever runs and watches the process"))
)]
struct Probes;

/// The calls of `api`, and the description of them and of the probes at `/openapi.json`.
pub fn described<S: Clone + Send + Sync + 'static>(api: OpenApiRouter<S>, state: S) -> Router {
    let (router, mut description) = api.split_for_parts();
    description.merge(Probes::openapi());
    let description = Arc::new(description);
    router
        .route(
            "/openapi.json",
            get(async move || Json(Arc::clone(&description))),
        )
        .with_state(state)
}

/// No calls but the probes: `/openapi.json` of a service that nobody asks anything. `title` names it, `purpose` says what it does.
pub fn without_calls(title: &str, purpose: &str) -> Router {
    let info = InfoBuilder::new()
        .title(title)
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(purpose))
        .build();
    let description: Description = OpenApiBuilder::new().info(info).build();
    described(OpenApiRouter::with_openapi(description), ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probes_are_described() {
        let description = serde_json::to_value(Probes::openapi()).unwrap();
        for path in ["/livez", "/readyz", "/metrics"] {
            assert!(description["paths"][path]["get"].is_object(), "{path}");
        }
        let readiness = &description["components"]["schemas"]["Readiness"];
        assert_eq!(readiness["properties"]["ready"]["type"], "boolean");
    }
}
