//! Every message text comes back byte for byte.

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use system_tests::{DeviceClass, Servers, TestEnv, new_users, run};

const LARGEST_TEXT_BYTES: usize = 16 * 1024;

fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "a",
        " ",
        "  leading and trailing  ",
        "tab\tnewline\nreturn\r\nvertical\u{b}form\u{c}bell\u{7}escape\u{1b}delete\u{7f}",
        r#"'single' "double" `back` \slash\ '' "" \' \" \\ \0 \n %s ${x} {{y}}"#,
        "'; DROP TABLE chat_msg_0; -- %_",
        "😀👩‍👩‍👧‍👦🇩🇪👍🏽",
        "\u{1F600}\u{10FFFF}\u{FFFD}\u{FEFF}\u{200B}\u{2028}\u{2029}\u{202E}",
        "e\u{301} is not é",
        "中文 العربية עברית हिन्दी ไทย",
        "null",
        "{\"message\":{}}",
        "\u{1}\u{1f}\u{80}\u{9f}",
    ]
    .map(str::to_owned)
    .into();
    texts.push("x".repeat(LARGEST_TEXT_BYTES));
    texts.push("🌊".repeat(LARGEST_TEXT_BYTES / 4));
    texts.push("\"\\\n\t".repeat(LARGEST_TEXT_BYTES / 4));
    texts
}

#[test]
fn texts_come_back_byte_for_byte() {
    run(Servers::Shared, async |env| {
        let [from, to] = new_users();
        let texts = texts();
        for (n, text) in texts.iter().enumerate() {
            env.client.send(from, to, &n.to_string(), text).await?;
        }
        let lines: String = (texts.len()..)
            .zip(&texts)
            .map(|(n, text)| message_line(to, from, n, text))
            .collect();
        let results = env.client.post_batch(lines).await?;
        let summary = json!({ "accepted": texts.len(), "rejected": 0 });
        ensure!(results.last() == Some(&summary), "{results:?}");

        let twice: Vec<&String> = texts.iter().chain(&texts).collect();
        let last = env.client.send(from, to, "the end", "the end").await?;
        let items = env.client.history(to, from, &[last]).await?;
        ensure!(items.len() == twice.len() + 1, "{} items", items.len());
        for (item, text) in items.iter().zip(twice) {
            ensure!(item["msg"] == **text, "{item}, expected {text:?}");
        }
        env.audit([from, to]).await?;
        Ok(())
    });
}

fn message_line(srcid: i64, destid: i64, n: usize, text: &str) -> String {
    let line = json!({ "message": {
        "srcid": srcid.to_string(),
        "destid": destid.to_string(),
        "client_msg_id": n.to_string(),
        "msg": text,
    }});
    format!("{line}\n")
}

#[test]
fn what_is_no_text_or_too_long_is_refused() {
    run(Servers::Shared, async |env| {
        let [from, to] = new_users();
        let too_long = "x".repeat(LARGEST_TEXT_BYTES + 1);
        for text in ["", "\0", "a\0b", &too_long] {
            let body = json!({ "srcid": from.to_string(), "destid": to.to_string(), "msg": text });
            let answer = env.client.post("/v1/messages", &body).await?;
            ensure!(answer.status == 400, "{answer:?}");
            ensure!(answer.body["errors"][0]["field"] == "msg", "{answer:?}");
        }
        Ok(())
    });
}

/// The largest uids there are, both ways and to themselves, in every combination.
#[test]
fn the_largest_uids_work() {
    run(Servers::Shared, async |env| {
        let uids = [i64::MAX, i64::MAX - 1, i64::MAX - 63, 1];
        let pairs = uids.iter().flat_map(|a| uids.map(|b| (*a, b)));
        stream::iter(pairs)
            .map(|(from, to)| largest(env, from, to))
            .buffered(1)
            .try_for_each(async |()| Ok(()))
            .await?;
        env.audit(uids).await?;
        Ok(())
    });
}

async fn largest(env: &TestEnv, from: i64, to: i64) -> Result<()> {
    let (id, text) = (format!("{from}>{to}"), format!("from {from} to {to}"));
    let posted = env.client.send(from, to, &id, &text).await?;
    let partition = (i128::from(from) + i128::from(to)) % 64;
    let placed = i128::from(posted.partition.get());
    ensure!(placed == partition, "{from} to {to} is in {placed}");

    let after = [posted];
    let items = env.client.history(to, from, &after).await?;
    let mine = items.iter().find(|item| item["client_msg_id"] == id);
    let mine = mine.with_context(|| format!("{id} is not in {items:?}"))?;
    let expected = [("srcid", from), ("destid", to)];
    for (name, uid) in expected {
        let uid = uid.to_string();
        ensure!(mine[name] == uid, "{mine}");
    }
    let unread = env.client.unread(to, DeviceClass::Mobile, &after).await?;
    let expected = (from != to).then_some(&1);
    ensure!(unread.get(&from) == expected, "{id}: {unread:?}");
    Ok(())
}

#[test]
fn a_note_to_oneself_is_never_unread() {
    run(Servers::Shared, async |env| {
        let [me] = new_users();
        env.client.send(me, me, "1", "milk").await?;
        let posted = env.client.send(me, me, "2", "bread").await?;
        for device in DeviceClass::ALL {
            let unread = env.client.unread(me, device, &[posted]).await?;
            ensure!(unread.is_empty(), "{device}: {unread:?}");
            let view = env.redis.hgetall(&format!("{device}-{me}")).await?;
            ensure!(view.is_empty(), "{device}: {view:?}");
        }
        let path = format!("/v1/users/{me}/conversations?after={}", posted);
        let list = env.client.ask(&path).await?;
        let items: Vec<&Value> = list["items"].as_array().into_iter().flatten().collect();
        ensure!(items.len() == 1, "{list}");
        ensure!(items[0]["last"]["msg"] == "bread", "{list}");
        ensure!(
            items[0]["unread"] == json!({ "pc": 0, "mobile": 0 }),
            "{list}"
        );
        env.audit([me]).await?;
        Ok(())
    });
}
