//! Who may send what: real tokens and service keys at the real doors.

use access::{Scope, test_issuer::Parties};
use futures::future::join_all;
use problem::{Problem, ProblemKind};
use reqwest::{Client, Response, header};
use schemas::command::Command;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::{
    log::{self, fresh_pair},
    raw_http::RawRequest,
    server::{Server, wait_until},
};

/// An ingest whose doors are closed, and who may pass them.
pub struct Closed {
    pub server: Server,
    pub parties: Parties,
    _dir: TempDir,
}

impl Closed {
    pub fn start(overrides: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let parties = Parties::new(dir.path());
        let settings = parties.settings();
        let mut all: Vec<(&str, &str)> = settings.iter().map(|(k, v)| (*k, v.as_str())).collect();
        all.extend(overrides);
        Self {
            server: Server::start(&all),
            parties,
            _dir: dir,
        }
    }

    /// Posts JSON with this token.
    pub async fn post(&self, token: &str, path: &str, body: &Value) -> Response {
        let request = Client::new().post(self.server.url(path)).json(body);
        request.bearer_auth(token).send().await.unwrap()
    }

    /// The answer to a batch, by the line.
    pub async fn post_lines(&self, token: &str, lines: &[Value]) -> Vec<Value> {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        let request = Client::new()
            .post(self.server.url("/v1/events"))
            .header("content-type", "application/x-ndjson")
            .bearer_auth(token)
            .body(lines.join("\n"));
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        let text = response.text().await.unwrap();
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// The status of a message in the name of `srcid`.
    pub async fn send(&self, token: &str, srcid: i64, destid: i64) -> u16 {
        let message = message(srcid, destid);
        self.post(token, "/v1/messages", &message)
            .await
            .status()
            .as_u16()
    }
}

/// A message that says hello.
pub fn message(srcid: i64, destid: i64) -> Value {
    json!({ "srcid": srcid.to_string(), "destid": destid.to_string(), "msg": "hello" })
}

fn ack(uid: i64, peer: i64) -> Value {
    json!({ "uid": uid.to_string(), "peer": peer.to_string(), "device": "pc" })
}

fn recall(by: i64, peer: i64) -> Value {
    json!({ "by": by.to_string(), "peer": peer.to_string(), "mid": 1, "kind": "recall" })
}

fn mute(uid: i64, peer: i64) -> Value {
    json!({ "uid": uid.to_string(), "peer": peer.to_string(), "muted": true })
}

async fn problem(response: Response) -> Problem {
    assert_eq!(
        response.headers()["content-type"],
        "application/problem+json"
    );
    let status = response.status();
    let problem: Problem = response.json().await.unwrap();
    assert_eq!(problem.status, status.as_u16());
    problem
}

#[tokio::test]
async fn nobody_sends_without_a_token_or_with_a_forged_one() {
    let closed = Closed::start(&[]);
    let (me, peer) = fresh_pair();
    let url = closed.server.url("/v1/messages");
    let nameless = Client::new()
        .post(url)
        .json(&message(me, peer))
        .send()
        .await
        .unwrap();
    assert_eq!(
        nameless.headers()[header::WWW_AUTHENTICATE],
        "Bearer realm=\"tidemark\""
    );
    assert_eq!(problem(nameless).await.kind, ProblemKind::Unauthenticated);
    for (reason, token) in closed.parties.forgeries(me) {
        for (path, body) in [
            ("/v1/messages", message(me, peer)),
            ("/v1/read-acks", ack(me, peer)),
            ("/v1/message-changes", recall(me, peer)),
            ("/v1/contact-changes", mute(me, peer)),
            ("/v1/events", json!({ "message": message(me, peer) })),
        ] {
            let refused = closed.post(&token, path, &body).await;
            assert_eq!(refused.status(), 401, "{path} {reason}");
            let challenge = refused.headers()[header::WWW_AUTHENTICATE]
                .to_str()
                .unwrap()
                .to_owned();
            let problem = problem(refused).await;
            assert_eq!(problem.kind, ProblemKind::Unauthenticated);
            for words in [&challenge, &problem.detail] {
                assert!(words.contains(reason), "{reason}: {words}");
                assert!(!words.contains(&token), "{words}");
            }
        }
    }
}

#[tokio::test]
async fn a_user_sends_in_their_own_name_only() {
    let closed = Closed::start(&[]);
    let (me, peer) = fresh_pair();
    let token = closed.parties.token(me);
    assert_eq!(closed.send(&token, me, peer).await, 202);
    for (path, body) in [
        ("/v1/read-acks", ack(me, peer)),
        ("/v1/message-changes", recall(me, peer)),
        ("/v1/contact-changes", mute(me, peer)),
    ] {
        assert_eq!(closed.post(&token, path, &body).await.status(), 202);
    }
    for (path, body, field) in [
        ("/v1/messages", message(peer, me), "srcid"),
        ("/v1/read-acks", ack(peer, me), "uid"),
        ("/v1/message-changes", recall(peer, me), "by"),
        ("/v1/contact-changes", mute(peer, me), "uid"),
    ] {
        let refused = problem(closed.post(&token, path, &body).await).await;
        assert_eq!(
            (refused.kind, refused.status),
            (ProblemKind::Forbidden, 403)
        );
        assert_eq!(refused.errors[0].field, field);
        let who = format!("{field} is {peer}; must be {me}, the subject of the token");
        assert_eq!(refused.detail, who);
    }
}

#[tokio::test]
async fn lines_in_anothers_name_are_refused_by_themselves() {
    let closed = Closed::start(&[]);
    let (me, peer) = fresh_pair();
    let lines = [
        json!({ "message": message(me, peer) }),
        json!({ "message": message(peer, me) }),
        json!({ "read_ack": ack(peer, me) }),
        json!({ "read_ack": ack(me, peer) }),
        json!({ "message_change": recall(peer, me) }),
        json!({ "contact_change": mute(peer, me) }),
        json!({ "contact_change": mute(me, peer) }),
    ];
    let results = closed.post_lines(&closed.parties.token(me), &lines).await;
    let statuses: Vec<_> = results.iter().map(|one| one["status"].clone()).collect();
    assert_eq!(
        statuses,
        [202, 403, 403, 202, 403, 403, 202]
            .map(Value::from)
            .into_iter()
            .chain([Value::Null])
            .collect::<Vec<_>>()
    );
    assert_eq!(results[1]["type"], "/problems/forbidden");
    assert_eq!(results[1]["errors"][0]["field"], "message.srcid");
    assert_eq!(results[2]["errors"][0]["field"], "read_ack.uid");
    assert_eq!(results[4]["errors"][0]["field"], "message_change.by");
    assert_eq!(results[5]["errors"][0]["field"], "contact_change.uid");
    assert_eq!(results[7], json!({ "accepted": 3, "rejected": 4 }));
    let place = |one: &Value| {
        (
            one["partition"].as_i64().unwrap(),
            one["offset"].as_i64().unwrap(),
        )
    };
    let (partition, offset) = place(&results[0]);
    let Command::Send(send) = log::command(partition, offset) else {
        panic!("the first line was a message");
    };
    assert_eq!(send.srcid.get(), me);
    let (partition, offset) = place(&results[6]);
    let Command::ChangeContact(change) = log::command(partition, offset) else {
        panic!("the last line was a contact change");
    };
    assert!(change.by_user, "limits of users apply to it");
}

#[tokio::test]
async fn a_service_does_what_its_scopes_say_until_its_key_is_taken_away() {
    let closed = Closed::start(&[]);
    let (one, other) = fresh_pair();
    let sender = closed.parties.service(&[Scope::SendAny]);
    let reader = closed.parties.service(&[Scope::ReadAny]);
    let admin = closed.parties.service(&[Scope::Admin]);
    let sends = async |key: &str| closed.send(key, one, other).await;
    wait_until("the keys are read", async || sends(&sender).await == 202).await;
    assert_eq!(sends(&admin).await, 202);
    let refused = closed
        .post(&reader, "/v1/messages", &message(one, other))
        .await;
    let refused = problem(refused).await;
    assert_eq!(refused.kind, ProblemKind::Forbidden);
    assert!(refused.detail.contains("scope send:any"), "{refused}");
    let lines = [json!({ "message": message(one, other) })];
    assert_eq!(closed.post_lines(&reader, &lines).await[0]["status"], 403);

    let metrics = async |key: &str| {
        let request = Client::new().get(closed.server.url("/metrics"));
        request.bearer_auth(key).send().await.unwrap()
    };
    assert_eq!(metrics(&sender).await.status(), 403);
    let shown = metrics(&admin).await.text().await.unwrap();
    assert!(
        shown.contains("tidemark_auth_refused_total")
            || shown.contains("tidemark_http_requests_total")
    );

    closed.parties.revoke_services();
    wait_until("the keys are gone", async || sends(&sender).await == 401).await;
    assert_eq!(sends(&admin).await, 401);
    let words = problem(
        closed
            .post(&admin, "/v1/messages", &message(one, other))
            .await,
    )
    .await;
    assert!(words.detail.contains("no longer valid"), "{words}");
}

#[tokio::test]
async fn probes_and_descriptions_are_open_and_metrics_are_not() {
    let closed = Closed::start(&[]);
    let get = async |path: &str| {
        let answer = Client::new().get(closed.server.url(path)).send().await;
        answer.unwrap().status().as_u16()
    };
    assert_eq!(get("/livez").await, 200);
    for page in ["/", "/docs/", "/openapi.json"] {
        assert_eq!(get(page).await, 200, "{page}");
    }
    wait_until("it is ready", async || get("/readyz").await == 200).await;
    assert_eq!(get("/metrics").await, 401);
    assert_eq!(get("/nowhere").await, 404);
}

#[tokio::test]
async fn a_stranger_is_answered_before_the_body_is_sent() {
    let closed = Closed::start(&[]);
    let addr = closed.server.addr();
    let status = spawn_blocking(move || RawRequest::batch(addr).answer().status);
    assert_eq!(status.await.unwrap(), 401);
}

#[tokio::test]
async fn more_than_the_rate_is_told_when_to_come_back() {
    let limits =
        "{ requests_per_s = 1, requests_burst = 3, events_per_s = 1, events_burst = 1000 }";
    let closed = Closed::start(&[("auth.user_limits", limits)]);
    let ((me, peer), (other, _)) = (fresh_pair(), fresh_pair());
    let token = closed.parties.token(me);
    let body = message(me, peer);
    let refused = loop {
        let answer = closed.post(&token, "/v1/messages", &body).await;
        if answer.status() != 202 {
            break answer;
        }
    };
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
    let refused = problem(refused).await;
    assert_eq!(
        (refused.kind, refused.retry_after_s),
        (ProblemKind::RateLimited, Some(1))
    );
    assert_eq!(
        closed.send(&closed.parties.token(other), other, peer).await,
        202
    );
    wait_until("the pause is over", async || {
        closed.send(&token, me, peer).await == 202
    })
    .await;
}

#[tokio::test]
async fn a_batch_ends_at_the_line_above_the_rate() {
    // Slow enough that hardly another line is allowed while the batch is read.
    let limits =
        "{ requests_per_s = 100, requests_burst = 100, events_per_s = 1, events_burst = 5 }";
    let closed = Closed::start(&[("auth.user_limits", limits)]);
    let (me, peer) = fresh_pair();
    let line = json!({ "message": message(me, peer) });
    let results = closed
        .post_lines(&closed.parties.token(me), &vec![line; 200])
        .await;
    let accepted = results
        .iter()
        .take_while(|one| one["status"] == 202)
        .count();
    assert!((5..150).contains(&accepted), "{accepted}");
    assert_eq!(results.len(), accepted + 2, "no line behind it is taken");
    let (refused, summary) = (&results[accepted], &results[accepted + 1]);
    assert_eq!(refused["line"], accepted + 1);
    assert_eq!(refused["type"], "/problems/rate-limited");
    assert_eq!(
        (&refused["status"], &refused["retry_after_s"]),
        (&json!(429), &json!(1))
    );
    assert_eq!(*summary, json!({ "accepted": accepted, "rejected": 1 }));
    // A single event is one, too. By now one may be allowed again; of so many at once most are not.
    let token = closed.parties.token(me);
    let singles = join_all((0..50).map(|_| closed.send(&token, me, peer))).await;
    assert!(singles.contains(&429), "{singles:?}");
}

/// A page whose name is pointed at this machine is of this very site, to its browser.
#[tokio::test(flavor = "multi_thread")]
async fn where_callers_are_not_authenticated_a_name_of_somebody_else_is_refused() {
    let open = Server::start(&[("http.allowed_origins", r#"["http://ours.example"]"#)]);
    let closed = Closed::start(&[]);
    let (srcid, destid) = fresh_pair();
    for (server, host, status) in [
        (&open, "localhost:7301", 202),
        (&open, "ours.example:7301", 202),
        (&open, "evil.example:7301", 403),
        (&closed.server, "evil.example:7301", 401),
    ] {
        let request = Client::new().post(server.url("/v1/messages"));
        let request = request.header("host", host).json(&message(srcid, destid));
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), status, "{host}");
        if status == 403 {
            let problem = problem(response).await;
            assert_eq!(problem.errors[0].field, "Host");
            assert!(problem.detail.contains("http.allowed_origins"), "{problem}");
        }
    }
}
