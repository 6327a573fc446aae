//! One partition on its way from records to slices.

use event_log::{Record, RecordRef};
use schemas::{LogPosition, NextOffset, Partition, SourceWatermark, event::Body};

use crate::{
    LogEvent, Slice,
    dead_letters::Poison,
    fetch::{Feed, Run},
};

/// A slice is handed over when it holds this many events and dead letters, or this much, or when nothing more is at hand.
const SLICE_RECORDS: usize = 512;
const SLICE_BYTES: usize = 128 << 10;

/// What a record weighs in memory beside its bytes, about.
const RECORD_BYTES: usize = 128;

/// The open slice of a partition, and where it is in the log.
pub(crate) struct Reading {
    pub(crate) lane: usize,
    run: Run,
    /// The highest leader epoch of records that were there when the position was compared with the log; the first record's where
    /// there were none.
    leader_epoch: Option<i32>,
    watermarks: SourceWatermark,
    next: NextOffset,
    events: Vec<LogEvent>,
    poison: Vec<Poison>,
    bytes: usize,
    moved: bool,
}

impl Reading {
    pub(crate) fn new(lane: usize, run: Run, at: LogPosition, leader_epoch: Option<i32>) -> Self {
        Self {
            lane,
            run,
            leader_epoch,
            watermarks: SourceWatermark::above(at.watermark),
            next: at.next,
            events: Vec::new(),
            poison: Vec::new(),
            bytes: 0,
            moved: false,
        }
    }

    /// Whether a record is of a leader that was elected since: what was read before it need not be on the log any more.
    pub(crate) fn doubts(&mut self, record: &RecordRef<'_>) -> bool {
        record.leader_epoch > *self.leader_epoch.get_or_insert(record.leader_epoch)
    }

    /// The leaders up to this epoch had been elected.
    pub(crate) fn leader_epoch(&self) -> Option<i32> {
        self.leader_epoch
    }

    /// Takes the next record; how many bytes the slice has grown by. Repeats and progress are not kept.
    pub(crate) fn take(&mut self, record: &RecordRef<'_>) -> usize {
        self.moved = true;
        self.next = NextOffset::after(record.offset);
        let mut weight = weight_of_event(record);
        match record.event() {
            Ok(event) => {
                if !self.watermarks.admit(event.src.offset) || event.body == Body::Progress {
                    return 0;
                }
                let offset = record.offset;
                self.events.push(LogEvent { offset, event });
            }
            Err(why) => {
                let record = record.to_record();
                weight += weight_of_headers(&record);
                self.poison.push(Poison { record, why });
            }
        }
        self.bytes += weight;
        weight
    }

    /// Whether it has come any further since the last slice.
    pub(crate) fn has_moved(&self) -> bool {
        self.moved
    }

    pub(crate) fn is_full(&self) -> bool {
        self.events.len() + self.poison.len() >= SLICE_RECORDS || self.bytes >= SLICE_BYTES
    }

    /// What the open slice weighs.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn cut(&mut self, partition: Partition) -> Feed {
        self.moved = false;
        let behind = LogPosition {
            next: self.next,
            watermark: self.watermarks.highest().unwrap_or_default(),
        };
        Feed {
            run: self.run,
            slice: Slice {
                partition,
                events: std::mem::take(&mut self.events),
                behind,
            },
            poison: std::mem::take(&mut self.poison),
            bytes: std::mem::take(&mut self.bytes),
        }
    }
}

fn weight_of_event(record: &RecordRef<'_>) -> usize {
    let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
    RECORD_BYTES + length(record.key) + length(record.value)
}

/// Only dead letters keep them.
fn weight_of_headers(record: &Record) -> usize {
    let lengths = record.headers.iter();
    lengths
        .map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len))
        .sum()
}

#[cfg(test)]
pub(crate) mod tests {
    use schemas::{
        Mid, Ordinal, TimestampMs,
        dead_letter::Reason,
        event::{Event, Message, Source, SourceOffset},
    };

    use super::*;

    /// A message of users 1 and 2, whose conversation is in partition 3, as the record of this offset and src.
    pub(crate) fn record(partition: i64, offset: i64, msg_bytes: usize) -> Record {
        let message = Message {
            srcid: 1.try_into().unwrap(),
            destid: 2.try_into().unwrap(),
            client_msg_id: "c".to_owned().try_into().unwrap(),
            msg: "x".repeat(msg_bytes),
            mid: Mid::ZERO.next(),
            n: Ordinal::ZERO.next(),
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

    fn reading() -> Reading {
        Reading::new(0, 1, LogPosition::default(), None)
    }

    /// How many records a slice takes.
    fn fill(next: impl Fn(i64) -> Record) -> i64 {
        let mut reading = reading();
        (1..)
            .find(|offset| {
                reading.take(&next(*offset).by_ref());
                reading.is_full()
            })
            .unwrap()
    }

    #[test]
    fn a_slice_is_full_by_number_or_by_bytes() {
        assert_eq!(fill(|offset| record(3, offset, 1)), 512);
        assert_eq!(fill(|offset| record(3, offset, 16 << 10)), 8);
        // No events, but held in memory until they are dead letters.
        assert_eq!(fill(|offset| value(3, offset, b"junk".to_vec())), 512);
        assert_eq!(fill(|offset| value(3, offset, vec![0xff; 64 << 10])), 2);
    }

    #[test]
    fn what_is_not_kept_weighs_nothing() {
        let mut reading = reading();
        let grown = reading.take(&record(3, 5, 100).by_ref());
        assert!(grown > 100);
        // A former owner's repeat, and progress.
        let mut repeat = record(3, 5, 100);
        repeat.offset = 6;
        assert_eq!(reading.take(&repeat.by_ref()), 0);
        let progress = value(3, 7, encode(9, Body::Progress));
        assert_eq!(reading.take(&progress.by_ref()), 0);
        assert_eq!(reading.bytes(), grown);
        let feed = reading.cut(3_i64.try_into().unwrap());
        assert_eq!((feed.bytes, feed.slice.behind.next.get()), (grown, 8));
        assert_eq!((reading.bytes(), reading.has_moved()), (0, false));
    }

    #[test]
    fn a_later_leader_raises_doubts() {
        let of_leader = |leader_epoch| Record {
            leader_epoch,
            ..record(3, 0, 1)
        };
        let doubts = |known: Option<i32>, epochs: [i32; 3]| {
            let mut reading = Reading::new(0, 1, LogPosition::default(), known);
            epochs.map(|epoch| reading.doubts(&of_leader(epoch).by_ref()))
        };
        assert_eq!(doubts(Some(4), [3, 4, 5]), [false, false, true]);
        assert_eq!(doubts(None, [3, 3, 4]), [false, false, true]);
    }

    #[test]
    fn poison_says_what_is_wrong_with_it() {
        let mut reading = reading();
        reading.take(&value(4, 0, b"junk".to_vec()).by_ref());
        reading.take(&record(4, 1, 1).by_ref());
        let feed = reading.cut(4_i64.try_into().unwrap());
        let reasons: Vec<Reason> = feed.poison.iter().map(|poison| poison.why.reason).collect();
        assert_eq!(reasons, [Reason::Malformed, Reason::WrongPartition]);
    }
}
