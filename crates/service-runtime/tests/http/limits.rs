//! Clients that are slow, large or many, over raw connections.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::routing::{get, post};
use reqwest::{Client, StatusCode};
use service_runtime::{Health, HttpConfig, health_router};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::held;
use crate::server::{PATIENCE, Server, rest_of};

fn impatient() -> HttpConfig {
    HttpConfig {
        header_read_timeout_ms: 300,
        idle_timeout_ms: 300,
        ..HttpConfig::default()
    }
}

fn hello() -> Router {
    Router::new().route("/", get(async || "hello"))
}

#[tokio::test]
async fn headers_that_do_not_come_in_time_end_the_connection() {
    let server = Server::start(hello(), impatient()).await;
    assert_eq!(server.tell(b"GET / HTTP/1.1\r\nhost:").await, "");
}

#[tokio::test]
async fn headers_that_trickle_do_not_gain_time() {
    let server = Server::start(hello(), impatient()).await;
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let begun = Instant::now();
    stream
        .write_all(b"GET / HTTP/1.1\r\nx-slow: ")
        .await
        .unwrap();
    while stream.write_all(b"x").await.is_ok() {
        assert!(begun.elapsed() < PATIENCE, "the connection stays open");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let server = Server::start(hello(), impatient()).await;
    assert_eq!(server.tell(b"").await, "");
}

#[tokio::test]
async fn a_connection_that_falls_idle_is_closed() {
    let server = Server::start(hello(), impatient()).await;
    let answer = server.tell(b"GET / HTTP/1.1\r\nhost: t\r\n\r\n").await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"),
        "{answer}"
    );
}

/// Nobody reads this body: neither may it keep the connection.
#[tokio::test]
async fn a_body_that_nobody_reads_does_not_hold_a_connection() {
    let server = Server::start(Router::new().route("/", post(async || "done")), impatient()).await;
    let request = b"POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 1000000\r\n\r\nx";
    let answer = server.tell(request).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// Who is not told sends the next request into a closed connection.
#[tokio::test]
async fn a_refusal_that_ends_the_connection_says_so() {
    let server = Server::start(hello(), impatient()).await;
    let head = "POST / HTTP/1.1\r\nhost: t\r\ncontent-length:";
    for (length_and_body, closes) in [("1000000\r\n\r\nx", true), ("2\r\n\r\n{}", false)] {
        let answer = server
            .tell(format!("{head} {length_and_body}").as_bytes())
            .await;
        assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
        assert_eq!(answer.contains("connection: close"), closes, "{answer}");
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
async fn too_many_headers_are_counted() {
    let server = Server::start(hello(), HttpConfig::default()).await;
    let with = |count: usize| {
        let headers: String = (0..count).map(|n| format!("x-{n}: 1\r\n")).collect();
        format!("GET / HTTP/1.1\r\nconnection: close\r\n{headers}\r\n")
    };
    let answer = server.tell(with(99).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    for count in [100, 900] {
        let answer = server.tell(with(count).as_bytes()).await;
        let expected = format!(
            "the request has {} headers; must have 100 at most",
            count + 1
        );
        assert!(
            answer.starts_with("HTTP/1.1 431") && answer.contains(&expected),
            "{answer}"
        );
    }
    // hyper's own words from here on, which are none.
    let answer = server.tell(with(1_500).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test]
async fn headers_and_uris_may_not_be_endless() {
    let server = Server::start(hello(), HttpConfig::default()).await;
    let long = "x".repeat(1024 * 1024);
    for request in [
        format!("GET / HTTP/1.1\r\nx-long: {long}\r\n\r\n"),
        format!("GET /{long} HTTP/1.1\r\n\r\n"),
        format!("GET /?{long} HTTP/1.1\r\n\r\n"),
        long.clone(),
    ] {
        let answer = server.tell(request.as_bytes()).await;
        // What was not read resets the connection, which can take the answer with it.
        let refused = ["HTTP/1.1 431", "HTTP/1.1 414", "HTTP/1.1 400"];
        assert!(
            answer.is_empty() || refused.iter().any(|status| answer.starts_with(status)),
            "{answer}"
        );
    }
    let uri = "x".repeat(40_000);
    let answer = server
        .tell(format!("GET /?{uri} HTTP/1.1\r\nconnection: close\r\n\r\n").as_bytes())
        .await;
    assert!(
        answer.starts_with("HTTP/1.1 431") && answer.contains("must be 32768 at most"),
        "{answer}"
    );
}

#[tokio::test]
async fn what_is_not_http_is_refused() {
    let server = Server::start(hello(), HttpConfig::default()).await;
    let strange: [&[u8]; 6] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a hello of TLS\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nx: a\0b\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\nab",
    ];
    for request in strange {
        let answer = server.tell(request).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{request:?}: {answer}");
    }
}

#[tokio::test]
async fn who_sends_no_more_is_still_answered() {
    let (router, mut arrived) = held();
    let server = Server::start(router, HttpConfig::default()).await;
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let request = b"GET /held HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    stream.shutdown().await.unwrap();
    arrived.recv().await.unwrap().send(()).unwrap();
    let answer = rest_of(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// Two requests in one where proxies before us may see one: neither the length nor the chunks are believed.
#[tokio::test]
async fn a_smuggled_request_is_not_answered() {
    let server = Server::start(
        Router::new().route("/", post(async |body: String| body)),
        impatient(),
    )
    .await;
    let [length, chunked] = ["content-length: 5\r\n", "transfer-encoding: chunked\r\n"];
    let before = "POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\nab";
    for (before, headers) in [
        ("", [length, chunked]),
        ("", [chunked, length]),
        (before, [chunked, length]),
    ] {
        let headers = headers.concat();
        let request = format!(
            "{before}POST / HTTP/1.1\r\n{headers}\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n"
        );
        let answer = server.tell(request.as_bytes()).await;
        assert!(answer.contains("HTTP/1.1 400"), "{answer}");
        assert!(
            answer.contains("Content-Length stands beside Transfer-Encoding"),
            "{answer}"
        );
        assert!(!answer.contains("HTTP/1.1 404"), "{answer}");
        assert_eq!(
            answer.contains("HTTP/1.1 200"),
            !before.is_empty(),
            "{answer}"
        );
    }
}

fn one_place() -> HttpConfig {
    HttpConfig {
        max_connections: 1,
        ..HttpConfig::default()
    }
}

async fn connected(server: &Server, request: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    stream.write_all(request).await.unwrap();
    stream
}

const HELD: &[u8] = b"GET /held HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n";
const LIVEZ: &[u8] = b"GET /livez HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn connections_beyond_the_limit_are_told_so_and_probes_are_answered() {
    let (router, mut arrived) = held();
    let server = Server::start(router.merge(health_router(Health::new())), one_place()).await;
    let mut first = connected(&server, HELD).await;
    let let_go = arrived.recv().await.unwrap();
    let answer = server.tell(HELD).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    for part in [
        "application/problem+json",
        "connection: close",
        "retry-after: 1",
        "1 connections open",
    ] {
        assert!(answer.contains(part), "{part} is not in {answer}");
    }
    let answer = server.tell(LIVEZ).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let_go.send(()).unwrap();
    assert!(rest_of(&mut first).await.starts_with("HTTP/1.1 200"));
    let mut next = connected(&server, HELD).await;
    arrived.recv().await.unwrap().send(()).unwrap();
    assert!(rest_of(&mut next).await.starts_with("HTTP/1.1 200"));
}

/// Also those that said something once, and those that begin TLS or a request and say no more.
#[tokio::test]
async fn who_says_nothing_keeps_nobody_out() {
    let server = Server::start(hello(), one_place()).await;
    let request = b"GET / HTTP/1.1\r\nhost: t\r\n\r\n";
    let mut silent = Vec::new();
    for nth in 0..300 {
        let said: &[u8] = [&b""[..], b"GET / HT", request][nth % 3];
        silent.push(connected(&server, said).await);
    }
    let answer = server.tell(b"GET / HTTP/1.0\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
}

/// A byte every second would satisfy every other limit.
#[tokio::test]
async fn who_owes_the_rest_of_a_body_keeps_nobody_out() {
    let (begun, mut begins) = mpsc::channel(1);
    let post = async move |body: Body| {
        begun.send(()).await.unwrap();
        to_bytes(body, usize::MAX).await.unwrap().len().to_string()
    };
    let router = Router::new().route("/", get(async || "hello").post(post));
    let server = Server::start(router, one_place()).await;
    let head = "POST / HTTP/1.1\r\nhost: t\r\nconnection: close\r\n";
    let length = format!("{head}content-length: 3\r\n\r\na");
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n3\r\na");
    let mut owing = Vec::new();
    for nth in 0..200 {
        let said = [&length, &chunked][nth % 2].as_bytes();
        owing.push(connected(&server, said).await);
        timeout(PATIENCE, begins.recv())
            .await
            .expect("a place")
            .unwrap();
    }
    let answer = server.tell(b"GET / HTTP/1.0\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    // Who came last is still there.
    let mut last = owing.pop().unwrap();
    last.write_all(b"bc\r\n0\r\n\r\n").await.unwrap();
    let answer = rest_of(&mut last).await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with('3'),
        "{answer}"
    );
}

/// Calls when it is dropped.
struct OnDrop(mpsc::Sender<()>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        let _ = self.0.try_send(());
    }
}

#[tokio::test]
async fn a_client_that_is_gone_holds_no_place_and_nothing_waits_for_it() {
    let (begun, mut begins) = mpsc::channel(1);
    let (ended, mut ends) = mpsc::channel(1);
    let handler = async move || {
        let _guard = OnDrop(ended);
        begun.send(()).await.unwrap();
        std::future::pending::<()>().await;
    };
    let server = Server::start(Router::new().route("/held", get(handler)), one_place()).await;
    for keeps_alive in [true, false] {
        let close: &[u8] = if keeps_alive {
            b"\r\n"
        } else {
            b"connection: close\r\n\r\n"
        };
        let request = [b"GET /held HTTP/1.1\r\nhost: t\r\n", close].concat();
        let client = connected(&server, &request).await;
        begins.recv().await.unwrap();
        drop(client);
        timeout(PATIENCE, ends.recv())
            .await
            .expect("its handler ends")
            .unwrap();
    }
}

/// By a clock that goes on only where everybody waits.
#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_takes_ends() {
    let (ended, mut ends) = mpsc::channel(1);
    let body = async move || {
        let guard = OnDrop(ended);
        let more = futures::stream::repeat_with(move || {
            let _ = &guard;
            Ok::<_, Infallible>(Bytes::from_static(&[0; 65_536]))
        });
        Body::from_stream(more)
    };
    let server = Server::start(Router::new().route("/", get(body)), one_place()).await;
    let _client = connected(&server, b"GET / HTTP/1.1\r\nhost: t\r\n\r\n").await;
    let ended = timeout(Duration::from_secs(60), ends.recv()).await;
    ended.expect("the answer is given up").unwrap();
}

/// By a clock that goes on only where everybody waits.
#[tokio::test(start_paused = true)]
async fn what_is_sent_beyond_the_limit_is_read_later() {
    let http = || HttpConfig {
        header_read_timeout_ms: 600_000,
        ..HttpConfig::default()
    };
    let router = || Router::new().route("/", post(async |body: Bytes| body.len().to_string()));
    let request =
        "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 200000\r\n\r\n";
    let request = request.to_owned() + &"x".repeat(200_000);
    for (limit, least_s, most_s) in [(None, 0, 1), (Some(1_000), 100, 200)] {
        let server = Server::start_reading(router(), http(), limit).await;
        let begun = Instant::now();
        let mut stream = TcpStream::connect(server.addr).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("\r\n\r\n200000"), "{answer}");
        // Ten seconds' worth comes at once, and what is read last, 64 KiB at most, is not waited for.
        let took_s = begun.elapsed().as_secs();
        assert!((least_s..most_s).contains(&took_s), "{limit:?}: {took_s} s");
    }
}
