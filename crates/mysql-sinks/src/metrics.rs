//! Metrics, by sink and database.

use std::time::Instant;

use message_store::{Shard, StoreError};
use metrics::{counter, gauge, histogram};

use crate::destination::Destination;

const ROWS: &str = "tidemark_mysql_rows_written_total";
const BATCHES: &str = "tidemark_mysql_batches_written_total";
const SECONDS: &str = "tidemark_mysql_batch_seconds";
const FAILURES: &str = "tidemark_mysql_batch_failures_total";
const CIRCUIT_OPEN: &str = "tidemark_mysql_databases_circuit_open";

/// Describes the metrics of the sinks.
pub fn describe() {
    metrics::describe_counter! { ROWS, "Rows written to MySQL, merged ones too" }
    metrics::describe_counter! { BATCHES, "Transactions of rows and resume offsets that were committed" }
    metrics::describe_histogram! { SECONDS, metrics::Unit::Seconds, "Time of one such transaction" }
    metrics::describe_counter! { FAILURES, "Transactions that failed and are repeated or rewound" }
    metrics::describe_gauge! { CIRCUIT_OPEN, "1 where contacts are written without a database: its circuit breaker is open, or it is being caught up" }
}

/// Awaits a transaction of `rows` rows, and counts them.
pub(crate) async fn measure(
    destination: &Destination,
    rows: usize,
    transaction: impl Future<Output = Result<(), StoreError>>,
) -> Result<(), StoreError> {
    let started = Instant::now();
    let outcome = transaction.await;
    let labels = [
        ("sink", destination.sink.name().to_owned()),
        ("database", destination.shard.get().to_string()),
    ];
    match outcome {
        Ok(()) => {
            counter!(ROWS, &labels).increment(rows as u64);
            counter!(BATCHES, &labels).increment(1);
            histogram!(SECONDS, &labels).record(started.elapsed());
        }
        Err(_) => counter!(FAILURES, &labels).increment(1),
    }
    outcome
}

pub(crate) fn circuit_open(shard: Shard, is_open: bool) {
    gauge!(CIRCUIT_OPEN, "database" => shard.get().to_string()).set(u8::from(is_open));
}
