//! Runs the pipeline on real input: three stories, 59,835 real messages, groups made of them, the audit, and commands to try next.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    process::ExitCode,
    time::{Duration, Instant},
};

use client::{AcceptedLine, Client, Retry};
use dev_stack::StackConfig;
use schemas::{DeviceClass, Profile, UserId};
use serde_json::{Value, json};
use service_runtime::ConfigSource;
use unread_store::RawKey;

use crate::{
    args::DemoArgs,
    commands::demo_groups,
    context::CommandContext,
    input::{self, Input},
    output::{Table, grouped},
    stage_watch::StageWatch,
};

/// Keeps the file's small uids apart from the story's users.
const SHIFT_UIDS: i64 = 1_000_000;
/// Lines of one request, as a producer would post them.
const BATCH_LINES: usize = 500;
const SETTLE: Duration = Duration::from_secs(120);
const AUDIT_WAIT: Duration = Duration::from_secs(120);

pub(super) async fn run(context: CommandContext, args: &DemoArgs) -> anyhow::Result<ExitCode> {
    println!("Setting up and starting (a first time takes a few minutes) …");
    let source = context.source;
    let stack = tokio::task::spawn_blocking(move || super::stack::up(&source)).await??;
    let file = super::stack::config_file(stack.config());
    let context = CommandContext {
        source: ConfigSource::load(Some(&file), &[])?,
        credentials: context.credentials,
    };
    let client = context.client_with(Retry::default())?;
    run_first_story(&client).await?;
    run_second_story(&client).await?;
    demo_groups::run_story(&client).await?;
    let input = load(&context, &client, args).await?;
    demo_groups::load(&client, &input).await?;
    show_busiest(&context).await?;
    show_newest(&client).await?;
    let code = super::audit::whole(&context, AUDIT_WAIT).await?;
    show_what_next(stack.config());
    Ok(code)
}

const BOSS: &str = "1001";
const ME: &str = "1000";

/// The boss writes three times while I am away; I read on the telephone; the pc still counts three.
async fn run_first_story(client: &Client) -> anyhow::Result<()> {
    println!("\nA first story: 1001 sends three messages to 1000, who then reads on mobile.");
    let mut last = Value::Null;
    for (n, text) in (1..).zip(["Are you there?", "Call me.", "Today, please."]) {
        let body = json!({ "srcid": BOSS, "destid": ME, "client_msg_id": format!("story-{n}"), "msg": text });
        last = client.post("/v1/messages", &body).await?;
    }
    let before = unread_of_boss(client, &super::position_of(&last)).await?;
    println!(
        "  after the third message:  pc {}, mobile {}",
        before[0], before[1]
    );
    if before[1] == 0 {
        println!("  (run before: the same ids add nothing, and what is read stays read)");
    }
    let ack = json!({ "uid": ME, "peer": BOSS, "device": "mobile", "mid": 3 });
    let read: Value = client.post("/v1/read-acks", &ack).await?;
    let position = super::position_of(&read);
    let after = unread_of_boss(client, &position).await?;
    println!(
        "  after reading on mobile:  pc {}, mobile {}",
        after[0], after[1]
    );
    if has_changed(client, &position).await? {
        println!("  (somebody has used this conversation since; that counts, too)");
        return Ok(());
    }
    anyhow::ensure!(after == [3, 0], "the story ends with pc 3, mobile 0");
    Ok(())
}

const AUTHOR: &str = "1003";
const READER: &str = "1002";

/// One user writes three messages, edits the first and recalls the second; the other hides the third and pins the contact; the first has set a profile. A second run finds everything as it is.
async fn run_second_story(client: &Client) -> anyhow::Result<()> {
    println!(
        "\nA second story: 1003 sends three messages to 1002, edits the first and recalls the second; 1002 hides the third and pins the contact. 1003 has set a profile."
    );
    for (n, text) in (1..).zip(["Lunch at noom?", "Oops.", "At the quay."]) {
        let body = json!({ "srcid": AUTHOR, "destid": READER, "client_msg_id": format!("second-{n}"), "msg": text });
        let _: Value = client.post("/v1/messages", &body).await?;
    }
    let edit =
        json!({ "by": AUTHOR, "peer": READER, "mid": 1, "kind": "edit", "msg": "Lunch at noon?" });
    let recall = json!({ "by": AUTHOR, "peer": READER, "mid": 2, "kind": "recall" });
    let hide = json!({ "by": READER, "peer": AUTHOR, "mid": 3, "kind": "hide" });
    for change in [edit, recall, hide] {
        let _: Value = client.post("/v1/message-changes", &change).await?;
    }
    let pin = json!({ "uid": READER, "peer": AUTHOR, "pinned": true });
    let last: Value = client.post("/v1/contact-changes", &pin).await?;
    let profile = Profile {
        uid: AUTHOR.parse()?,
        nick: "Ann".to_owned(),
        avatar: None,
        extra: Some(r#"{ "mood": "hungry" }"#.to_owned()),
    };
    let set = client.set_profile(&profile).await?;
    let query = [
        ("after", super::position_of(&last)),
        ("after", set.position.to_string()),
        ("profiles", "true".to_owned()),
        ("timeout_ms", "30000".to_owned()),
    ];
    let path = |path: &str| super::with_query(&format!("/v1/users/{READER}/{path}"), &query);
    let history: Value = client
        .get(&path(&format!("conversations/{AUTHOR}/messages")))
        .await?;
    let seen = history["items"].as_array().into_iter().flatten();
    let seen: Vec<String> = seen.rev().map(as_seen).collect();
    println!("  what 1002 sees:           {}", seen.join("; "));
    let list: Value = client.get(&path("conversations")).await?;
    let first = &list["items"][0];
    println!(
        "  at the top of the list:   {} (pinned: {}), by the name of {}",
        first["peer"].as_str().unwrap_or("nobody"),
        first["pinned"],
        list["profiles"][AUTHOR]["nick"]
    );
    if history["items"][0]["mid"].as_i64() > Some(3) {
        println!("  (somebody has used this conversation since; that counts, too)");
        return Ok(());
    }
    anyhow::ensure!(
        seen == ["1: Lunch at noon? (edited)", "2: (recalled)"],
        "the story ends with an edited and a recalled message"
    );
    anyhow::ensure!(
        first["peer"] == AUTHOR && first["pinned"] == true,
        "the story ends with a pinned contact"
    );
    anyhow::ensure!(
        list["profiles"][AUTHOR]["nick"] == "Ann",
        "the story ends with a profile"
    );
    Ok(())
}

/// A message as its reader sees it.
pub(super) fn as_seen(item: &Value) -> String {
    let (mid, msg) = (&item["mid"], item["msg"].as_str().unwrap_or_default());
    match item {
        _ if item["recalled"] == true => format!("{mid}: (recalled)"),
        _ if item["edited_ts"].is_string() => format!("{mid}: {msg} (edited)"),
        _ => format!("{mid}: {msg}"),
    }
}

/// Whether the conversation differs from the story's end, because somebody has used it since.
async fn has_changed(client: &Client, after: &str) -> anyhow::Result<bool> {
    let query = [
        ("limit", "200".to_owned()),
        ("after", after.to_owned()),
        ("timeout_ms", "30000".to_owned()),
    ];
    let path = format!("/v1/users/{ME}/conversations");
    let list: Value = client.get(&super::with_query(&path, &query)).await?;
    let conversations = list["items"].as_array().into_iter().flatten();
    let end = json!({ "pc": 0, "mobile": 3 });
    Ok(!conversations
        .filter(|one| one["peer"] == BOSS)
        .all(|one| one["last_mid"] == 3 && one["read_mid"] == end))
}

/// The counts on pc and on mobile, once `after` is reflected.
async fn unread_of_boss(client: &Client, after: &str) -> anyhow::Result<[i64; 2]> {
    let mut counts = [0; 2];
    for (count, device) in counts.iter_mut().zip(DeviceClass::ALL) {
        let query = [
            ("device", device.to_string()),
            ("after", after.to_owned()),
            ("timeout_ms", "30000".to_owned()),
        ];
        let path = super::with_query(&format!("/v1/users/{ME}/unread"), &query);
        let answer: Value = client.get(&path).await?;
        *count = answer["unread"][BOSS].as_i64().unwrap_or(0);
    }
    Ok(counts)
}

async fn load(context: &CommandContext, client: &Client, args: &DemoArgs) -> anyhow::Result<Input> {
    let options = input::Options {
        shift_uids: SHIFT_UIDS,
        acks: true,
        limit: None,
    };
    let input = input::read(&args.data, &options)?;
    println!(
        "\nLoading {} real messages, then {} acks of their readers.",
        grouped(input.events.len() as u64),
        grouped(input.acks.len() as u64)
    );
    let watch = StageWatch::begin(context).await?;
    let started = Instant::now();
    let loaded = super::load::post(client, &input, BATCH_LINES).await?;
    let rejected = loaded.rejected().count();
    anyhow::ensure!(rejected == 0, "{rejected} events were rejected");
    let accepted: Vec<AcceptedLine> = loaded.accepted().copied().collect();
    anyhow::ensure!(
        watch.settled(&accepted, SETTLE).await,
        "the stages do not settle"
    );
    let mut table =
        Table::new(["stage", "events", "a second", "p50 ms", "p99 ms"]).right(&[1, 2, 3, 4]);
    let rate = |rate: f64| grouped(rate.round() as u64);
    for (what, phase) in [("messages", &loaded.events), ("acks", &loaded.acks)] {
        table.row([
            format!("{what} accepted (chat.inbound)"),
            grouped(phase.batch.accepted.len() as u64),
            rate(phase.per_second()),
            String::new(),
            String::new(),
        ]);
    }
    for report in watch.reports(&accepted, started) {
        table.row([
            report.stage.title().to_owned(),
            grouped(report.records as u64),
            rate(report.per_second),
            format!("{:.0}", report.p50_ms),
            format!("{:.0}", report.p99_ms),
        ]);
    }
    println!(
        "{table}(a second: up to the last event, measured from the first post; milliseconds: from an event's acceptance until the \
         stage had it, under this load)"
    );
    Ok(input)
}

/// Shows the busiest users' counts from Redis.
async fn show_busiest(context: &CommandContext) -> anyhow::Result<()> {
    // SCAN may return a user twice.
    let mut users: BTreeMap<UserId, [BTreeMap<UserId, i64>; 2]> = BTreeMap::new();
    for slot in context.unread()?.connect().await? {
        let mut cursor = Some(0);
        while let Some(at) = cursor {
            let page = slot.scan_users(at).await?;
            for uid in page.users.into_iter().filter(|uid| is_real(*uid)) {
                let raw = slot.read_state(uid).await?;
                let counts =
                    |view: Option<RawKey<_>>| view.map(|view| view.value).unwrap_or_default();
                users.insert(uid, [raw.views.pc, raw.views.mobile].map(counts));
            }
            cursor = page.next;
        }
    }
    let count = users.len() as u64;
    let mut users: Vec<_> = users.into_iter().collect();
    let total = |counts: &BTreeMap<UserId, i64>| counts.values().sum::<i64>();
    users.sort_by_key(|(uid, [pc, mobile])| (Reverse(total(pc) + total(mobile)), *uid));
    let mut table =
        Table::new(["user", "unread on pc", "of senders", "unread on mobile"]).right(&[0, 1, 2, 3]);
    for (uid, [pc, mobile]) in users.iter().take(8) {
        table.row([
            uid.to_string(),
            total(pc).to_string(),
            pc.len().to_string(),
            total(mobile).to_string(),
        ]);
    }
    println!(
        "\nThe busiest of {} users, as Redis has them:\n{table}",
        grouped(count)
    );
    Ok(())
}

fn is_real(uid: UserId) -> bool {
    (SHIFT_UIDS..SHIFT_UIDS + 10_000).contains(&uid.get())
}

/// Shows the newest conversation of the story's reader from query-api.
async fn show_newest(client: &Client) -> anyhow::Result<()> {
    let path = format!("/v1/users/{ME}/conversations?limit=1");
    let list: Value = client.get(&path).await?;
    println!("The newest conversation of {ME}, as the query API has it:");
    println!("{}", serde_json::to_string_pretty(&list["items"][0])?);
    Ok(())
}

fn show_what_next(config: &StackConfig) {
    let file = super::stack::config_file(config);
    let program = std::env::args()
        .next()
        .unwrap_or_else(|| "tidemark".to_owned());
    println!("\nIt is all still running; `make down` stops it, `make clean` drops its data.");
    for (name, port, path) in [
        ("producers", config.ports.ingest, "/openapi.json"),
        ("readers", config.ports.query_api, "/openapi.json"),
        ("metrics", config.ports.sequencer, "/metrics"),
    ] {
        println!("  {name:9} http://127.0.0.1:{port}{path}");
    }
    println!(
        "In a browser, two devices beside each other: http://127.0.0.1:{}/#{ME}/pc+{BOSS}/mobile",
        config.ports.gateway
    );
    println!("Try next:");
    println!("  redis-cli -p {} hgetall pc-{ME}", config.ports.redis);
    println!(
        "  {program} --config {0} send {ME} {BOSS} 'On my way.' && {program} --config {0} history {ME} {BOSS}",
        file.display()
    );
    println!(
        "  {program} --config {} tail events --from earliest -n 5",
        file.display()
    );
}
