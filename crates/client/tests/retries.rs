//! Against a server that fails before it accepts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use client::{Client, ClientError, Event, Retry, message};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The bodies that the server has seen.
type Seen = Arc<Mutex<Vec<String>>>;

const QUICK: Retry = Retry {
    within: Duration::from_secs(10),
    first_pause: Duration::from_millis(1),
    longest_pause: Duration::from_millis(1),
};

async fn server() -> (String, Seen) {
    let seen = Seen::default();
    let router = Router::new()
        .route("/v1/messages", post(messages))
        .route("/v1/events", post(events))
        .with_state(Arc::clone(&seen));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (base, seen)
}

fn note(seen: &Seen, body: String) -> usize {
    let mut seen = seen.lock().unwrap();
    seen.push(body);
    seen.len()
}

/// The outcome of the first two is unknown.
async fn messages(State(seen): State<Seen>, body: String) -> Response {
    let id = serde_json::from_str::<Value>(&body).unwrap()["client_msg_id"].clone();
    if note(&seen, body) <= 2 {
        let problem = json!({
            "type": "/problems/unknown-outcome",
            "title": "The outcome is unknown",
            "status": 503,
            "detail": "unknown",
            "client_msg_id": id,
        });
        return (StatusCode::SERVICE_UNAVAILABLE, Json(problem)).into_response();
    }
    let accepted = json!({ "partition": 17, "offset": 42, "client_msg_id": id });
    (StatusCode::ACCEPTED, Json(accepted)).into_response()
}

/// Of the first request only the first line is taken, and the second line is wrong.
async fn events(State(seen): State<Seen>, body: String) -> String {
    let lines = body.lines().count();
    let accepted = |line| json!({ "line": line, "status": 202, "partition": 1, "offset": 7 });
    let refused = |line, status| json!({ "line": line, "status": status, "type": "/problems/x" });
    let results = match note(&seen, body) {
        1 => vec![accepted(1), refused(2, 400), refused(3, 503)],
        _ => (1..=lines).map(accepted).collect(),
    };
    results.iter().map(|result| format!("{result}\n")).collect()
}

fn hello() -> schemas::command::SendMessage {
    message(1.try_into().unwrap(), 2.try_into().unwrap(), "hello")
}

#[tokio::test]
async fn a_send_of_unknown_outcome_is_repeated_with_the_same_id() {
    let (base, seen) = server().await;
    let client = Client::builder(&base, &base).retry(QUICK).build().unwrap();
    let sent = hello();
    let accepted = client.send(&sent).await.unwrap();
    assert_eq!(accepted.position.to_string(), "17:42");
    assert_eq!(
        accepted.client_msg_id.as_deref(),
        Some(sent.client_msg_id.as_str())
    );
    assert_eq!(client.unknown_outcomes(), 2);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|body| *body == seen[0]), "{seen:?}");
}

#[tokio::test]
async fn without_retries_the_problem_is_returned() {
    let (base, seen) = server().await;
    let never = Client::builder(&base, &base).retry(Retry::NEVER);
    let error = never.build().unwrap().send(&hello()).await.unwrap_err();
    assert!(error.is_retryable());
    assert!(error.problem().unwrap().is_unknown_outcome(), "{error}");
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let nobody = "http://127.0.0.1:1";
    let client = Client::builder(nobody, nobody).retry(Retry::NEVER);
    let error = client.build().unwrap().send(&hello()).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn only_lines_that_may_succeed_later_are_posted_again() {
    let (base, seen) = server().await;
    let client = Client::builder(&base, &base).build().unwrap();
    let lines: Vec<String> = (0..4).map(|_| Event::Message(hello()).to_line()).collect();
    let mut done = 0;
    let batch = client
        .post_batch(&lines, 10, |more| done += more)
        .await
        .unwrap();
    let accepted: Vec<usize> = batch.accepted.iter().map(|one| one.line).collect();
    assert_eq!(accepted, [1, 3, 4]);
    assert_eq!(batch.rejected[0].line, 2);
    assert_eq!(done, 4);
    let again = format!("{}\n{}\n", lines[2], lines[3]);
    assert_eq!(seen.lock().unwrap()[1], again);
}
