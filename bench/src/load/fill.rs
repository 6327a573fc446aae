//! Appends records to `chat.inbound`, without ingest.

use anyhow::Result;
use schemas::topics::Topic;
use system_tests::TestEnv;

use super::traffic::Traffic;
use crate::raw::producer::{LINGER_MS, PlainProducer};

/// Appends `count` generated messages to `chat.inbound`.
///
/// # Errors
/// If a message is not delivered.
pub(crate) fn fill(env: &TestEnv, traffic: &Traffic, count: u64) -> Result<()> {
    let producer = PlainProducer::new(env.events.config(), Topic::Inbound, LINGER_MS)?;
    for _ in 0..count {
        producer.send_record(&traffic.next_message().record()?)?;
    }
    producer.delivered()?;
    Ok(())
}
