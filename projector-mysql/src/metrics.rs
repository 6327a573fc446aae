//! What is counted, by sink and database.

use std::time::Instant;

use message_store::{Shard, Sink, StoreError};
use metrics::{counter, gauge, histogram};

const ROWS: &str = "tidemark_mysql_rows_written_total";
const BATCHES: &str = "tidemark_mysql_batches_written_total";
const SECONDS: &str = "tidemark_mysql_batch_seconds";
const FAILURES: &str = "tidemark_mysql_batch_failures_total";
const SET_ASIDE: &str = "tidemark_mysql_databases_circuit_open";
const MISSING_MONTHS: &str = "tidemark_mysql_missing_months";

pub(crate) fn describe() {
    metrics::describe_counter!(ROWS, "Rows written to MySQL, merged ones too");
    metrics::describe_counter!(
        BATCHES,
        "Transactions of rows and resume offsets that were committed"
    );
    metrics::describe_histogram!(
        SECONDS,
        metrics::Unit::Seconds,
        "Time of one such transaction"
    );
    metrics::describe_counter!(
        FAILURES,
        "Transactions that failed and are repeated or rewound"
    );
    metrics::describe_gauge!(
        SET_ASIDE,
        "1 where contacts go on without a database that does not answer"
    );
    metrics::describe_gauge!(
        MISSING_MONTHS,
        "Months that tables of messages lack within the configured time ahead"
    );
}

/// One transaction, from its start.
pub(crate) struct Batch {
    sink: Sink,
    shard: Shard,
    rows: usize,
    begun: Instant,
}

impl Batch {
    pub(crate) fn begin(sink: Sink, shard: Shard, rows: usize) -> Self {
        Self {
            sink,
            shard,
            rows,
            begun: Instant::now(),
        }
    }

    pub(crate) fn end(self, outcome: &Result<(), StoreError>) {
        let labels = [
            ("sink", self.sink.name().to_owned()),
            ("database", self.shard.get().to_string()),
        ];
        match outcome {
            Ok(()) => {
                counter!(ROWS, &labels).increment(self.rows as u64);
                counter!(BATCHES, &labels).increment(1);
                histogram!(SECONDS, &labels).record(self.begun.elapsed());
            }
            Err(_) => counter!(FAILURES, &labels).increment(1),
        }
    }
}

pub(crate) fn set_aside(shard: Shard, is_aside: bool) {
    gauge!(SET_ASIDE, "database" => shard.get().to_string()).set(u8::from(is_aside));
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
pub(crate) fn missing_months(count: usize) {
    gauge!(MISSING_MONTHS).set(count as f64);
}
