//! Who may read what: real tokens and service keys at the real doors.

use std::{convert::Infallible, time::Duration};

use access::{Scope, test_issuer::Parties};
use futures::future::{join, join_all};
use problem::ProblemKind;
use query_api::Config;
use schemas::{
    Change, ChangeContact, ChangeMessage, ClientMsgId, DeviceClass, InboundPosition, NextOffset,
    Partition, Recipient, SyncToken, UserId,
    command::{Command, ReadAck, SendMessage},
};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::{
    chat::{Chat, fresh_user, mid},
    deployment::{Deployment, partition, user},
    group::Group,
    service::{Answer, Service},
};

/// A query API whose doors are closed, and who may pass them.
struct Closed {
    service: Service,
    parties: Parties,
    deployment: &'static Deployment,
    _dir: TempDir,
}

impl Closed {
    async fn start() -> Self {
        Self::start_with(|_config| ()).await
    }

    async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let (deployment, dir) = (Deployment::shared().await, tempfile::tempdir().unwrap());
        let parties = Parties::new(dir.path());
        let mut config = deployment.config.clone();
        config.auth = parties.config();
        change(&mut config);
        Self {
            service: Service::start(&config).await,
            parties,
            deployment,
            _dir: dir,
        }
    }

    async fn ask(&self, token: &str, path: &str) -> Answer {
        self.service.get_as(token, path).await
    }
}

/// What only `uid` may read.
fn calls(uid: UserId, peer: UserId) -> [String; 7] {
    [
        format!("/v1/users/{uid}/groups"),
        format!("/v1/users/{uid}/unread?device=pc"),
        format!("/v1/users/{uid}/conversations"),
        format!("/v1/users/{uid}/sync"),
        format!("/v1/users/{uid}/devices"),
        format!("/v1/users/{uid}/conversations/{peer}/changes"),
        format!("/v1/users/{uid}/conversations/{peer}/messages"),
    ]
}

fn expect(answer: &Answer, kind: ProblemKind) {
    assert_eq!(answer.body["type"], kind.uri(), "{}", answer.body);
    assert_eq!(answer.status, kind.status().as_u16());
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_reads_without_a_token_or_with_a_forged_one() {
    let closed = Closed::start().await;
    let (me, peer) = (fresh_user(), fresh_user());
    let mut paths = calls(me, peer).to_vec();
    paths.push("/v1/profiles?uid=1".to_owned());
    paths.push(format!("/v1/users/{me}/profile"));
    paths.push("/v1/inbound/0/0".to_owned());
    for path in &paths {
        expect(
            &closed.service.get(path).await,
            ProblemKind::Unauthenticated,
        );
        for (reason, token) in closed.parties.forgeries(me) {
            let refused = closed.ask(&token, path).await;
            expect(&refused, ProblemKind::Unauthenticated);
            assert!(
                refused.detail().contains(reason),
                "{reason}: {}",
                refused.detail()
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_reads_what_is_theirs_only() {
    let closed = Closed::start().await;
    let mut chat = Chat::new();
    chat.talk(3);
    closed.deployment.write_messages(&chat.rows).await;
    closed
        .deployment
        .write_contacts(&[chat.contact(0, 0)])
        .await;
    let mine = closed.parties.token(chat.me);
    for path in calls(chat.me, chat.peer) {
        assert_eq!(closed.ask(&mine, &path).await.status, 200, "{path}");
        // The other side of the conversation reads it under its own name.
        for other in [chat.peer, fresh_user()] {
            let refused = closed.ask(&closed.parties.token(other), &path).await;
            expect(&refused, ProblemKind::Forbidden);
            assert_eq!(refused.body["errors"][0]["field"], "uid");
            assert!(!refused.body.to_string().contains("message 0"));
        }
    }
    // Profiles are everybody's, of whoever has a token.
    let profiles = format!("/v1/profiles?uid={}", chat.me);
    let stranger = closed.parties.token(fresh_user());
    assert_eq!(closed.ask(&stranger, &profiles).await.status, 200);
    let own = format!("/v1/users/{}/profile", chat.me);
    assert_eq!(closed.ask(&stranger, &own).await.status, 404);
    let [.., theirs] = calls(chat.peer, chat.me);
    let theirs = closed.ask(&closed.parties.token(chat.peer), &theirs).await;
    assert_eq!(theirs.body["items"].as_array().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_reads_groups_under_no_other_name() {
    let closed = Closed::start().await;
    let mut group = Group::new();
    group.say(group.owner, "message 0");
    group.write(closed.deployment).await;
    let [own, others] = [group.owner, fresh_user()].map(|uid| closed.parties.token(uid));
    for call in ["", "/members", "/messages", "/changes"] {
        let path = group.path(call, group.owner);
        assert_eq!(closed.ask(&own, &path).await.status, 200, "{path}");
        let refused = closed.ask(&others, &path).await;
        expect(&refused, ProblemKind::Forbidden);
        assert_eq!(refused.body["errors"][0]["field"], "uid");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn services_read_with_the_scope_for_it_until_their_keys_are_taken_away() {
    let closed = Closed::start().await;
    let reader = closed.parties.service(&[Scope::ReadAny]);
    let sender = closed.parties.service(&[Scope::SendAny]);
    let admin = closed.parties.service(&[Scope::Admin]);
    let [_, _, list, ..] = calls(fresh_user(), fresh_user());
    let (service, parties) = (&closed.service, &closed.parties);
    service
        .until_as(&reader, &list, |answer| answer.status == 200)
        .await;
    assert_eq!(closed.ask(&admin, &list).await.status, 200);
    let refused = closed.ask(&sender, "/v1/profiles?uid=1").await;
    expect(&refused, ProblemKind::Forbidden);
    let refused = closed.ask(&sender, &list).await;
    expect(&refused, ProblemKind::Forbidden);
    assert!(
        refused.detail().contains("scope read:any"),
        "{}",
        refused.detail()
    );
    parties.revoke_services();
    service
        .until_as(&reader, &list, |answer| answer.status == 401)
        .await;
    expect(
        &closed.ask(&admin, &list).await,
        ProblemKind::Unauthenticated,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_became_of_a_send_is_told_to_whom_it_concerns() {
    let closed = Closed::start().await;
    let (me, peer, stranger) = (fresh_user(), fresh_user(), fresh_user());
    let send = SendMessage {
        by_user: false,
        srcid: me,
        to: Recipient::User(peer),
        client_msg_id: ClientMsgId::try_from("a-1".to_owned()).unwrap(),
        msg: "hello".to_owned(),
    };
    let read = ReadAck {
        uid: me,
        to: Recipient::User(peer),
        device: DeviceClass::Pc,
        mid: None,
    };
    let change = |change| {
        Command::ChangeMessage(ChangeMessage {
            by: me,
            to: Recipient::User(peer),
            mid: mid(1),
            change,
        })
    };
    let contact = ChangeContact {
        uid: me,
        peer,
        favourite: None,
        pinned: None,
        muted: Some(true),
        blocked: None,
        deleted: false,
        by_user: true,
    };
    let partition = send.conversation().partition();
    let post = async |command| closed.deployment.post(partition, command).await;
    let both = [
        post(Command::Send(send)).await,
        post(change(Change::Recall)).await,
        post(change(Change::Delete)).await,
        post(change(Change::Edit("hallo".to_owned()))).await,
    ];
    let mine = [
        post(Command::ReadAck(read)).await,
        post(change(Change::Hide)).await,
        post(change(Change::Clear)).await,
        post(Command::ChangeContact(contact)).await,
    ];
    let path = |at: InboundPosition| format!("/v1/inbound/{}/{}", at.partition, at.offset);
    let nowhere = format!("/v1/inbound/{partition}/999999999");
    let ask = async |uid: UserId, at: &str| closed.ask(&closed.parties.token(uid), at).await;
    let of_all = both.map(|at| (me, at)).into_iter();
    let of_all = of_all.chain(both.map(|at| (peer, at)));
    for (uid, at) in of_all.chain(mine.map(|at| (me, at))) {
        assert_eq!(ask(uid, &path(at)).await.body["state"], "pending", "{at}");
    }
    let strangers = both.map(|at| (stranger, at)).into_iter();
    let strangers = strangers.chain(mine.map(|at| (stranger, at)));
    for (uid, at) in strangers.chain(mine.map(|at| (peer, at))) {
        let hidden = ask(uid, &path(at)).await;
        expect(&hidden, ProblemKind::NotFound);
        // The words are those for a record that is not there at all.
        let absent = ask(uid, &nowhere).await;
        let of_place = |words: &str, place: &str| words.replace(place, "there");
        assert_eq!(
            of_place(hidden.detail(), &at.to_string()),
            of_place(absent.detail(), &format!("{partition}:999999999")),
        );
    }
}

/// What is not on the log is in no store, however long one waits.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_log_has_not_is_not_waited_for() {
    let closed = Closed::start().await;
    let me = fresh_user();
    let token = closed.parties.token(me);
    let next = NextOffset::new(1 << 40);
    let ahead = SyncToken::new(0, &[(Partition::FIRST, next)].into()).to_string();
    for after in ["0:999999999999", &ahead] {
        let path = format!("/v1/users/{me}/conversations?after={after}&timeout_ms=30000");
        let began = Instant::now();
        let answer = closed.ask(&token, &path).await;
        assert_eq!(answer.status, 504, "{}", answer.body);
        let detail = answer.detail();
        assert!(detail.contains("above the end of the log"), "{detail}");
        assert!(began.elapsed() < Duration::from_secs(20));
    }
}

/// What is on the log, and no store will have.
async fn never(closed: &Closed) -> String {
    let command = Command::ReadAck(ReadAck {
        uid: fresh_user(),
        to: Recipient::User(fresh_user()),
        device: DeviceClass::Pc,
        mid: None,
    });
    let at = closed.deployment.post(partition(61), command).await;
    format!("after={at}&timeout_ms=30000")
}

#[tokio::test(flavor = "multi_thread")]
async fn users_who_wait_have_no_places_that_others_need() {
    let closed = Closed::start_with(|config| config.query_api.max_requests = 1).await;
    let list = |uid: UserId| format!("/v1/users/{uid}/conversations");
    let never = never(&closed).await;
    // One that is turned away, because another was there first, or waits no longer, is on its way again.
    let waits = (0..6).map(async |_| -> Infallible {
        let uid = fresh_user();
        let (token, path) = (closed.parties.token(uid), format!("{}?{never}", list(uid)));
        loop {
            closed.ask(&token, &path).await;
        }
    });
    let other = fresh_user();
    let token = closed.parties.token(other);
    let others_read = async {
        for _ in 0..20 {
            let is_read = |answer: &Answer| answer.status == 200;
            closed.service.until_as(&token, &list(other), is_read).await;
            sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        _ = join_all(waits) => unreachable!("they go on for ever"),
        () = others_read => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_waits_with_so_many_calls_and_no_more() {
    let closed = Closed::start_with(|config| config.query_api.max_requests_of_user = 2).await;
    let [waiting, other] = [fresh_user(), fresh_user()];
    let [of_waiting, of_other] = [waiting, other].map(|uid| closed.parties.token(uid));
    let list = |uid: UserId| format!("/v1/users/{uid}/conversations");
    let path = format!("{}?{}", list(waiting), never(&closed).await);
    let wait = async || -> Infallible {
        loop {
            closed.ask(&of_waiting, &path).await;
        }
    };
    let third = async {
        let own = list(waiting);
        let turned_away = closed.service.until_as(&of_waiting, &own, is_turned_away);
        assert_eq!(turned_away.await.retry_after.as_deref(), Some("1"));
        closed.ask(&of_other, &list(other)).await
    };
    tokio::select! {
        _ = join(wait(), wait()) => unreachable!("they go on for ever"),
        answer = third => assert_eq!(answer.status, 200, "{}", answer.body),
    }
}

/// With so many calls that hang, a user without a share of his own would have every connection to the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_whose_reads_take_long_has_a_part_of_a_servers_connections() {
    let closed = Closed::start().await;
    let connections = closed.deployment.config.mysql.connections_per_server;
    let slow = fresh_user();
    let other = user(slow.get() + 1);
    let [of_slow, of_other] = [slow, other].map(|uid| closed.parties.token(uid));
    let list = |uid: UserId| format!("/v1/users/{uid}/conversations?timeout_ms=20000");
    let locked = closed.deployment.lock_contacts_of(slow).await;
    let (path, rest) = (list(slow), list(other));
    let hang = (0..2 * connections).map(|_| closed.ask(&of_slow, &path));
    let others_read = async {
        closed.deployment.until_it_is_waited_for(slow).await;
        for _ in 0..5 {
            let answer = closed.ask(&of_other, &rest).await;
            assert_eq!(answer.status, 200, "{}", answer.body);
        }
        drop(locked);
    };
    let (answers, ()) = tokio::join!(join_all(hang), others_read);
    for answer in answers {
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
}

fn is_turned_away(answer: &Answer) -> bool {
    answer.body["type"] == ProblemKind::TooManyRequests.uri()
}
