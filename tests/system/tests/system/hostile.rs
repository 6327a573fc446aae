//! Ids and parameters that mean something to SQL, to Redis or to a parser: refused clearly, or stored as they are, never misfiled.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use system_tests::{DeviceClass, Servers, TestEnv, new_users, run};

/// What is no id of a user, as JSON. Everything else about the event is right.
fn no_uids() -> Vec<Value> {
    let mut uids: Vec<Value> = [
        "",
        "0",
        "-1",
        "+1",
        "01",
        " 1",
        "1 ",
        "1\n",
        "\t1",
        "1.0",
        "1e3",
        "0x10",
        "1_000",
        "१",
        "１",
        "1'",
        "1;--",
        "1 OR 1=1",
        "' OR ''='",
        "*",
        "1*",
        "[1]",
        "1\0",
        "\u{202e}1",
        "9223372036854775808",
        "-9223372036854775809",
        "NaN",
        "null",
        "true",
        "1,2",
        "g:1",
        "state-1",
        "{1}",
        "1\r\nSET a b",
        "%31",
        "_",
    ]
    .map(Value::from)
    .into();
    uids.push("9".repeat(10_000).into());
    uids.extend([
        json!(0),
        json!(-1),
        json!(1.5),
        json!(9_007_199_254_740_993_u64),
        json!(u64::MAX),
        json!(1e300),
    ]);
    uids.extend([json!(null), json!(true), json!([1]), json!({ "uid": 1 })]);
    uids
}

#[test]
fn what_is_no_uid_is_refused_by_name_and_changes_nothing() {
    run(Servers::Shared, async |env| {
        let [me, peer] = new_users();
        for uid in no_uids() {
            for field in ["srcid", "destid"] {
                let mut body =
                    json!({ "srcid": peer.to_string(), "destid": me.to_string(), "msg": "no" });
                body[field] = uid.clone();
                refused(env, "/v1/messages", &body, field).await?;
            }
            for field in ["uid", "peer"] {
                let mut body = json!({ "uid": me.to_string(), "peer": peer.to_string(), "device": "pc", "mid": 1 });
                body[field] = uid.clone();
                refused(env, "/v1/read-acks", &body, field).await?;
                let mut body =
                    json!({ "uid": me.to_string(), "peer": peer.to_string(), "pinned": true });
                body[field] = uid.clone();
                refused(env, "/v1/contact-changes", &body, field).await?;
            }
            for field in ["by", "peer"] {
                let mut body = json!({ "by": me.to_string(), "peer": peer.to_string(), "mid": 1, "kind": "hide" });
                body[field] = uid.clone();
                refused(env, "/v1/message-changes", &body, field).await?;
            }
        }
        for mid in [
            json!(0),
            json!(-1),
            json!(1.5),
            json!("01"),
            json!("newest"),
            json!(1e30),
            json!([]),
            json!(true),
        ] {
            let body = json!({ "uid": me.to_string(), "peer": peer.to_string(), "device": "pc", "mid": mid });
            refused(env, "/v1/read-acks", &body, "mid").await?;
            let body = json!({ "by": me.to_string(), "peer": peer.to_string(), "mid": mid, "kind": "hide" });
            refused(env, "/v1/message-changes", &body, "mid").await?;
        }
        for device in [
            json!("PC"),
            json!("pc "),
            json!(""),
            json!("tablet"),
            json!("pc-*"),
            json!(1),
            json!(null),
        ] {
            let body = json!({ "uid": me.to_string(), "peer": peer.to_string(), "device": device, "mid": 1 });
            refused(env, "/v1/read-acks", &body, "device").await?;
        }
        let unread = env.client.unread(me, DeviceClass::Pc, &[]).await?;
        ensure!(unread.is_empty(), "{unread:?}");
        Ok(())
    });
}

async fn refused(env: &TestEnv, path: &str, body: &Value, field: &str) -> Result<()> {
    let answer = env.client.post(path, body).await?;
    let shown: String = body.to_string().chars().take(200).collect();
    ensure!(answer.status == 400, "{shown} is answered {answer:?}");
    let fields: Vec<&Value> = answer.body["errors"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|error| &error["field"])
        .collect();
    ensure!(
        fields.contains(&&json!(field)),
        "{shown}: {answer:?} does not name {field}"
    );
    // What was wrong is repeated in part at most.
    ensure!(
        answer.body.to_string().len() < 2_000,
        "{shown} has a long answer"
    );
    Ok(())
}

/// Every byte that may be in a client_msg_id, alone and 64 times, and what databases are known to confuse.
fn ids() -> Vec<String> {
    let mut ids: Vec<String> = (0x20..0x7f_u8)
        .map(|byte| char::from(byte).to_string())
        .collect();
    ids.extend((0x20..0x7f_u8).map(|byte| char::from(byte).to_string().repeat(64)));
    ids.extend(
        [
            "é",
            "e\u{301}",
            "É",
            "ß",
            "ss",
            "ﬁ",
            "fi",
            "😀",
            "\u{feff}",
            "a\u{feff}",
            "\u{200b}",
            "\u{202e}x",
            "\u{fffd}",
            "\u{10ffff}",
            "a ",
            " a",
            "a",
            "A",
            "a  ",
            "%",
            "_",
            "\\",
            "\\\\",
            "\\'",
            "''",
            "' OR '1'='1",
            "\"; DROP TABLE x; --",
            "tidemark:mark:0",
            "state-1",
            "{1}",
            "*",
            "?",
            "[a-z]",
            "0",
            "00",
            "1",
            "1.0",
            "1e0",
            "null",
            "NULL",
            "true",
        ]
        .map(str::to_owned),
    );
    ids.push("é".repeat(32));
    ids.push("😀".repeat(16));
    ids.sort();
    ids.dedup();
    ids
}

/// Each is an id of its own: none is taken for another, and each comes back as it was.
#[test]
fn client_msg_ids_of_every_kind_are_distinct() {
    run(Servers::Shared, async |env| {
        let [from, to] = new_users();
        let ids = ids();
        let line = |id: &String| {
            let (srcid, destid) = (from.to_string(), to.to_string());
            let message = json!({ "srcid": srcid, "destid": destid, "client_msg_id": id, "msg": format!("of {id}") });
            format!("{}\n", json!({ "message": message }))
        };
        // The second time they are repeats, each of itself.
        let twice: String = ids.iter().chain(&ids).map(line).collect();
        let results = env.client.post_batch(twice).await?;
        let summary = json!({ "accepted": 2 * ids.len(), "rejected": 0 });
        ensure!(results.last() == Some(&summary), "{:?}", results.last());

        let last = env
            .client
            .send(from, to, "the end of it", "the end")
            .await?;
        let items = env.client.history(to, from, &[last]).await?;
        ensure!(
            items.len() == ids.len() + 1,
            "{} of {} messages",
            items.len(),
            ids.len() + 1
        );
        for (item, id) in items.iter().zip(&ids) {
            ensure!(
                item["client_msg_id"] == **id && item["msg"] == format!("of {id}"),
                "{item}, expected {id:?}"
            );
        }
        env.audit([from, to]).await?;
        Ok(())
    });
}

#[test]
fn what_is_no_client_msg_id_is_refused() {
    run(Servers::Shared, async |env| {
        let [from, to] = new_users();
        let mut wrong: Vec<Value> = (0..0x20_u8)
            .chain([0x7f])
            .map(|byte| json!(format!("a{}", char::from(byte))))
            .collect();
        wrong.extend([
            json!(""),
            json!("x".repeat(65)),
            json!("é".repeat(33)),
            json!("\u{85}"),
            json!(1),
            json!([]),
            json!(false),
        ]);
        for id in wrong {
            let body = json!({ "srcid": from.to_string(), "destid": to.to_string(), "client_msg_id": id, "msg": "no" });
            refused(env, "/v1/messages", &body, "client_msg_id").await?;
        }
        Ok(())
    });
}

/// What serde's types cannot write: half surrogates, twice the same member, deep nesting, bytes that are no UTF-8.
#[test]
fn json_that_means_nothing_or_two_things_is_refused() {
    run(Servers::Shared, async |env| {
        let [from, to] = new_users();
        let message = |msg: &str| {
            format!(r#"{{"srcid":"{from}","destid":"{to}","client_msg_id":"j","msg":{msg}}}"#)
        };
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let mut bodies: Vec<Vec<u8>> = [
            message(r#""\ud800""#),
            message(r#""\udc00\ud800""#),
            message(r#""\ud83d x""#),
            message(r#""\u0000""#),
            message(r#""\x""#),
            message("\"a\nb\""),
            message(&deep),
            message(r#""one","msg":"two""#),
            message(r#""x","extra":1"#),
            message(r#""x"} {"#),
            "[]".to_owned(),
            "\"\"".to_owned(),
            String::new(),
            "null".to_owned(),
            deep.clone(),
        ]
        .map(String::into_bytes)
        .into();
        bodies.push([message("\"").as_bytes(), b"\xff\xfe"].concat());
        bodies.push(
            message("\"\u{7ff}\"")
                .into_bytes()
                .into_iter()
                .filter(|byte| *byte != 0xbf)
                .collect(),
        );
        for body in bodies {
            let shown = String::from_utf8_lossy(&body)
                .chars()
                .take(120)
                .collect::<String>();
            let single = env
                .client
                .post_raw("/v1/messages", "application/json", body.clone())
                .await?;
            ensure!(matches!(single.status, 400 | 413), "{shown}: {single:?}");
            if !body.contains(&b'\n') && !body.is_empty() {
                let line = [br#"{"message":"#.as_slice(), &body, b"}"].concat();
                let results = env.client.post_batch(line).await?;
                ensure!(
                    results.last() == Some(&json!({ "accepted": 0, "rejected": 1 })),
                    "{shown}: {results:?}"
                );
            }
        }
        // A pair of surrogates is one character.
        let posted = env
            .client
            .post_raw(
                "/v1/messages",
                "application/json",
                message(r#""\ud83d\ude00""#),
            )
            .await?;
        ensure!(posted.status == 202, "{posted:?}");
        let after = format!("{}:{}", posted.body["partition"], posted.body["offset"]);
        let path =
            format!("/v1/users/{to}/conversations/{from}/messages?after_mid=0&after={after}");
        let page = env.client.ask(&path).await?;
        ensure!(
            page["items"][0]["msg"] == "😀"
                && page["items"]
                    .as_array()
                    .is_some_and(|items| items.len() == 1),
            "{page}"
        );
        Ok(())
    });
}

/// Percent-encoded, as they stand in a path or a query.
const HOSTILE: [&str; 30] = [
    "0",
    "-1",
    "%2B1",
    "01",
    "1%20",
    "%201",
    "1%00",
    "1%0d%0aX-Evil:%201",
    "%27",
    "1%27%20OR%20%271%27=%271",
    "1%3B%20DROP%20TABLE%20x",
    "%25",
    "1%25",
    "_",
    "*",
    "%3F",
    "%5B1%5D",
    "{1}",
    "9223372036854775808",
    "18446744073709551616",
    "1e3",
    "1.0",
    "0x1",
    "%EF%BC%91",
    "%C3%A9",
    "%ff%fe",
    "%E2%80%AE1",
    "..",
    "..%2f..%2f1",
    "null",
];

#[test]
fn hostile_paths_and_parameters_are_refused() {
    run(Servers::Shared, async |env| {
        let [me, peer] = new_users();
        env.client.send(peer, me, "1", "hello").await?;
        for bad in HOSTILE {
            for path in [
                format!("/v1/users/{bad}/unread?device=pc"),
                format!("/v1/users/{bad}/conversations"),
                format!("/v1/users/{bad}/conversations/{peer}/messages"),
                format!("/v1/users/{me}/conversations/{bad}/messages"),
                format!("/v1/users/{me}/unread?device={bad}"),
                format!("/v1/users/{me}/unread?device=pc&after={bad}"),
                format!("/v1/users/{me}/unread?device=pc&{bad}=1"),
                format!("/v1/users/{me}/conversations?cursor={bad}"),
                format!("/v1/users/{me}/conversations?limit=x{bad}"),
                format!("/v1/users/{me}/conversations/{peer}/messages?before_mid=x{bad}"),
                format!("/v1/users/{me}/conversations/{peer}/messages?timeout_ms=x{bad}"),
                format!("/v1/inbound/x{bad}/0"),
                format!("/v1/inbound/0/x{bad}"),
            ] {
                let answer = env.client.get(&path).await?;
                ensure!(matches!(answer.status, 400 | 404), "{path}: {answer:?}");
                let named = answer.body["type"].as_str();
                ensure!(
                    named.is_some_and(|kind| kind.starts_with("/problems/")),
                    "{path}: {answer:?}"
                );
            }
        }
        Ok(())
    });
}

/// A cursor is good for the list that it came from, and no other.
#[test]
fn cursors_of_others_and_changed_ones_are_refused() {
    run(Servers::Shared, async |env| {
        let [me, other, one, two] = new_users();
        for peer in [one, two] {
            env.client.send(peer, me, "1", "hello").await?;
        }
        let last = env.client.send(one, other, "1", "hello").await?;
        let mine = format!("/v1/users/{me}/conversations?limit=1");
        env.client
            .ask(&format!("/v1/users/{other}/conversations?after={last}"))
            .await?;
        let cursor = system_tests::until("a second page", async || {
            let page = env
                .client
                .ask(&mine)
                .await
                .map_err(|error| format!("{error:#}"))?;
            page["next"]
                .as_str()
                .map(str::to_owned)
                .ok_or_else(|| page.to_string())
        })
        .await?;
        let page = env.client.ask(&format!("{mine}&cursor={cursor}")).await?;
        ensure!(
            page["items"]
                .as_array()
                .is_some_and(|items| items.len() == 1),
            "{page}"
        );
        let of_another = env
            .client
            .get(&format!("/v1/users/{other}/conversations?cursor={cursor}"))
            .await?;
        ensure!(of_another.status == 400, "{of_another:?}");
        for at in 0..cursor.len() {
            let mut changed = cursor.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).context("it is ASCII")?;
            let answer = env.client.get(&format!("{mine}&cursor={changed}")).await?;
            ensure!(answer.status == 400, "{changed}: {answer:?}");
        }
        Ok(())
    });
}
