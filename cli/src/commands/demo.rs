//! Runs the pipeline on real input: three stories, 59,835 real messages, groups made of them, the audit, and commands to try next.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    process::ExitCode,
    time::{Duration, Instant},
};

use client::{Client, Retry};
use dev_stack::StackConfig;
use schemas::UserId;
use serde_json::Value;
use service_runtime::ConfigSource;
use unread_store::RawKey;

use super::demo_stories::{self, BOSS, ME};
use crate::{
    args::DemoArgs,
    commands::demo_groups,
    context::CommandContext,
    input::{self, Input},
    output::{Table, grouped, per_second},
};

/// Keeps the file's small uids apart from the story's users.
const SHIFT_UIDS: i64 = 1_000_000;
/// How many lines one request has, as a producer would post them.
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
    demo_stories::run_first(&client).await?;
    demo_stories::run_second(&client).await?;
    demo_stories::run_third(&client).await?;
    let input = load(&context, &client, args).await?;
    demo_groups::load(&client, &input).await?;
    show_busiest(&context).await?;
    show_newest(&client).await?;
    let code = super::audit::whole(&context, AUDIT_WAIT).await?;
    show_what_next(stack.config());
    Ok(code)
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
    let started = Instant::now();
    let loaded = super::load::post(client, &input, BATCH_LINES).await?;
    let rejected = loaded.rejected().count();
    anyhow::ensure!(rejected == 0, "{rejected} events were rejected");
    let mut table = Table::new(["stage", "events", "a second"]).right(&[1, 2]);
    let mut row = |stage: String, events: usize, rate: f64| {
        table.row([stage, grouped(events as u64), grouped(rate.round() as u64)]);
    };
    for (what, phase) in [("messages", &loaded.events), ("acks", &loaded.acks)] {
        let accepted = phase.batch.accepted.len();
        let what = format!("{what} accepted (chat.inbound)");
        row(what, accepted, phase.per_second());
    }
    let all = loaded.accepted().count();
    for (stage, at) in super::status::caught_up(context, SETTLE).await? {
        let rate = per_second(all as u64, at - started);
        row(stage.to_owned(), all, rate);
    }
    println!("{table}(a second: up to the last event, measured from the first post)");
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
    let program = std::env::args().next();
    let tidemark = format!(
        "{} --config {}",
        program.as_deref().unwrap_or("tidemark"),
        file.display()
    );
    let ports = &config.ports;
    println!(
        "
It is all still running; `make down` stops it, `make clean` drops its data.
  producers http://127.0.0.1:{}/openapi.json
  readers   http://127.0.0.1:{}/openapi.json
  metrics   http://127.0.0.1:{}/metrics
In a browser, two devices beside each other: http://127.0.0.1:{}/#{ME}/pc+{BOSS}/mobile
Try next:
  redis-cli -p {} hgetall pc-{ME}
  {tidemark} send {ME} {BOSS} 'On my way.' && {tidemark} history {ME} {BOSS}
  {tidemark} tail events --from earliest -n 5",
        ports.ingest, ports.query_api, ports.sequencer, ports.gateway, ports.redis
    );
}
