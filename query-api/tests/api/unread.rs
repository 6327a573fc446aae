use std::time::Duration;

use message_store::{ReadUpTo, Sink};
use schemas::{
    DeviceClass, UserId,
    event::{Body, Event, Source, SourceOffset},
};
use serde_json::json;
use tokio::{net::TcpListener, sync::OnceCell};

use crate::{
    chat::{Chat, fresh_user, mid},
    deployment::{Deployment, now, partition, user},
    redis::Redis,
    service::Service,
};

/// Its `chat.events` stays empty, so that a rebuild has nothing to wait for.
async fn quiet() -> &'static Deployment {
    static QUIET: OnceCell<Deployment> = OnceCell::const_new();
    QUIET
        .get_or_init(async || {
            let deployment = Deployment::new();
            deployment.apply_topics().await;
            deployment.apply_schema().await;
            deployment.fill_inbound().await;
            deployment
        })
        .await
}

async fn env() -> (&'static Deployment, Redis, Service) {
    let deployment = quiet().await;
    let redis = Redis::initialise(&deployment.config.redis).await;
    let service = Service::start(&deployment.config).await;
    (deployment, redis, service)
}

fn path(uid: UserId, device: DeviceClass) -> String {
    format!("/v1/users/{uid}/unread?device={device}")
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_are_those_of_redis_by_class() {
    let (_, redis, service) = env().await;
    let me = fresh_user();
    let peers = [
        (user(7), "3,0,3"),
        (user(i64::MAX), "9,4,?"),
        (user(8), "2,2,2"),
    ];
    redis.load(me, &peers).await;
    assert_eq!(
        service.ok(&path(me, DeviceClass::Pc)).await,
        json!({
            "uid": me.to_string(),
            "device": "pc",
            "unread": {"7": 3, "9223372036854775807": 5},
            "total": 8,
        })
    );
    assert_eq!(
        service.ok(&path(me, DeviceClass::Mobile)).await,
        json!({
            "uid": me.to_string(),
            "device": "mobile",
            "unread": {},
            "total": 0,
            "unknown": ["9223372036854775807"],
        })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_renews_the_expiry() {
    let (_, redis, service) = env().await;
    let me = fresh_user();
    redis.load(me, &[(user(7), "3,0,3")]).await;
    let expires_at = async || {
        let state = redis.raw(me).await.state.unwrap();
        state.expires_at_ms.unwrap()
    };
    let before = expires_at().await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    service.ok(&path(me, DeviceClass::Pc)).await;
    assert!(expires_at().await > before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absent_user_is_rebuilt_from_the_contact_rows() {
    let (deployment, redis, service) = env().await;
    let mut chat = Chat::new();
    chat.talk(9);
    deployment.write_contacts(&[chat.contact(2, 9)]).await;
    let pc = service.ok(&path(chat.me, DeviceClass::Pc)).await;
    let expected = chat.peer_ordinal(9).get() - chat.peer_ordinal(2).get();
    assert_eq!(pc["unread"], json!({chat.peer.to_string(): expected}));
    // Afterwards Redis has it.
    assert!(redis.raw(chat.me).await.state.is_some());
    assert_eq!(
        service.ok(&path(chat.me, DeviceClass::Mobile)).await["total"],
        0
    );
    // Nobody knows this one, which is an answer, too.
    assert_eq!(
        service.ok(&path(fresh_user(), DeviceClass::Pc)).await["total"],
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_that_does_not_end_in_time_is_503_and_nothing_partial() {
    let (_, redis, service) = env().await;
    let me = fresh_user();
    redis.begin_elsewhere(me).await;
    let path = format!("{}&timeout_ms=300", path(me, DeviceClass::Pc));
    let answer = service.get(&path).await;
    assert_eq!(
        (answer.status, answer.retry_after.as_deref()),
        (503, Some("1"))
    );
    assert_eq!(answer.body.get("unread"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn contact_rows_that_lag_behind_the_log_are_not_read() {
    let deployment = Deployment::new();
    deployment.apply_topics().await;
    deployment.apply_schema().await;
    let with_redis = Service::start(&deployment.config).await;
    Redis::initialise(&deployment.config.redis).await;
    let mut config = deployment.config.clone();
    config.redis.url = "redis://127.0.0.1:1".to_owned();
    let without_redis = Service::start(&config).await;

    let mut chat = Chat::new();
    chat.talk(2);
    deployment.write_contacts(&[chat.contact(0, 0)]).await;
    let p = chat.partition();
    deployment.emit(p, progress(3)).await;
    let path = path(chat.me, DeviceClass::Pc);
    for service in [&with_redis, &without_redis] {
        let answer = service.get(&format!("{path}&timeout_ms=1500")).await;
        assert_eq!(
            (answer.status, answer.retry_after.as_deref()),
            (503, Some("1"))
        );
    }

    let shard = deployment.shard_of_user(chat.me);
    deployment.advance(Sink::Contacts, shard, p, 3).await;
    for service in [&with_redis, &without_redis] {
        assert_eq!(service.ok(&path).await["total"], 1);
    }
}

fn progress(offset: i64) -> Event {
    Event {
        src: Source {
            offset: SourceOffset { epoch: 0, offset },
            leader_epoch: 0,
        },
        ts: now(),
        body: Body::Progress,
        command: None,
        words: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_the_contact_rows_answer() {
    let deployment = quiet().await;
    let mut chat = Chat::new();
    chat.talk(4);
    let mut contact = chat.contact(0, 4);
    contact.read.mobile = ReadUpTo {
        mid: mid(2),
        ordinal: None,
    };
    deployment.write_contacts(&[contact]).await;

    // One that refuses, one that never answers, and one that no projector has initialised.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_url = format!("redis://{}", silent.local_addr().unwrap());
    let mut emptied = deployment.config.redis.clone();
    emptied.key_prefix.push_str("emptied:");
    let mut refusing = emptied.clone();
    refusing.url = "redis://127.0.0.1:1".to_owned();
    let mut hanging = emptied.clone();
    hanging.url = silent_url;
    for redis in [refusing, hanging, emptied] {
        let mut config = deployment.config.clone();
        config.redis = redis;
        let service = Service::start(&config).await;
        let pc = service.ok(&path(chat.me, DeviceClass::Pc)).await;
        assert_eq!(pc["unread"], json!({chat.peer.to_string(): 2}));
        let mobile = service.ok(&path(chat.me, DeviceClass::Mobile)).await;
        assert_eq!(mobile["unknown"], json!([chat.peer.to_string()]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_after_waits_for_the_contact_rows() {
    let deployment = quiet().await;
    let mut config = deployment.config.clone();
    config.redis.url = "redis://127.0.0.1:1".to_owned();
    let service = Service::start(&config).await;
    let (me, p) = (fresh_user(), partition(31));
    let path = format!("{}&timeout_ms=1500&after=31:4", path(me, DeviceClass::Pc));
    let late = service.get(&path).await;
    assert_eq!(
        late.detail(),
        "MySQL (contacts) has not reached 31:4 within 1500 ms"
    );
    let shard = deployment.shard_of_user(me);
    deployment.advance(Sink::Contacts, shard, p, 4).await;
    assert_eq!(service.ok(&path).await["as_of"], json!(["31:4"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_waits_for_redis() {
    let (_, mut redis, service) = env().await;
    let (me, p) = (fresh_user(), partition(41));
    redis.load(me, &[(user(7), "3,0,0")]).await;
    let path = |query: &str| format!("{}&{query}", path(me, DeviceClass::Pc));

    let late = service.get(&path("after=41:2&timeout_ms=200")).await;
    assert_eq!(late.status, 504);
    assert_eq!(late.detail(), "Redis has not reached 41:2 within 200 ms");

    let waiting = path("after=41:2&after=41:1");
    let (answer, ()) = tokio::join!(service.ok(&waiting), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        redis.advance(p, 6).await;
    });
    assert_eq!(
        (&answer["total"], &answer["as_of"]),
        (&json!(3), &json!(["41:6"]))
    );
    let beyond = service.get(&path("after=41:900&timeout_ms=30000")).await;
    assert_eq!(beyond.status, 504);
    assert_eq!(
        beyond.detail(),
        "41:900 is above the end of the log, so there is nothing to wait for"
    );
}

/// All callers are answered, and read together.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_many_senders_is_read_once_for_many_callers() {
    let (deployment, mut redis, service) = env().await;
    let me = fresh_user();
    let peers: Vec<(UserId, &str)> = (1..=20_000).map(|n| (user(n), "3,1,?")).collect();
    redis.load(me, &peers).await;
    redis.advance(partition(42), 6).await;
    let before = pages_read(deployment).await;
    service.ok(&path(me, DeviceClass::Pc)).await;
    let of_one = pages_read(deployment).await - before;
    assert!(of_one >= 20, "{of_one}");

    let path = format!("{}&after=42:6&timeout_ms=30000", path(me, DeviceClass::Pc));
    let calls = (0..12).map(|_| service.ok(&path));
    for answer in futures::future::join_all(calls).await {
        assert_eq!(answer["unread"].as_object().unwrap().len(), 20_000);
        assert_eq!(
            (&answer["unread"]["7"], &answer["total"]),
            (&json!(2), &json!(40_000))
        );
        assert_eq!(answer["as_of"], json!(["42:6"]));
    }
    let of_all = pages_read(deployment).await - before - of_one;
    assert!(of_all <= 6 * of_one, "{of_all} pages, {of_one} at a time");
}

/// No other test here reads in pages.
async fn pages_read(deployment: &Deployment) -> u64 {
    let stats = crate::redis::command_stats(&deployment.config.redis).await;
    let calls = stats.split("cmdstat_hscan:calls=").nth(1);
    let calls = calls.map(|behind| behind.split(',').next().unwrap());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_parameters_are_named() {
    let (_, _, service) = env().await;
    for (path, field) in [
        ("/v1/users/1000/unread", "device"),
        ("/v1/users/1000/unread?device=", "device"),
        ("/v1/users/1000/unread?device=PC", "device"),
        ("/v1/users/1000/unread?device=pc&device=mobile", "device"),
        ("/v1/users/0/unread?device=pc", "uid"),
        ("/v1/users/-1/unread?device=pc", "uid"),
        ("/v1/users/01/unread?device=pc", "uid"),
        ("/v1/users/9223372036854775808/unread?device=pc", "uid"),
        ("/v1/users/%F0%9F%8C%8A/unread?device=pc", "uid"),
        ("/v1/users/%00/unread?device=pc", "uid"),
        ("/v1/users/1%20OR%201/unread?device=pc", "uid"),
        ("/v1/users/1000/unread?device=pc&x=1", "x"),
    ] {
        assert_eq!(service.get(path).await.field(), field, "{path}");
    }
    let many = "after=0:0&".repeat(65);
    let path = format!("/v1/users/1000/unread?{many}device=pc");
    assert_eq!(service.get(&path).await.field(), "after");
}
