//! Profiles.

use message_store::{Sink, UserRows};
use schemas::{Partition, Profile, StoredProfile, UserId, command::Command, topics::Topic};
use serde_json::json;

use crate::{
    chat::{Chat, fresh_user},
    deployment::{Deployment, now, user},
    group::Group,
    redis::Redis,
    service::{Service, env},
};

const EXTRA: &str = r#"{ "b": 1.50, "a": "\u00fc" }"#;

fn profile(uid: UserId, nick: &str, event_offset: i64) -> StoredProfile {
    StoredProfile {
        profile: Profile {
            uid,
            nick: nick.to_owned(),
            avatar: None,
            extra: Some(EXTRA.to_owned()),
        },
        ts: now(),
        event_offset,
    }
}

async fn write(deployment: &Deployment, row: &StoredProfile) {
    let shard = deployment.shard_of_user(row.profile.uid);
    let rows = UserRows {
        profiles: vec![row],
        ..UserRows::default()
    };
    let (store, topic) = (deployment.store(), deployment.events());
    let write = store.write_user_rows(shard, &topic, rows, &[]);
    write.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_is_read_as_it_was_set() {
    let (deployment, service) = env().await;
    let uid = fresh_user();
    let path = format!("/v1/users/{uid}/profile");
    assert_eq!(service.get(&path).await.status, 404);
    write(deployment, &profile(uid, "Ann", 3)).await;
    let body = service.ok(&path).await;
    assert_eq!((&body["uid"], &body["nick"]), (&json!(uid), &json!("Ann")));
    assert_eq!(body.get("avatar"), None);
    assert!(body["ts"].as_str().unwrap().ends_with('Z'));
    let url = format!("http://{}{path}", service.addr);
    let text = reqwest::get(url).await.unwrap().text().await.unwrap();
    assert!(text.contains(EXTRA), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_come_100_at_a_time() {
    let (deployment, service) = env().await;
    let uids: Vec<UserId> = (0..100).map(|_| fresh_user()).collect();
    for uid in uids.iter().step_by(9) {
        write(deployment, &profile(*uid, &format!("n{uid}"), 3)).await;
    }
    let list = |uids: &[UserId]| {
        let uids: Vec<String> = uids.iter().map(UserId::to_string).collect();
        uids.join(",")
    };
    let (some, others) = uids.split_at(40);
    let path = format!("/v1/profiles?uid={}&uid={}", list(some), list(others));
    let body = service.ok(&path).await;
    let found = body["profiles"].as_object().unwrap();
    assert_eq!(found.len(), uids.iter().step_by(9).count());
    for uid in uids.iter().step_by(9) {
        assert_eq!(found[&uid.to_string()]["nick"], format!("n{uid}"));
    }
    let one_more = format!("{path}&uid={}", fresh_user());
    for wrong in [one_more.as_str(), "/v1/profiles", "/v1/profiles?uid=x"] {
        assert_eq!(service.get(wrong).await.field(), "uid", "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_waits_for_the_rows_of_the_users_own_database() {
    let (deployment, service) = env().await;
    let uid = fresh_user();
    let (partition, shard) = (Partition::of_user(uid), deployment.shard_of_user(uid));
    write(deployment, &profile(uid, "Ann", 3)).await;
    let behind = |offset: i64, timeout_ms: u16| {
        format!("uid={uid}&after={partition}:{offset}&timeout_ms={timeout_ms}")
    };
    // Other tests have partitions of their own, but not all 64: nobody else reaches this offset.
    let set = Command::SetProfile(profile(uid, "Anne", 0).profile);
    let offset = deployment.post(partition, set).await.offset;
    let path = format!("/v1/profiles?{}", behind(offset, 300));
    let late = service.get(&path).await;
    assert_eq!(late.status, 504, "{}", late.body);
    assert!(
        late.detail().contains("MySQL (contacts)"),
        "{}",
        late.detail()
    );
    let waiting = format!("/v1/profiles?{}", behind(offset, 20_000));
    let (answer, ()) = tokio::join!(service.ok(&waiting), async {
        write(deployment, &profile(uid, "Anne", 4)).await;
        deployment
            .advance(Sink::Contacts, shard, partition, offset)
            .await;
    });
    assert_eq!(answer["profiles"][uid.to_string()]["nick"], "Anne");
    assert_eq!(answer["as_of"], json!([format!("{partition}:{offset}")]));
    // That of another partition does not matter.
    let elsewhere = (i64::from(partition.get()) + 1) % 64;
    let path = format!("/v1/users/{uid}/profile?after={elsewhere}:{offset}&timeout_ms=2000");
    assert_eq!(service.get(&path).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_is_cached_where_redis_is_not_ahead_of_its_row() {
    let deployment = Deployment::new();
    deployment.apply_topics().await;
    deployment.apply_schema().await;
    let mut redis = Redis::initialise(&deployment.config.redis).await;
    let service = Service::start(&deployment.config).await;
    // Of another partition: the row of that of `uid` is as far as Redis.
    let uid = fresh_user();
    let behind = user(uid.get() ^ 1);
    let nick = async |uid: UserId, query: &str| {
        let path = format!("/v1/users/{uid}/profile?{query}");
        service.ok(&path).await["nick"].as_str().unwrap().to_owned()
    };
    write(&deployment, &profile(uid, "Ann", 3)).await;
    assert_eq!(nick(uid, "").await, "Ann");
    assert_eq!(redis.nick(uid).await.as_deref(), Some("Ann"));
    // The row is ahead of Redis: whoever does not ask for it may see either.
    write(&deployment, &profile(uid, "Anne", 4)).await;
    assert_eq!(nick(uid, "").await, "Ann");
    let (partition, shard) = (Partition::of_user(uid), deployment.shard_of_user(uid));
    deployment
        .advance(Sink::Contacts, shard, partition, 7)
        .await;
    assert_eq!(nick(uid, &format!("after={partition}:7")).await, "Anne");
    assert_eq!(redis.nick(uid).await.as_deref(), Some("Anne"));

    // Redis is ahead of the row: it has applied an event that the row may lack.
    let partition = Partition::of_user(behind);
    write(&deployment, &profile(behind, "Bob", 3)).await;
    redis.advance(partition, 9).await;
    assert_eq!(nick(behind, "").await, "Bob");
    assert_eq!(redis.nick(behind).await, None);
    let late = format!("/v1/users/{behind}/profile?after={partition}:9&timeout_ms=300");
    assert_eq!(service.get(&late).await.status, 504);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_profiles_are_those_of_the_rows() {
    let mut config = Deployment::shared().await.config.clone();
    config.redis.url = "redis://127.0.0.1:1".to_owned();
    let service = Service::start(&config).await;
    let uid = fresh_user();
    write(Deployment::shared().await, &profile(uid, "Ann", 3)).await;
    let body = service.ok(&format!("/v1/profiles?uid={uid}")).await;
    assert_eq!(body["profiles"][uid.to_string()]["nick"], "Ann");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_pages_have_the_profiles_of_the_moment() {
    let (deployment, service) = env().await;
    let mut chat = Chat::new();
    chat.talk(2);
    deployment.write_messages(&chat.rows).await;
    deployment.write_contacts(&[chat.contact(0, 0)]).await;
    let list = format!("/v1/users/{}/conversations", chat.me);
    let calls = [list, chat.path()];
    for (event_offset, nick) in [(3, "Ann"), (4, "Anne")] {
        write(deployment, &profile(chat.peer, nick, event_offset)).await;
        for path in &calls {
            let body = service.ok(&format!("{path}?profiles=true")).await;
            let found = body["profiles"].as_object().unwrap();
            assert_eq!(found.len(), 1, "{body}");
            assert_eq!(found[&chat.peer.to_string()]["nick"], nick, "{path}");
            let items = body["items"].to_string();
            assert!(!items.contains(nick), "{items}");
        }
    }
    for path in &calls {
        for without in [path.clone(), format!("{path}?profiles=false")] {
            assert_eq!(service.ok(&without).await.get("profiles"), None);
        }
        let wrong = format!("{path}?profiles=1");
        assert_eq!(service.get(&wrong).await.field(), "profiles");
        // What is waited for may be a profile. Nobody has got as far as a new record.
        let partition = Partition::of_user(chat.peer);
        let appended = deployment.append(Topic::Inbound, partition, b"", None, &[]);
        let after = format!("after={partition}:{}&timeout_ms=300", appended.await);
        let late = service.get(&format!("{path}?profiles=true&{after}")).await;
        assert_eq!(late.status, 504, "{path}");
    }
    let nobody = Chat::new();
    let body = service
        .ok(&format!("{}?profiles=true", nobody.path()))
        .await;
    assert_eq!(body["profiles"], json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_has_the_profiles_of_its_senders() {
    let (deployment, service) = env().await;
    let mut group = Group::new();
    let (me, silent) = (group.joined(), group.joined());
    group.say(group.owner, "hello");
    group.write(deployment).await;
    for (uid, nick) in [(group.owner, "Ann"), (silent, "Ben")] {
        write(deployment, &profile(uid, nick, 3)).await;
    }
    let page = format!("{}&profiles=true", group.path("/messages", me));
    let list = format!("/v1/users/{me}/conversations?profiles=true");
    for path in [page, list] {
        let body = service.ok(&path).await;
        let found = body["profiles"].as_object().unwrap();
        assert_eq!(found.len(), 1, "{body}");
        assert_eq!(found[&group.owner.to_string()]["nick"], "Ann", "{path}");
    }
}
