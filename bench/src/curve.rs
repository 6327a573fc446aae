//! What comes of loads that grow.

use serde::Serialize;

/// What was measured at one load after another.
#[derive(Debug, Serialize)]
pub(crate) struct Curve {
    /// Of which stage, by the name that `--only` takes.
    pub(crate) stage: &'static str,
    /// What was posted, for people.
    pub(crate) what: String,
    /// The same in a file's name.
    pub(crate) file: &'static str,
    /// By load, from the smallest.
    pub(crate) points: Vec<Point>,
}

/// What was measured at one load.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Point {
    /// How many messages a second clients posted, whether or not earlier ones were answered.
    pub(crate) offered: f64,
    /// How many were accepted, a second.
    pub(crate) accepted: f64,
    /// From when a request was due until it was answered.
    pub(crate) waited: Percentiles,
}

/// Milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

impl Percentiles {
    /// Of at least one value; of none, all is 0.
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = (values.len() as f64 * share).ceil() as usize;
            values
                .get(rank.saturating_sub(1))
                .copied()
                .unwrap_or_default()
        };
        Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_thousand_the_990th_is_p99() {
        let values = (1..=1000).rev().map(f64::from).collect();
        let expected = Percentiles {
            p50: 500.0,
            p90: 900.0,
            p99: 990.0,
            p999: 999.0,
        };
        assert_eq!(Percentiles::of(values), expected);
        assert_eq!(Percentiles::of(vec![7.0]).p99, 7.0);
    }
}
