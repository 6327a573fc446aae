//! The audit of logs that are in memory: for simulations of a partition's owners, which have no Kafka.

use event_log::Record;
use schemas::{Partition, dead_letter::Reason, topics::Topic};

use super::{FoldedPartition, PartitionFold, PartitionInput, Records};
use crate::{AuditError, Finding, Scope, dead_letters::OfPartition};

/// What is wrong with the logs of one partition: `inbound` from offset 0 on, each record with `reasons` if it was refused, and `events` from offset 0
/// on. It is what an audit of everything says of `chat.inbound` and `chat.events`.
///
/// # Errors
///
/// [`AuditError::UnknownRules`] if an event sets rules that this version does not know.
pub fn differences_in_logs(
    partition: Partition,
    inbound: &[Record],
    reasons: &[(i64, Reason)],
    events: &[Record],
) -> Result<Vec<Finding>, AuditError> {
    let mut refused = OfPartition::default();
    for (offset, reason) in reasons {
        if let Some(record) = inbound.iter().find(|record| record.offset == *offset) {
            refused.refuse(record, *reason);
        }
    }
    let input = PartitionInput {
        partition,
        scope: Scope::All,
        events_topic: Topic::Events.name().to_owned(),
        inbound_topic: Topic::Inbound.name().to_owned(),
        events_start: 0,
        inbound: 0..inbound.len() as i64,
        dead_lettered_inbound: refused,
        dead_lettered_events: OfPartition::default(),
        examples: usize::MAX,
    };
    let FoldedPartition {
        events, inbound, ..
    } = fold(&input, inbound, events)?;
    Ok([events.examples, inbound.examples].concat())
}

pub(super) fn fold(
    input: &PartitionInput,
    inbound: &[Record],
    events: &[Record],
) -> Result<FoldedPartition, AuditError> {
    let inbound = inbound.to_vec();
    let open = || Box::new(inbound.clone().into_iter().map(Ok)) as Records;
    PartitionFold::new(input, &open).run(events.iter().cloned().map(Ok))
}
