//! What a run of the benchmarks found.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    curve::Curve,
    machine::Machine,
    pair::Pair,
    sample::{Sample, Spread},
};

/// All of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    #[serde(flatten)]
    pub(crate) found: Found,
    /// Stages without figures, since something failed in them.
    pub(crate) failed: Vec<String>,
}

/// What stages found.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Found {
    pub(crate) rows: Vec<Row>,
    pub(crate) curves: Vec<Curve>,
}

impl Found {
    /// Notes which stage found all of it.
    pub(crate) fn say_whose(&mut self, stage: &str) {
        for row in &mut self.rows {
            stage.clone_into(&mut row.stage);
        }
        for curve in &mut self.curves {
            stage.clone_into(&mut curve.stage);
        }
    }

    /// Takes in what another stage found.
    pub(crate) fn extend(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.curves.extend(other.curves);
    }
}

impl From<Vec<Row>> for Found {
    fn from(rows: Vec<Row>) -> Self {
        Self {
            rows,
            ..Self::default()
        }
    }
}

impl From<Vec<Curve>> for Found {
    fn from(curves: Vec<Curve>) -> Self {
        Self {
            curves,
            ..Self::default()
        }
    }
}

/// A figure that was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// Of which stage, by the name that `--only` takes: who runs the stage says so.
    pub(crate) stage: String,
    /// What of it.
    pub(crate) what: String,
    pub(crate) figure: Figure,
    /// What each process spends on 10,000 messages, seconds of CPU: the middle of all runs.
    pub(crate) cpu_s_per_10_000: BTreeMap<String, f64>,
    /// The same of the raw part, where there is one.
    pub(crate) baseline_cpu_s_per_10_000: BTreeMap<String, f64>,
    /// What each process holds at the end, MiB: the most of all runs.
    pub(crate) resident_mib: BTreeMap<String, f64>,
}

/// What was found, and what it must be.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Figure {
    /// Rates, a second, against those of a raw part.
    Ratio {
        baseline: String,
        ours_a_second: Spread,
        baseline_a_second: Spread,
        ratio: Spread,
        at_least: f64,
    },
    /// A value by itself.
    Value {
        unit: &'static str,
        value: Spread,
        bound: Option<Bound>,
    },
}

/// Where a value must lie.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Row {
    /// Of a pair, whose ratio is to be so much at least.
    pub(crate) fn of_pair(
        what: impl Into<String>,
        baseline: impl Into<String>,
        pair: &Pair,
        at_least: f64,
    ) -> Self {
        let rates = |samples: &[Sample]| Spread::of(samples.iter().map(Sample::rate));
        let figure = Figure::Ratio {
            baseline: baseline.into(),
            ours_a_second: rates(&pair.ours),
            baseline_a_second: rates(&pair.baseline),
            ratio: pair.ratio(),
            at_least,
        };
        Self::new(what, figure, &pair.ours).beside(&pair.baseline)
    }

    /// Of a value that several runs gave.
    pub(crate) fn of_value(
        what: impl Into<String>,
        unit: &'static str,
        value: Spread,
        bound: Option<Bound>,
        samples: &[Sample],
    ) -> Self {
        let figure = Figure::Value { unit, value, bound };
        Self::new(what, figure, samples)
    }

    /// Beside what the raw part used meanwhile.
    pub(crate) fn beside(self, baseline: &[Sample]) -> Self {
        Self {
            baseline_cpu_s_per_10_000: cpu_of_each(baseline),
            ..self
        }
    }

    /// Of a value by itself.
    pub(crate) fn of_one(
        what: impl Into<String>,
        unit: &'static str,
        value: f64,
        bound: Option<Bound>,
    ) -> Self {
        Self::of_value(what, unit, Spread::of([value]), bound, &[])
    }

    fn new(what: impl Into<String>, figure: Figure, samples: &[Sample]) -> Self {
        Self {
            stage: String::new(),
            what: what.into(),
            figure,
            cpu_s_per_10_000: cpu_of_each(samples),
            baseline_cpu_s_per_10_000: BTreeMap::new(),
            resident_mib: of_each(samples, Sample::resident, |spread| spread.max),
        }
    }

    /// Whether the figure is where it must be.
    pub(crate) fn is_reached(&self) -> bool {
        match &self.figure {
            Figure::Ratio {
                ratio, at_least, ..
            } => ratio.median >= *at_least,
            Figure::Value { value, bound, .. } => match bound {
                Some(Bound::AtLeast(least)) => value.median >= *least,
                Some(Bound::AtMost(most)) => value.median <= *most,
                None => true,
            },
        }
    }
}

fn cpu_of_each(samples: &[Sample]) -> BTreeMap<String, f64> {
    of_each(samples, Sample::cpu_per_10_000, |spread| spread.median)
}

/// One number for each process, of what the samples have for it.
fn of_each<'a, I: Iterator<Item = (&'a str, f64)>>(
    samples: &'a [Sample],
    values: impl Fn(&'a Sample) -> I,
    one: impl Fn(Spread) -> f64,
) -> BTreeMap<String, f64> {
    let mut of_process: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (process, value) in samples.iter().flat_map(values) {
        of_process.entry(process).or_default().push(value);
    }
    of_process
        .into_iter()
        .map(|(process, values)| (process.to_owned(), one(Spread::of(values))))
        .collect()
}
