//! Groups, in every encoding, and who may post what in them.

use prost::Message as _;
use reqwest::Client;
use schemas::{
    Change, ChangeGroup, ChangeMessage, DeviceClass, GroupAction, GroupId, Recipient, UserId,
    command::{Command, ReadAck, SendMessage},
    proto::{self, change_group::Action, event_result, ingest_event},
};
use serde_json::{Value, json};

use crate::{
    batches::{item, place, post_items, post_lines},
    callers::Closed,
    log::{self, fresh_pair},
    server::Server,
    singles::{accepted, accepted_protobuf, command_at, post, post_protobuf},
};

fn command(gid: i64, by: i64, action: GroupAction) -> Command {
    Command::ChangeGroup(ChangeGroup {
        gid: gid.try_into().unwrap(),
        by: by.try_into().unwrap(),
        by_user: false,
        action,
    })
}

fn user(uid: i64) -> UserId {
    uid.try_into().unwrap()
}

#[tokio::test]
async fn a_group_and_what_happens_in_it_are_on_the_log_in_its_partition() {
    let server = Server::start(&[]);
    let (gid, owner) = fresh_pair();
    let group = json!({"gid": gid.to_string(), "owner": owner, "name": "Lunch", "members": ["7", "8"], "open": true});
    let answer = accepted(post(&server, "/v1/groups", &group).await).await;
    assert_eq!(answer["gid"], gid.to_string());
    assert_eq!(answer["partition"], gid % 64);
    let Command::ChangeGroup(created) = command_at(&answer) else {
        panic!("a group begins");
    };
    let GroupAction::Create(create) = created.action else {
        panic!("a group begins");
    };
    assert_eq!((create.name.as_str(), create.open), ("Lunch", true));
    assert_eq!(create.members, [user(7), user(8)]);
    let (partition, offset) = place(&answer);
    let record = log::record(partition, offset);
    assert_eq!(record.key, Some(format!("g:{gid}").into_bytes()));

    let mid = 3.try_into().unwrap();
    let (by, to) = (user(owner), Recipient::Group(gid.try_into().unwrap()));
    let changes = format!("/v1/groups/{gid}/changes");
    for (path, body, command) in [
        (
            &*changes,
            json!({"by": owner, "remove": ["8"]}),
            command(gid, owner, GroupAction::Remove(vec![user(8)])),
        ),
        (
            "/v1/messages",
            json!({"srcid": owner, "gid": gid, "client_msg_id": "a", "msg": "hello"}),
            Command::Send(SendMessage {
                srcid: by,
                to,
                client_msg_id: "a".to_owned().try_into().unwrap(),
                msg: "hello".to_owned(),
                by_user: false,
            }),
        ),
        (
            "/v1/read-acks",
            json!({"uid": owner, "gid": gid, "device": "pc", "mid": 3}),
            Command::ReadAck(ReadAck {
                uid: by,
                to,
                device: DeviceClass::Pc,
                mid: Some(mid),
            }),
        ),
        (
            "/v1/message-changes",
            json!({"by": owner, "gid": gid, "mid": 3, "kind": "recall"}),
            Command::ChangeMessage(ChangeMessage {
                by,
                to,
                mid,
                change: Change::Recall,
            }),
        ),
    ] {
        let answer = accepted(post(&server, path, &body).await).await;
        assert_eq!(answer["partition"], gid % 64, "{path}");
        assert_eq!(answer.get("gid"), None, "{path}");
        assert_eq!(command_at(&answer), command, "{path}");
    }
}

#[tokio::test]
async fn batches_and_protobuf_say_the_same() {
    let server = Server::start(&[]);
    let (gid, owner) = fresh_pair();
    let lines = [
        json!({"group": {"gid": gid, "owner": owner, "name": "Lunch"}}),
        json!({"group_change": {"gid": gid, "by": owner, "add": ["7"]}}),
        json!({"message": {"srcid": "7", "gid": gid, "msg": "hello"}}),
        json!({"group_change": {"gid": gid, "by": owner, "add": ["0"]}}),
    ];
    let results = post_lines(&server, lines.map(|line| line.to_string()).join("\n")).await;
    let statuses: Vec<&Value> = results.iter().take(4).map(|line| &line["status"]).collect();
    assert_eq!(statuses, [202, 202, 202, 400], "{results:?}");
    assert_eq!(results[3]["errors"][0]["field"], "group_change.add[0]");
    let add = GroupAction::Add(vec![user(7)]);
    assert_eq!(command_at(&results[1]), command(gid, owner, add));

    let change = |action| proto::ChangeGroup {
        gid,
        by: owner,
        action: Some(action),
        by_user: false,
    };
    let create = Action::Create(proto::CreateGroup {
        name: "Lunch".to_owned(),
        ..proto::CreateGroup::default()
    });
    let join = change(Action::Join(proto::GroupBy {}));
    let created = change(create).encode_to_vec();
    let answer = accepted_protobuf(post_protobuf(&server, "/v1/groups", created.clone()).await);
    let answer = answer.await;
    assert_eq!(answer.gid, gid);
    let path = format!("/v1/groups/{gid}/changes");
    let answer = accepted_protobuf(post_protobuf(&server, &path, join.encode_to_vec()).await).await;
    let on_log = log::command(answer.partition.into(), answer.offset);
    assert_eq!(on_log, command(gid, owner, GroupAction::Join));
    let results = post_items(&server, item(ingest_event::Event::GroupChange(join))).await;
    let Some(event_result::Result::Accepted(answer)) = &results[0].result else {
        panic!("it was accepted: {results:?}");
    };
    let on_log = log::command(answer.partition.into(), answer.offset);
    assert_eq!(on_log, command(gid, owner, GroupAction::Join));
    // Each call takes what it is for.
    assert_eq!(post_protobuf(&server, &path, created).await.status(), 400);
}

#[tokio::test]
async fn a_user_acts_in_no_name_but_the_own() {
    let closed = Closed::start(&[]);
    let (me, other) = fresh_pair();
    let token = closed.parties.token(me);
    for (uid, status) in [(me, 202), (other, 403)] {
        for (path, body, field) in [
            (
                "/v1/groups",
                json!({"client_id": "a", "owner": uid, "name": "Lunch"}),
                "owner",
            ),
            (
                "/v1/groups/5000/changes",
                json!({"by": uid, "join": true}),
                "by",
            ),
            (
                "/v1/messages",
                json!({"srcid": uid, "gid": 5000, "msg": "a"}),
                "srcid",
            ),
            (
                "/v1/read-acks",
                json!({"uid": uid, "gid": 5000, "device": "pc"}),
                "uid",
            ),
            (
                "/v1/message-changes",
                json!({"by": uid, "gid": 5000, "mid": 1, "kind": "hide"}),
                "by",
            ),
        ] {
            let request = Client::new().post(closed.server.url(path)).json(&body);
            let answer = request.bearer_auth(&token).send().await.unwrap();
            assert_eq!(answer.status().as_u16(), status, "{path}");
            let answer: Value = answer.json().await.unwrap();
            match status {
                202 => {
                    let (partition, offset) = place(&answer);
                    let by_user = match log::command(partition, offset) {
                        Command::Send(send) => send.by_user,
                        Command::ChangeGroup(change) => change.by_user,
                        _ => false,
                    };
                    let has_limits =
                        matches!(path, "/v1/messages") || path.starts_with("/v1/groups");
                    assert_eq!(by_user, has_limits, "{path}");
                }
                _ => assert_eq!(answer["errors"][0]["field"], field, "{answer}"),
            }
        }
    }
}

#[tokio::test]
async fn a_user_chooses_no_gid() {
    let closed = Closed::start(&[]);
    let (gid, me) = fresh_pair();
    let post = async |token: &str, group: Value| {
        let request = Client::new().post(closed.server.url("/v1/groups"));
        let answer = request.bearer_auth(token).json(&group).send().await;
        answer.unwrap()
    };
    let token = closed.parties.token(me);
    let chosen = json!({"gid": gid, "owner": me, "name": "Lunch"});
    let refused = post(&token, chosen).await;
    assert_eq!(refused.status(), 403);
    let refused: Value = refused.json().await.unwrap();
    assert_eq!(refused["errors"][0]["field"], "gid", "{refused}");

    let own = json!({"client_id": "family", "owner": me, "name": "Family"});
    let answer = accepted(post(&token, own).await).await;
    let (partition, offset) = place(&answer);
    let Command::ChangeGroup(change) = log::command(partition, offset) else {
        panic!("it creates a group");
    };
    assert_eq!(change.gid, GroupId::of_owner(user(me), "family"));
    let GroupAction::Create(create) = change.action else {
        panic!("it creates a group");
    };
    assert_eq!(create.client_id.as_deref(), Some("family"));
}

#[tokio::test]
async fn every_user_that_is_named_is_charged() {
    let limits =
        "{ requests_per_s = 100, requests_burst = 100, events_per_s = 1, events_burst = 20 }";
    let closed = Closed::start(&[("auth.user_limits", limits)]);
    let (gid, me) = fresh_pair();
    let token = closed.parties.token(me);
    let post = async |named: usize| {
        let named: Vec<String> = (1..=named).map(|uid| uid.to_string()).collect();
        let path = format!("/v1/groups/{gid}/changes");
        let request = Client::new().post(closed.server.url(&path));
        let request = request.json(&json!({"by": me, "remove": named}));
        let answer = request.bearer_auth(&token).send().await;
        answer.unwrap().status().as_u16()
    };
    assert_eq!(post(8).await, 202);
    // Some of the twelve that are left for the size of the body, and most of those to come for the users.
    assert_eq!(post(1_000).await, 202);
    assert_eq!(post(1).await, 429);
}

#[tokio::test]
async fn a_batch_names_the_gid_of_a_group_that_begins() {
    let server = Server::start(&[]);
    let (_, owner) = fresh_pair();
    let group = json!({"client_id": "a", "owner": owner, "name": "Lunch"});
    let single = accepted(post(&server, "/v1/groups", &group).await).await;
    let lines = post_lines(&server, format!("{}\n", json!({ "group": group }))).await;
    assert_eq!(lines[0]["gid"], single["gid"]);
    assert!(single["gid"].is_string());
}
