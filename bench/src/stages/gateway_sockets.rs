//! The cost of many sockets: memory while nothing happens, and the time until all of them are back.

use std::{
    fs,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use client::Client;
use rand::Rng as _;
use rustix::process::Signal;
use sqlx::{Connection as _, MySqlConnection};
use system_tests::TestEnv;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{EVERYTHING, Plan, groups, token_of};
use crate::{
    load::devices::{Crowd, Device, HoldArgs},
    meter::{SharedPages, resident_of},
    results::{Bound, Row},
    sample::Spread,
};

/// Each of two gateways has half of the idle sockets: unless more are allowed, a process may have 20,000 files open.
const GATEWAYS: [&str; 2] = ["gateway", "gateway-2"];
const IDLE_SOCKETS: i64 = 20_000;
const FIRST_IDLE: i64 = 6_600_000;
/// After this time every socket has been pinged.
const QUIET: Duration = Duration::from_secs(40);
const DEVICES: i64 = 10_000;
const FIRST_DEVICE: i64 = 6_700_000;
/// Several senders: of one sender's messages a gateway keeps only 4 MB (`gateway.ring_bytes_of_account`).
const SENDERS: std::ops::Range<i64> = 6_800_000..6_800_100;
const AWAY: Duration = Duration::from_secs(10);
/// A device that was refused, or not answered, tries again after this many milliseconds.
const AGAIN_MS: std::ops::Range<u64> = 100..300;
/// A connection that is not answered in time counts as failed.
const ANSWER: Duration = Duration::from_secs(10);
/// After more attempts than this, a reconnect has failed.
const ATTEMPTS: usize = 50;
const STATUS: &str = "SELECT VARIABLE_NAME, CAST(VARIABLE_VALUE AS SIGNED) FROM information_schema.GLOBAL_STATUS \
    WHERE VARIABLE_NAME IN ('COM_SELECT', 'QUESTIONS') ORDER BY VARIABLE_NAME";
/// The statements that the reading of [`STATUS`] itself adds.
const OWN_STATEMENTS: i64 = 1;
const READ_MYSQL: [&str; 4] = [
    "projector-mysql",
    "projector-unread",
    "query-api",
    "gateway-2",
];

pub(super) async fn run(plan: &Plan) -> Result<Vec<Row>> {
    let env = TestEnv::start(EVERYTHING).await?;
    env.check_all_partitions().await?;
    env.start_another("gateway").await?;
    let mut rows = vec![idle(&env).await?];
    rows.extend(reconnect(&env, plan).await?);
    rows.extend(restart(&env, plan).await?);
    Ok(rows)
}

/// The memory of each of many sockets on which nothing happens except pings.
async fn idle(env: &TestEnv) -> Result<Row> {
    let since = token_of(env, FIRST_IDLE).await?;
    let before = held_kib(env)?;
    let each = IDLE_SOCKETS / GATEWAYS.len() as i64;
    let mut holders = Vec::new();
    for (gateway, first) in GATEWAYS.iter().zip((FIRST_IDLE..).step_by(each as usize)) {
        let port = env.port(gateway)?;
        let devices = HoldArgs {
            port,
            first,
            count: each,
            since: since.clone(),
        };
        holders.push(hold(&devices).await?);
    }
    sleep(QUIET).await;
    let after = held_kib(env)?;
    for holder in &mut holders {
        let ended = holder.try_wait()?;
        ensure!(ended.is_none(), "sockets were closed");
        holder.kill().await?;
    }
    Ok(Row::of_one(
        "20,000 idle sockets: memory for each, of the gateway and of the kernel",
        "kB",
        (after - before) * 1.024 / IDLE_SOCKETS as f64,
        Some(Bound::AtMost(16.0)),
    ))
}

/// Lets a process of its own hold devices: it has its own limit of open files.
async fn hold(devices: &HoldArgs) -> Result<Child> {
    let mut process = Command::new(std::env::current_exe()?)
        .arg("hold-devices")
        .args(devices.to_args())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let stdout = process.stdout.take().context("no output")?;
    let line = BufReader::new(stdout).lines().next_line().await?;
    line.context("devices were not connected")?;
    Ok(process)
}

/// The memory of the gateways, and half of the kernel's: the clients' ends are on this machine, too.
fn held_kib(env: &TestEnv) -> Result<f64> {
    let mut kib = kernel_kib()? / 2.0;
    for gateway in GATEWAYS {
        let pid = env.pid(gateway).context("no gateway runs")?;
        kib += resident_of(pid, SharedPages::Resident)? * 1024.0;
    }
    Ok(kib)
}

/// The kernel's memory: its objects, including those of sockets, and TCP's buffers.
fn kernel_kib() -> Result<f64> {
    let memory = fs::read_to_string("/proc/meminfo")?;
    let slab = number_after(&memory, "Slab:")?;
    let sockets = fs::read_to_string("/proc/net/sockstat")?;
    let tcp = sockets.lines().find(|line| line.starts_with("TCP:"));
    let pages = number_after(tcp.context("no TCP")?, " mem ")?;
    Ok(slab + pages * rustix::param::page_size() as f64 / 1024.0)
}

fn number_after(text: &str, key: &str) -> Result<f64> {
    let rest = text.split_once(key).with_context(|| format!("no {key}"))?.1;
    let number = rest.split_whitespace().next().unwrap_or_default();
    Ok(number.parse()?)
}

/// Devices that were away for a while come back all at once; each has missed a message.
async fn reconnect(env: &TestEnv, plan: &Plan) -> Result<Vec<Row>> {
    let mut mysql = MySqlConnection::connect(&env.mysql_url()).await?;
    let uids = FIRST_DEVICE..FIRST_DEVICE + DEVICES;
    let (mut took, mut reads, mut statements) = (Vec::new(), 0, 0);
    for _ in 0..plan.rounds {
        let (port, since) = (env.port("gateway")?, token_of(env, FIRST_DEVICE).await?);
        let devices = Device::connect_all(port, uids.clone(), &since).await?;
        let since = token_of(env, FIRST_DEVICE).await?;
        drop(devices);
        let left = Instant::now();
        send_to_each(env).await?;
        // Ends everything else that queries MySQL.
        for service in READ_MYSQL {
            env.end(service, Signal::TERM).await?;
        }
        sleep(AWAY.saturating_sub(left.elapsed())).await;
        let before = mysql_statements(&mut mysql).await?;
        let (began, mut coming) = (Instant::now(), JoinSet::new());
        for uid in uids.clone() {
            let since = since.clone();
            coming.spawn(async move { come_back(port, uid, &since).await });
        }
        let mut devices = Vec::new();
        while let Some(device) = coming.join_next().await {
            devices.push(device??);
        }
        took.push(began.elapsed().as_secs_f64());
        let after = mysql_statements(&mut mysql).await?;
        reads = reads.max(after[0] - before[0] - OWN_STATEMENTS);
        statements = statements.max(after[1] - before[1] - OWN_STATEMENTS);
        drop(Crowd::of_connected(devices, |_| {}));
        env.start_services(&READ_MYSQL).await?;
    }
    let what = "10,000 devices reconnect at once with tokens of 10 s ago";
    let (most, none) = (Some(Bound::AtMost(5.0)), Some(Bound::AtMost(0.0)));
    let row = |rest, value, bound| {
        let what = format!("{what}: MySQL's {rest} meanwhile");
        Row::of_one(what, "", value as f64, bound)
    };
    Ok(vec![
        Row::of_value(
            format!("{what}: all resumed, with what they missed"),
            "s",
            Spread::of(took),
            most,
            &[],
        ),
        row("reads", reads, none),
        row("statements, those that save tokens", statements, None),
    ])
}

async fn send_to_each(env: &TestEnv) -> Result<()> {
    let devices = FIRST_DEVICE..FIRST_DEVICE + DEVICES;
    let missed = groups::messages(SENDERS.cycle().zip(devices))?;
    groups::store(env, &missed).await
}

/// The gateway is killed while the devices are connected, and started again; their tokens are 10 s old.
async fn restart(env: &TestEnv, plan: &Plan) -> Result<Vec<Row>> {
    let uids = FIRST_DEVICE..FIRST_DEVICE + DEVICES;
    let (mut took, mut synced) = (Vec::new(), 0);
    for _ in 0..plan.rounds {
        let (port, since) = (env.port("gateway")?, token_of(env, FIRST_DEVICE).await?);
        let devices = Device::connect_all(port, uids.clone(), &since).await?;
        let since = token_of(env, FIRST_DEVICE).await?;
        let asked = Instant::now();
        send_to_each(env).await?;
        sleep(AWAY.saturating_sub(asked.elapsed())).await;
        env.end("gateway", Signal::KILL).await?;
        drop(devices);
        let (began, mut coming) = (Instant::now(), JoinSet::new());
        for uid in uids.clone() {
            let (since, api) = (since.clone(), env.client.api().clone());
            coming.spawn(async move { come_back_or_sync(port, uid, since, &api).await });
        }
        env.start_services(&["gateway"]).await?;
        let (mut devices, mut synced_now) = (Vec::new(), 0);
        while let Some(back) = coming.join_next().await {
            let (device, has_synced) = back??;
            devices.push(device);
            synced_now += u32::from(has_synced);
        }
        took.push(began.elapsed().as_secs_f64());
        synced = synced.max(synced_now);
        drop(Crowd::of_connected(devices, |_| {}));
    }
    let what = "kill -9 of a gateway with 10,000 devices, whose tokens are of 10 s ago";
    let most_synced = DEVICES as f64 / 10.0;
    Ok(vec![
        Row::of_value(
            format!("{what}: all are back, with what they missed"),
            "s",
            Spread::of(took),
            Some(Bound::AtMost(5.0)),
            &[],
        ),
        Row::of_one(
            format!("{what}: devices that had to sync"),
            "",
            f64::from(synced),
            Some(Bound::AtMost(most_synced)),
        ),
    ])
}

/// Tries until the device is welcomed, and has the message that it missed.
async fn come_back(port: u16, uid: i64, since: &str) -> Result<Device> {
    let mut device = connect(port, uid, since).await?;
    device.event().await?;
    Ok(device)
}

/// Comes back like the clients: syncs as often as it has to. Also returns whether it had to.
async fn come_back_or_sync(
    port: u16,
    uid: i64,
    mut since: String,
    api: &Client,
) -> Result<(Device, bool)> {
    let mut has_synced = false;
    for _ in 0..ATTEMPTS {
        match connect(port, uid, &since).await {
            Err(error) if is_sync_required(&error) => {
                has_synced = true;
                match api.sync(uid.try_into()?, Some(&since.parse()?), None).await {
                    Ok(synced) => since = synced.next.to_string(),
                    Err(error) if error.is_retryable() => pause().await,
                    Err(error) => return Err(error.into()),
                }
            }
            device => {
                let mut device = device?;
                if !has_synced {
                    device.event().await?;
                }
                return Ok((device, has_synced));
            }
        }
    }
    bail!("{uid} had to sync {ATTEMPTS} times")
}

async fn pause() {
    let ms = rand::rng().random_range(AGAIN_MS);
    sleep(Duration::from_millis(ms)).await;
}

fn is_sync_required(error: &anyhow::Error) -> bool {
    error.to_string().contains("sync_required")
}

/// Tries until the device is welcomed, or has to sync.
async fn connect(port: u16, uid: i64, since: &str) -> Result<Device> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        match timeout(ANSWER, Device::connect(port, uid, since)).await {
            Ok(Ok(device)) => return Ok(device),
            Ok(Err(error)) if is_sync_required(&error) => return Err(error),
            Ok(Err(error)) => last = Some(error),
            Err(_) => {}
        }
        pause().await;
    }
    Err(last.context("never answered")?)
}

/// The numbers of reads, and of statements of all kinds, since MySQL's start.
async fn mysql_statements(mysql: &mut MySqlConnection) -> Result<[i64; 2]> {
    let rows: Vec<(String, i64)> = sqlx::query_as(STATUS).fetch_all(mysql).await?;
    match rows.as_slice() {
        [(_, reads), (_, statements)] => Ok([*reads, *statements]),
        other => anyhow::bail!("MySQL's counters are {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_behind_their_names() {
        let line = "TCP: inuse 1734 orphan 0 tw 1799 alloc 2048 mem 237\n";
        assert_eq!(number_after(line, " mem ").unwrap(), 237.0);
        assert_eq!(
            number_after("Slab:  794320 kB\n", "Slab:").unwrap(),
            794_320.0
        );
        assert!(number_after(line, "Slab:").is_err());
        assert!(kernel_kib().unwrap() > 0.0);
    }
}
