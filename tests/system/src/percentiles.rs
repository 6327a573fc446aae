//! Percentiles of durations.

use serde::Serialize;

/// Milliseconds; NaN, which is within no bound, if there are too few values: a p99 needs at least 100.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
}

impl Percentiles {
    /// The percentiles of values in any order.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |thousandths: usize| {
            let rank = (values.len() * thousandths).div_ceil(1_000);
            // There must be at least one value above it.
            let above = values.len() - rank;
            let is_told = above > 0 || thousandths <= 500;
            let value = values.get(rank.saturating_sub(1)).filter(|_| is_told);
            value.copied().unwrap_or(f64::NAN)
        };
        Self {
            p50: at(500),
            p90: at(900),
            p99: at(990),
            p999: at(999),
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
    }

    #[test]
    fn of_too_few_there_is_none() {
        let few = Percentiles::of((1..=100).map(f64::from).collect());
        assert_eq!(few.p99, 99.0);
        assert!(few.p999.is_nan());
        assert_eq!(Percentiles::of(vec![7.0]).p50, 7.0);
        assert!(Percentiles::of(vec![7.0]).p99.is_nan());
        assert!(Percentiles::of(Vec::new()).p50.is_nan());
    }
}
