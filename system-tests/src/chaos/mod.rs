//! Faults one after the other, drawn from a seed, while clients write and read; then the judgement.

mod deck;
mod fault;
mod report;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rand::{SeedableRng as _, rngs::StdRng};

use self::deck::Deck;
pub use self::{
    fault::Fault,
    report::{Report, Strike},
};
use crate::{Load, SERVICES, Settings, World};

/// Three brokers; every topic has three copies, two of which acknowledge.
const CLUSTER: Settings = Settings {
    kafka_nodes: 3,
    ..Settings::USUAL
};

/// Groups of users that write and read at the same time.
const CIRCLES: u64 = 8;
/// Accepted posts before a fault: it strikes a system at work.
const BETWEEN: u64 = 100;
/// Faults between two judgements: an audit of everything takes a while.
const ROUND: usize = 8;

/// What a run is like.
#[derive(Clone, Debug)]
pub struct Options {
    /// Draws the order of faults and all that is random about them.
    pub seed: u64,
    /// No fault begins after this time.
    pub length: Duration,
    /// Which faults; each as often as any other.
    pub faults: Vec<Fault>,
}

/// Runs a cluster of its own with two processes of every service, strikes it, and judges. `say` hears what goes on.
///
/// # Errors
/// A judgement is against it, or something does not recover: the text says what and where the logs are.
pub async fn run(options: &Options, say: impl Fn(&str)) -> Result<Report> {
    let world = World::start(CLUSTER).await?;
    let outcome = Torment::new(&world, options, &say).run().await;
    outcome.with_context(|| {
        let logs = world.keep_logs(&format!("chaos-{}", options.seed));
        format!("seed {}; the logs: {logs}", options.seed)
    })
}

struct Torment<'a, S> {
    world: &'a World,
    options: &'a Options,
    say: S,
    rng: StdRng,
    deck: Deck,
    report: Report,
}

impl<'a, S: Fn(&str)> Torment<'a, S> {
    fn new(world: &'a World, options: &'a Options, say: S) -> Self {
        Self {
            world,
            options,
            say,
            rng: StdRng::seed_from_u64(options.seed),
            deck: Deck::new(&options.faults),
            report: Report::default(),
        }
    }

    async fn run(mut self) -> Result<Report> {
        for service in SERVICES {
            self.world.start_second(service).await?;
        }
        self.world.all_partitions_pass().await?;
        (self.say)("the cluster is up, with two processes of every service");
        let begun = Instant::now();
        while begun.elapsed() < self.options.length {
            let mut load = Load::start(self.world, CIRCLES);
            load.grows_by(BETWEEN).await?;
            // What a recovery is compared with.
            self.recover(None, &load, load.accepted()).await?;
            for _ in 0..ROUND {
                if begun.elapsed() < self.options.length {
                    self.strike(&mut load).await?;
                }
            }
            load.grows_by(BETWEEN).await?;
            let settled = load.settle().await?;
            settled.judge(self.world).await?;
            self.report.judged(settled.message_count());
            (self.say)(&format!(
                "judged after {} s: nothing lost, doubled, out of order or miscounted",
                begun.elapsed().as_secs()
            ));
        }
        Ok(self.report)
    }

    async fn strike(&mut self, load: &mut Load) -> Result<()> {
        let fault = self.deck.draw(&mut self.rng);
        load.grows_by(BETWEEN).await?;
        let before = load.accepted();
        let struck = fault.strike(self.world, load, &mut self.rng).await;
        struck.with_context(|| format!("during {}", fault.name()))?;
        self.recover(Some(fault), load, before).await
    }

    /// Waits until everything passes; `before` posts were accepted when the fault began.
    async fn recover(&mut self, fault: Option<Fault>, load: &Load, before: u64) -> Result<()> {
        let name = fault.map_or("no fault", Fault::name);
        let healed = Instant::now();
        let passing = self.world.all_partitions_pass().await;
        passing.with_context(|| format!("after {name}"))?;
        let strike = Strike {
            accepted: load.accepted() - before,
            recovered_in: healed.elapsed(),
        };
        (self.say)(&format!(
            "{name}: {} posts accepted meanwhile, all partitions pass {:.1} s after it",
            strike.accepted,
            strike.recovered_in.as_secs_f64()
        ));
        self.report.struck(fault, strike);
        Ok(())
    }
}
