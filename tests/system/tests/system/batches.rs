//! A batch of a thousand lines in which ten are bad, each in its own way.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use system_tests::{Servers, new_users, run};

const LINES: usize = 1000;

/// Where the bad lines are: on each of these, counted from 1.
const BAD: [usize; 10] = [1, 2, 77, 128, 333, 334, 500, 717, 999, 1000];

/// Ten ways to be wrong: the line, its status, and what its problem must name.
fn bad_lines() -> [(Vec<u8>, u16, &'static str); 10] {
    let long_text =
        json!({ "message": { "srcid": "1", "destid": "2", "msg": "x".repeat(16_385) } });
    let long_line = format!("{{\"message\":\"{}\"}}", "x".repeat(128 * 1024));
    [
        (b"hello?".to_vec(), 400, "JSON"),
        (br#"{"message":{"srcid":"1","#.to_vec(), 400, "EOF"),
        (br#"{"recall":{}}"#.to_vec(), 400, "recall"),
        (
            br#"{"message":{"srcid":"-5","destid":"2","msg":"a"}}"#.to_vec(),
            400,
            "message.srcid",
        ),
        (
            br#"{"message":{"srcid":"1","destid":"9223372036854775808","msg":"a"}}"#.to_vec(),
            400,
            "message.destid",
        ),
        (
            br#"{"message":{"srcid":"1","destid":"2"}}"#.to_vec(),
            400,
            "message.msg",
        ),
        (
            b"{\"message\":{\"srcid\":\"1\",\"destid\":\"2\",\"msg\":\"\xc3\x28\"}}".to_vec(),
            400,
            "UTF-8",
        ),
        (
            br#"{"read_ack":{"uid":"1","peer":"2","device":"fridge","mid":1}}"#.to_vec(),
            400,
            "read_ack.device",
        ),
        (long_text.to_string().into_bytes(), 400, "message.msg"),
        (long_line.into_bytes(), 413, "131072 bytes"),
    ]
}

#[test]
fn bad_lines_are_named_and_the_good_ones_are_in() {
    run(Servers::Shared, async |env| {
        let [from, to] = new_users();
        let bad = bad_lines();
        let is_bad = |line: usize| BAD.iter().position(|at| *at == line);
        let mut body = Vec::new();
        for line in 1..=LINES {
            match is_bad(line) {
                Some(which) => body.extend(&bad[which].0),
                None => body.extend(good_line(from, to, line).bytes()),
            }
            body.push(b'\n');
        }
        let results = env.client.post_batch(body).await?;
        ensure!(results.len() == LINES + 1, "{} results", results.len());
        for (line, result) in (1..=LINES).zip(&results) {
            ensure!(result["line"] == line, "{result} where line {line} is due");
            match is_bad(line) {
                Some(which) => is_refused(result, bad[which].1, bad[which].2)?,
                None => ensure!(result["status"] == 202, "{result}"),
            }
        }
        let summary = json!({ "accepted": LINES - BAD.len(), "rejected": BAD.len() });
        ensure!(results[LINES] == summary, "{}", results[LINES]);

        let last = env.client.send(from, to, "last", "last").await?;
        let items = env.client.history(to, from, &[last]).await?;
        let ids: Vec<String> = (1..=LINES)
            .filter(|line| is_bad(*line).is_none())
            .map(|line| line.to_string())
            .chain(["last".to_owned()])
            .collect();
        let seen: Vec<&Value> = items.iter().map(|item| &item["client_msg_id"]).collect();
        ensure!(seen == ids.iter().collect::<Vec<_>>(), "{seen:?}");
        env.audit([from, to]).await?;
        Ok(())
    });
}

fn good_line(from: i64, to: i64, line: usize) -> String {
    let message = json!({
        "srcid": from.to_string(),
        "destid": to.to_string(),
        "client_msg_id": line.to_string(),
        "msg": format!("line {line}"),
    });
    json!({ "message": message }).to_string()
}

fn is_refused(result: &Value, status: u16, names: &str) -> Result<()> {
    ensure!(result["status"] == status, "{result}");
    let detail = result["detail"].as_str().unwrap_or_default();
    ensure!(detail.contains(names), "{names} is not in {result}");
    Ok(())
}
