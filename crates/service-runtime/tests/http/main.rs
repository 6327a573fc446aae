//! The HTTP side of a process against real sockets.
// The lint lets tests unwrap, but does not see that the helpers beside them are tests, too.
#![allow(clippy::unwrap_used)]

mod limits;
mod origins;
mod pages;
mod server;
mod tls;

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use reqwest::{Client, StatusCode};
use service_runtime::{
    BindError, Health, HttpConfig, MetricsHandle, bind_listener, health_router, metrics_router,
    middleware,
};
use tokio::sync::{mpsc, oneshot};

use crate::server::{Server, any_port};

/// A handler that says when it has begun and answers when it is let go.
fn held() -> (Router, mpsc::Receiver<oneshot::Sender<()>>) {
    let (begun, begins) = mpsc::channel(1);
    let handler = async move || {
        let (let_go, gone) = oneshot::channel();
        begun.send(let_go).await.unwrap();
        let _ = gone.await;
        "done"
    };
    (Router::new().route("/held", get(handler)), begins)
}

#[tokio::test]
async fn the_probes_say_how_the_process_is() {
    let health = Health::new();
    let check = health.check("test.kafka");
    let router = health_router(health.clone());
    let server = Server::start(middleware(router), HttpConfig::default()).await;

    assert_eq!(server.get("/livez").await.status(), StatusCode::OK);
    let not_yet = server.get("/readyz").await;
    assert_eq!(not_yet.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(
        not_yet.json::<serde_json::Value>().await.unwrap(),
        serde_json::json!({
            "ready": false,
            "gates": [{"name": "test.kafka", "ready": false, "reason": "starting"}],
        })
    );
    check.ready();
    assert_eq!(server.get("/readyz").await.status(), StatusCode::OK);
    health.fail("cannot go on");
    assert_eq!(
        server.get("/livez").await.status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
}

#[tokio::test]
async fn metrics_count_by_route_and_requests_carry_an_id() {
    let router = Router::new()
        .route("/users/{uid}", get(async || "hello"))
        .merge(metrics_router(MetricsHandle::installed()));
    let server = Server::start(middleware(router), HttpConfig::default()).await;

    let answer = server.get("/users/271828").await;
    assert!(!answer.headers()["x-request-id"].is_empty());
    server.get("/no/such/path").await;
    let metrics = server.get("/metrics").await.text().await.unwrap();
    for line in [
        r#"tidemark_http_requests_total{method="GET",path="/users/{uid}",status="200"}"#,
        r#"tidemark_http_requests_total{method="GET",path="unmatched",status="404"}"#,
        r#"http_request_duration_seconds_bucket{method="GET",path="/users/{uid}",le="0.005"}"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    assert!(!metrics.contains("271828"));
}

#[tokio::test]
async fn a_panic_is_answered_with_a_problem() {
    async fn broken() -> &'static str {
        panic!("secret cause")
    }
    let router = middleware(Router::new().route("/", get(broken)));
    let server = Server::start(router, HttpConfig::default()).await;
    let answer = server.get("/").await;
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(answer.headers()["content-type"], "application/problem+json");
    assert!(answer.headers().contains_key("x-request-id"));
    assert!(!answer.text().await.unwrap().contains("secret"));
}

#[tokio::test]
async fn a_soft_stop_finishes_the_request_in_progress() {
    let (router, mut begins) = held();
    let server = Server::start(router, HttpConfig::default()).await;
    let url = format!("http://{}/held", server.addr);
    let answer = tokio::spawn(async move { Client::new().get(url).send().await });
    let let_go = begins.recv().await.unwrap();

    server.shutdown.begin();
    let_go.send(()).unwrap();
    let answer = answer.await.unwrap().unwrap();
    assert_eq!(answer.text().await.unwrap(), "done");
    server.ended().await;
}

#[tokio::test]
async fn a_hard_stop_drops_what_is_stuck() {
    let (router, mut begins) = held();
    let server = Server::start(router, HttpConfig::default()).await;
    let url = format!("http://{}/held", server.addr);
    let answer = tokio::spawn(async move { Client::new().get(url).send().await });
    let _let_go = begins.recv().await.unwrap();

    server.shutdown.force();
    server.ended().await;
    assert!(answer.await.unwrap().is_err());
}

#[tokio::test]
async fn only_loopback_unless_allowed() {
    let anywhere: SocketAddr = ([0, 0, 0, 0], 0).into();
    let http = HttpConfig::default();
    let refused = bind_listener("test.bind", anywhere, &http, &http).unwrap_err();
    assert!(matches!(refused, BindError::NotLoopback { .. }));
    let message = refused.to_string();
    assert!(message.contains("test.bind") && message.contains("http.allow_non_loopback"));
}

#[tokio::test]
async fn a_taken_port_is_named_with_its_setting() {
    let http = HttpConfig::default();
    let first = bind_listener("test.bind", any_port(), &http, &http).unwrap();
    let addr = first.local_addr().unwrap();
    let message = bind_listener("test.bind", addr, &http, &http)
        .unwrap_err()
        .to_string();
    let port = format!("port {}", addr.port());
    assert!(
        message.contains(&port) && message.contains("test.bind"),
        "{message}"
    );
}
