//! When a progress event is due (PROTOCOL S8).

use super::ShellConfig;

pub(super) struct ProgressTimer {
    idle_ms: u64,
    gap_ms: u64,
    requested: bool,
    last_queued_ms: Option<u64>,
    last_output_ms: u64,
}

impl ProgressTimer {
    pub(super) fn new(config: &ShellConfig, now_ms: u64) -> Self {
        Self {
            idle_ms: config.progress_idle_ms,
            gap_ms: config.progress_gap_ms,
            requested: false,
            last_queued_ms: None,
            last_output_ms: now_ms,
        }
    }

    /// Call this at the end of the inbound partition.
    pub(super) fn caught_up(&mut self) {
        self.requested = true;
    }

    /// Call this when an event was queued.
    pub(super) fn output(&mut self, now_ms: u64) {
        self.last_output_ms = now_ms;
        self.requested = false;
    }

    /// Whether a progress event may be sent now. One that is due too soon after the last stays requested.
    pub(super) fn is_due(&mut self, now_ms: u64) -> bool {
        self.requested |= now_ms.saturating_sub(self.last_output_ms) >= self.idle_ms;
        let gap_is_over = self
            .last_queued_ms
            .is_none_or(|queued| now_ms.saturating_sub(queued) >= self.gap_ms);
        self.requested && gap_is_over
    }

    /// Call this when a progress event was queued.
    pub(super) fn queued(&mut self, now_ms: u64) {
        self.last_queued_ms = Some(now_ms);
        self.output(now_ms);
    }
}
