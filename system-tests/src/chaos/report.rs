//! What a run did and found, as a table.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::Fault;

/// A fault that was healed and recovered from.
#[derive(Clone, Copy, Debug)]
pub struct Strike {
    /// Posts that were accepted from its beginning until everything passed again.
    pub accepted: u64,
    /// How long after it was healed a message through every partition was counted and readable.
    pub recovered_in: Duration,
}

/// A run without a difference: one that has any ends with an error instead.
#[derive(Clone, Debug, Default)]
pub struct Report {
    strikes: BTreeMap<Option<Fault>, Vec<Strike>>,
    judgements: u64,
    messages: usize,
}

impl Report {
    /// `None` for no fault at all, which the others are compared with.
    pub(super) fn struck(&mut self, fault: Option<Fault>, strike: Strike) {
        self.strikes.entry(fault).or_default().push(strike);
    }

    pub(super) fn judged(&mut self, messages: usize) {
        self.judgements += 1;
        self.messages += messages;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| fault | times | accepted meanwhile | recovered in, median | worst |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|")?;
        for (fault, strikes) in &self.strikes {
            let accepted: u64 = strikes.iter().map(|strike| strike.accepted).sum();
            let mut times: Vec<f64> = strikes
                .iter()
                .map(|strike| strike.recovered_in.as_secs_f64())
                .collect();
            times.sort_by(f64::total_cmp);
            let median = times[times.len() / 2];
            let worst = times.last().copied().unwrap_or_default();
            let name = fault.map_or("(none)", Fault::name);
            let number = strikes.len();
            writeln!(
                f,
                "| {name} | {number} | {accepted} | {median:.1} s | {worst:.1} s |"
            )?;
        }
        let Self {
            messages,
            judgements,
            ..
        } = self;
        write!(
            f,
            "\n{messages} acknowledged messages in {judgements} judgements: 0 lost, 0 doubled, 0 gaps, 0 differences in the audit"
        )
    }
}
