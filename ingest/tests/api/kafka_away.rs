//! What ingest answers while Kafka does not.

use std::{
    net::TcpListener,
    process::Command,
    time::{Duration, Instant},
};

use dev_stack::FreshServers;
use futures::future::join_all;
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    log::{self, fresh_pair},
    server::{Server, wait_until},
};

const SHORT: [(&str, &str); 2] = [
    ("ingest.request_deadline_ms", "2000"),
    ("ingest.message_timeout_ms", "1000"),
];

fn send(server: &Server, body: &Value) -> RequestBuilder {
    Client::new().post(server.url("/v1/messages")).json(body)
}

async fn post_ack(server: &Server, body: &Value) -> Value {
    let post = Client::new().post(server.url("/v1/read-acks")).json(body);
    let response = post.send().await.unwrap();
    assert_eq!(response.status(), 503);
    response.json().await.unwrap()
}

/// An address where nobody listens.
fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

async fn unknown_outcome(response: Response) -> Value {
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["retry-after"], "1");
    let problem: Value = response.json().await.unwrap();
    assert_eq!(problem["type"], "/problems/unknown-outcome");
    assert_eq!(
        problem["detail"],
        "unknown: retry with the same client_msg_id"
    );
    problem
}

#[tokio::test]
async fn away_from_the_start() {
    let nowhere = nowhere();
    let mut settings = vec![("kafka.brokers", nowhere.as_str())];
    settings.extend(SHORT);
    let server = Server::start_apart(&settings);

    let started = Instant::now();
    let body = json!({"srcid": "1", "destid": "2", "msg": "a"});
    let problem = unknown_outcome(send(&server, &body).send().await.unwrap()).await;
    assert!(
        started.elapsed() < Duration::from_secs(4),
        "{:?}",
        started.elapsed()
    );
    let generated: Uuid = problem["client_msg_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(generated.get_version_num(), 7);

    let lines = Client::new()
        .post(server.url("/v1/events"))
        .header("content-type", "application/x-ndjson")
        .body("{\"message\":{\"srcid\":\"1\",\"destid\":\"2\",\"msg\":\"a\"}}\nbad\n")
        .send();
    let text = lines.await.unwrap().text().await.unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["type"], "/problems/unknown-outcome");
    assert!(lines[0]["client_msg_id"].is_string());
    assert_eq!(lines[1]["status"], 400);
    assert_eq!(lines[2], json!({"accepted": 0, "rejected": 2}));

    wait_until("the gate says what is missing", async || {
        let ready = Client::new()
            .get(server.url("/readyz"))
            .send()
            .await
            .unwrap();
        assert_eq!(ready.status(), 503);
        let gates: Value = ready.json().await.unwrap();
        let gate = gates["gates"].as_array().unwrap().iter();
        gate.clone()
            .any(|gate| gate["name"] == "ingest.kafka" && gate["reason"] != "starting")
    })
    .await;
}

#[tokio::test]
async fn no_room_is_said_at_once_and_comes_back() {
    let nowhere = nowhere();
    let server = Server::start_apart(&[
        ("kafka.brokers", &nowhere),
        ("ingest.in_flight_bytes", "4194304"),
        ("ingest.request_deadline_ms", "12000"),
        ("ingest.message_timeout_ms", "10000"),
    ]);
    // The byte budget of single posts is 1 MiB: 16 KiB each, and what a record takes beside.
    let msg = "x".repeat(16 * 1024);
    let body = json!({"srcid": "1", "destid": "2", "msg": msg});
    let posts = join_all((0..100).map(async |_| {
        let started = Instant::now();
        let response = send(&server, &body).send().await.unwrap();
        (response, started.elapsed())
    }));
    let (refused, waited): (Vec<_>, Vec<_>) = posts
        .await
        .into_iter()
        .partition(|(response, _)| response.status() == 429);
    assert!((50..=63).contains(&waited.len()), "{}", waited.len());
    for (response, after) in refused {
        assert!(after < Duration::from_secs(9), "{after:?}");
        assert_eq!(response.headers()["retry-after"], "1");
    }
    for (response, _) in waited {
        unknown_outcome(response).await;
    }
    // Every report has come, so the budget is free again.
    let again = send(&server, &json!({"srcid": "1", "destid": "2", "msg": "a"}));
    unknown_outcome(again.send().await.unwrap()).await;
}

fn signal(pid: u32, name: &str) {
    let pid = pid.to_string();
    let done = Command::new("kill").args([name, &pid]).status().unwrap();
    assert!(done.success());
}

#[tokio::test]
async fn paused_for_a_while() {
    let servers = tokio::task::spawn_blocking(|| FreshServers::start().unwrap())
        .await
        .unwrap();
    let status = servers.stack().status();
    let kafka = status.iter().find(|one| one.name == "kafka").unwrap();
    let pid = kafka.pid.unwrap();
    let config = log::with_topics(&servers.endpoints().kafka_brokers);
    let mut settings = vec![
        ("kafka.brokers", config.brokers.as_str()),
        ("kafka.prefix", config.prefix.as_str()),
    ];
    settings.extend(SHORT);
    let server = Server::start_apart(&settings);
    let (srcid, destid) = fresh_pair();
    let body = json!({"srcid": srcid, "destid": destid, "client_msg_id": "mine", "msg": "a"});
    wait_until("a message is accepted", async || {
        send(&server, &body).send().await.unwrap().status() == 202
    })
    .await;

    signal(pid, "-STOP");
    let problem = unknown_outcome(send(&server, &body).send().await.unwrap()).await;
    assert_eq!(problem["client_msg_id"], "mine");
    let mut ack = json!({"uid": destid, "peer": srcid, "device": "pc", "mid": 1});
    let problem = post_ack(&server, &ack).await;
    assert_eq!(
        problem["detail"],
        "unknown: retry with the same body and command_id"
    );
    let generated: Uuid = problem["command_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(generated.get_version_num(), 7);
    ack["mid"] = json!("latest");
    ack["command_id"] = json!("mine");
    let problem = post_ack(&server, &ack).await;
    assert_eq!(
        problem["detail"],
        "unknown: retry with the same body and command_id; below rule version 4, `latest` would also cover messages that came meanwhile"
    );
    assert_eq!(problem["command_id"], "mine");
    assert_eq!(problem["retry_after_s"], 1);
    let ready = || Client::new().get(server.url("/readyz")).send();
    wait_until("ingest is not ready", async || {
        ready().await.unwrap().status() == 503
    })
    .await;

    signal(pid, "-CONT");
    wait_until("a message is accepted again", async || {
        send(&server, &body).send().await.unwrap().status() == 202
    })
    .await;
    wait_until("ingest is ready again", async || {
        ready().await.unwrap().status() == 200
    })
    .await;
    tokio::task::spawn_blocking(move || drop(servers))
        .await
        .unwrap();
}
