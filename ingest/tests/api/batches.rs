use std::collections::BTreeMap;

use prost::Message as _;
use reqwest::Client;
use schemas::{
    command::Command,
    proto::{self, event_result, ingest_event},
};
use serde_json::{Value, json};

use crate::{
    log::{self, fresh_pair},
    raw_http::RawRequest,
    server::Server,
};

pub async fn post_lines(server: &Server, body: impl Into<reqwest::Body>) -> Vec<Value> {
    let response = Client::new()
        .post(server.url("/v1/events"))
        .header("content-type", "application/x-ndjson")
        .body(body)
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    let text = response.text().await.unwrap();
    assert!(text.ends_with('\n'));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn message(srcid: i64, destid: i64, id: &str) -> String {
    json!({"message": {
        "srcid": srcid.to_string(), "destid": destid.to_string(), "client_msg_id": id, "msg": id,
    }})
    .to_string()
}

pub fn place(result: &Value) -> (i64, i64) {
    (
        result["partition"].as_i64().unwrap(),
        result["offset"].as_i64().unwrap(),
    )
}

/// Ten ways to be wrong, each with its status and what its problem must name.
fn bad_lines() -> [(Vec<u8>, u16, &'static str); 10] {
    let long = format!(r#"{{"message":{{"msg":"{}"}}}}"#, "x".repeat(128 * 1024));
    let long_msg =
        json!({"message": {"srcid": "1", "destid": "2", "msg": "x".repeat(16 * 1024 + 1)}});
    [
        (b"not json".into(), 400, "not valid JSON"),
        (
            br#"{"message":{"srcid":"1","destid":"2","msg":"a"}"#.into(),
            400,
            "EOF",
        ),
        (br#"{"typing":{}}"#.into(), 400, "typing"),
        (
            br#"{"message":{"srcid":"0","destid":"2","msg":"a"}}"#.into(),
            400,
            "message.srcid",
        ),
        (
            br#"{"message":{"srcid":"1","destid":"2"}}"#.into(),
            400,
            "message.msg",
        ),
        (
            br#"{"message":{"srcid":"1","destid":"2","msg":5}}"#.into(),
            400,
            "message.msg",
        ),
        (
            b"{\"message\":{\"srcid\":\"1\",\"destid\":\"2\",\"msg\":\"\xff\"}}".into(),
            400,
            "UTF-8",
        ),
        (
            br#"{"read_ack":{"uid":"1","peer":"2","device":"tv"}}"#.into(),
            400,
            "read_ack.device",
        ),
        (long_msg.to_string().into_bytes(), 400, "message.msg"),
        (long.into_bytes(), 413, "131072 bytes"),
    ]
}

#[tokio::test]
async fn ten_kinds_of_bad_lines_in_a_thousand() {
    let server = Server::start(&[]);
    let (srcid, destid) = fresh_pair();
    let bad = bad_lines();
    let mut body = Vec::new();
    for line in 1..=1_000_usize {
        match line % 100 {
            37 => body.extend_from_slice(&bad[line / 100].0),
            _ => body.extend_from_slice(message(srcid, destid, &format!("line {line}")).as_bytes()),
        }
        body.push(b'\n');
    }
    let results = post_lines(&server, body).await;

    assert_eq!(results.len(), 1_001);
    assert_eq!(results[1_000], json!({"accepted": 990, "rejected": 10}));
    let places: Vec<_> = results[..1_000]
        .iter()
        .filter(|result| result["status"] == 202)
        .map(place)
        .collect();
    let records = log::records(&places);
    for (line, result) in (1..=1_000_usize).zip(&results) {
        assert_eq!(result["line"], line);
        if line % 100 == 37 {
            let (_, status, words) = &bad[line / 100];
            assert_eq!(result["status"], *status, "{result}");
            assert!(result["type"].as_str().unwrap().starts_with("/problems/"));
            let detail = result["detail"].as_str().unwrap();
            assert!(detail.contains(words), "{detail}");
            continue;
        }
        let command = Command::parse(records[&place(result)].bytes()).unwrap();
        let Command::Send(send) = command else {
            panic!("line {line} was a message");
        };
        assert_eq!(send.msg, format!("line {line}"));
        assert_eq!(result.get("client_msg_id"), None, "it was given");
    }
    assert!(places.is_sorted(), "one conversation keeps its order");
}

#[tokio::test]
async fn results_are_in_line_order_over_many_partitions() {
    let server = Server::start(&[]);
    let (srcid, _) = fresh_pair();
    let lines: Vec<String> = (1..=5_000)
        .map(|n| message(srcid, n, &n.to_string()))
        .collect();
    let results = post_lines(&server, lines.join("\n")).await;
    assert_eq!(results[5_000], json!({"accepted": 5_000, "rejected": 0}));
    let mut last_offsets = BTreeMap::new();
    for (n, result) in (1..=5_000_i64).zip(&results) {
        assert_eq!(result["line"], n);
        let (partition, offset) = place(result);
        assert_eq!(partition, (srcid + n) % 64);
        let before = last_offsets.insert(partition, offset);
        assert!(before < Some(offset), "line {n}");
    }
}

#[tokio::test]
async fn line_endings_blank_lines_and_generated_ids() {
    let server = Server::start(&[]);
    let (srcid, destid) = fresh_pair();
    let ack = format!(r#"{{"read_ack":{{"uid":"{destid}","peer":"{srcid}","device":"pc"}}}}"#);
    let unnamed =
        format!(r#"{{"message":{{"srcid":"{srcid}","destid":"{destid}","msg":"unnamed"}}}}"#);
    let body = format!("\r\n{ack}\r\n\n  \n{unnamed}");
    let results = post_lines(&server, body).await;
    assert_eq!(results.len(), 3, "{results:?}");
    assert_eq!(
        (&results[0]["line"], &results[1]["line"]),
        (&json!(2), &json!(5))
    );
    assert_eq!(results[0].get("client_msg_id"), None);
    let (partition, offset) = place(&results[1]);
    let Command::Send(send) = log::command(partition, offset) else {
        panic!("line 5 was a message");
    };
    assert_eq!(results[1]["client_msg_id"], send.client_msg_id.as_str());
    assert_eq!(
        post_lines(&server, "").await,
        [json!({"accepted": 0, "rejected": 0})]
    );
}

#[tokio::test]
async fn a_line_is_answered_before_the_next_is_written() {
    let server = Server::start(&[]);
    let addr = server.addr();
    let (srcid, destid) = fresh_pair();
    tokio::task::spawn_blocking(move || {
        let mut request = RawRequest::batch(addr);
        let mut answer = request.answer();
        assert_eq!(answer.status, 200);
        for line in 1..=5 {
            // The line comes in two pieces.
            let text = format!("{}\n", message(srcid, destid, &line.to_string()));
            let (first, second) = text.as_bytes().split_at(20);
            request.send(first);
            request.send(second);
            let result = answer.line().unwrap();
            assert_eq!(
                (&result["line"], &result["status"]),
                (&json!(line), &json!(202))
            );
        }
        request.end();
        assert_eq!(answer.lines(), [json!({"accepted": 5, "rejected": 0})]);
    })
    .await
    .unwrap();
}

pub fn item(event: ingest_event::Event) -> Vec<u8> {
    let item = proto::IngestEvent {
        event: Some(event),
        command_id: String::new(),
    };
    item.encode_length_delimited_to_vec()
}

pub async fn post_items(server: &Server, body: Vec<u8>) -> Vec<proto::EventResult> {
    let response = Client::new()
        .post(server.url("/v1/events"))
        .header("content-type", "application/x-protobuf")
        .body(body)
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/x-protobuf");
    let mut bytes = response.bytes().await.unwrap();
    let mut results = Vec::new();
    while !bytes.is_empty() {
        results.push(proto::EventResult::decode_length_delimited(&mut bytes).unwrap());
    }
    results
}

pub fn problem(result: &proto::EventResult) -> &proto::ItemProblem {
    match &result.result {
        Some(event_result::Result::Problem(problem)) => problem,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_protobuf_batch() {
    let server = Server::start(&[("ingest.max_line_bytes", "300")]);
    let (srcid, destid) = fresh_pair();
    let send = |destid, msg: &str| {
        item(ingest_event::Event::Message(proto::SendMessage {
            gid: 0,
            by_user: false,
            srcid,
            destid,
            client_msg_id: String::new(),
            msg: msg.to_owned(),
        }))
    };
    let ack = item(ingest_event::Event::ReadAck(proto::ReadAck {
        gid: 0,
        uid: destid,
        peer: srcid,
        device: proto::DeviceClass::Mobile.into(),
        mid: Some(7),
    }));
    let truncated = &send(destid, "the end is missing")[..10];
    let body = [
        send(destid, "first"),
        send(0, "no receiver"),
        vec![0],
        send(destid, &"x".repeat(300)),
        ack,
        vec![3, 0xff, 0xff, 0xff],
        truncated.to_vec(),
    ]
    .concat();
    let results = post_items(&server, body).await;

    let items: Vec<i64> = results.iter().map(|result| result.item).collect();
    assert_eq!(items, [1, 2, 3, 4, 5, 6, 7, 0]);
    let Some(event_result::Result::Accepted(first)) = &results[0].result else {
        panic!("the first item is good");
    };
    let Command::Send(on_log) = log::command(first.partition.into(), first.offset) else {
        panic!("the first item was a message");
    };
    assert_eq!(on_log.client_msg_id.as_str(), first.client_msg_id);
    assert_eq!(problem(&results[1]).errors[0].field, "message.destid");
    assert_eq!(problem(&results[2]).errors[0].field, "event");
    assert_eq!(problem(&results[3]).status, 413);
    assert!(matches!(
        &results[4].result,
        Some(event_result::Result::Accepted(_))
    ));
    assert_eq!(problem(&results[5]).r#type, "/problems/invalid-protobuf");
    assert!(problem(&results[6]).detail.contains("ends within"));
    let summary = proto::Summary {
        accepted: 2,
        rejected: 5,
    };
    assert_eq!(
        results[7].result,
        Some(event_result::Result::Summary(summary))
    );
}

#[tokio::test]
async fn a_length_that_cannot_be_read_ends_the_batch() {
    let server = Server::start(&[]);
    let (uid, peer) = fresh_pair();
    let ack = item(ingest_event::Event::ReadAck(proto::ReadAck {
        gid: 0,
        uid,
        peer,
        device: proto::DeviceClass::Pc.into(),
        mid: None,
    }));
    let body = [ack.clone(), vec![0xff; 11], ack].concat();
    let results = post_items(&server, body).await;
    assert_eq!(results.len(), 3);
    assert!(problem(&results[1]).detail.contains("varint"));
}
