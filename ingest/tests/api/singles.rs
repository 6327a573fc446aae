use prost::Message as _;
use reqwest::{Client, Response, StatusCode};
use schemas::{
    DeviceClass,
    command::{Command, SendMessage},
    proto,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    log::{self, fresh_pair},
    server::Server,
};

pub async fn post(server: &Server, path: &str, body: &Value) -> Response {
    let request = Client::new().post(server.url(path)).json(body);
    request.send().await.unwrap()
}

pub async fn post_protobuf(server: &Server, path: &str, body: Vec<u8>) -> Response {
    let request = Client::new()
        .post(server.url(path))
        .header("content-type", "application/x-protobuf");
    request.body(body).send().await.unwrap()
}

pub async fn accepted(response: Response) -> Value {
    let status = response.status();
    let body: Value = response.json().await.unwrap();
    assert_eq!(status, StatusCode::ACCEPTED, "{body}");
    body
}

pub async fn accepted_protobuf(response: Response) -> proto::Accepted {
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    assert_eq!(response.headers()["content-type"], "application/x-protobuf");
    proto::Accepted::decode(response.bytes().await.unwrap()).unwrap()
}

pub fn command_at(answer: &Value) -> Command {
    log::command(
        answer["partition"].as_i64().unwrap(),
        answer["offset"].as_i64().unwrap(),
    )
}

fn message_at(answer: &Value) -> SendMessage {
    match command_at(answer) {
        Command::Send(send) => send,
        other => panic!("a message was posted, not {other:?}"),
    }
}

#[tokio::test]
async fn a_message_is_on_the_log_where_the_answer_says() {
    let server = Server::start(&[]);
    let (srcid, destid) = fresh_pair();
    let msg = "tab\t, line\nbreak, \"quotes\" \\ and 🦀, \u{202e}right to left";
    let body = json!({
        "srcid": srcid.to_string(), "destid": destid, "client_msg_id": "mine 🦀", "msg": msg,
    });
    let answer = accepted(post(&server, "/v1/messages", &body).await).await;
    assert_eq!(answer["client_msg_id"], "mine 🦀");
    assert_eq!(answer["partition"], (srcid + destid) % 64);

    let (partition, offset) = (answer["partition"].as_i64(), answer["offset"].as_i64());
    let record = log::record(partition.unwrap(), offset.unwrap());
    assert_eq!(record.key, Some(format!("{srcid},{destid}").into_bytes()));
    assert!(record.headers.is_empty());
    let send = message_at(&answer);
    assert_eq!((send.srcid.get(), send.to), (srcid, to_user(destid)));
    assert_eq!(send.client_msg_id.as_str(), "mine 🦀");
    assert_eq!(send.msg, msg);
}

#[tokio::test]
async fn the_largest_uids_and_a_note_to_oneself() {
    let server = Server::start(&[]);
    for (srcid, destid, partition) in [
        (i64::MAX, i64::MAX - 1, 61),
        (i64::MAX, i64::MAX, 62),
        (1, i64::MAX, 0),
        (7, 7, 14),
    ] {
        let body = json!({"srcid": srcid.to_string(), "destid": destid.to_string(), "msg": "a"});
        let answer = accepted(post(&server, "/v1/messages", &body).await).await;
        assert_eq!(answer["partition"], partition, "{srcid} to {destid}");
        let send = message_at(&answer);
        assert_eq!((send.srcid.get(), send.to), (srcid, to_user(destid)));
    }
}

#[tokio::test]
async fn a_missing_id_is_generated_and_returned() {
    let server = Server::start(&[]);
    let (srcid, destid) = fresh_pair();
    let body = json!({"srcid": srcid, "destid": destid, "msg": "a"});
    let answer = accepted(post(&server, "/v1/messages", &body).await).await;
    let generated: Uuid = answer["client_msg_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(generated.get_version_num(), 7);
    assert_eq!(
        message_at(&answer).client_msg_id.as_str(),
        generated.to_string()
    );
}

#[tokio::test]
async fn read_acks_are_on_the_log() {
    let server = Server::start(&[]);
    let (uid, peer) = fresh_pair();
    for (mid, expected) in [
        (json!(3), Some(3)),
        (json!("3"), Some(3)),
        (json!("latest"), None),
        (Value::Null, None),
    ] {
        let body = json!({"uid": uid.to_string(), "peer": peer.to_string(), "device": "mobile", "mid": mid});
        let answer = accepted(post(&server, "/v1/read-acks", &body).await).await;
        assert_eq!(answer.get("client_msg_id"), None);
        let Command::ReadAck(ack) = command_at(&answer) else {
            panic!("a read-ack was posted");
        };
        assert_eq!((ack.uid.get(), ack.to), (uid, to_user(peer)));
        assert_eq!(ack.device, DeviceClass::Mobile);
        assert_eq!(ack.mid.map(schemas::Mid::get), expected);
    }
}

#[tokio::test]
async fn protobuf_in_protobuf_out() {
    let server = Server::start(&[]);
    let (srcid, destid) = fresh_pair();
    let send = proto::SendMessage {
        gid: 0,
        by_user: false,
        srcid,
        destid,
        client_msg_id: String::new(),
        msg: "by protobuf".to_owned(),
    };
    let response = post_protobuf(&server, "/v1/messages", send.encode_to_vec()).await;
    let answer = accepted_protobuf(response).await;
    let Command::Send(on_log) = log::command(answer.partition.into(), answer.offset) else {
        panic!("a message was posted");
    };
    assert_eq!(on_log.msg, "by protobuf");
    assert_eq!(on_log.client_msg_id.as_str(), answer.client_msg_id);

    let ack = proto::ReadAck {
        gid: 0,
        uid: destid,
        peer: srcid,
        device: proto::DeviceClass::Pc.into(),
        mid: Some(1),
    };
    let response = post_protobuf(&server, "/v1/read-acks", ack.encode_to_vec()).await;
    let answer = accepted_protobuf(response).await;
    assert_eq!(answer.client_msg_id, "");
    let Command::ReadAck(on_log) = log::command(answer.partition.into(), answer.offset) else {
        panic!("a read-ack was posted");
    };
    assert_eq!(on_log.device, DeviceClass::Pc);
}

#[tokio::test]
async fn every_refusal_is_a_problem_that_says_what_is_right() {
    let server = Server::start(&[]);
    let client = Client::new();
    let json = |path: &str, body: &'static str| {
        let request = client.post(server.url(path));
        request
            .header("content-type", "application/json")
            .body(body)
    };
    let cases = [
        (client.get(server.url("/v1/nothing")), 404, "/v1/nothing"),
        (client.get(server.url("/v1/messages")), 405, "GET"),
        (
            client.post(server.url("/v1/messages")).body("{}"),
            415,
            "application/json or application/x-protobuf",
        ),
        (
            client
                .post(server.url("/v1/events"))
                .header("content-type", "application/json")
                .body("{}"),
            415,
            "application/x-ndjson or application/x-protobuf",
        ),
        (json("/v1/messages", "{"), 400, "at column 1"),
        (json("/v1/messages", "{\n\n"), 400, "at line 3 column 0"),
        (
            json("/v1/messages", r#"{"srcid":"0","destid":"2","msg":"a"}"#),
            400,
            "srcid",
        ),
        (
            json(
                "/v1/messages",
                r#"{"srcid":"1","destid":"2","msg":"a","text":1}"#,
            ),
            400,
            "text",
        ),
        (
            json("/v1/read-acks", r#"{"uid":"1","peer":"2","device":"tv"}"#),
            400,
            "device",
        ),
        (
            client
                .post(server.url("/v1/messages"))
                .header("content-type", "application/x-protobuf")
                .body(vec![0xff; 4]),
            400,
            "SendMessage",
        ),
    ];
    for (request, status, words) in cases {
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{words}");
        assert_eq!(
            response.headers()["content-type"],
            "application/problem+json"
        );
        let problem: Value = response.json().await.unwrap();
        assert_eq!(problem["status"], status);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{detail}");
    }
}

#[tokio::test]
async fn what_every_service_answers() {
    let server = Server::start(&[]);
    let client = Client::new();
    let description: Value = client
        .get(server.url("/openapi.json"))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    for path in [
        "/v1/messages",
        "/v1/read-acks",
        "/v1/message-changes",
        "/v1/contact-changes",
        "/v1/events",
    ] {
        assert!(description["paths"][path]["post"].is_object(), "{path}");
    }
    let index = client.get(server.url("/")).send().await.unwrap();
    let index = index.text().await.unwrap();
    assert!(index.contains("<code>POST /v1/messages</code> Send a message"));
    crate::server::wait_until("ingest is ready", async || {
        let ready = client.get(server.url("/readyz")).send().await.unwrap();
        ready.status().is_success()
    })
    .await;

    let (uid, peer) = fresh_pair();
    let body = json!({"uid": uid, "peer": peer, "device": "pc"});
    accepted(post(&server, "/v1/read-acks", &body).await).await;
    let recall = json!({"by": uid, "peer": peer, "mid": 1, "kind": "recall"});
    accepted(post(&server, "/v1/message-changes", &recall).await).await;
    let pin = json!({"uid": uid, "peer": peer, "pinned": true});
    accepted(post(&server, "/v1/contact-changes", &pin).await).await;
    let metrics = client.get(server.url("/metrics")).send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    for name in [
        r#"tidemark_ingest_accepted_total{kind="read_ack"}"#,
        r#"tidemark_ingest_accepted_total{kind="message_change"}"#,
        r#"tidemark_ingest_accepted_total{kind="contact_change"}"#,
        r#"tidemark_ingest_in_flight_bytes{of="batch"}"#,
        r#"ingest_delivery_seconds_bucket{from="single""#,
    ] {
        assert!(metrics.contains(name), "{name} in {metrics}");
    }
}

fn to_user(uid: i64) -> schemas::Recipient {
    schemas::Recipient::User(uid.try_into().unwrap())
}
