//! `/livez`, `/readyz` and `/metrics`.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};

use crate::{Health, MetricsHandle};

/// The three calls that every process answers, for whoever runs and watches it.
pub fn health_router(health: Health, metrics: MetricsHandle) -> Router {
    Router::new()
        .route("/metrics", get(render))
        .with_state(metrics)
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .with_state(health)
}

async fn livez(State(health): State<Health>) -> (StatusCode, String) {
    match health.failing() {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}

async fn readyz(State(health): State<Health>) -> Response {
    let readiness = health.readiness();
    let status = if readiness.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(readiness)).into_response()
}

async fn render(State(metrics): State<MetricsHandle>) -> impl IntoResponse {
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], metrics.render())
}
