//! Against a server that fails before it accepts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use client::{Client, ClientError, Retry, line, message};
use schemas::{
    ChangeContact, DeviceClass, Mid, Recipient,
    command::{Command, ReadAck},
};
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
        .route("/v1/read-acks", post(messages))
        .route("/v1/contact-changes", post(messages))
        .route("/v1/events", post(events))
        .with_state(Arc::clone(&seen));
    (serve(router).await, seen)
}

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    base
}

fn note(seen: &Seen, body: String) -> usize {
    let mut seen = seen.lock().unwrap();
    seen.push(body);
    seen.len()
}

/// The outcome of the first two is unknown.
async fn messages(State(seen): State<Seen>, headers: HeaderMap, body: String) -> Response {
    let id = serde_json::from_str::<Value>(&body).unwrap()["client_msg_id"].clone();
    let key = headers.get("idempotency-key");
    if note(&seen, format!("{key:?} {body}")) <= 2 {
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

/// The first request gets nothing, of the second the results break off after the first line, the third is taken.
async fn restarting(State(seen): State<Seen>, body: String) -> Response {
    let lines = body.lines().count();
    let accepted = |line| json!({ "line": line, "status": 202, "partition": 1, "offset": 7 });
    let text = |upto| -> String {
        (1..=upto)
            .map(|line| format!("{}\n", accepted(line)))
            .collect()
    };
    match note(&seen, body) {
        1 => (StatusCode::SERVICE_UNAVAILABLE, "starting").into_response(),
        2 => text(1).into_response(),
        _ => text(lines).into_response(),
    }
}

fn hello() -> schemas::command::SendMessage {
    message(1.try_into().unwrap(), 2.try_into().unwrap(), "hello")
}

#[tokio::test]
async fn a_send_of_unknown_outcome_is_repeated_with_the_same_id() {
    let (base, seen) = server().await;
    let client = Client::builder(&base, &base).retry(QUICK).build().unwrap();
    let sent = hello();
    let accepted = client.post_command(sent.clone()).await.unwrap();
    assert_eq!(accepted.position().to_string(), "17:42");
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
    let error = never
        .build()
        .unwrap()
        .post_command(hello())
        .await
        .unwrap_err();
    assert!(error.is_retryable());
    assert!(error.problem().unwrap().is_unknown_outcome(), "{error}");
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let nobody = "http://127.0.0.1:1";
    let client = Client::builder(nobody, nobody).retry(Retry::NEVER);
    let error = client
        .build()
        .unwrap()
        .post_command(hello())
        .await
        .unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn only_lines_that_may_succeed_later_are_posted_again() {
    let (base, seen) = server().await;
    let client = Client::builder(&base, &base).build().unwrap();
    let lines: Vec<String> = (0..4).map(|_| line(&Command::Send(hello()))).collect();
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

#[tokio::test]
async fn a_batch_goes_on_where_ingest_is_away_and_repeats_a_message_with_its_id() {
    let seen = Seen::default();
    let router = Router::new().route("/v1/events", post(restarting));
    let base = serve(router.with_state(Arc::clone(&seen))).await;
    let client = Client::builder(&base, &base).retry(QUICK).build().unwrap();
    let without_id =
        |to: i64| json!({"message": {"srcid": 1, "destid": to, "msg": "x"}}).to_string();
    let lines = [
        without_id(2),
        String::new(),
        format!("{}\n", without_id(3)),
        without_id(4),
    ];
    let batch = client.post_batch(&lines, 10, |_| ()).await.unwrap();
    // The numbers are those of the lines that were given, blank ones included.
    let accepted: Vec<usize> = batch.accepted.iter().map(|one| one.line).collect();
    assert_eq!(accepted, [1, 3, 4]);
    let seen = seen.lock().unwrap();
    let posted: Vec<Vec<&str>> = seen.iter().map(|body| body.lines().collect()).collect();
    assert_eq!(posted[0], posted[1]);
    assert_eq!(posted[1][1..], posted[2]);
    assert!(
        posted[0].iter().all(|line| line.contains("client_msg_id")),
        "{posted:?}"
    );
}

#[tokio::test]
async fn a_batch_that_nobody_takes_ends_with_the_last_error() {
    let nobody = "http://127.0.0.1:1";
    let client = Client::builder(nobody, nobody).retry(Retry::NEVER);
    let lines = [line(&Command::Send(hello()))];
    let posted = client.build().unwrap().post_batch(&lines, 10, |_| ()).await;
    let error = posted.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn a_read_ack_of_latest_is_not_repeated_after_an_unknown_outcome() {
    let ack = |mid| ReadAck {
        uid: 1.try_into().unwrap(),
        to: Recipient::User(2.try_into().unwrap()),
        device: DeviceClass::Pc,
        mid,
    };
    let (base, seen) = server().await;
    let client = Client::builder(&base, &base).retry(QUICK).build().unwrap();
    let error = client.post_command(ack(None)).await.unwrap_err();
    assert!(error.problem().unwrap().is_unknown_outcome(), "{error}");
    assert_eq!(seen.lock().unwrap().len(), 1);
    // One of a mid means the same whenever it is sequenced.
    client
        .post_command(ack(Some(Mid::ZERO.next())))
        .await
        .unwrap();
    assert_eq!(seen.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_deleted_contact_is_not_repeated_after_an_unknown_outcome() {
    let pin = ChangeContact {
        uid: 1.try_into().unwrap(),
        peer: 2.try_into().unwrap(),
        favourite: None,
        pinned: Some(true),
        muted: None,
        blocked: None,
        deleted: false,
        by_user: false,
    };
    let deletion = ChangeContact {
        deleted: true,
        ..pin
    };
    let (base, seen) = server().await;
    let client = Client::builder(&base, &base).retry(QUICK).build().unwrap();
    let error = client.post_command(deletion).await.unwrap_err();
    assert!(error.problem().unwrap().is_unknown_outcome(), "{error}");
    assert_eq!(seen.lock().unwrap().len(), 1);
    client.post_command(pin).await.unwrap();
    let seen = seen.lock().unwrap();
    let [_, first, again] = &seen[..] else {
        panic!("{seen:?}");
    };
    // Both attempts have one id.
    assert!(first.starts_with("Some") && first == again, "{seen:?}");
}
