//! The results of a run, as a table.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::Fault;
use crate::DeviceCounts;

/// A fault that was healed and recovered from.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// How much was done this time, for example how many processes were killed or restarted one after the other.
    pub injected: u64,
    /// How many events were accepted from the beginning of the fault until a message went through every partition to the stores again.
    pub accepted: u64,
    /// How long it took, after the fault was healed, until a message through every partition was counted and readable.
    pub recovered_in: Duration,
}

/// What happened so far. The first loss, double, gap or difference ends a run with an error, so the rounds that were judged have none.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The recoveries by fault; `(none)` for no fault at all, as the baseline.
    recoveries: BTreeMap<&'static str, Vec<Recovery>>,
    /// The recoveries that are not judged yet.
    pending: Vec<(&'static str, Recovery)>,
    judgements: u64,
    messages: usize,
    devices: DeviceCounts,
}

impl Report {
    pub(super) fn recovered(&mut self, fault: Option<&Fault>, recovery: Recovery) {
        let name = fault.map_or("(none)", |fault| fault.name);
        self.pending.push((name, recovery));
    }

    /// The round was in order; it had this many acknowledged messages.
    pub(super) fn judged(&mut self, messages: usize) {
        for (name, recovery) in self.pending.drain(..) {
            self.recoveries.entry(name).or_default().push(recovery);
        }
        self.judgements += 1;
        self.messages += messages;
    }

    /// Every device had the same state as the stores.
    pub(super) fn judged_devices(&mut self, counts: DeviceCounts) {
        self.devices += counts;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| fault | times | injected | accepted meanwhile | lost | doubled | gaps | audit | recovered in, median | worst |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")?;
        for (name, recoveries) in &self.recoveries {
            let times = recoveries.len();
            let injected: u64 = recoveries.iter().map(|one| one.injected).sum();
            let accepted: u64 = recoveries.iter().map(|one| one.accepted).sum();
            let mut durations: Vec<f64> = recoveries
                .iter()
                .map(|one| one.recovered_in.as_secs_f64())
                .collect();
            durations.sort_by(f64::total_cmp);
            let median = durations[durations.len() / 2];
            let worst = durations.last().copied().unwrap_or_default();
            writeln!(
                f,
                "| {name} | {times} | {injected} | {accepted} | 0 | 0 | 0 | 0 | {median:.1} s | {worst:.1} s |"
            )?;
        }
        let Self {
            messages,
            judgements,
            pending,
            devices,
            ..
        } = self;
        write!(
            f,
            "\n{messages} acknowledged messages in {judgements} judgements: 0 lost, 0 doubled, 0 gaps, 0 differences in the audit"
        )?;
        if *devices != DeviceCounts::default() {
            write!(f, "\n{devices}: all equal to the stores")?;
        }
        if !pending.is_empty() {
            write!(
                f,
                "; {} recoveries since the last judgement are not judged",
                pending.len()
            )?;
        }
        Ok(())
    }
}
