//! Gathers the records of one partition into batches.

use event_log::{AssignmentGeneration, Record, RecordRef};
use schemas::{
    LogPosition, NextOffset, Partition, SourceWatermark,
    event::{Body, ReadError, UnknownRules},
};

use crate::{EventBatch, LogEvent, channels::FetchedBatch, dead_letters::Poison};

/// A batch is complete with this many events and dead letters, with this many bytes, or when there are no more records right now.
const BATCH_RECORDS: usize = 512;
const BATCH_BYTES: usize = 128 << 10;

/// The approximate memory of a record, without its bytes.
const RECORD_BYTES: usize = 128;

/// The batch of a partition that is being filled, and its position in the log.
pub(crate) struct OpenBatch {
    pub(crate) worker: usize,
    generation: AssignmentGeneration,
    /// The highest leader epoch of the records that existed when the position was checked against the log; if there were none, that of the first
    /// record.
    leader_epoch: Option<i32>,
    watermarks: SourceWatermark,
    next: NextOffset,
    events: Vec<LogEvent>,
    poison: Vec<Poison>,
    bytes: usize,
    has_moved: bool,
}

impl OpenBatch {
    pub(crate) fn new(
        worker: usize,
        generation: AssignmentGeneration,
        at: LogPosition,
        leader_epoch: Option<i32>,
    ) -> Self {
        Self {
            worker,
            generation,
            leader_epoch,
            watermarks: SourceWatermark::above(at.watermark),
            next: at.next,
            events: Vec::new(),
            poison: Vec::new(),
            bytes: 0,
            has_moved: false,
        }
    }

    /// Whether a record's leader was elected later: then the log may have been truncated.
    pub(crate) fn has_newer_leader(&mut self, record: &RecordRef<'_>) -> bool {
        record.leader_epoch > *self.leader_epoch.get_or_insert(record.leader_epoch)
    }

    pub(crate) fn leader_epoch(&self) -> Option<i32> {
        self.leader_epoch
    }

    /// Takes the next record, and returns how many bytes the batch grew by. Repeats and progress records are left out. A record that this program
    /// does not understand is not taken at all.
    pub(crate) fn take(&mut self, record: &RecordRef<'_>) -> Result<usize, UnknownRules> {
        let read = match record.event() {
            Ok(event) => Ok(event),
            Err(ReadError::Skipped(why)) => Err(why),
            Err(ReadError::UnknownRules(unknown)) => return Err(unknown),
        };
        self.has_moved = true;
        self.next = NextOffset::after(record.offset);
        let mut bytes = event_bytes(record);
        match read {
            Ok(event) => {
                if !self.watermarks.admit(event.src.offset) || event.body == Body::Progress {
                    return Ok(0);
                }
                let offset = record.offset;
                self.events.push(LogEvent { offset, event });
            }
            Err(why) => {
                let record = record.to_record();
                bytes += header_bytes(&record);
                self.poison.push(Poison { record, why });
            }
        }
        self.bytes += bytes;
        Ok(bytes)
    }

    /// Whether the batch has taken records since the last one was sent.
    pub(crate) fn has_moved(&self) -> bool {
        self.has_moved
    }

    pub(crate) fn is_full(&self) -> bool {
        self.events.len() + self.poison.len() >= BATCH_RECORDS || self.bytes >= BATCH_BYTES
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn take_batch(&mut self, partition: Partition) -> FetchedBatch {
        self.has_moved = false;
        let end = LogPosition {
            next: self.next,
            watermark: self.watermarks.highest().unwrap_or_default(),
        };
        FetchedBatch {
            generation: self.generation,
            batch: EventBatch {
                partition,
                events: std::mem::take(&mut self.events),
                end,
            },
            poison: std::mem::take(&mut self.poison),
            bytes: std::mem::take(&mut self.bytes),
        }
    }
}

fn event_bytes(record: &RecordRef<'_>) -> usize {
    let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
    RECORD_BYTES + length(record.key) + length(record.value)
}

/// Only dead letters keep their headers.
fn header_bytes(record: &Record) -> usize {
    let lengths = record.headers.iter();
    lengths
        .map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len))
        .sum()
}

#[cfg(test)]
pub(crate) mod tests {
    use schemas::{
        Mid, Ordinal, Recipient, TimestampMs,
        dead_letter::Reason,
        event::{Event, Message, Source, SourceOffset},
    };

    use super::*;

    /// A message of users 1 and 2, whose conversation is in partition 3, as the record of this offset and src.
    pub(crate) fn record(partition: i64, offset: i64, msg_bytes: usize) -> Record {
        let message = Message {
            srcid: 1.try_into().unwrap(),
            to: Recipient::User(2.try_into().unwrap()),
            client_msg_id: "c".to_owned().try_into().unwrap(),
            msg: "x".repeat(msg_bytes),
            mid: Mid::ZERO.next(),
            ordinal: Ordinal::ZERO.next(),
        };
        value(partition, offset, encode(offset, Body::Message(message)))
    }

    fn encode(src: i64, body: Body) -> Vec<u8> {
        let watermark = SourceOffset {
            epoch: 0,
            offset: src,
        };
        let event = Event {
            src: Source {
                offset: watermark,
                leader_epoch: 0,
            },
            ts: TimestampMs(1),
            body,
            command: None,
            words: None,
        };
        event.encode()
    }

    pub(crate) fn value(partition: i64, offset: i64, value: Vec<u8>) -> Record {
        Record {
            partition: partition.try_into().unwrap(),
            offset,
            timestamp: TimestampMs(1),
            leader_epoch: 0,
            key: None,
            value: Some(value),
            headers: Vec::new(),
        }
    }

    fn empty() -> OpenBatch {
        OpenBatch::new(
            0,
            AssignmentGeneration::default(),
            LogPosition::default(),
            None,
        )
    }

    /// How many records a batch takes.
    fn fill(next: impl Fn(i64) -> Record) -> i64 {
        let mut open = empty();
        (1..)
            .find(|offset| {
                open.take(&next(*offset).by_ref()).unwrap();
                open.is_full()
            })
            .unwrap()
    }

    #[test]
    fn a_slice_is_full_by_number_or_by_bytes() {
        assert_eq!(fill(|offset| record(3, offset, 1)), 512);
        assert_eq!(fill(|offset| record(3, offset, 16 << 10)), 8);
        // These are not events, but held in memory until they are dead letters.
        assert_eq!(fill(|offset| value(3, offset, b"junk".to_vec())), 512);
        assert_eq!(fill(|offset| value(3, offset, vec![0xff; 64 << 10])), 2);
    }

    #[test]
    fn repeats_and_progress_take_no_memory() {
        let mut open = empty();
        let grown = open.take(&record(3, 5, 100).by_ref()).unwrap();
        assert!(grown > 100);
        // A former owner's repeat, and progress.
        let mut repeat = record(3, 5, 100);
        repeat.offset = 6;
        assert_eq!(open.take(&repeat.by_ref()), Ok(0));
        let progress = value(3, 7, encode(9, Body::Progress));
        assert_eq!(open.take(&progress.by_ref()), Ok(0));
        assert_eq!(open.bytes(), grown);
        let fetched = open.take_batch(3_i64.try_into().unwrap());
        assert_eq!((fetched.bytes, fetched.batch.end.next.get()), (grown, 8));
        assert_eq!((open.bytes(), open.has_moved()), (0, false));
    }

    #[test]
    fn a_record_of_a_later_leader_is_noticed() {
        let of_leader = |leader_epoch| Record {
            leader_epoch,
            ..record(3, 0, 1)
        };
        let noticed = |known: Option<i32>, epochs: [i32; 3]| {
            let mut open = OpenBatch::new(
                0,
                AssignmentGeneration::default(),
                LogPosition::default(),
                known,
            );
            epochs.map(|epoch| open.has_newer_leader(&of_leader(epoch).by_ref()))
        };
        assert_eq!(noticed(Some(4), [3, 4, 5]), [false, false, true]);
        assert_eq!(noticed(None, [3, 3, 4]), [false, false, true]);
    }

    #[test]
    fn poison_has_its_reason() {
        let mut open = empty();
        for record in [value(4, 0, b"junk".to_vec()), record(4, 1, 1)] {
            open.take(&record.by_ref()).unwrap();
        }
        let fetched = open.take_batch(4_i64.try_into().unwrap());
        let reasons: Vec<Reason> = fetched
            .poison
            .iter()
            .map(|poison| poison.why.reason)
            .collect();
        assert_eq!(reasons, [Reason::Malformed, Reason::WrongPartition]);
    }
}
