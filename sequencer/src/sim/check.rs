//! Checks that the logs after a run are those that one uninterrupted owner would have written, and that the audit finds no difference in them.

use std::collections::BTreeSet;

use prost::Message as _;
use schemas::event::{Body, Event, Source, SourceOffset};

use super::{
    rng::Rng,
    shared::{Shared, highest_source_offset},
    traffic,
    uninterrupted::{audited, decisions},
};
use crate::core::{Decision, State, snapshot};

pub(crate) fn check(shared: &Shared, rng: &mut Rng) -> Result<(), String> {
    let decided = decisions(&mut State::default(), traffic::partition(), &shared.inbound);
    let expected: Vec<Event> = decided.iter().filter_map(event).cloned().collect();
    let taken = read_from(shared, 0);
    same_events(&taken, &expected)?;
    progress_is_in_line(&taken, shared)?;
    dead_letters_are_there(shared, &decided)?;
    for _ in 0..3 {
        let start = rng.below(shared.broker.log.len() + 1);
        mid_log_reader_agrees(shared, start, &expected)?;
    }
    snapshots_equal_the_fold(shared, &taken, &expected)?;
    let log = shared.broker.log.iter();
    audited(
        traffic::partition(),
        &shared.inbound,
        &shared.dead_letters,
        log.map(|record| (record.ts, record.value.clone())),
    )
}

fn event(decision: &Decision) -> Option<&Event> {
    match decision {
        Decision::Emit(event) => Some(event),
        Decision::NoOp(_) | Decision::DeadLetter(_) | Decision::Halt(_) => None,
    }
}

/// The events, with their offsets, that a reader takes by PROTOCOL S10 if it starts at an offset.
fn read_from(shared: &Shared, start: usize) -> Vec<(i64, Event)> {
    let mut highest: Option<SourceOffset> = None;
    let mut taken = Vec::new();
    for (offset, record) in shared.broker.log.iter().enumerate().skip(start) {
        let event = Event::parse(&record.value, record.ts).expect("only events are appended");
        if highest.is_none_or(|highest| event.src.offset > highest) {
            highest = Some(event.src.offset);
            taken.push((offset as i64, event));
        }
    }
    taken
}

fn is_progress(event: &Event) -> bool {
    event.body == Body::Progress
}

fn same_events(taken: &[(i64, Event)], expected: &[Event]) -> Result<(), String> {
    let mut events = taken.iter().filter(|(_, event)| !is_progress(event));
    for expected in expected {
        match events.next() {
            Some((_, event)) if event == expected => {}
            Some((offset, event)) => {
                return Err(format!(
                    "offset {offset} holds\n  {event:?}, not\n  {expected:?}"
                ));
            }
            None => return Err(format!("missing: {expected:?}")),
        }
    }
    match events.next() {
        None => Ok(()),
        Some((offset, event)) => Err(format!("offset {offset} holds {event:?}, nothing is right")),
    }
}

/// Progress events have log time and the leader epoch of their inbound record, and the log covers all inbound records.
fn progress_is_in_line(taken: &[(i64, Event)], shared: &Shared) -> Result<(), String> {
    let mut clock = 0;
    for (offset, event) in taken {
        if !is_progress(event) {
            clock = event.ts.0;
            continue;
        }
        let record = &shared.inbound[event.src.offset.offset as usize];
        if event.ts.0 != clock || event.src.leader_epoch != record.leader_epoch {
            return Err(format!(
                "progress at offset {offset} is {event:?}, the clock {clock}"
            ));
        }
    }
    let covered = highest_source_offset(&shared.broker.log);
    if covered + 1 == shared.inbound.len() as i64 {
        Ok(())
    } else {
        Err(format!("covers up to {covered} only"))
    }
}

/// The dead-letter records are exactly the refused ones, each at least once, with the right reason.
fn dead_letters_are_there(shared: &Shared, decided: &[Decision]) -> Result<(), String> {
    let found: BTreeSet<_> = shared
        .dead_letters
        .iter()
        .map(|(offset, reason)| (*offset, reason.as_str()))
        .collect();
    let expected: BTreeSet<_> = (0..)
        .zip(decided)
        .filter_map(|(offset, decision)| match decision {
            Decision::DeadLetter(refusal) => Some((offset, refusal.reason.as_str())),
            _ => None,
        })
        .collect();
    if found == expected {
        return Ok(());
    }
    Err(format!(
        "dead letters: missing {:?}, not right {:?}",
        expected.difference(&found),
        found.difference(&expected)
    ))
}

/// A reader that starts anywhere takes every event whose source is above all sources before its start. The older events that it takes are valid too.
fn mid_log_reader_agrees(shared: &Shared, start: usize, expected: &[Event]) -> Result<(), String> {
    let wrong = |wrong| format!("read from offset {start}: {wrong}");
    let before = highest_source_offset(&shared.broker.log[..start]);
    let (late, due): (Vec<_>, Vec<_>) = read_from(shared, start)
        .into_iter()
        .partition(|(_, event)| event.src.offset.offset <= before);
    let rest: Vec<Event> = expected
        .iter()
        .filter(|event| event.src.offset.offset > before)
        .cloned()
        .collect();
    same_events(&due, &rest).map_err(wrong)?;
    let invented = late
        .iter()
        .find(|(_, event)| !is_progress(event) && !expected.contains(event));
    match invented {
        None => Ok(()),
        Some((offset, event)) => Err(wrong(format!("offset {offset} holds {event:?}"))),
    }
}

/// Every snapshot is the fold up to its watermark, and a fold that continues at its offset misses no event.
fn snapshots_equal_the_fold(
    shared: &Shared,
    taken: &[(i64, Event)],
    expected: &[Event],
) -> Result<(), String> {
    for snapshot in &shared.taken {
        let src = snapshot.src.map(Source::try_from);
        let watermark = src
            .and_then(Result::ok)
            .ok_or("a snapshot without a watermark")?
            .offset;
        let mut fold = State::default();
        for event in expected
            .iter()
            .filter(|event| event.src.offset <= watermark)
        {
            fold.apply(event);
        }
        let payload = snapshot.encode_to_vec();
        let restored = snapshot::read(payload.as_slice()).map(|restored| restored.state);
        if restored.as_ref() != Ok(&fold) {
            return Err(format!(
                "the snapshot of {watermark:?} is not the fold up to there"
            ));
        }
        let missed = taken.iter().find(|(offset, event)| {
            event.src.offset > watermark && *offset < snapshot.events_offset
        });
        if let Some((offset, event)) = missed {
            return Err(format!(
                "the snapshot of {watermark:?} at {} passes over {event:?} at {offset}",
                snapshot.events_offset
            ));
        }
    }
    Ok(())
}
