//! Profiles: where they are on the log, and who may set them.

use prost::Message as _;
use reqwest::{Client, Response};
use schemas::{Profile, command::Command, proto};
use serde_json::{Value, json};

use crate::{
    batches::{place, post_lines},
    callers::Closed,
    log::{self, fresh_pair},
    server::Server,
    singles::{accepted, accepted_protobuf, command_at},
};

fn path(uid: i64) -> String {
    format!("/v1/users/{uid}/profile")
}

async fn put(server: &Server, uid: i64, body: &'static str) -> Response {
    let request = Client::new()
        .put(server.url(&path(uid)))
        .header("content-type", "application/json");
    request.body(body).send().await.unwrap()
}

fn profile(uid: i64, avatar: Option<&str>, extra: Option<&str>) -> Command {
    Command::SetProfile(Profile {
        uid: uid.try_into().unwrap(),
        nick: "Ann".to_owned(),
        avatar: avatar.map(str::to_owned),
        extra: extra.map(str::to_owned),
    })
}

#[tokio::test]
async fn a_profile_is_in_the_partition_of_its_user_and_extra_is_verbatim() {
    let server = Server::start(&[]);
    let (uid, _) = fresh_pair();
    let body = r#"{"nick":"Ann","avatar":"https://a/1.png","extra":{ "n": 1.50 }}"#;
    let answer = accepted(put(&server, uid, body).await).await;
    assert_eq!(answer["partition"], uid % 64);
    let expected = profile(uid, Some("https://a/1.png"), Some(r#"{ "n": 1.50 }"#));
    assert_eq!(command_at(&answer), expected);
    let (partition, offset) = place(&answer);
    let record = log::record(partition, offset);
    assert_eq!(record.key, Some(format!("u:{uid}").into_bytes()));

    let body = proto::SetProfile {
        nick: "Ann".to_owned(),
        ..proto::SetProfile::default()
    };
    let request = Client::new()
        .put(server.url(&path(uid)))
        .header("content-type", "application/x-protobuf");
    let response = request.body(body.encode_to_vec()).send().await.unwrap();
    let answer = accepted_protobuf(response).await;
    let on_log = log::command(answer.partition.into(), answer.offset);
    assert_eq!(on_log, profile(uid, None, None));

    let line = json!({"profile": {"uid": uid.to_string(), "nick": "Ann"}});
    let results = post_lines(&server, line.to_string()).await;
    assert_eq!(results[0]["status"], 202, "{results:?}");
    assert_eq!(command_at(&results[0]), profile(uid, None, None));
}

#[tokio::test]
async fn a_profile_of_5_kib_and_one_of_another_path_are_refused() {
    let server = Server::start(&[]);
    let extra = "x".repeat(5 * 1024);
    let body = json!({"nick": "Ann", "extra": {"a": extra}});
    let request = Client::new().put(server.url(&path(65))).json(&body);
    let refused = request.send().await.unwrap();
    assert_eq!(refused.status(), 422);
    let problem: Value = refused.json().await.unwrap();
    assert_eq!(problem["errors"][0]["field"], "extra", "{problem}");
    for (uid, body, field) in [
        (0, r#"{"nick":"Ann"}"#, "uid"),
        (65, r#"{"nick":"Ann","uid":"65"}"#, "uid"),
        (65, r#"{"avatar":"https://a"}"#, "nick"),
        (65, r#"{"nick":"Ann","avatar":"ftp://a"}"#, "avatar"),
    ] {
        let refused = put(&server, uid, body).await;
        assert_eq!(refused.status(), 400, "{body}");
        let problem: Value = refused.json().await.unwrap();
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
    }
}

#[tokio::test]
async fn a_user_sets_no_profile_but_the_own() {
    let closed = Closed::start(&[]);
    let (me, other) = fresh_pair();
    let token = closed.parties.token(me);
    for (uid, status) in [(me, 202), (other, 403)] {
        let request = Client::new()
            .put(closed.server.url(&path(uid)))
            .json(&json!({"nick": "Ann"}));
        let answer = request.bearer_auth(&token).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status);
    }
}
