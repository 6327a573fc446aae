//! The results of a run of the benchmarks, as JSON. `bench/report` makes tables and pictures of them.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result};
use serde::Serialize;
use system_tests::Percentiles;

use crate::{
    machine::Machine,
    pair::Pair,
    sample::{Sample, Spread},
};

/// All results of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) rows: Vec<Row>,
    /// Stages without figures, because they failed.
    pub(crate) failed: Vec<&'static str>,
}

impl Results {
    /// Writes the results so far.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        let json = serde_json::to_string_pretty(self)?;
        fs::write(file, json).with_context(|| format!("cannot write {}", file.display()))
    }
}

/// One result.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// The stage, by the name that `--only` takes; set by the caller that runs the stage.
    pub(crate) stage: &'static str,
    /// The measured quantity.
    what: String,
    figure: Figure,
    /// The CPU that each process uses for 10,000 messages, seconds: the median of all runs.
    cpu_s_per_10_000: BTreeMap<String, f64>,
    /// The same for the raw part, if there is one.
    baseline_cpu_s_per_10_000: BTreeMap<String, f64>,
    /// The memory that each process holds at the end, MiB: the maximum of all runs.
    resident_mib: BTreeMap<String, f64>,
}

/// The measured values, and their bounds.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Figure {
    /// Rates per second, compared with those of a raw part.
    Ratio {
        baseline: String,
        ours_a_second: Spread,
        baseline_a_second: Spread,
        ratio: Spread,
        at_least: f64,
    },
    /// A single value.
    Value {
        unit: &'static str,
        value: Spread,
        bound: Option<Bound>,
    },
    /// Results for increasing loads, the smallest first; the names of its pictures contain this one.
    Curve {
        file: &'static str,
        points: Vec<Point>,
    },
}

/// Where a value must lie.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// The result of one load.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Point {
    /// How many messages a second clients had to post by their schedule.
    pub(crate) offered: f64,
    /// How many were accepted, a second.
    pub(crate) accepted: f64,
    /// The time from when a request was due until it was answered.
    pub(crate) waited: Percentiles,
}

impl Row {
    /// The result of a pair, whose ratio must be at least this.
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

    /// The result of a value measured in several runs.
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

    /// Adds the resources that the raw part used.
    pub(crate) fn beside(self, baseline: &[Sample]) -> Self {
        Self {
            baseline_cpu_s_per_10_000: cpu_of_each(baseline),
            ..self
        }
    }

    /// The result of a single value.
    pub(crate) fn of_one(
        what: impl Into<String>,
        unit: &'static str,
        value: f64,
        bound: Option<Bound>,
    ) -> Self {
        Self::of_value(what, unit, Spread::of([value]), bound, &[])
    }

    /// The result of increasing loads.
    pub(crate) fn of_curve(what: &str, file: &'static str, points: Vec<Point>) -> Self {
        Self::new(what, Figure::Curve { file, points }, &[])
    }

    fn new(what: impl Into<String>, figure: Figure, samples: &[Sample]) -> Self {
        Self {
            stage: "",
            what: what.into(),
            figure,
            cpu_s_per_10_000: cpu_of_each(samples),
            baseline_cpu_s_per_10_000: BTreeMap::new(),
            resident_mib: of_each(samples, Sample::resident, |spread| spread.max),
        }
    }
}

fn cpu_of_each(samples: &[Sample]) -> BTreeMap<String, f64> {
    of_each(samples, Sample::cpu_per_10_000, |spread| spread.median)
}

/// One number for each process, from its values in the samples.
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
