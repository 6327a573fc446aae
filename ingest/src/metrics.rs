//! The metrics of ingest.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Unit};
use problem::ProblemKind;

use crate::post::EventKind;

const ACCEPTED: &str = "tidemark_ingest_accepted_total";
const REJECTED: &str = "tidemark_ingest_rejected_total";
const DELIVERY: &str = "tidemark_ingest_delivery_seconds";
const IN_FLIGHT: &str = "tidemark_ingest_in_flight_bytes";

/// Handles, since looking a metric up by its name costs more than changing it.
pub(crate) struct IngestMetrics {
    messages: Counter,
    read_acks: Counter,
    message_changes: Counter,
    contact_changes: Counter,
    profiles: Counter,
    group_changes: Counter,
    delivery_of_singles: Histogram,
    delivery_of_lines: Histogram,
    in_flight_of_singles: Gauge,
    in_flight_of_batches: Gauge,
}

impl IngestMetrics {
    pub(crate) fn new() -> Self {
        metrics::describe_counter!(ACCEPTED, "Events that are on the log, by kind");
        metrics::describe_counter!(
            REJECTED,
            "Events that were answered with a problem, by its type"
        );
        metrics::describe_histogram!(
            DELIVERY,
            Unit::Seconds,
            "Time from an append to its delivery report; of batches every 64th line"
        );
        metrics::describe_gauge!(
            IN_FLIGHT,
            Unit::Bytes,
            "Bytes of the budgets in use, sampled once a second"
        );
        Self {
            messages: metrics::counter!(ACCEPTED, "kind" => "message"),
            read_acks: metrics::counter!(ACCEPTED, "kind" => "read_ack"),
            message_changes: metrics::counter!(ACCEPTED, "kind" => "message_change"),
            contact_changes: metrics::counter!(ACCEPTED, "kind" => "contact_change"),
            profiles: metrics::counter!(ACCEPTED, "kind" => "profile"),
            group_changes: metrics::counter!(ACCEPTED, "kind" => "group_change"),
            delivery_of_singles: metrics::histogram!(DELIVERY, "from" => "single"),
            delivery_of_lines: metrics::histogram!(DELIVERY, "from" => "batch"),
            in_flight_of_singles: metrics::gauge!(IN_FLIGHT, "of" => "single"),
            in_flight_of_batches: metrics::gauge!(IN_FLIGHT, "of" => "batch"),
        }
    }

    pub(crate) fn accepted(&self, kind: EventKind) {
        match kind {
            EventKind::Message => self.messages.increment(1),
            EventKind::ReadAck | EventKind::ReadAckOfLatest => self.read_acks.increment(1),
            EventKind::MessageChange => self.message_changes.increment(1),
            EventKind::ContactChange | EventKind::ContactDeletion => {
                self.contact_changes.increment(1);
            }
            EventKind::Profile => self.profiles.increment(1),
            EventKind::Group | EventKind::GroupChange => self.group_changes.increment(1),
        }
    }

    pub(crate) fn rejected(&self, problem: ProblemKind) {
        metrics::counter!(REJECTED, "problem" => problem.name()).increment(1);
    }

    pub(crate) fn single_delivered(&self, after: Duration) {
        self.delivery_of_singles.record(after);
    }

    pub(crate) fn line_delivered(&self, after: Duration) {
        self.delivery_of_lines.record(after);
    }

    pub(crate) fn in_flight(&self, singles_bytes: usize, batches_bytes: usize) {
        self.in_flight_of_singles.set(singles_bytes as f64);
        self.in_flight_of_batches.set(batches_bytes as f64);
    }
}
