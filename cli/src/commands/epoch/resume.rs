//! Finds the first record of a partition of `chat.inbound` that is not sequenced.

use std::ops::{ControlFlow, Range};

use event_log::EventLogError;
use schemas::{OffsetRange, event::Source};

use super::{
    comparison::{LogComparison, MatchedRecord, has_other_leader},
    logs::Logs,
};

/// The offset to sequence next, if `last` is the highest source so far; `None` if the logs do not show what was sequenced.
///
/// If the last sequenced record still exists, the result is the next offset. If the log lost its end, it is the first record appended after the loss:
/// then nothing is sequenced twice, and nothing appended since is left out.
pub(super) fn resume(
    last: Source,
    inbound: OffsetRange,
    logs: &impl Logs,
) -> Result<Option<i64>, EventLogError> {
    let next = last.offset.offset + 1;
    let OffsetRange { start, end } = inbound;
    if next <= start || start == end {
        // No retained record was sequenced.
        return Ok(Some(start));
    }
    let LogComparison {
        newest_match,
        lowest_mismatch,
    } = LogComparison::read(last, inbound, logs)?;
    let goes_on = next <= end && !is_replaced(last, logs)?;
    if goes_on && lowest_mismatch.is_none() {
        return Ok(Some(next));
    }
    let Some(newest_match) = newest_match else {
        return Ok(None);
    };
    let limit = next.min(end).min(lowest_mismatch.unwrap_or(i64::MAX));
    first_of_later_leader(last, newest_match, limit, logs).map(Some)
}

/// Whether the record at the last sequenced offset has another leader.
fn is_replaced(last: Source, logs: &impl Logs) -> Result<bool, EventLogError> {
    let offset = last.offset.offset;
    let at_last = logs.first_inbound(offset..offset + 1)?;
    Ok(at_last.is_some_and(|record| has_other_leader(last, &record)))
}

/// The first record after the match whose leader is later than every sequenced record's; `limit` if there is none. The records before it
/// were sequenced as no-ops: a log that loses its end gets a new leader.
fn first_of_later_leader(
    last: Source,
    newest_match: MatchedRecord,
    limit: i64,
    logs: &impl Logs,
) -> Result<i64, EventLogError> {
    let newest_leader = last.leader_epoch.max(newest_match.leader_epoch);
    let behind: Range<i64> = newest_match.offset + 1..limit;
    let mut first = behind.end.max(behind.start);
    logs.scan_inbound(behind, &mut |record| {
        if record.leader_epoch > newest_leader {
            first = record.offset;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok(first)
}

#[cfg(test)]
mod tests {
    use schemas::{
        Change, ChangeContact, ChangeMessage, ChangeSeq, ContactChange, ContactFlags, DeviceClass,
        MessageChange, Mid, Ordinal, Recipient, TimestampMs,
        command::{Command, ReadAck, SendMessage},
        event::{Body, Event, Message, ReadPosition, SourceOffset},
    };

    use super::{super::logs::InboundRecord, *};

    /// Both logs of a partition in memory. The first element of `inbound` is at offset `start`.
    #[derive(Clone, Default)]
    struct FakeLogs {
        start: i64,
        inbound: Vec<InboundRecord>,
        events: Vec<Event>,
    }

    impl Logs for FakeLogs {
        fn scan_inbound(
            &self,
            range: Range<i64>,
            visit: &mut dyn FnMut(InboundRecord) -> ControlFlow<()>,
        ) -> Result<(), EventLogError> {
            let within = self.inbound.iter().filter(|k| range.contains(&k.offset));
            let _ = within.cloned().try_for_each(visit);
            Ok(())
        }

        fn events_range(&self) -> Result<Range<i64>, EventLogError> {
            Ok(0..self.events.len() as i64)
        }

        fn events_since(&self, ts: TimestampMs) -> Result<i64, EventLogError> {
            let since = self.events.iter().position(|event| event.ts >= ts);
            Ok(since.unwrap_or(self.events.len()) as i64)
        }

        fn events(&self, range: Range<i64>) -> Result<Vec<Event>, EventLogError> {
            Ok(self.events[range.start as usize..range.end as usize].to_vec())
        }
    }

    fn send(id: &str) -> Command {
        Command::Send(SendMessage {
            by_user: false,
            srcid: 1.try_into().unwrap(),
            to: Recipient::User(2.try_into().unwrap()),
            client_msg_id: id.to_owned().try_into().unwrap(),
            msg: "hello".to_owned(),
        })
    }

    fn ack() -> Command {
        Command::ReadAck(ReadAck {
            uid: 2.try_into().unwrap(),
            to: Recipient::User(1.try_into().unwrap()),
            device: DeviceClass::Pc,
            mid: None,
        })
    }

    fn edit(msg: &str) -> Command {
        Command::ChangeMessage(ChangeMessage {
            by: 1.try_into().unwrap(),
            to: Recipient::User(2.try_into().unwrap()),
            mid: Mid::ZERO.next(),
            change: Change::Edit(msg.to_owned()),
        })
    }

    fn mute(muted: bool) -> Command {
        Command::ChangeContact(ChangeContact {
            uid: 1.try_into().unwrap(),
            peer: 2.try_into().unwrap(),
            favourite: None,
            pinned: None,
            muted: Some(muted),
            blocked: None,
            deleted: false,
            by_user: true,
        })
    }

    fn body(command: &Command) -> Body {
        match command.clone() {
            Command::Send(send) => Body::Message(Message {
                srcid: send.srcid,
                to: send.to,
                client_msg_id: send.client_msg_id,
                msg: send.msg,
                mid: Mid::ZERO.next(),
                ordinal: Ordinal::ZERO.next(),
            }),
            Command::ReadAck(ack) => Body::ReadPosition(ReadPosition {
                uid: ack.uid,
                to: ack.to,
                device: ack.device,
                mid: Mid::ZERO.next(),
                ordinal: None,
            }),
            Command::ChangeMessage(change) => Body::MessageChange(MessageChange {
                by: change.by,
                to: change.to,
                mid: change.mid,
                change: change.change,
                change_seq: ChangeSeq::ZERO.next(),
                ordinal: None,
            }),
            Command::ChangeContact(change) => Body::ContactChange(ContactChange {
                uid: change.uid,
                peer: change.peer,
                flags: change.applied_to(ContactFlags::default()),
                deleted: None,
            }),
            Command::Control(_) | Command::ChangeGroup(_) | Command::SetProfile(_) => {
                unreachable!("no test has one")
            }
        }
    }

    impl FakeLogs {
        /// Appends to `chat.inbound` under a leader; the time is 10 times the record's offset.
        fn accept(&mut self, leader_epoch: i32, command: &Command) -> i64 {
            let offset = self.start + self.inbound.len() as i64;
            self.accept_at(leader_epoch, offset * 10, command)
        }

        fn accept_at(&mut self, leader_epoch: i32, appended: i64, command: &Command) -> i64 {
            let offset = self.start + self.inbound.len() as i64;
            self.inbound.push(InboundRecord {
                offset,
                leader_epoch,
                appended: TimestampMs(appended),
                command: Some(command.clone()),
                id: String::new(),
            });
            offset
        }

        /// Sequences the record at an offset, as an event or as a no-op.
        fn sequence(&mut self, epoch: u32, offset: i64, is_no_op: bool) {
            let record = self.inbound[(offset - self.start) as usize].clone();
            let body = match &record.command {
                Some(command) if !is_no_op => body(command),
                _ => Body::Progress,
            };
            let leader_epoch = record.leader_epoch;
            self.append_event(epoch, offset, leader_epoch, record.appended, body);
        }

        fn append_event(
            &mut self,
            epoch: u32,
            offset: i64,
            leader: i32,
            ts: TimestampMs,
            body: Body,
        ) {
            let watermark = SourceOffset { epoch, offset };
            let leader_epoch = leader;
            let src = Source {
                offset: watermark,
                leader_epoch,
            };
            self.events.push(Event {
                src,
                ts,
                body,
                command: None,
                words: None,
            });
        }

        /// Removes the newest records.
        fn lose_from(&mut self, offset: i64) {
            self.inbound.truncate((offset - self.start) as usize);
        }

        /// Removes the oldest records.
        fn retain_from(&mut self, offset: i64) {
            self.inbound.drain(..(offset - self.start) as usize);
            self.start = offset;
        }

        fn resumed(&self) -> Option<i64> {
            let last = self.events.iter().map(|event| event.src);
            let last = last.max_by_key(|src| src.offset).unwrap_or(Source {
                offset: SourceOffset::START,
                leader_epoch: -1,
            });
            let bounds = OffsetRange {
                start: self.start,
                end: self.start + self.inbound.len() as i64,
            };
            resume(last, bounds, self).unwrap()
        }
    }

    /// Six sends by the leader of epoch 7, all sequenced.
    fn six() -> FakeLogs {
        let mut logs = FakeLogs::default();
        for id in ["0", "1", "2", "3", "4", "5"] {
            let offset = logs.accept(7, &send(id));
            logs.sequence(0, offset, false);
        }
        logs
    }

    #[test]
    fn a_log_that_grew_is_sequenced_after_the_last_sequenced_record() {
        let mut logs = six();
        assert_eq!(logs.resumed(), Some(6));
        logs.accept(8, &send("6"));
        assert_eq!(logs.resumed(), Some(6));
        // A raise repeats the source, perhaps without the leader epoch.
        logs.append_event(1, 5, -1, TimestampMs(50), Body::Progress);
        assert_eq!(logs.resumed(), Some(6));
    }

    #[test]
    fn a_log_that_lost_its_end_is_not_sequenced_again() {
        let mut logs = six();
        logs.lose_from(4);
        assert_eq!(logs.resumed(), Some(4));
        // Records appended in place of the lost ones are new, whether they are fewer or more.
        logs.accept(8, &send("new"));
        assert_eq!(logs.resumed(), Some(4));
        for id in ["newer", "and newer", "newest"] {
            logs.accept(8, &send(id));
        }
        assert_eq!(logs.resumed(), Some(4));
    }

    #[test]
    fn no_ops_are_not_sequenced_again() {
        let mut logs = six();
        let no_op = logs.accept(7, &ack());
        logs.sequence(0, no_op, true);
        let lost = logs.accept(7, &send("lost"));
        logs.sequence(0, lost, false);
        logs.lose_from(lost);
        assert_eq!(logs.resumed(), Some(lost));
        logs.accept(8, &ack());
        assert_eq!(logs.resumed(), Some(lost));
    }

    #[test]
    fn records_that_replaced_no_ops_are_sequenced() {
        let mut logs = six();
        for _ in 0..2 {
            let no_op = logs.accept(7, &ack());
            logs.sequence(0, no_op, true);
        }
        logs.lose_from(7);
        for _ in 0..3 {
            logs.accept(8, &ack());
        }
        assert_eq!(logs.resumed(), Some(7));
    }

    #[test]
    fn a_second_loss_is_recognised_by_events_of_the_previous_epoch() {
        let mut logs = six();
        logs.lose_from(4);
        logs.append_event(1, 3, 7, TimestampMs(50), Body::Progress);
        logs.lose_from(3);
        assert_eq!(logs.resumed(), Some(3));
        logs.accept(8, &send("new"));
        logs.sequence(1, 3, false);
        assert_eq!(logs.resumed(), Some(4));
    }

    #[test]
    fn repeats_of_a_former_owner_change_nothing() {
        let mut logs = six();
        let repeats = logs.events[1..4].to_vec();
        logs.events.extend(repeats);
        assert_eq!(logs.resumed(), Some(6));
        logs.lose_from(5);
        assert_eq!(logs.resumed(), Some(5));
    }

    #[test]
    fn events_without_a_retained_record_are_skipped() {
        let mut logs = six();
        for offset in 6..10_000 {
            logs.append_event(0, offset, 7, TimestampMs(60), body(&send("lost")));
        }
        assert_eq!(logs.resumed(), Some(6));
    }

    #[test]
    fn another_log_is_not_mistaken_for_the_sequenced_one() {
        let mut sequenced = six();
        sequenced.inbound.clear();
        assert_eq!(sequenced.resumed(), Some(0), "there is nothing to repeat");
        let shorter = {
            let mut logs = sequenced.clone();
            logs.accept_at(0, 100, &send("other"));
            logs
        };
        assert_eq!(shorter.resumed(), None);
        let mut same_leader = sequenced.clone();
        for id in ["6", "7", "8", "9", "10", "11", "12"] {
            same_leader.accept_at(7, 100, &send(id));
        }
        assert_eq!(same_leader.resumed(), None);
        // Producers have sent the same messages again.
        let mut sent_again = sequenced.clone();
        for id in ["0", "1", "2"] {
            sent_again.accept_at(7, 100, &send(id));
        }
        assert_eq!(sent_again.resumed(), None);
    }

    #[test]
    fn records_deleted_before_they_were_read_are_skipped() {
        let mut logs = six();
        for id in ["6", "7", "8"] {
            logs.accept(7, &send(id));
        }
        logs.retain_from(7);
        assert_eq!(logs.resumed(), Some(7));
        logs.retain_from(9);
        assert_eq!(logs.resumed(), Some(9));
    }

    #[test]
    fn a_partition_without_events_is_sequenced_from_its_start() {
        let mut logs = FakeLogs::default();
        logs.accept(7, &send("0"));
        logs.accept(7, &send("1"));
        assert_eq!(logs.resumed(), Some(0));
        logs.retain_from(1);
        assert_eq!(logs.resumed(), Some(1));
    }

    /// The sequencer would not halt in this case either.
    #[test]
    fn without_an_event_for_a_retained_record_the_leader_epoch_decides() {
        let mut logs = FakeLogs::default();
        let no_op = logs.accept(7, &ack());
        logs.sequence(0, no_op, true);
        logs.accept(7, &send("next"));
        assert_eq!(logs.resumed(), Some(1));
        logs.inbound[0].leader_epoch = 8;
        assert_eq!(logs.resumed(), None);
    }

    #[test]
    fn changes_are_compared_as_messages_are() {
        for (sequenced, another) in [(edit("one"), edit("two")), (mute(true), mute(false))] {
            let mut logs = six();
            let offset = logs.accept(7, &sequenced);
            logs.sequence(0, offset, false);
            logs.accept(8, &send("next"));
            assert_eq!(logs.resumed(), Some(7));
            logs.inbound[offset as usize].command = Some(another);
            assert_eq!(logs.resumed(), Some(6), "another one is in its place");
        }
    }
}
