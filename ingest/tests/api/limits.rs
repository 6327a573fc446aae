//! Every limit, at its last good value and at its first bad one.

use reqwest::{Body, Client, Response};
use serde_json::{Value, json};

use crate::{log::fresh_pair, raw_http::RawRequest, server::Server};

async fn post(server: &Server, path: &str, content_type: &str, body: impl Into<Body>) -> Response {
    let request = Client::new()
        .post(server.url(path))
        .header("content-type", content_type);
    request.body(body).send().await.unwrap()
}

/// A message whose JSON is exactly so long.
fn body_of(bytes: usize) -> String {
    let (srcid, destid) = fresh_pair();
    let body = |msg: &str| json!({"srcid": srcid, "destid": destid, "msg": msg}).to_string();
    let filler = bytes - body("").len();
    body(&"x".repeat(filler))
}

/// A line whose JSON is exactly so long.
fn line_of(bytes: usize) -> String {
    format!(
        r#"{{"message":{}}}"#,
        body_of(bytes - r#"{"message":}"#.len())
    )
}

/// A body that does not say how long it is.
fn undeclared(body: String) -> Body {
    let (first, second) = body.split_at(body.len() / 2);
    let pieces = [first.to_owned(), second.to_owned()].map(Ok::<_, std::io::Error>);
    Body::wrap_stream(futures::stream::iter(pieces))
}

#[tokio::test]
async fn the_msg() {
    let server = Server::start(&[]);
    for (msg, status) in [
        ("x".repeat(16_384), 202),
        ("x".repeat(16_385), 400),
        ("ü".repeat(8_192), 202),
        ("ü".repeat(8_192) + "x", 400),
        ("x".to_owned(), 202),
        (String::new(), 400),
    ] {
        let (srcid, destid) = fresh_pair();
        let body = json!({"srcid": srcid, "destid": destid, "msg": msg}).to_string();
        let response = post(&server, "/v1/messages", "application/json", body).await;
        assert_eq!(response.status().as_u16(), status, "{} bytes", msg.len());
    }
}

#[tokio::test]
async fn the_largest_msg_that_can_be_configured() {
    let server = Server::start(&[("ingest.max_msg_bytes", "65535")]);
    for (bytes, status) in [(65_535, 202), (65_536, 400)] {
        let (srcid, destid) = fresh_pair();
        let body = json!({"srcid": srcid, "destid": destid, "msg": "x".repeat(bytes)}).to_string();
        let response = post(&server, "/v1/messages", "application/json", body).await;
        assert_eq!(response.status().as_u16(), status);
    }
}

#[tokio::test]
async fn the_body_of_a_single_post() {
    let server = Server::start(&[("ingest.max_body_bytes", "2000")]);
    for (bytes, status) in [(2_000, 202), (2_001, 413), (100_000, 413)] {
        let body = body_of(bytes);
        let declared = post(&server, "/v1/messages", "application/json", body.clone()).await;
        assert_eq!(declared.status().as_u16(), status, "{bytes}");
        let undeclared = undeclared(body);
        let response = post(&server, "/v1/messages", "application/json", undeclared).await;
        assert_eq!(response.status().as_u16(), status, "{bytes}, undeclared");
    }
}

#[tokio::test]
async fn the_line_of_a_batch() {
    let server = Server::start(&[("ingest.max_line_bytes", "1000")]);
    let (good, bad) = (line_of(1_000), line_of(1_001));
    let body = format!("{good}\n{bad}\r\n{good}\r\n{bad}\n{good}");
    let response = post(&server, "/v1/events", "application/x-ndjson", body).await;
    let text = response.text().await.unwrap();
    let statuses: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["status"].clone())
        .collect();
    assert_eq!(
        statuses,
        [
            json!(202),
            json!(413),
            json!(202),
            json!(413),
            json!(202),
            Value::Null
        ]
    );
}

#[tokio::test]
async fn the_body_of_a_batch() {
    let server = Server::start(&[("ingest.max_batch_bytes", "3000")]);
    let at_limit = format!("{}\n{}", line_of(1_500), line_of(1_499));
    let response = post(
        &server,
        "/v1/events",
        "application/x-ndjson",
        at_limit.clone(),
    )
    .await;
    assert!(
        response
            .text()
            .await
            .unwrap()
            .ends_with("{\"accepted\":2,\"rejected\":0}\n")
    );

    let above = at_limit + "\n";
    let response = post(&server, "/v1/events", "application/x-ndjson", above.clone()).await;
    assert_eq!(response.status(), 413);
    assert_eq!(
        response.headers()["content-type"],
        "application/problem+json"
    );

    // Nobody said that it would be too long: what came within the limit is done, and the rest is refused.
    let response = post(
        &server,
        "/v1/events",
        "application/x-ndjson",
        undeclared(above),
    )
    .await;
    assert_eq!(response.status(), 200);
    let text = response.text().await.unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["status"], 202);
    assert_eq!(
        (&lines[1]["line"], &lines[1]["status"]),
        (&json!(2), &json!(413))
    );
    assert_eq!(lines[2], json!({"accepted": 1, "rejected": 1}));
}

#[tokio::test]
async fn the_number_of_batches() {
    let server = Server::start(&[("ingest.max_batches", "1")]);
    let addr = server.addr();
    let mut first = RawRequest::batch(addr);
    let answer = first.answer();
    assert_eq!(answer.status, 200);
    let refused = post(&server, "/v1/events", "application/x-ndjson", "").await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    first.end();
    tokio::task::spawn_blocking(|| answer.lines())
        .await
        .unwrap();
    crate::server::wait_until("the next batch is taken on", async || {
        let response = post(&server, "/v1/events", "application/x-ndjson", "").await;
        response.status() == 200
    })
    .await;
}

#[tokio::test]
async fn the_time_for_the_body_of_a_single_post() {
    let server = Server::start(&[
        ("ingest.request_deadline_ms", "400"),
        ("ingest.message_timeout_ms", "300"),
    ]);
    let addr = server.addr();
    let answer = tokio::task::spawn_blocking(move || {
        let head = "POST /v1/messages HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{";
        RawRequest::head(addr, head).answer()
    });
    let answer = answer.await.unwrap();
    assert_eq!(answer.status, 408);
    assert_eq!(
        answer.problem()["detail"],
        "the request was not complete after 0.4 s"
    );
}
