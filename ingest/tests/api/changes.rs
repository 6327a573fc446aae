//! Changes to messages and contacts, in every encoding.

use prost::Message as _;
use schemas::{
    Change, ChangeContact, ChangeMessage, Recipient,
    command::Command,
    proto::{self, event_result, ingest_event},
};
use serde_json::{Value, json};

use crate::{
    batches::{item, place, post_items, post_lines, problem},
    log::{self, fresh_pair},
    server::Server,
    singles::{accepted, accepted_protobuf, command_at, post, post_protobuf},
};

fn changed(by: i64, peer: i64, change: Change) -> Command {
    Command::ChangeMessage(ChangeMessage {
        by: by.try_into().unwrap(),
        to: Recipient::User(peer.try_into().unwrap()),
        mid: 3.try_into().unwrap(),
        change,
    })
}

fn contact(uid: i64, peer: i64) -> ChangeContact {
    ChangeContact {
        uid: uid.try_into().unwrap(),
        peer: peer.try_into().unwrap(),
        favourite: None,
        pinned: None,
        muted: None,
        blocked: None,
        deleted: false,
        by_user: false,
    }
}

#[tokio::test]
async fn a_change_is_on_the_log_where_the_answer_says() {
    let server = Server::start(&[]);
    let (by, peer) = fresh_pair();
    for (kind, msg, change) in [
        ("recall", Value::Null, Change::Recall),
        ("delete", Value::Null, Change::Delete),
        ("edit", json!("new 🦀"), Change::Edit("new 🦀".to_owned())),
        ("hide", Value::Null, Change::Hide),
        ("clear", Value::Null, Change::Clear),
    ] {
        let body = json!({"by": by.to_string(), "peer": peer, "mid": 3, "kind": kind, "msg": msg});
        let answer = accepted(post(&server, "/v1/message-changes", &body).await).await;
        assert_eq!(answer["partition"], (by + peer) % 64);
        assert_eq!(answer.get("client_msg_id"), None);
        assert_eq!(command_at(&answer), changed(by, peer, change));
    }
    let body = json!({"uid": by, "peer": peer.to_string(), "pinned": true, "muted": false});
    let answer = accepted(post(&server, "/v1/contact-changes", &body).await).await;
    let expected = ChangeContact {
        pinned: Some(true),
        muted: Some(false),
        ..contact(by, peer)
    };
    assert_eq!(command_at(&answer), Command::ChangeContact(expected));
    let (partition, offset) = place(&answer);
    let record = log::record(partition, offset);
    assert_eq!(record.key, Some(format!("{by},{peer}").into_bytes()));
}

#[tokio::test]
async fn a_change_is_refused_by_its_field() {
    let server = Server::start(&[("ingest.max_msg_bytes", "4")]);
    let change = |fields: Value| {
        let mut body = json!({"by": "1", "peer": "2", "mid": 3, "kind": "edit", "msg": "text"});
        body.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        ("/v1/message-changes", body)
    };
    let contact = |fields: Value| {
        let mut body = json!({"uid": "1", "peer": "2"});
        body.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        ("/v1/contact-changes", body)
    };
    for ((path, body), status, field) in [
        (change(json!({"msg": "text of more"})), 400, "msg"),
        (change(json!({"msg": null})), 400, "msg"),
        (change(json!({"kind": "recall"})), 400, "msg"),
        (change(json!({"kind": "undo"})), 400, "kind"),
        (change(json!({"mid": 0})), 400, "mid"),
        (change(json!({"peer": 0})), 400, "peer"),
        (contact(json!({})), 400, "favourite"),
        (
            contact(json!({"peer": "1", "blocked": true})),
            400,
            "blocked",
        ),
        (contact(json!({"starred": true})), 400, "starred"),
        (
            contact(json!({"deleted": false, "pinned": true})),
            422,
            "deleted",
        ),
    ] {
        let refused = post(&server, path, &body).await;
        assert_eq!(refused.status().as_u16(), status, "{body}");
        let problem: Value = refused.json().await.unwrap();
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
    }
}

#[tokio::test]
async fn protobuf_changes() {
    let server = Server::start(&[]);
    let (by, peer) = fresh_pair();
    let edit = proto::ChangeMessage {
        gid: 0,
        by,
        peer,
        mid: 3,
        kind: proto::ChangeKind::Edit.into(),
        msg: "new".to_owned(),
    };
    let response = post_protobuf(&server, "/v1/message-changes", edit.encode_to_vec()).await;
    let answer = accepted_protobuf(response).await;
    let on_log = log::command(answer.partition.into(), answer.offset);
    assert_eq!(on_log, changed(by, peer, Change::Edit("new".to_owned())));
    let no_emoji = proto::ChangeMessage {
        kind: proto::ChangeKind::React.into(),
        ..edit.clone()
    };
    for (change, field) in [(edit, "kind"), (no_emoji, "msg")] {
        let refused = post_protobuf(&server, "/v1/reactions", change.encode_to_vec()).await;
        let problem: Value = refused.json().await.unwrap();
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
    }

    let deleted = proto::ChangeContact {
        uid: by,
        peer,
        deleted: true,
        by_user: true,
        ..proto::ChangeContact::default()
    };
    let response = post_protobuf(&server, "/v1/contact-changes", deleted.encode_to_vec()).await;
    let answer = accepted_protobuf(response).await;
    let on_log = log::command(answer.partition.into(), answer.offset);
    let expected = ChangeContact {
        deleted: true,
        ..contact(by, peer)
    };
    assert_eq!(
        on_log,
        Command::ChangeContact(expected),
        "by_user is ingest's to say"
    );
}

#[tokio::test]
async fn changes_in_batches() {
    let server = Server::start(&[]);
    let (by, peer) = fresh_pair();
    let lines = [
        json!({"message_change": {"by": by, "peer": peer, "mid": "3", "kind": "hide"}}),
        json!({"contact_change": {"uid": peer, "peer": by, "blocked": true}}),
        json!({"message_change": {"by": by, "peer": peer, "mid": 3, "kind": "edit"}}),
        json!({"contact_change": {"uid": by, "peer": peer, "deleted": false}}),
    ];
    let blocks = Command::ChangeContact(ChangeContact {
        blocked: Some(true),
        ..contact(peer, by)
    });
    let body = lines.map(|line| line.to_string()).join("\n");
    let results = post_lines(&server, body).await;
    assert_eq!(command_at(&results[0]), changed(by, peer, Change::Hide));
    assert_eq!(command_at(&results[1]), blocks);
    assert_eq!(results[2]["errors"][0]["field"], "message_change.msg");
    assert_eq!(results[3]["status"], 422);
    assert_eq!(results[3]["errors"][0]["field"], "contact_change.deleted");
    assert_eq!(results[4], json!({"accepted": 2, "rejected": 2}));

    let hide = proto::ChangeMessage {
        gid: 0,
        by,
        peer,
        mid: 3,
        kind: proto::ChangeKind::Hide.into(),
        msg: String::new(),
    };
    let unknown = proto::ChangeMessage {
        kind: 0,
        ..hide.clone()
    };
    let block = proto::ChangeContact {
        uid: peer,
        peer: by,
        blocked: Some(true),
        ..proto::ChangeContact::default()
    };
    let items = [
        item(ingest_event::Event::MessageChange(hide)),
        item(ingest_event::Event::ContactChange(block)),
        item(ingest_event::Event::MessageChange(unknown)),
    ];
    let results = post_items(&server, items.concat()).await;
    let on_log = |result: &proto::EventResult| match &result.result {
        Some(event_result::Result::Accepted(at)) => log::command(at.partition.into(), at.offset),
        other => panic!("it is good: {other:?}"),
    };
    assert_eq!(on_log(&results[0]), changed(by, peer, Change::Hide));
    assert_eq!(on_log(&results[1]), blocks);
    assert_eq!(problem(&results[2]).errors[0].field, "message_change.kind");
}
