//! What people and scripts rely on in the program: exit codes, and what its commands print.

use std::{fs, net::TcpListener};

use anyhow::{Context as _, Error, Result, ensure};
use schemas::event::KNOWN_RULE_VERSION;
use serde_json::{Value, json};
use system_tests::{Servers, TestEnv, new_users, run, until};

#[test]
fn commands_tell_the_seeds_story() {
    run(Servers::Shared, async |env| {
        let [me, boss] = new_users().map(|uid: i64| uid.to_string());
        for text in ["Are you there?", "Call me."] {
            let sent = json_of(env, &["send", &boss, &me, text, "--wait", "--json"]).await?;
            ensure!(sent["client_msg_id"].is_string(), "{sent}");
        }
        let read = json_of(env, &["ack", &me, &boss, "mobile", "1", "--json"]).await?;
        let after = format!("{}:{}", read["partition"], read["offset"]);
        let unread = ["unread", &me, "--after", &after, "--json"];
        let unread = env.tidemark(&unread).await?.expect(0)?.json_lines()?;
        let counts: Vec<_> = unread
            .iter()
            .map(|one| (&one["device"], &one["unread"][&boss]))
            .collect();
        ensure!(
            counts == [(&json!("pc"), &json!(2)), (&json!("mobile"), &json!(1))],
            "{unread:?}"
        );
        let history = ["history", &me, &boss, "--after-mid", "0", "--json"];
        let history = json_of(env, &history).await?;
        ensure!(history["items"][1]["msg"] == "Call me.", "{history}");
        // Who listens on every address is called on this machine, unless it is said to be elsewhere.
        let everywhere = ["--set", "query_api.listen=0.0.0.0:1"];
        let url = format!("client.query_url={}/", env.client.query_url());
        let elsewhere = [&["history", &me, &boss], &everywhere[..], &["--set", &url]].concat();
        env.tidemark(&elsewhere).await?.expect(0)?;
        let table = env.tidemark(&["history", &me, &boss]).await?.expect(0)?;
        ensure!(table.stdout.contains("Are you there?"), "{}", table.stdout);
        let changes = ["changes", &me, &boss, "--after-chg", "0", "--limit", "5"];
        let changes = env.tidemark(&changes).await?.expect(0)?;
        ensure!(
            changes.stdout.trim_end().ends_with("text"),
            "{}",
            changes.stdout
        );
        Ok(())
    });
}

async fn json_of(env: &TestEnv, args: &[&str]) -> Result<Value> {
    env.tidemark(args).await?.expect(0)?.json()
}

#[test]
fn changes_are_posted_as_they_are_said() {
    run(Servers::Shared, async |env| {
        let [me, peer] = new_users().map(|uid: i64| uid.to_string());
        let of_message = ["--by", &me, "--peer", &peer, "--mid", "1"];
        let of_contact = ["contact", "--uid", &me, "--peer", &peer];
        let cases: [(&[&str], &[&str], &str, Value); 4] = [
            (
                &["recall"],
                &of_message,
                "changeMessage",
                json!({ "kind": "CHANGE_KIND_RECALL" }),
            ),
            (
                &["edit", "new"],
                &of_message,
                "changeMessage",
                json!({ "kind": "CHANGE_KIND_EDIT", "msg": "new" }),
            ),
            (
                &["clear"],
                &of_message,
                "changeMessage",
                json!({ "kind": "CHANGE_KIND_CLEAR" }),
            ),
            (
                &of_contact,
                &["--pin", "--unmute"],
                "changeContact",
                json!({ "pinned": true, "muted": false }),
            ),
        ];
        for (command, arguments, kind, said) in cases {
            let posted = json_of(env, &[command, arguments, &["--json"]].concat()).await?;
            let at = format!("{}:{}", posted["partition"], posted["offset"]);
            let tail = ["tail", "inbound", "--from", &at, "-n", "1", "--json"];
            let record = json_of(env, &[&tail[..], &["--no-follow"]].concat()).await?;
            let change = &record["value"][kind];
            ensure!(change["peer"] == peer, "{record}");
            for (name, value) in said.as_object().into_iter().flatten() {
                ensure!(change[name] == *value, "{record} has another {name}");
            }
        }
        Ok(())
    });
}

#[test]
fn a_refused_message_is_not_sent() {
    run(Servers::Shared, async |env| {
        let [from, to] = new_users().map(|uid: i64| uid.to_string());
        let send = async |text| {
            let id = ["--client-msg-id", "same", "--wait"];
            env.tidemark(&[&["send", &from, &to, text], &id[..]].concat())
                .await
        };
        send("one").await?.expect(0)?;
        send("one").await?.expect(0)?;
        let refused = send("other").await?.expect(1)?;
        ensure!(refused.stderr.contains("conflict"), "{}", refused.stderr);
        Ok(())
    });
}

#[test]
fn where_says_what_became_of_a_post() {
    run(Servers::Shared, async |env| {
        let [from, to] = new_users();
        let posted = env.client.send(from, to, "1", "one").await?;
        env.client.outcome(posted).await?;
        let position = posted.to_string();
        let outcome = json_of(env, &["where", &position, "--json"]).await?;
        ensure!(
            outcome["state"] == "sequenced" && outcome["mid"] == 1,
            "{outcome}"
        );
        let table = env.tidemark(&["where", &position]).await?.expect(0)?;
        ensure!(table.stdout.contains("sequenced"), "{}", table.stdout);

        let nowhere = format!("{}:999999999", posted.partition);
        env.tidemark(&["where", &nowhere]).await?.expect(1)?;
        env.tidemark(&["where", "64:0"]).await?.expect(2)?;
        Ok(())
    });
}

#[test]
fn tail_shows_records_between_two_offsets() {
    run(Servers::Shared, async |env| {
        let [from, to] = new_users();
        let mut offsets = Vec::new();
        for n in 0..5 {
            let id = n.to_string();
            let posted = env.client.send(from, to, &id, &id).await?;
            let outcome = env.client.outcome(posted).await?;
            let offset = outcome["events_offset"].as_i64();
            offsets.push(offset.with_context(|| outcome.to_string())?);
        }
        let partition = ((from + to) % 64).to_string();
        let [first, end] = [offsets[1], offsets[3]].map(|offset| offset.to_string());
        let tail = ["tail", "events", "--json", "--partition", &partition];
        let range = [&tail[..], &["--from", &first, "--to", &end]].concat();
        let shown = env.tidemark(&range).await?.expect(0)?.json_lines()?;
        let positions: Vec<i64> = shown
            .iter()
            .filter_map(|line| line["offset"].as_i64())
            .collect();
        let expected: Vec<i64> = (offsets[1]..offsets[3]).collect();
        ensure!(
            positions == expected,
            "{positions:?}, expected {expected:?}"
        );
        ensure!(shown[0]["value"]["message"]["msg"] == "1", "{}", shown[0]);

        let time = shown[0]["ts"].as_str().context("a record has a time")?;
        let since = [&tail[..], &["--from", time, "-n", "1", "--no-follow"]].concat();
        let since = env.tidemark(&since).await?.expect(0)?.json_lines()?;
        ensure!(since.len() == 1, "{since:?}");
        ensure!(since[0]["ts"].as_str() >= Some(time), "{}", since[0]);
        let position = format!("{partition}:{first}");
        let one = ["tail", "--json", "--from", &position, "-n", "1"];
        let one = env.tidemark(&one).await?.expect(0)?.json_lines()?;
        ensure!(one == shown[..1], "{one:?}, expected {}", shown[0]);
        env.tidemark(&["tail", "--from", "yesterday"])
            .await?
            .expect(2)?;
        Ok(())
    });
}

#[test]
fn a_file_adds_nothing_the_second_time() {
    run(Servers::Shared, async |env| {
        let [from, to] = new_users();
        let lines: String = (1..=300)
            .map(|n| {
                let message = json!({ "srcid": from, "destid": to, "client_msg_id": format!("{n}"), "msg": format!("{n}") });
                format!("{}\n", json!({ "message": message }))
            })
            .collect();
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), lines)?;
        let path = file.path().to_str().context("a path is no text")?;
        for _ in 0..2 {
            let report = json_of(env, &["load", path, "--batch", "70", "--json"]).await?;
            ensure!(
                report["accepted"] == 300 && report["rejected"] == json!([]),
                "{report}"
            );
        }
        let last = env.client.send(from, to, "last", "last").await?;
        let items = env.client.history(from, to, &[last]).await?;
        ensure!(items.len() == 301, "{} messages", items.len());
        ensure!(items[299]["msg"] == "300", "{}", items[299]);
        env.audit([from, to]).await?;

        fs::write(file.path(), "{\"message\":{}}\n")?;
        let bad = env.tidemark(&["load", path]).await?.expect(1)?;
        ensure!(bad.stderr.contains("line 1"), "{}", bad.stderr);
        Ok(())
    });
}

#[test]
fn what_is_applied_twice_changes_nothing() {
    run(Servers::Shared, async |env| {
        let report = json_of(env, &["db", "apply", "--json"]).await?;
        let nothing_done = report["migrations"] == 0 && report["months"] == 0;
        ensure!(nothing_done, "{report}");
        let again = env.tidemark(&["topics", "apply"]).await?.expect(0)?;
        ensure!(again.stdout.contains("as declared"), "{}", again.stdout);
        env.tidemark(&["topics", "diff"]).await?.expect(0)?;
        let elsewhere = ["topics", "diff", "--set", "kafka.prefix=elsewhere."];
        let missing = env.tidemark(&elsewhere).await?.expect(1)?;
        ensure!(
            missing.stdout.contains("elsewhere.chat.events"),
            "{}",
            missing.stdout
        );
        Ok(())
    });
}

#[test]
fn rules_change_in_every_partition() {
    run(Servers::Shared, async |env| {
        let rules = async |args: &[&str]| {
            let args = [&["rules"], args, &["--json"]].concat();
            let report = json_of(env, &args).await?;
            Ok::<_, Error>(report["rules"].as_array().cloned().unwrap_or_default())
        };
        let is_newest = |rules: &Value| {
            rules["rule_version"] == KNOWN_RULE_VERSION && rules["hash_key"].is_null()
        };
        until("the rules of a new deployment", async || {
            let begun = rules(&["show"]).await.map_err(|e| format!("{e:#}"))?;
            let newest = begun.iter().filter(|rules| is_newest(rules)).count();
            let all = newest == 64 && begun.len() == 64;
            all.then_some(())
                .ok_or(format!("{newest} partitions have them"))
        })
        .await?;
        let most = ["set", "--dedup-max-entries", "900000"];
        for changed in [rules(&most).await?, rules(&["show"]).await?] {
            ensure!(changed.len() == 64, "{changed:?}");
            let is_changed = |rules: &Value| rules["dedup_max_entries"] == 900_000;
            ensure!(changed.iter().all(is_changed), "{changed:?}");
        }
        // The same version again changes nothing.
        let [newest, next] = [0, 1].map(|more| (KNOWN_RULE_VERSION + more).to_string());
        rules(&["set", "--rule-version", &newest]).await?;
        for (setting, value, named) in [
            (
                "--rule-version",
                "1",
                &*format!("version {newest} is in force"),
            ),
            ("--rule-version", &next, &format!("up to {newest}")),
            ("--dedup-max-entries", "0", "dedup_max_entries"),
            ("--dedup-window-ms", "4294967296", "dedup_window_ms"),
        ] {
            let refused = env.tidemark(&["rules", "set", setting, value]).await?;
            let words = refused.expect(2)?.stderr;
            ensure!(words.contains(named), "{words}");
        }
        Ok(())
    });
}

#[test]
fn secrets_are_not_printed() {
    run(Servers::Shared, async |env| {
        let secret = "redis.password=hush-hush";
        let printed = env.tidemark(&["config", "print", "--set", secret]).await?;
        let printed = printed.expect(0)?.stdout;
        ensure!(!printed.contains("hush-hush"), "{printed}");
        ensure!(printed.matches("[redacted]").count() == 3, "{printed}");
        ensure!(printed.contains("reads_interval_ms = 300"), "{printed}");
        env.tidemark(&["config", "check"]).await?.expect(0)?;
        let url = "client.ingest_url=http://me:hush-hush@here";
        let refused = env.tidemark(&["config", "print", "--set", url]).await?;
        let words = refused.expect(3)?.stderr;
        ensure!(!words.contains("hush-hush"), "{words}");
        Ok(())
    });
}

const NO_CERTIFICATE: &str = r#"http.tls={cert_file="/dev/null",key_file="/dev/null"}"#;
const NO_WORDS: &str = "ingest.word_dictionary=/dev/null";
const NO_AUTHORITY: &str =
    r#"mysql.servers=[{host="127.0.0.1",tls="verify-ca",tls_ca="/dev/null"}]"#;
const NO_PROPERTY: &str = r#"kafka.properties={"no.such.property"="1"}"#;

#[test]
fn exit_codes_say_what_went_wrong() {
    run(Servers::Shared, async |env| {
        let nobody = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let mysql = format!(
            "mysql.servers=[{{host=\"127.0.0.1\", port={}}}]",
            port_of(&nobody)
        );
        let redis = format!("redis.url=redis://{nobody}");
        let ingest = format!("ingest.listen={nobody}");
        let ingest_url = format!("client.ingest_url=http://{nobody}");
        let empty_redis = format!("redis.url={}/15", env.redis.url());
        let nowhere = "kafka.prefix=nowhere.";
        let cases: [(&[&str], i32); 28] = [
            (&["version"], 0),
            (&["completions", "bash"], 0),
            (&["status"], 0),
            (&["no-such-command"], 2),
            (&["send", "0", "1", "text"], 2),
            (&["contact", "--uid", "1", "--peer", "2"], 2),
            (&["tail", "no-such-topic"], 2),
            (&["config", "check", "--set", "ingest.no_such_key=1"], 3),
            (&["config", "check", "--set", "ingest.max_msg_bytes=0"], 3),
            (&["sequencer", "--set", "nothing.at=all"], 3),
            (&["config", "check", "--set", NO_CERTIFICATE], 3),
            (&["config", "check", "--set", "client.tls_ca=/dev/null"], 3),
            (&["config", "check", "--set", NO_PROPERTY], 3),
            (&["config", "check", "--set", NO_WORDS], 3),
            (&["config", "check", "--set", NO_AUTHORITY], 3),
            (&["config", "check", "--set", "stack.run_dir="], 3),
            (&["config", "check", "--set", "telemetry.filter=inof"], 3),
            (&["config", "check", "--set", "ingest.listen=a"], 3),
            (&["audit", "--no-wait", "--set", &empty_redis], 5),
            (&["audit", "--set", nowhere], 3),
            (&["rules", "show", "--set", nowhere], 3),
            (&["dlq", "list", "--set", nowhere], 3),
            (&["partitions", "drop", "--before", "9999-01"], 1),
            (&["config", "check", "--set", "client.query_url=here"], 3),
            (&["send", "1", "2", "text", "--set", &ingest], 4),
            (&["send", "1", "2", "text", "--set", &ingest_url], 4),
            (&["db", "apply", "--set", &mysql], 4),
            (&["audit", "--wait-s", "1", "--set", &redis], 4),
        ];
        for (args, code) in cases {
            let outcome = env.tidemark(args).await?.expect(code)?;
            let complains = !outcome.stderr.trim().is_empty();
            ensure!(complains == (code != 0), "{outcome:?}");
        }
        let taken = env.tidemark(&["ingest"]).await?.expect(3)?;
        ensure!(taken.stderr.contains("ingest.listen"), "{}", taken.stderr);
        Ok(())
    });
}

fn port_of(address: &str) -> &str {
    address.rsplit(':').next().unwrap_or_default()
}
