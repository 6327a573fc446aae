//! From where on a partition of `chat.inbound` is yet to be sequenced.

use std::ops::{ControlFlow, Range};

use event_log::{Bounds, EventLogError};
use schemas::event::Source;

use super::{
    evidence::{Agreed, Evidence, was_led_otherwise},
    logs::Logs,
};

/// The offset to be sequenced next, `last` being the highest source so far; `None` where nothing tells what of the log was sequenced.
///
/// It is behind the last that was sequenced where that is still there. Where the log lost its end, it is the first record that came
/// after the loss: nothing is sequenced twice, and what was written since is not left out.
pub(super) fn resume(
    last: Source,
    inbound: Bounds,
    logs: &impl Logs,
) -> Result<Option<i64>, EventLogError> {
    let next = last.offset.offset + 1;
    let Bounds { start, end } = inbound;
    if next <= start || start == end {
        // Nothing that is retained was sequenced.
        return Ok(Some(start));
    }
    let Evidence { agreed, differs_at } = Evidence::gather(last, inbound, logs)?;
    let goes_on = next <= end && !is_replaced(last, logs)?;
    if goes_on && differs_at.is_none() {
        return Ok(Some(next));
    }
    let Some(agreed) = agreed else {
        return Ok(None);
    };
    let limit = next.min(end).min(differs_at.unwrap_or(i64::MAX));
    first_of_later_leader(last, agreed, limit, logs).map(Some)
}

/// Whether another leader's record lies where the last was sequenced.
fn is_replaced(last: Source, logs: &impl Logs) -> Result<bool, EventLogError> {
    let offset = last.offset.offset;
    let at_last = logs.first_inbound(offset..offset + 1)?;
    Ok(at_last.is_some_and(|kept| was_led_otherwise(last, &kept)))
}

/// The first record behind the agreed one that a later leader took than any that was sequenced; `limit` where there is none. What
/// lies before it was sequenced without an event of its own: a log that loses its end gets a new leader.
fn first_of_later_leader(
    last: Source,
    agreed: Agreed,
    limit: i64,
    logs: &impl Logs,
) -> Result<i64, EventLogError> {
    let newest_leader = last.leader_epoch.max(agreed.leader_epoch);
    let behind: Range<i64> = agreed.offset + 1..limit;
    let mut first = behind.end.max(behind.start);
    logs.scan_inbound(behind, &mut |kept| {
        if kept.leader_epoch > newest_leader {
            first = kept.offset;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok(first)
}

#[cfg(test)]
mod tests {
    use schemas::{
        DeviceClass, Mid, Ordinal, TimestampMs,
        command::{Command, ReadAck, SendMessage},
        event::{Body, Event, Message, ReadPosition, SourceOffset},
    };

    use super::{super::logs::Kept, *};

    /// Both logs of a partition. The first element of `inbound` is at offset `start`.
    #[derive(Clone, Default)]
    struct Held {
        start: i64,
        inbound: Vec<Kept>,
        events: Vec<Event>,
    }

    impl Logs for Held {
        fn scan_inbound(
            &self,
            range: Range<i64>,
            visit: &mut dyn FnMut(Kept) -> ControlFlow<()>,
        ) -> Result<(), EventLogError> {
            let within = self.inbound.iter().filter(|k| range.contains(&k.offset));
            let _ = within.cloned().try_for_each(visit);
            Ok(())
        }

        fn events_held(&self) -> Result<Range<i64>, EventLogError> {
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
            srcid: 1.try_into().unwrap(),
            destid: 2.try_into().unwrap(),
            client_msg_id: id.to_owned().try_into().unwrap(),
            msg: "hello".to_owned(),
        })
    }

    fn ack() -> Command {
        Command::ReadAck(ReadAck {
            uid: 2.try_into().unwrap(),
            peer: 1.try_into().unwrap(),
            device: DeviceClass::Pc,
            mid: None,
        })
    }

    fn body(command: &Command) -> Body {
        match command.clone() {
            Command::Send(send) => Body::Message(Message {
                srcid: send.srcid,
                destid: send.destid,
                client_msg_id: send.client_msg_id,
                msg: send.msg,
                mid: Mid::ZERO.next(),
                n: Ordinal::ZERO.next(),
            }),
            Command::ReadAck(ack) => Body::ReadPosition(ReadPosition {
                uid: ack.uid,
                peer: ack.peer,
                device: ack.device,
                mid: Mid::ZERO.next(),
                n: None,
            }),
            Command::Control(_) => unreachable!("no test has one"),
        }
    }

    impl Held {
        /// Appends to `chat.inbound` under a leader; the time is 10 times the record's number.
        fn accept(&mut self, leader_epoch: i32, command: &Command) -> i64 {
            let offset = self.start + self.inbound.len() as i64;
            self.accept_at(leader_epoch, offset * 10, command)
        }

        fn accept_at(&mut self, leader_epoch: i32, appended: i64, command: &Command) -> i64 {
            let offset = self.start + self.inbound.len() as i64;
            self.inbound.push(Kept {
                offset,
                leader_epoch,
                appended: TimestampMs(appended),
                command: Some(command.clone()),
            });
            offset
        }

        /// Sequences the record at an offset, with an event of its own or without.
        fn sequence(&mut self, epoch: u32, offset: i64, is_silent: bool) {
            let kept = self.inbound[(offset - self.start) as usize].clone();
            let body = match &kept.command {
                Some(command) if !is_silent => body(command),
                _ => Body::Progress,
            };
            let leader_epoch = kept.leader_epoch;
            self.tell(epoch, offset, leader_epoch, kept.appended, body);
        }

        fn tell(&mut self, epoch: u32, offset: i64, leader: i32, ts: TimestampMs, body: Body) {
            let watermark = SourceOffset { epoch, offset };
            let leader_epoch = leader;
            let src = Source {
                offset: watermark,
                leader_epoch,
            };
            self.events.push(Event { src, ts, body });
        }

        /// The newest records are gone.
        fn lose_from(&mut self, offset: i64) {
            self.inbound.truncate((offset - self.start) as usize);
        }

        /// The oldest are.
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
            let bounds = Bounds {
                start: self.start,
                end: self.start + self.inbound.len() as i64,
            };
            resume(last, bounds, self).unwrap()
        }
    }

    /// Six sends by the leader of epoch 7, all sequenced.
    fn six() -> Held {
        let mut held = Held::default();
        for id in ["0", "1", "2", "3", "4", "5"] {
            let offset = held.accept(7, &send(id));
            held.sequence(0, offset, false);
        }
        held
    }

    #[test]
    fn a_log_that_went_on_is_sequenced_behind_what_was() {
        let mut held = six();
        assert_eq!(held.resumed(), Some(6));
        held.accept(8, &send("6"));
        assert_eq!(held.resumed(), Some(6));
        // A raise says the same again, and may know no leader.
        held.tell(1, 5, -1, TimestampMs(50), Body::Progress);
        assert_eq!(held.resumed(), Some(6));
    }

    #[test]
    fn a_log_that_lost_its_end_is_not_sequenced_again() {
        let mut held = six();
        held.lose_from(4);
        assert_eq!(held.resumed(), Some(4));
        // What comes instead is new, be it less or more than what was lost.
        held.accept(8, &send("new"));
        assert_eq!(held.resumed(), Some(4));
        for id in ["newer", "and newer", "newest"] {
            held.accept(8, &send(id));
        }
        assert_eq!(held.resumed(), Some(4));
    }

    #[test]
    fn what_was_sequenced_without_an_event_is_not_sequenced_again() {
        let mut held = six();
        let silent = held.accept(7, &ack());
        held.sequence(0, silent, true);
        let lost = held.accept(7, &send("lost"));
        held.sequence(0, lost, false);
        held.lose_from(lost);
        assert_eq!(held.resumed(), Some(lost));
        held.accept(8, &ack());
        assert_eq!(held.resumed(), Some(lost));
    }

    #[test]
    fn what_came_instead_of_silent_records_is_sequenced() {
        let mut held = six();
        for _ in 0..2 {
            let silent = held.accept(7, &ack());
            held.sequence(0, silent, true);
        }
        held.lose_from(7);
        for _ in 0..3 {
            held.accept(8, &ack());
        }
        assert_eq!(held.resumed(), Some(7));
    }

    #[test]
    fn a_second_loss_is_told_by_the_events_of_the_epoch_before() {
        let mut held = six();
        held.lose_from(4);
        held.tell(1, 3, 7, TimestampMs(50), Body::Progress);
        held.lose_from(3);
        assert_eq!(held.resumed(), Some(3));
        held.accept(8, &send("new"));
        held.sequence(1, 3, false);
        assert_eq!(held.resumed(), Some(4));
    }

    #[test]
    fn repeats_of_a_former_owner_tell_nothing_new() {
        let mut held = six();
        let repeats = held.events[1..4].to_vec();
        held.events.extend(repeats);
        assert_eq!(held.resumed(), Some(6));
        held.lose_from(5);
        assert_eq!(held.resumed(), Some(5));
    }

    #[test]
    fn many_events_without_a_record_are_looked_past() {
        let mut held = six();
        for offset in 6..10_000 {
            held.tell(0, offset, 7, TimestampMs(60), body(&send("lost")));
        }
        assert_eq!(held.resumed(), Some(6));
    }

    #[test]
    fn another_log_is_not_taken_for_the_one_that_was_sequenced() {
        let mut sequenced = six();
        sequenced.inbound.clear();
        assert_eq!(sequenced.resumed(), Some(0), "there is nothing to repeat");
        let shorter = {
            let mut held = sequenced.clone();
            held.accept_at(0, 100, &send("other"));
            held
        };
        assert_eq!(shorter.resumed(), None);
        let mut same_leader = sequenced.clone();
        for id in ["6", "7", "8", "9", "10", "11", "12"] {
            same_leader.accept_at(7, 100, &send(id));
        }
        assert_eq!(same_leader.resumed(), None);
        // Producers sent the same once more.
        let mut sent_again = sequenced.clone();
        for id in ["0", "1", "2"] {
            sent_again.accept_at(7, 100, &send(id));
        }
        assert_eq!(sent_again.resumed(), None);
    }

    #[test]
    fn what_was_deleted_unread_is_left_out() {
        let mut held = six();
        for id in ["6", "7", "8"] {
            held.accept(7, &send(id));
        }
        held.retain_from(7);
        assert_eq!(held.resumed(), Some(7));
        held.retain_from(9);
        assert_eq!(held.resumed(), Some(9));
    }

    #[test]
    fn a_partition_without_events_is_sequenced_from_its_beginning() {
        let mut held = Held::default();
        held.accept(7, &send("0"));
        held.accept(7, &send("1"));
        assert_eq!(held.resumed(), Some(0));
        held.retain_from(1);
        assert_eq!(held.resumed(), Some(1));
    }

    /// The sequencer would not halt either.
    #[test]
    fn without_an_event_that_could_speak_the_leader_decides() {
        let mut held = Held::default();
        let silent = held.accept(7, &ack());
        held.sequence(0, silent, true);
        held.accept(7, &send("next"));
        assert_eq!(held.resumed(), Some(1));
        held.inbound[0].leader_epoch = 8;
        assert_eq!(held.resumed(), None);
    }
}
