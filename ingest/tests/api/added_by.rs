//! Who may add whom to groups, with what users have done and say in MySQL.

use access::Scope;
use dev_stack::TestServers;
use message_store::{ContactDelta, FlagsAt, MessageStore, MySqlConfig, UserRows};
use schemas::{ContactFlags, Ordinal, Profile, StoredProfile, TimestampMs, UserId};
use serde_json::{Value, json};

use crate::{callers::Closed, log::fresh_pair, server::wait_until};

/// Who adds, and five others: whom he has written to, who has written to him, who has also blocked him, who has pinned him, and who has written
/// to him and says in his profile that nobody may add him.
struct Users {
    me: i64,
    others: [i64; 5],
}

fn user(uid: i64) -> UserId {
    uid.try_into().unwrap()
}

/// Databases of this test's own, and the servers that they are on.
async fn stored(users: &Users) -> (MySqlConfig, String) {
    let url = TestServers::shared().mysql_url.clone();
    let id = uuid::Uuid::new_v4().simple().to_string();
    let config = MySqlConfig {
        servers: vec![url.parse().unwrap()],
        database_prefix: format!("i{}_", &id[..12]),
        databases: 2,
        ..MySqlConfig::default()
    };
    let store = MessageStore::connect(&config);
    let now = TimestampMs(1_790_000_000_000);
    store.apply_schema(now).await.unwrap();
    let [stranger, friend, blocker, pinner, shy] = users.others;
    let flags = |blocked, pinned| ContactFlags {
        blocked,
        pinned,
        ..ContactFlags::default()
    };
    let rows = [
        (stranger, Ordinal::ZERO, ContactFlags::default()),
        (friend, Ordinal::ZERO.next(), ContactFlags::default()),
        (blocker, Ordinal::ZERO.next(), flags(true, false)),
        (pinner, Ordinal::ZERO, flags(false, true)),
        (shy, Ordinal::ZERO.next(), ContactFlags::default()),
    ];
    for (uid, own_ordinal, flags) in rows {
        let mut contact = ContactDelta::new(user(uid), user(users.me));
        contact.own_ordinal = own_ordinal;
        contact.event_offset = 1;
        contact.flags = Some(FlagsAt {
            event_offset: 1,
            flags,
        });
        let profile = StoredProfile {
            profile: Profile {
                uid: user(uid),
                nick: "Ann".to_owned(),
                avatar: None,
                extra: (uid == shy).then(|| r#"{"groups_added_by":"nobody"}"#.to_owned()),
            },
            ts: now,
            event_offset: 1,
        };
        let rows = UserRows {
            contacts: vec![&contact],
            profiles: vec![&profile],
            ..UserRows::default()
        };
        let shard = store.layout().shard_of_user(user(uid));
        store
            .write_user_rows(shard, "events", rows, &[])
            .await
            .unwrap();
    }
    let address = url.rsplit_once('@').unwrap().1.to_owned();
    (config, address)
}

fn ingest(mysql: &(MySqlConfig, String), groups: &[(&str, &str)]) -> Closed {
    let (host, port) = mysql.1.split_once(':').unwrap();
    let servers = format!("[{{ host = {host:?}, port = {port} }}]");
    let mut all = vec![
        ("mysql.servers", servers.as_str()),
        ("mysql.database_prefix", mysql.0.database_prefix.as_str()),
        ("mysql.databases", "2"),
    ];
    all.extend(groups);
    Closed::start(&all)
}

/// The status of adding one user, and the answer.
async fn add(closed: &Closed, token: &str, by: i64, users: &[i64]) -> (u16, Value) {
    let users: Vec<String> = users.iter().map(i64::to_string).collect();
    let body = json!({"by": by, "add": users});
    let answer = closed.post(token, "/v1/groups/5000/changes", &body).await;
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn statuses(closed: &Closed, users: &Users) -> Vec<u16> {
    let token = closed.parties.token(users.me);
    let mut statuses = Vec::new();
    for other in users.others {
        statuses.push(add(closed, &token, users.me, &[other]).await.0);
    }
    statuses
}

#[tokio::test]
async fn a_user_is_added_by_whom_the_installation_and_he_himself_let() {
    let (me, stranger) = fresh_pair();
    let ((friend, blocker), (pinner, shy)) = (fresh_pair(), fresh_pair());
    let others = [stranger, friend, blocker, pinner, shy];
    let users = Users { me, others };
    let mysql = stored(&users).await;

    let anybody = ingest(&mysql, &[]);
    assert_eq!(statuses(&anybody, &users).await, [202; 5]);
    let they_decide = ingest(&mysql, &[("groups.users_decide", "true")]);
    let expected = [202, 202, 202, 202, 403];
    assert_eq!(statuses(&they_decide, &users).await, expected);
    let nobody = ingest(&mysql, &[("groups.added_by", "nobody")]);
    assert_eq!(statuses(&nobody, &users).await, [403; 5]);
    let contacts = ingest(&mysql, &[("groups.added_by", "contacts")]);
    let expected = [403, 202, 403, 202, 202];
    assert_eq!(statuses(&contacts, &users).await, expected);

    // All who are not to be added are named, in every encoding of a post, and who posts is none of them.
    let named =
        format!("names {stranger}, {blocker}; must be users who let {me} add them to groups");
    let token = contacts.parties.token(me);
    let (_, refused) = add(&contacts, &token, me, &[stranger, friend, me, blocker]).await;
    assert_eq!(refused["type"], "/problems/forbidden");
    assert_eq!(
        refused["errors"][0],
        json!({"field": "add", "message": named})
    );
    let group =
        json!({"client_id": "a", "owner": me, "name": "Lunch", "members": [stranger, blocker]});
    let results = contacts
        .post_lines(&token, &[json!({ "group": group })])
        .await;
    assert_eq!(results[0]["status"], 403);
    let error = json!({"field": "group.members", "message": named});
    assert_eq!(results[0]["errors"][0], error);

    let service = contacts.parties.service(&[Scope::SendAny]);
    wait_until("the key is read", async || {
        add(&contacts, &service, me, &[stranger]).await.0 == 202
    })
    .await;
}

#[tokio::test]
async fn without_mysql_nobody_is_added_whom_it_has_to_be_asked_about() {
    let (me, other) = fresh_pair();
    let nowhere = r#"[{ host = "127.0.0.1", port = 1 }]"#;
    let settings = [("mysql.servers", nowhere), ("groups.added_by", "contacts")];
    let closed = Closed::start(&settings);
    let token = closed.parties.token(me);
    let (status, answer) = add(&closed, &token, me, &[other]).await;
    assert_eq!(
        (status, &answer["retry_after_s"]),
        (503, &json!(1)),
        "{answer}"
    );
    let add = json!({"group_change": {"gid": 5000, "by": me, "add": [other]}});
    let results = closed.post_lines(&token, &[add]).await;
    assert_eq!(results[0]["status"], 503);
    assert_eq!(results[0]["detail"], answer["detail"]);
    // Nothing else waits for it.
    assert_eq!(closed.send(&token, me, other).await, 202);
    let leave = json!({"by": me, "leave": true});
    let left = closed.post(&token, "/v1/groups/5000/changes", &leave).await;
    assert_eq!(left.status(), 202);
}
