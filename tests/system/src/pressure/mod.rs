//! Traffic that does not wait, while a store is away or one conversation has most of the traffic: the messages sent, the memory used, and the time to
//! catch up.

mod memory;
mod probes;
mod traffic;

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use tokio::time::sleep;

use self::{
    memory::{Peaks, while_watching},
    probes::{Firsts, Readable},
    traffic::{Shape, Traffic},
};
use crate::{Percentiles, SERVICES, Settings, TestEnv};

/// The most resident memory of a service, whichever server is away and for how long, KiB.
const BOUND_KIB: u64 = 256 << 10;
/// How many times longer the 99th of a hundred of other conversations' messages may take if one conversation has most of the traffic.
const HOT_FACTOR: f64 = 2.0;
/// How long a store may take to catch up.
const CATCH_UP: Duration = Duration::from_secs(1_800);
/// The time before any measurement: a broker that has just started is ten times as slow as it is later.
const WARM_UP: Duration = Duration::from_secs(60);

/// The measurements while a store was away.
#[derive(Debug)]
pub struct Outage {
    server: &'static str,
    length: Duration,
    rate: u64,
    accepted: u64,
    refused: u64,
    answered_before: Percentiles,
    answered: Percentiles,
    peaks_before: Peaks,
    peaks: Peaks,
    caught_up_in: Duration,
    audited: u64,
}

/// Takes a server away under `rate` messages a second, brings it back while they continue, waits until everything is readable, and audits.
///
/// # Errors
/// If a message was not accepted, a service took too much memory, the store does not catch up, or the audit finds a difference.
pub async fn outage(server: &'static str, length: Duration, rate: u64) -> Result<Outage> {
    in_test_env(&format!("away-{server}"), async |env| {
        let shape = Shape {
            rate,
            hot_percent: 0,
        };
        let traffic = Traffic::start(&env.client, shape);
        let mut peaks_before = Peaks::new();
        while_watching(env, &mut peaks_before, sleep(WARM_UP)).await?;
        let before = traffic.take_counts();

        let mut peaks = Peaks::new();
        env.end(server, Signal::KILL).await?;
        while_watching(env, &mut peaks, sleep(length)).await?;
        let during = traffic.take_counts();
        env.start_servers().await?;
        let back = Instant::now();
        while_watching(env, &mut peaks, wait_until_readable(env)).await??;
        let caught_up_in = back.elapsed();
        let after = traffic.end().await?;

        ensure!(
            before.refused + during.refused + after.refused == 0,
            "not all was accepted: {before:?} {during:?} {after:?}"
        );
        let too_much = peaks.iter().find(|(_, peak)| **peak > BOUND_KIB);
        ensure!(too_much.is_none(), "too much memory, KiB: {peaks:?}");
        wait_until_readable(env).await?;
        let audited = env.audit([]).await?.compared("messages");
        let accepted = before.accepted + during.accepted + after.accepted;
        ensure!(audited >= accepted, "{audited} of {accepted} messages");
        Ok(Outage {
            server,
            length,
            rate,
            accepted: during.accepted,
            refused: during.refused,
            answered_before: before.answered,
            answered: during.answered,
            peaks_before,
            peaks,
            caught_up_in,
            audited,
        })
    })
    .await
}

/// Measures in an environment of its own, whose logs are kept if that fails.
async fn in_test_env<T>(name: &str, measure: impl AsyncFnOnce(&TestEnv) -> Result<T>) -> Result<T> {
    let env = TestEnv::start(Settings::USUAL).await?;
    let outcome = measure(&env).await;
    outcome.with_context(|| format!("the logs: {}", env.save_logs(name)))
}

async fn wait_until_readable(env: &TestEnv) -> Result<()> {
    let begun = Instant::now();
    loop {
        match env.check_all_partitions().await {
            Err(_) if begun.elapsed() < CATCH_UP => {}
            outcome => return outcome,
        }
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            server,
            rate,
            accepted,
            refused,
            answered,
            answered_before,
            audited,
            ..
        } = self;
        writeln!(
            f,
            "{server} away for {} s at {rate} messages a second: {accepted} accepted meanwhile, {refused} refused; a batch is \
             answered in {:.1} ms (p50) and {:.1} ms (p99), {:.1} and {:.1} before; everything is readable {:.1} s after its \
             return, under the same traffic; {audited} messages audited, 0 differences\n",
            self.length.as_secs(),
            answered.p50,
            answered.p99,
            answered_before.p50,
            answered_before.p99,
            self.caught_up_in.as_secs_f64(),
        )?;
        writeln!(f, "| service | resident before, MiB | at most, MiB |")?;
        writeln!(f, "|---|---:|---:|")?;
        let mib = |peaks: &Peaks, service| peaks.get(service).map_or(0, |kib| kib >> 10);
        for service in SERVICES {
            let (before, most) = (mib(&self.peaks_before, service), mib(&self.peaks, service));
            writeln!(f, "| {service} | {before} | {most} |")?;
        }
        Ok(())
    }
}

/// The effect of one busy conversation on the others.
pub struct BusyConversation {
    rate: u64,
    even: Readable,
    hot: Readable,
}

/// Measures how long other conversations' messages take to be readable, at `rate` messages a second in all conversations, and then with four fifths
/// of them in one conversation.
///
/// # Errors
/// If a message is refused, lost or doubled, or the audit finds a difference.
pub async fn busy_conversation(length: Duration, rate: u64) -> Result<BusyConversation> {
    in_test_env("hot", async |env| {
        let even = readable(env, rate, 0, length).await?;
        let hot = readable(env, rate, 80, length).await?;
        env.audit([]).await?;
        for (what, even, hot) in [
            ("counted", even.counted.p99, hot.counted.p99),
            ("stored", even.stored.p99, hot.stored.p99),
        ] {
            let bound = even * HOT_FACTOR;
            ensure!(hot <= bound, "{what}: p99 {hot:.1} ms, above {bound:.1} ms");
        }
        Ok(BusyConversation { rate, even, hot })
    })
    .await
}

/// The time that probes take beside such traffic.
async fn readable(
    env: &TestEnv,
    rate: u64,
    hot_percent: u32,
    length: Duration,
) -> Result<Readable> {
    let traffic = Traffic::start(&env.client, Shape { rate, hot_percent });
    sleep(WARM_UP).await;
    let readable = probes::run(&env.client, length).await?;
    let ended = traffic.end().await?;
    ensure!(ended.refused == 0, "not all was accepted: {ended:?}");
    wait_until_readable(env).await?;
    Ok(readable)
}

impl fmt::Display for BusyConversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "send→readable of other conversations at {} messages a second, ms\n",
            self.rate
        )?;
        writeln!(
            f,
            "| | counted p50 | counted p99 | stored p50 | stored p99 |\n|---|---:|---:|---:|---:|"
        )?;
        let rows = [
            ("traffic all over", &self.even),
            ("four fifths of it in one conversation", &self.hot),
        ];
        for (title, Readable { counted, stored }) in rows {
            writeln!(
                f,
                "| {title} | {:.1} | {:.1} | {:.1} | {:.1} |",
                counted.p50, counted.p99, stored.p50, stored.p99
            )?;
        }
        Ok(())
    }
}

/// Sends the first messages of a thousand conversations, 64 at a time, and measures. Before that there is traffic of `rate` messages a second, so
/// that everything is warm.
///
/// # Errors
/// If a message is refused, lost or doubled, or the audit finds a difference.
pub async fn first_messages(rate: u64) -> Result<FirstMessages> {
    in_test_env("first-messages", async |env| {
        readable(env, rate, 0, Duration::from_secs(1)).await?;
        let firsts = probes::firsts(&env.client, 1_000, 64).await?;
        env.audit([]).await?;
        Ok(FirstMessages(firsts))
    })
    .await
}

/// The measurements of a thousand first messages.
pub struct FirstMessages(Firsts);

impl fmt::Display for FirstMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Firsts {
            count,
            took,
            accepted,
            readable,
        } = &self.0;
        writeln!(
            f,
            "first messages of {count} conversations, 64 at a time: {:.0} a second, accepted in {:.1} ms (p50) and {:.1} ms (p99), \
             read back {:.1} ms (p50) and {:.1} ms (p99) after that",
            *count as f64 / took.as_secs_f64(),
            accepted.p50,
            accepted.p99,
            readable.p50,
            readable.p99,
        )
    }
}
