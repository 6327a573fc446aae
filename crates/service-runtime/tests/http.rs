//! The HTTP side of a process against real sockets.
// The lint lets tests unwrap, but does not see that the helpers beside them are tests, too.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use reqwest::{Client, Response, StatusCode};
use service_runtime::{
    BindError, Health, HttpConfig, MetricsHandle, Shutdown, bind_listener, health_router,
    middleware, serve,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longer than anything here takes; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server on a free port, for one test.
struct Server {
    addr: SocketAddr,
    shutdown: Shutdown,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Server {
    async fn start(router: Router, http: HttpConfig) -> Self {
        let listener = bind_listener("test.bind", any_port(), &http).await.unwrap();
        let (addr, shutdown) = (listener.local_addr().unwrap(), Shutdown::new());
        let watched = shutdown.clone();
        let task = tokio::spawn(async move { serve(listener, router, &http, watched).await });
        Self {
            addr,
            shutdown,
            task,
        }
    }

    async fn get(&self, path: &str) -> Response {
        let url = format!("http://{}{path}", self.addr);
        Client::new().get(url).send().await.unwrap()
    }

    async fn ended(self) {
        let ended = timeout(PATIENCE, self.task).await;
        ended.expect("the server ends").unwrap().unwrap();
    }
}

fn any_port() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

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
    let gate = health.gate("test.kafka");
    let router = health_router(health.clone(), MetricsHandle::installed());
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
    gate.ready();
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
        .merge(health_router(Health::new(), MetricsHandle::installed()));
    let server = Server::start(middleware(router), HttpConfig::default()).await;

    let answer = server.get("/users/271828").await;
    assert!(!answer.headers()["x-request-id"].is_empty());
    server.get("/no/such/path").await;
    let metrics = server.get("/metrics").await.text().await.unwrap();
    for line in [
        r#"http_requests_total{method="GET",path="/users/{uid}",status="200"}"#,
        r#"http_requests_total{method="GET",path="unmatched",status="404"}"#,
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
async fn headers_that_do_not_come_in_time_end_the_connection() {
    let http = HttpConfig {
        header_read_timeout_ms: 100,
        ..HttpConfig::default()
    };
    let server = Server::start(Router::new(), http).await;
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
    let mut answer = Vec::new();
    let closed = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    closed.expect("the server closes the connection").unwrap();
}

#[tokio::test]
async fn headers_may_not_be_endless() {
    let server = Server::start(Router::new(), HttpConfig::default()).await;
    let url = format!("http://{}/", server.addr);
    let long = "x".repeat(1024 * 1024);
    let answer = Client::new().get(url).header("x-long", long).send().await;
    // The server does not wait for the rest, so the client may fail to send it before it sees the answer.
    if let Ok(answer) = answer {
        assert_eq!(answer.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }
}

#[tokio::test]
async fn headers_above_the_limit_are_named() {
    let server = Server::start(Router::new(), HttpConfig::default()).await;
    let url = format!("http://{}/", server.addr);
    let ask = async |bytes: usize| {
        let value = "x".repeat(bytes);
        let asked = Client::new().get(&url).header("x-long", value).send();
        asked.await.unwrap()
    };
    assert_eq!(ask(30 * 1024).await.status(), StatusCode::NOT_FOUND);
    let answer = ask(32 * 1024).await;
    assert_eq!(answer.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    let problem: serde_json::Value = answer.json().await.unwrap();
    assert_eq!(problem["type"], "/problems/headers-too-large");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.ends_with("must be 32768 at most"), "{detail}");
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_a_slot() {
    let http = HttpConfig {
        max_connections: 1,
        ..HttpConfig::default()
    };
    let server = Server::start(Router::new().route("/", get(async || "hello")), http).await;
    let first = TcpStream::connect(server.addr).await.unwrap();
    let url = format!("http://{}/", server.addr);
    let mut second = tokio::spawn(async move { Client::new().get(url).send().await });
    let early = timeout(Duration::from_millis(200), &mut second).await;
    assert!(early.is_err(), "served beside the first");
    drop(first);
    let answer = timeout(PATIENCE, second).await.unwrap().unwrap().unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test]
async fn only_loopback_unless_allowed() {
    let anywhere: SocketAddr = ([0, 0, 0, 0], 0).into();
    let refused = bind_listener("test.bind", anywhere, &HttpConfig::default())
        .await
        .unwrap_err();
    assert!(matches!(refused, BindError::NotLoopback { .. }));
    let message = refused.to_string();
    assert!(message.contains("test.bind") && message.contains("http.allow_non_loopback"));
}

#[tokio::test]
async fn a_taken_port_is_named_with_its_setting() {
    let http = HttpConfig::default();
    let first = bind_listener("test.bind", any_port(), &http).await.unwrap();
    let addr = first.local_addr().unwrap();
    let message = bind_listener("test.bind", addr, &http)
        .await
        .unwrap_err()
        .to_string();
    let port = format!("port {}", addr.port());
    assert!(
        message.contains(&port) && message.contains("test.bind"),
        "{message}"
    );
}
