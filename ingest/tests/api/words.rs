//! The filter of words: what is refused, masked and flagged, and a dictionary that changes while ingest runs.

use std::fs;

use reqwest::StatusCode;
use schemas::{
    Change, WordVerdict,
    command::{Command, InboundValue},
};
use serde_json::{Value, json};

use crate::{
    batches::{place, post_lines},
    log::{self, fresh_pair},
    server::{Server, wait_until},
    singles::{accepted, post},
};

const DICTIONARY: &str = "refuse buy followers\nmask darn\nflag refund\n";

fn text_and_verdict(at: (i64, i64)) -> (String, Option<bool>) {
    let record = log::record(at.0, at.1);
    let InboundValue { command, words, .. } = InboundValue::parse(record.bytes()).unwrap();
    let text = match command {
        Command::Send(send) => send.msg,
        Command::ChangeMessage(change) => match change.change {
            Change::Edit(msg) => msg,
            other => panic!("an edit was posted, not {other:?}"),
        },
        other => panic!("a text was posted, not {other:?}"),
    };
    (text, words.map(|WordVerdict { masked, .. }| masked))
}

fn message((srcid, destid): (i64, i64), msg: &str) -> Value {
    json!({"srcid": srcid.to_string(), "destid": destid.to_string(), "msg": msg})
}

/// One test, since all servers of this process share their metrics.
#[tokio::test]
async fn words_are_found_and_the_dictionary_is_read_again() {
    texts_are_refused_masked_and_flagged().await;
    a_broken_dictionary_is_not_taken().await;
}

async fn texts_are_refused_masked_and_flagged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("words");
    fs::write(&path, DICTIONARY).unwrap();
    let server = Server::start(&[("ingest.word_dictionary", path.to_str().unwrap())]);
    let pair = fresh_pair();
    for (msg, expected, verdict) in [
        ("hello", "hello", None),
        ("D\u{200b}arn it", "***** it", Some(true)),
        ("a Refund, darn", "a Refund, ****", Some(true)),
        ("a REFUND", "a REFUND", Some(false)),
    ] {
        let expected = (expected.to_owned(), verdict);
        let to_group = json!({"srcid": pair.0, "gid": pair.1, "msg": msg});
        let edit = json!({"by": pair.0, "peer": pair.1, "mid": 1, "kind": "edit", "msg": msg});
        for (path, body) in [
            ("/v1/messages", message(pair, msg)),
            ("/v1/messages", to_group),
            ("/v1/message-changes", edit),
        ] {
            let answer = accepted(post(&server, path, &body).await).await;
            assert_eq!(text_and_verdict(place(&answer)), expected, "{body}");
        }
    }
    let refused = post(&server, "/v1/messages", &message(pair, "Buy followers!")).await;
    assert_eq!(refused.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let problem: Value = refused.json().await.unwrap();
    assert_eq!(problem["errors"][0]["field"], "msg");
    assert!(
        !problem.to_string().to_lowercase().contains("followers"),
        "{problem}"
    );

    let lines =
        ["Buy followers!", "darn", "hello"].map(|msg| json!({"message": message(pair, msg)}));
    let body = lines.map(|line| line.to_string()).join("\n");
    let results = post_lines(&server, body).await;
    assert_eq!(results[0]["errors"][0]["field"], "message.msg");
    assert_eq!(results[0]["status"], 422);
    assert_eq!(
        text_and_verdict(place(&results[1])),
        ("****".to_owned(), Some(true))
    );
    assert_eq!(
        text_and_verdict(place(&results[2])),
        ("hello".to_owned(), None)
    );
}

async fn a_broken_dictionary_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("words");
    fs::write(&path, DICTIONARY).unwrap();
    let server = Server::start(&[("ingest.word_dictionary", path.to_str().unwrap())]);
    let pair = fresh_pair();
    let sent = async |msg: &str| {
        let answer = accepted(post(&server, "/v1/messages", &message(pair, msg)).await).await;
        text_and_verdict(place(&answer)).0
    };
    assert_eq!(sent("darn, a gadget").await, "****, a gadget");
    // One that is wrong is passed over, and the next one is taken.
    fs::write(&path, "hide gadget").unwrap();
    let metric = async || {
        let metrics = reqwest::get(server.url("/metrics")).await.unwrap();
        metrics.text().await.unwrap()
    };
    wait_until("the broken dictionary is noticed", async || {
        metric()
            .await
            .contains("tidemark_ingest_word_dictionary_current 0")
    })
    .await;
    assert_eq!(sent("darn, a gadget").await, "****, a gadget");
    fs::write(&path, "mask gadget").unwrap();
    wait_until("the new dictionary is taken", async || {
        sent("darn, a gadget").await == "darn, a ******"
    })
    .await;
    assert!(
        metric()
            .await
            .contains("tidemark_ingest_word_dictionary_current 1")
    );
}
