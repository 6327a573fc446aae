//! What comes of loads that grow.

use serde::Serialize;
use system_tests::Percentiles;

/// What was measured at one load after another.
#[derive(Debug, Serialize)]
pub(crate) struct Curve {
    /// Of which stage, by the name that `--only` takes: who runs the stage says so.
    pub(crate) stage: String,
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
    /// How many messages a second clients had to post by their schedule.
    pub(crate) offered: f64,
    /// How many were accepted, a second.
    pub(crate) accepted: f64,
    /// From when a request was due until it was answered.
    pub(crate) waited: Percentiles,
}
