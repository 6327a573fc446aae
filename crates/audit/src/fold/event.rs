use event_log::Record;
use schemas::{Partition, event::Event};

/// The event of a record of `chat.events`, or why readers pass over the record, its mark too.
pub(super) fn event_of(record: &Record) -> Result<Event, String> {
    let event = Event::parse(record.bytes(), record.timestamp)
        .map_err(|malformed| format!("no event ({malformed})"))?;
    match event.conversation().map(Partition::of) {
        Some(right) if right != record.partition => {
            Err(format!("its conversation belongs to partition {right}"))
        }
        _ => Ok(event),
    }
}
