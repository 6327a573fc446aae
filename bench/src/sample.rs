//! The result of one run of one side of a pair.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

/// One run.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Sample {
    /// How many messages, records or calls were processed.
    pub(crate) count: u64,
    /// How long the run took, seconds.
    pub(crate) seconds: f64,
    /// The CPU that each process used meanwhile, seconds; `client` is this program.
    pub(crate) cpu_s: BTreeMap<String, f64>,
    /// The memory that each process held at the end, MiB.
    pub(crate) resident_mib: BTreeMap<String, f64>,
}

impl Sample {
    /// The sample of a run of which only the rate is known.
    pub(crate) fn of_rate(count: u64, took: Duration) -> Self {
        Self {
            count,
            seconds: took.as_secs_f64(),
            ..Self::default()
        }
    }

    /// The same sample, with the rate that the run measured itself.
    pub(crate) fn at_rate(self, rate: f64) -> Self {
        Self {
            seconds: self.count as f64 / rate,
            ..self
        }
    }

    /// Subtracts the CPU that every process uses when idle, according to `idle`, for `seconds` of the run.
    pub(crate) fn without(mut self, idle: &Self, seconds: f64) -> Self {
        for (name, spent) in &mut self.cpu_s {
            let of_its_own = idle.cpu_s.get(name).copied().unwrap_or_default();
            *spent = (*spent - of_its_own * seconds / idle.seconds).max(0.0);
        }
        self
    }

    /// The number of items per second.
    pub(crate) fn rate(&self) -> f64 {
        self.count as f64 / self.seconds
    }

    /// The CPU that all processes together used for one item, seconds.
    pub(crate) fn cpu_of_one(&self) -> f64 {
        self.cpu_s.values().sum::<f64>() / self.count as f64
    }

    /// The CPU that each process used for 10,000 items, seconds.
    pub(crate) fn cpu_per_10_000(&self) -> impl Iterator<Item = (&str, f64)> {
        let ten_thousands = self.count as f64 / 10_000.0;
        self.cpu_s
            .iter()
            .map(move |(name, spent)| (name.as_str(), spent / ten_thousands))
    }

    /// The memory that each process held at the end, MiB.
    pub(crate) fn resident(&self) -> impl Iterator<Item = (&str, f64)> {
        self.resident_mib
            .iter()
            .map(|(name, mib)| (name.as_str(), *mib))
    }
}

/// The minimum, the median and the maximum of several runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// The spread of at least one value. Without values everything is NaN, which is within no bound.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let at = |i: usize| sorted.get(i).copied().unwrap_or(f64::NAN);
        Self {
            min: at(0),
            median: f64::midpoint(at(n.saturating_sub(1) / 2), at(n / 2)),
            max: at(n.saturating_sub(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_anyway_is_taken_off_by_time() {
        let of = |seconds, cpu_s| Sample {
            count: 10,
            seconds,
            cpu_s: BTreeMap::from([("a".to_owned(), cpu_s)]),
            ..Sample::default()
        };
        assert_eq!(of(20.0, 7.0).without(&of(5.0, 1.0), 10.0).cpu_s["a"], 5.0);
        assert_eq!(of(20.0, 7.0).without(&of(5.0, 1.0), 100.0).cpu_s["a"], 0.0);
    }

    #[test]
    fn the_middle_of_an_even_number_lies_between() {
        let spread = Spread::of([4.0, 1.0, 2.0, 8.0]);
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 3.0, 8.0));
        assert_eq!(Spread::of([5.0]).median, 5.0);
        assert!(Spread::of([]).median.is_nan());
    }
}
