//! The ids of commands: the caller's, in the body or beside it, or ingest's own (PROTOCOL S15).

use prost::Message as _;
use reqwest::{Client, Method, Response};
use schemas::{
    command::{Command, InboundValue},
    proto::{self, event_result, ingest_event},
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    batches::{place, post_items, post_lines},
    log::{self, fresh_pair},
    server::Server,
    singles::{accepted, accepted_protobuf},
};

/// The id that the sequencer goes by.
fn id_at((partition, offset): (i64, i64)) -> String {
    let value = InboundValue::parse(log::record(partition, offset).bytes()).unwrap();
    match &value.command {
        Command::Send(send) => send.client_msg_id.to_string(),
        _ => value.id,
    }
}

/// The calls of one command each, and the member of their bodies that has an id.
fn calls() -> Vec<(Method, String, Value, &'static str)> {
    let (one, other) = fresh_pair();
    let post = |path: &str, body| (Method::POST, path.to_owned(), body, "command_id");
    vec![
        (
            Method::POST,
            "/v1/messages".to_owned(),
            json!({"srcid": one, "destid": other, "msg": "a"}),
            "client_msg_id",
        ),
        post(
            "/v1/read-acks",
            json!({"uid": one, "peer": other, "device": "pc"}),
        ),
        post(
            "/v1/message-changes",
            json!({"by": one, "peer": other, "mid": 1, "kind": "recall"}),
        ),
        post(
            "/v1/contact-changes",
            json!({"uid": one, "peer": other, "pinned": true}),
        ),
        post(
            "/v1/groups",
            json!({"gid": one.to_string(), "owner": one, "name": "Lunch"}),
        ),
        post(
            &format!("/v1/groups/{one}/changes"),
            json!({"by": one, "leave": true}),
        ),
        (
            Method::PUT,
            format!("/v1/users/{one}/profile"),
            json!({"nick": "Ann"}),
            "command_id",
        ),
    ]
}

async fn call(
    server: &Server,
    (method, path): (&Method, &str),
    body: &Value,
    key: Option<&str>,
) -> Response {
    let request = Client::new().request(method.clone(), server.url(path));
    let request = match key {
        Some(key) => request.header("Idempotency-Key", key),
        None => request,
    };
    request.json(body).send().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_has_no_id_of_its_own() {
    let server = Server::start(&[]);
    let line = json!({"message": calls()[0].2}).to_string();
    let refused = Client::new()
        .post(server.url("/v1/events"))
        .header("content-type", "application/x-ndjson")
        .header("Idempotency-Key", "mine")
        .body(line);
    let refused = refused.send().await.unwrap();
    assert_eq!(refused.status(), 400);
    let problem: Value = refused.json().await.unwrap();
    assert_eq!(problem["errors"][0]["field"], "Idempotency-Key");
}

#[tokio::test]
async fn every_command_has_an_id_on_the_log() {
    let server = Server::start(&[]);
    for (method, path, body, member) in calls() {
        let call = async |body: &Value, key| call(&server, (&method, &path), body, key).await;
        let answer = accepted(call(&body, None).await).await;
        let generated = answer[member].as_str().unwrap();
        assert_eq!(generated.parse::<Uuid>().unwrap().get_version_num(), 7);
        assert_eq!(id_at(place(&answer)), generated, "{path}");

        let mut with_id = body.clone();
        with_id[member] = json!("mine");
        for (body, key) in [
            (&with_id, None),
            (&with_id, Some("mine")),
            (&body, Some("mine")),
        ] {
            let answer = accepted(call(body, key).await).await;
            assert_eq!(answer[member], "mine", "{path}");
            assert_eq!(id_at(place(&answer)), "mine", "{path}");
        }

        let refused = call(&with_id, Some("other")).await;
        assert_eq!(refused.status(), 400, "{path}");
        let problem: Value = refused.json().await.unwrap();
        let fields = [
            &problem["errors"][0]["field"],
            &problem["errors"][1]["field"],
        ];
        assert_eq!(fields, ["Idempotency-Key", member], "{path}");
        let long = "x".repeat(65);
        assert_eq!(call(&body, Some(&long)).await.status(), 400, "{path}");
        with_id[member] = json!("");
        assert_eq!(call(&with_id, None).await.status(), 400, "{path}");
    }
}

#[tokio::test]
async fn lines_of_a_batch_have_ids_too() {
    let server = Server::start(&[]);
    let (uid, peer) = fresh_pair();
    let ack = |id: Value| json!({"read_ack": {"uid": uid, "peer": peer, "device": "pc", "command_id": id}});
    let lines = format!("{}\n{}\n", ack(json!("mine")), ack(Value::Null));
    let results = post_lines(&server, lines).await;
    assert_eq!(results[0]["command_id"], Value::Null, "its caller knows it");
    assert_eq!(id_at(place(&results[0])), "mine");
    let generated = results[1]["command_id"].as_str().unwrap();
    assert_eq!(id_at(place(&results[1])), generated);
}

#[tokio::test]
async fn protobuf_has_them_beside_the_event() {
    let server = Server::start(&[]);
    let (uid, peer) = fresh_pair();
    let ack = proto::ReadAck {
        uid,
        peer,
        device: proto::DeviceClass::Pc.into(),
        mid: None,
        gid: 0,
    };
    let item = |id: &str| {
        let item = proto::IngestEvent {
            event: Some(ingest_event::Event::ReadAck(ack)),
            command_id: id.to_owned(),
        };
        item.encode_length_delimited_to_vec()
    };
    let results = post_items(&server, [item("mine"), item("")].concat()).await;
    let accepted = results.iter().filter_map(|result| match &result.result {
        Some(event_result::Result::Accepted(accepted)) => Some(accepted),
        _ => None,
    });
    let ids: Vec<(String, String)> = accepted
        .map(|at| {
            let on_log = id_at((at.partition.into(), at.offset));
            (at.command_id.clone(), on_log)
        })
        .collect();
    assert_eq!(ids[0], (String::new(), "mine".to_owned()));
    assert_eq!((ids.len(), &ids[1].0), (2, &ids[1].1));

    let response = Client::new()
        .post(server.url("/v1/read-acks"))
        .header("content-type", "application/x-protobuf")
        .header("Idempotency-Key", "mine")
        .body(ack.encode_to_vec())
        .send()
        .await
        .unwrap();
    let answer = accepted_protobuf(response).await;
    assert_eq!(answer.command_id, "mine");
    assert_eq!(id_at((answer.partition.into(), answer.offset)), "mine");
}
