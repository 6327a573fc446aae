//! Two sides in turn, so that both meet the same moods of the machine.

use anyhow::Result;
use serde::Serialize;

use crate::sample::{Sample, Spread};

/// What came of a pair.
#[derive(Debug, Serialize)]
pub(crate) struct Pair {
    pub(crate) ours: Vec<Sample>,
    pub(crate) baseline: Vec<Sample>,
}

impl Pair {
    /// Runs ours, the baseline, ours, the baseline, …; a first round warms everything up and does not count.
    ///
    /// # Errors
    /// One of them fails.
    pub(crate) async fn run(
        rounds: usize,
        mut ours: impl AsyncFnMut() -> Result<Sample>,
        mut baseline: impl AsyncFnMut() -> Result<Sample>,
    ) -> Result<Self> {
        let mut pair = Self {
            ours: Vec::new(),
            baseline: Vec::new(),
        };
        ours().await?;
        baseline().await?;
        for _ in 0..rounds {
            pair.ours.push(ours().await?);
            pair.baseline.push(baseline().await?);
        }
        Ok(pair)
    }

    /// Ours over the baseline, round by round.
    pub(crate) fn ratio(&self) -> Spread {
        let rounds = self.ours.iter().zip(&self.baseline);
        Spread::of(rounds.map(|(ours, baseline)| ours.rate() / baseline.rate()))
    }
}
