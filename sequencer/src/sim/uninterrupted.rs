//! What one owner that is never interrupted writes, and the audit's verdict on it.

use event_log::Record;
use schemas::{
    Partition, TimestampMs,
    dead_letter::Reason,
    event::{Source, SourceOffset},
};

use crate::{
    core::{Decision, Inbound, State, step},
    shell::{InboundRecord, InboundView as _},
};

/// The decision on a record of epoch 0.
pub(crate) fn decide(state: &State, partition: Partition, record: &InboundRecord) -> Decision {
    let src = Source {
        offset: SourceOffset {
            epoch: 0,
            offset: record.offset,
        },
        leader_epoch: record.leader_epoch,
    };
    let inbound = Inbound {
        src,
        ts: record.ts,
        value: record.value(),
    };
    step(state, partition, &inbound)
}

/// The decisions on all records of a log. `state` is left as after the last one.
pub(crate) fn decisions(
    state: &mut State,
    partition: Partition,
    inbound: &[InboundRecord],
) -> Vec<Decision> {
    let mut decided = Vec::with_capacity(inbound.len());
    for record in inbound {
        let decision = decide(state, partition, record);
        if let Decision::Emit(event) = &decision {
            state.apply(event);
        }
        decided.push(decision);
    }
    decided
}

/// An error if the audit finds a difference between `inbound`, the reasons for which records of it were refused, and the events.
pub(crate) fn audited(
    partition: Partition,
    inbound: &[InboundRecord],
    refused: &[(i64, Reason)],
    events: impl Iterator<Item = (TimestampMs, Vec<u8>)>,
) -> Result<(), String> {
    let record = |offset, timestamp, leader_epoch, value| Record {
        partition,
        offset,
        timestamp,
        leader_epoch,
        key: None,
        value,
        headers: Vec::new(),
    };
    let inbound: Vec<Record> = inbound
        .iter()
        .map(|one| {
            record(
                one.offset,
                one.ts,
                one.leader_epoch,
                Some(one.value().to_vec()),
            )
        })
        .collect();
    let events: Vec<Record> = (0..)
        .zip(events)
        .map(|(offset, (ts, value))| record(offset, ts, 0, Some(value)))
        .collect();
    let found = audit::differences_in_logs(partition, &inbound, refused, &events)
        .map_err(|error| error.to_string())?;
    match found.first() {
        None => Ok(()),
        Some(first) => Err(format!(
            "the audit finds {} differences, first {first}",
            found.len()
        )),
    }
}
