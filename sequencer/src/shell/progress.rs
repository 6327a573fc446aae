//! When a progress record is due (PROTOCOL S8).

use super::ShellConfig;

pub(super) struct ProgressTimer {
    idle_ms: u64,
    gap_ms: u64,
    wanted: bool,
    last_sent_ms: Option<u64>,
    last_output_ms: u64,
}

impl ProgressTimer {
    pub(super) fn new(config: &ShellConfig, now_ms: u64) -> Self {
        Self {
            idle_ms: config.progress_idle_ms,
            gap_ms: config.progress_gap_ms,
            wanted: false,
            last_sent_ms: None,
            last_output_ms: now_ms,
        }
    }

    /// There is nothing more to step right now.
    pub(super) fn drained(&mut self) {
        self.wanted = true;
    }

    /// An event was put in line.
    pub(super) fn output(&mut self, now_ms: u64) {
        self.last_output_ms = now_ms;
        self.wanted = false;
    }

    /// Whether a progress record may go now, if there is something to answer for. One that is held back stays wanted.
    pub(super) fn is_due(&mut self, now_ms: u64) -> bool {
        self.wanted |= now_ms.saturating_sub(self.last_output_ms) >= self.idle_ms;
        let rested = self
            .last_sent_ms
            .is_none_or(|sent| now_ms.saturating_sub(sent) >= self.gap_ms);
        self.wanted && rested
    }

    /// One was put in line.
    pub(super) fn sent(&mut self, now_ms: u64) {
        self.last_sent_ms = Some(now_ms);
        self.output(now_ms);
    }
}
