//! The metrics of posts.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Unit};
use problem::ProblemKind;
use schemas::kind::LABELS;

const ACCEPTED: &str = "tidemark_ingest_accepted_total";
const REJECTED: &str = "tidemark_ingest_rejected_total";
const DELIVERY: &str = "tidemark_ingest_delivery_seconds";
const IN_FLIGHT: &str = "tidemark_ingest_in_flight_bytes";

/// Handles, since looking a metric up by its name costs more than changing it.
pub struct PostMetrics {
    /// By the label of the kind.
    accepted: [(&'static str, Counter); LABELS.len()],
    delivery_of_singles: Histogram,
    delivery_of_lines: Histogram,
    in_flight_of_singles: Gauge,
    in_flight_of_batches: Gauge,
}

impl PostMetrics {
    /// Registers them, for the posts of ingest or of another service of the same process.
    #[must_use]
    pub fn register(service: &'static str) -> Self {
        metrics::describe_counter! { ACCEPTED, "Events that are on the log, by kind" }
        metrics::describe_counter! { REJECTED, "Events that were answered with a problem, by its type" }
        metrics::describe_histogram! { DELIVERY, Unit::Seconds, "Time from an append to its delivery report; of batches every 64th line" }
        metrics::describe_gauge! { IN_FLIGHT, Unit::Bytes, "Bytes of the budgets in use, sampled once a second" }
        let of_singles = if service == "ingest" {
            "single"
        } else {
            service
        };
        Self {
            accepted: LABELS.map(|label| (label, metrics::counter!(ACCEPTED, "kind" => label))),
            delivery_of_singles: metrics::histogram!(DELIVERY, "from" => "single"),
            delivery_of_lines: metrics::histogram!(DELIVERY, "from" => "batch"),
            in_flight_of_singles: metrics::gauge!(IN_FLIGHT, "of" => of_singles),
            in_flight_of_batches: metrics::gauge!(IN_FLIGHT, "of" => "batch"),
        }
    }

    /// One more record of this kind is on the log.
    pub fn accepted(&self, label: &'static str) {
        let handle = self.accepted.iter().find(|(known, _)| *known == label);
        if let Some((_, counter)) = handle {
            counter.increment(1);
        }
    }

    /// One more post was answered with this problem.
    pub fn rejected(&self, problem: ProblemKind) {
        metrics::counter!(REJECTED, "problem" => problem.name()).increment(1);
    }

    /// Of a single post: the time from the append to the delivery report.
    pub fn single_delivered(&self, after: Duration) {
        self.delivery_of_singles.record(after);
    }

    /// The same of a line of a batch.
    pub fn line_delivered(&self, after: Duration) {
        self.delivery_of_lines.record(after);
    }

    /// The bytes of single posts in use.
    pub fn in_flight_of_singles(&self, bytes: usize) {
        self.in_flight_of_singles.set(bytes as f64);
    }

    /// The bytes of batches in use.
    pub fn in_flight_of_batches(&self, bytes: usize) {
        self.in_flight_of_batches.set(bytes as f64);
    }
}
