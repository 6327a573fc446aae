//! `/livez`, `/readyz` and `/metrics`.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use problem::Problem;

use crate::{Health, MetricsHandle, Readiness};

/// Whether a path is one of these calls, which are answered no matter what other requests wait for.
pub(crate) fn is_probe(path: &str) -> bool {
    ["/livez", "/readyz", "/metrics"].contains(&path)
}

/// The two calls that tell whether a process is well.
pub fn health_router(health: Health) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .with_state(health)
}

/// The call that shows the metrics.
pub fn metrics_router(metrics: MetricsHandle) -> Router {
    Router::new()
        .route("/metrics", get(render))
        .with_state(metrics)
}

/// Say whether the process is to be restarted
#[utoipa::path(
    get, path = "/livez", tag = "probes",
    responses(
        (status = 200, description = "It works, or waits for others.", body = String),
        (status = 503, description = "It cannot recover by itself; why.", body = String),
    ),
)]
pub(crate) async fn livez(State(health): State<Health>) -> (StatusCode, String) {
    match health.failing() {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}

/// Say whether the process can do its work
#[utoipa::path(
    get, path = "/readyz", tag = "probes",
    responses(
        (status = 200, description = "It can.", body = Readiness),
        (status = 503, description = "It waits for something; for what.", body = Readiness),
    ),
)]
pub(crate) async fn readyz(State(health): State<Health>) -> Response {
    let readiness = health.readiness();
    let status = if readiness.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(readiness)).into_response()
}

/// Show the metrics, in Prometheus' text format
#[utoipa::path(
    get, path = "/metrics", tag = "probes",
    responses(
        (status = 200, description = "All of them.", body = String),
        (status = 401, description = "Where callers are authenticated: nothing valid says who calls.", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Where callers are authenticated: it takes a service key with `admin`.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn render(State(metrics): State<MetricsHandle>) -> impl IntoResponse {
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], metrics.render())
}
