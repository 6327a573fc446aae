//! Runs sides in turn, so that the state of the machine affects all of them equally.

use anyhow::Result;
use serde::Serialize;

use crate::sample::{Sample, Spread};

/// Runs each side, then each again, …; a first round warms everything up and does not count. Returns the samples of each side.
///
/// # Errors
/// If a run fails.
pub(crate) async fn in_turn<S: Copy, const N: usize>(
    rounds: usize,
    sides: [S; N],
    mut run: impl AsyncFnMut(S) -> Result<Sample>,
) -> Result<[Vec<Sample>; N]> {
    for side in sides {
        run(side).await?;
    }
    let mut samples = [const { Vec::new() }; N];
    for _ in 0..rounds {
        for (side, samples) in sides.into_iter().zip(&mut samples) {
            samples.push(run(side).await?);
        }
    }
    Ok(samples)
}

/// The samples of two sides.
#[derive(Debug, Serialize)]
pub(crate) struct Pair {
    pub(crate) ours: Vec<Sample>,
    pub(crate) baseline: Vec<Sample>,
}

impl Pair {
    /// A pair of samples that were taken in turn.
    pub(crate) fn of(ours: &[Sample], baseline: &[Sample]) -> Self {
        Self {
            ours: ours.to_vec(),
            baseline: baseline.to_vec(),
        }
    }

    /// Runs ours, the baseline, ours, the baseline, … as [`in_turn`].
    ///
    /// # Errors
    /// If a run fails.
    pub(crate) async fn run(
        rounds: usize,
        mut ours: impl AsyncFnMut() -> Result<Sample>,
        mut baseline: impl AsyncFnMut() -> Result<Sample>,
    ) -> Result<Self> {
        let sides = [true, false];
        let run = async |is_ours| match is_ours {
            true => ours().await,
            false => baseline().await,
        };
        let [ours, baseline] = in_turn(rounds, sides, run).await?;
        Ok(Self { ours, baseline })
    }

    /// The ratio of ours to the baseline, round by round.
    pub(crate) fn ratio(&self) -> Spread {
        let rounds = self.ours.iter().zip(&self.baseline);
        Spread::of(rounds.map(|(ours, baseline)| ours.rate() / baseline.rate()))
    }
}
