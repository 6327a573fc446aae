use std::{
    collections::{BTreeSet, HashMap},
    iter::Peekable,
    ops::Range,
};

use event_log::{KafkaFault, Record, RisingMarks};
use schemas::{
    ConversationId, Partition, TimestampMs,
    command::Command,
    event::{Body, Event, Message, Rules, SrcMark},
};

use super::{
    conversation::Conversation,
    inbound::{self, Before, Silence, conversation_of, message_key, mismatch},
    memory::{Memory, Remembered},
    message_digest,
};
use crate::{Area, Check, Finding, InboundAccount, Kind, Scope};

/// Records of one partition, in order.
pub(crate) type Records = Box<dyn Iterator<Item = Result<Record, KafkaFault>> + Send>;

/// What a partition's fold has to know beside its events.
pub(crate) struct PartitionInput {
    pub(crate) partition: Partition,
    pub(crate) scope: Scope,
    /// The names of `chat.events` and `chat.inbound`.
    pub(crate) events_topic: String,
    pub(crate) inbound_topic: String,
    /// Where `chat.events` begins; above 0 retention has cut it.
    pub(crate) events_start: i64,
    /// What of `chat.inbound` is retained and looked at.
    pub(crate) inbound: Range<i64>,
    /// Offsets of `chat.inbound` and of `chat.events` that are in the dead letters.
    pub(crate) refused: BTreeSet<i64>,
    pub(crate) buried: BTreeSet<i64>,
    pub(crate) examples: usize,
}

/// A partition, folded.
pub(crate) struct FoldedPartition {
    pub(crate) conversations: HashMap<ConversationId, Conversation>,
    /// Offset and digest of every message in scope, ascending.
    pub(crate) messages: Vec<(i64, u64)>,
    pub(crate) marks: RisingMarks,
    pub(crate) events: Check,
    pub(crate) inbound: Check,
    pub(crate) account: InboundAccount,
    pub(crate) repeated: u64,
}

/// The fold of one partition of `chat.events`, with its inbound records beside it.
pub(crate) struct PartitionFold<'a> {
    input: &'a PartitionInput,
    /// Begins to read `chat.inbound` anew: an epoch that rises makes what was matched before it void.
    open_inbound: &'a dyn Fn() -> Records,
    records: Peekable<Records>,
    /// One above the last inbound record that was looked at.
    next_inbound: i64,
    clock: i64,
    rules: Rules,
    memory: Memory,
    folded: FoldedPartition,
}

impl<'a> PartitionFold<'a> {
    pub(crate) fn new(input: &'a PartitionInput, open_inbound: &'a dyn Fn() -> Records) -> Self {
        Self {
            input,
            open_inbound,
            records: open_inbound().peekable(),
            next_inbound: 0,
            clock: 0,
            rules: Rules::VERSION_1,
            memory: Memory::default(),
            folded: FoldedPartition {
                conversations: HashMap::new(),
                messages: Vec::new(),
                marks: if input.events_start == 0 {
                    RisingMarks::above(SrcMark::START)
                } else {
                    RisingMarks::from_anywhere()
                },
                events: Check::new(Area::Events, input.examples),
                inbound: Check::new(Area::Inbound, input.examples),
                account: InboundAccount::default(),
                repeated: 0,
            },
        }
    }

    /// Folds `events`, from where `chat.events` begins.
    pub(crate) fn run(
        mut self,
        events: impl Iterator<Item = Result<Record, KafkaFault>>,
    ) -> Result<FoldedPartition, KafkaFault> {
        for record in events {
            self.event(&record?)?;
        }
        self.count_pending();
        Ok(self.folded)
    }

    fn is_whole(&self) -> bool {
        self.input.events_start == 0
    }

    fn event(&mut self, record: &Record) -> Result<(), KafkaFault> {
        self.folded.events.compared += 1;
        let event = match record.event() {
            Ok(event) => event,
            Err(wrong) => {
                if !self.input.buried.contains(&record.offset) {
                    let what = format!("{wrong}, and not in the dead letters");
                    self.note_event(record.offset, Kind::Different, what);
                }
                return Ok(());
            }
        };
        let mark = event.src.mark;
        let epoch_before = self.folded.marks.highest().map(|highest| highest.epoch);
        if !self.folded.marks.admit(mark) {
            self.folded.repeated += 1;
            return Ok(());
        }
        if epoch_before.is_some_and(|before| mark.epoch > before) {
            self.begin_epoch(mark.offset);
        }
        self.account_below(mark.offset)?;
        self.account_at(mark.offset, record.offset, &event)?;
        self.apply(record.offset, event);
        Ok(())
    }

    /// An operator said that sequencing goes on behind `offset`. If more of `chat.inbound` was looked at already, then it
    /// began anew, and what is retained of it belongs to this epoch only.
    fn begin_epoch(&mut self, offset: i64) {
        if self.next_inbound <= offset + 1 {
            return;
        }
        self.next_inbound = 0;
        self.records = (self.open_inbound)().peekable();
        self.folded.inbound = Check::new(Area::Inbound, self.input.examples);
        self.folded.account = InboundAccount::default();
    }

    /// Every inbound record below `offset` that was not looked at has no event.
    fn account_below(&mut self, offset: i64) -> Result<(), KafkaFault> {
        while let Some(record) = self.take_inbound(|record| record.offset < offset)? {
            self.account_silent(&record);
        }
        Ok(())
    }

    /// The inbound record that an event names as its cause.
    fn account_at(&mut self, offset: i64, at: i64, event: &Event) -> Result<(), KafkaFault> {
        let Some(record) = self.take_inbound(|record| record.offset == offset)? else {
            return Ok(());
        };
        if event.body == Body::Progress {
            self.account_silent(&record);
            return Ok(());
        }
        self.folded.inbound.compared += 1;
        self.folded.account.sequenced += 1;
        let wrong = match Command::parse(record.bytes()) {
            Err(malformed) => Some(format!("sequenced although it is no command ({malformed})")),
            Ok(command) => {
                let conversation =
                    conversation_of(&command).and_then(|id| self.folded.conversations.get(&id));
                let unequal = mismatch(&command, &event.body, conversation);
                // Without the log's beginning it is not known where a position was to be clamped.
                unequal
                    .filter(|name| self.is_whole() || *name != "mid")
                    .map(|name| {
                        format!(
                            "{name} is not that of its event, {}:{at}",
                            self.input.partition
                        )
                    })
            }
        };
        if let Some(what) = wrong {
            self.note_inbound(offset, Kind::Different, what);
        } else if self.input.refused.contains(&offset) {
            self.note_inbound(
                offset,
                Kind::Different,
                "sequenced, and in the dead letters",
            );
        }
        Ok(())
    }

    fn take_inbound(
        &mut self,
        condition: impl Fn(&Record) -> bool,
    ) -> Result<Option<Record>, KafkaFault> {
        let fits = |next: &Result<Record, KafkaFault>| next.as_ref().is_ok_and(&condition);
        match self.records.next_if(|next| next.is_err() || fits(next)) {
            Some(Ok(record)) => {
                self.next_inbound = record.offset + 1;
                Ok(Some(record))
            }
            Some(Err(fault)) => Err(fault),
            None => Ok(None),
        }
    }

    /// A record without event: a dead letter, a repeat, an ack without effect, or a difference.
    fn account_silent(&mut self, record: &Record) {
        self.folded.inbound.compared += 1;
        if self.input.refused.contains(&record.offset) {
            self.folded.account.dead_letters += 1;
            return;
        }
        let silence = match Command::parse(record.bytes()) {
            Ok(command) => self.silence_of(&command, record.timestamp),
            Err(_) => Silence::Unanswered,
        };
        match silence {
            Silence::Repeat => self.folded.account.repeats += 1,
            Silence::WithoutEffect => self.folded.account.without_effect += 1,
            Silence::Unanswered if !self.is_whole() => self.folded.account.unverifiable += 1,
            Silence::Unanswered => {
                let what = "unanswered: no event, no dead letter, no repeat, no ack without effect";
                self.note_inbound(record.offset, Kind::Missing, what);
            }
        }
    }

    fn silence_of(&self, command: &Command, appended: TimestampMs) -> Silence {
        let conversation = conversation_of(command);
        let before = Before {
            conversation: conversation.and_then(|id| self.folded.conversations.get(&id)),
            memory: &self.memory,
            rules: &self.rules,
            now: appended.0.max(self.clock),
        };
        inbound::silence(command, &before)
    }

    fn apply(&mut self, at: i64, event: Event) {
        if event.body == Body::Progress {
            return;
        }
        if event.ts.0 < self.clock {
            let what = format!("time falls from {} to {} ms", self.clock, event.ts.0);
            self.note_event(at, Kind::Different, what);
        }
        self.clock = self.clock.max(event.ts.0);
        match &event.body {
            Body::Message(message) => self.apply_message(at, event.ts, message),
            Body::ReadPosition(position) => {
                let (id, is_whole) = (position.conversation(), self.is_whole());
                let conversation = self.folded.conversations.entry(id).or_default();
                let wrong = conversation.read(id, position, at, is_whole);
                self.note_wrong(at, wrong);
            }
            Body::Control(rules) => self.rules = *rules,
            Body::Progress => {}
        }
        self.memory.forget(self.clock, &self.rules);
    }

    fn apply_message(&mut self, at: i64, ts: TimestampMs, message: &Message) {
        let (id, is_whole) = (message.conversation(), self.is_whole());
        let key = message_key(message);
        if self.memory.recall(&key, self.clock, &self.rules) != Remembered::Nothing {
            let what = "a client_msg_id is sequenced again within the window";
            self.note_event(at, Kind::Extra, what);
        }
        self.memory.remember(&key, self.clock, &self.rules);
        let conversation = self.folded.conversations.entry(id).or_default();
        let wrong = conversation.message(id, message, ts, at, is_whole);
        self.note_wrong(at, wrong);
        if self.input.scope.has_conversation(id) {
            self.folded.messages.push((at, message_digest(ts, message)));
        }
    }

    fn count_pending(&mut self) {
        let Range { start, end } = self.input.inbound;
        let answered = self
            .folded
            .marks
            .highest()
            .map_or(0, |highest| highest.offset + 1);
        self.folded.account.pending += u64::try_from(end - answered.max(start)).unwrap_or(0);
        if answered < start {
            let what = format!(
                "{} records went with retention before they were sequenced",
                start - answered
            );
            self.note_inbound(answered, Kind::Missing, what);
        }
    }

    fn note_wrong(&mut self, at: i64, wrong: Option<String>) {
        if let Some(what) = wrong {
            self.note_event(at, Kind::Different, what);
        }
    }

    fn note_event(&mut self, at: i64, kind: Kind, what: impl Into<String>) {
        let PartitionInput {
            partition,
            events_topic,
            ..
        } = self.input;
        self.folded
            .events
            .note(Finding::new(kind, what).at(events_topic, *partition, at));
    }

    fn note_inbound(&mut self, at: i64, kind: Kind, what: impl Into<String>) {
        let PartitionInput {
            partition,
            inbound_topic,
            ..
        } = self.input;
        self.folded
            .inbound
            .note(Finding::new(kind, what).at(inbound_topic, *partition, at));
    }
}

#[cfg(test)]
mod tests {
    use schemas::{
        Mid, Ordinal,
        command::{Control, SendMessage},
        event::{Source, SrcMark},
    };

    use super::*;

    fn record(offset: i64, value: Vec<u8>) -> Record {
        Record {
            partition: Partition::try_from(3).unwrap(),
            offset,
            timestamp: TimestampMs(1_000),
            leader_epoch: 0,
            key: None,
            value: Some(value),
            headers: Vec::new(),
        }
    }

    fn send(id: &str) -> SendMessage {
        SendMessage {
            srcid: 1.try_into().unwrap(),
            destid: 2.try_into().unwrap(),
            client_msg_id: id.to_owned().try_into().unwrap(),
            msg: "hello".to_owned(),
        }
    }

    fn message(id: &str, mid: Mid) -> Body {
        let send = send(id);
        Body::Message(Message {
            srcid: send.srcid,
            destid: send.destid,
            client_msg_id: send.client_msg_id,
            msg: send.msg,
            mid,
            n: Ordinal::try_from(mid.get()).unwrap(),
        })
    }

    fn event(at: i64, (epoch, offset): (u32, i64), body: Body) -> Record {
        let src = Source {
            mark: SrcMark { epoch, offset },
            leader_epoch: 0,
        };
        let ts = TimestampMs(1_000);
        record(at, Event { src, ts, body }.encode())
    }

    fn fold(events: Vec<Record>, inbound: Vec<Record>, buried: BTreeSet<i64>) -> FoldedPartition {
        let input = PartitionInput {
            partition: Partition::try_from(3).unwrap(),
            scope: Scope::All,
            events_topic: "chat.events".to_owned(),
            inbound_topic: "chat.inbound".to_owned(),
            events_start: 0,
            inbound: 0..i64::try_from(inbound.len()).unwrap(),
            refused: BTreeSet::new(),
            buried,
            examples: 10,
        };
        let open = move || Box::new(inbound.clone().into_iter().map(Ok)) as Records;
        PartitionFold::new(&input, &open)
            .run(events.into_iter().map(Ok))
            .unwrap()
    }

    #[test]
    fn inbound_that_began_anew_answers_to_the_new_epoch_only() {
        let (one, two) = (Mid::ZERO.next(), Mid::ZERO.next().next());
        let events = vec![
            event(0, (0, 5), message("a", one)),
            event(1, (1, -1), Body::Progress),
            event(2, (1, 0), message("b", two)),
            // A former owner of the old epoch wakes up.
            event(3, (0, 6), message("c", two.next())),
        ];
        let inbound = vec![record(0, Command::Send(send("b")).encode())];
        let folded = fold(events, inbound, BTreeSet::new());
        assert_eq!(folded.events.differences(), 0, "{:?}", folded.events);
        assert_eq!(folded.inbound.differences(), 0, "{:?}", folded.inbound);
        assert_eq!((folded.account.sequenced, folded.account.pending), (1, 0));
        assert_eq!((folded.repeated, folded.messages.len()), (1, 2));
    }

    #[test]
    fn what_is_no_event_has_to_be_in_the_dead_letters() {
        let junk = || vec![record(0, b"junk".to_vec())];
        let found = fold(junk(), Vec::new(), BTreeSet::new());
        assert_eq!(found.events.different, 1);
        let buried = fold(junk(), Vec::new(), BTreeSet::from([0]));
        assert_eq!(buried.events.differences(), 0);
    }

    #[test]
    fn an_epoch_that_goes_on_with_the_same_log_keeps_what_was_matched() {
        let one = Mid::ZERO.next();
        let events = vec![
            event(0, (0, 0), Body::Control(Rules::VERSION_1)),
            event(1, (0, 1), message("a", one)),
            event(2, (1, 1), Body::Progress),
            event(3, (2, 1), Body::Progress),
            event(4, (2, 2), message("b", one.next())),
        ];
        let inbound = vec![
            record(
                0,
                Command::Control(Control {
                    rule_version: None,
                    dedup_window_ms: None,
                    dedup_max_entries: None,
                    max_msg_bytes: None,
                })
                .encode(),
            ),
            record(1, Command::Send(send("a")).encode()),
            record(2, Command::Send(send("b")).encode()),
        ];
        let folded = fold(events, inbound, BTreeSet::new());
        assert_eq!(folded.events.differences(), 0, "{:?}", folded.events);
        assert_eq!(folded.inbound.differences(), 0, "{:?}", folded.inbound);
        assert_eq!((folded.account.sequenced, folded.account.repeats), (3, 0));
    }

    /// A message in the partition of another conversation.
    fn misplaced() -> Body {
        let Body::Message(mut message) = message("m", Mid::ZERO.next()) else {
            unreachable!("it is a message");
        };
        message.destid = 3.try_into().unwrap();
        Body::Message(message)
    }

    #[test]
    fn an_event_in_another_partition_is_found_and_passed_over() {
        let events = || {
            vec![
                event(0, (0, 9), misplaced()),
                event(1, (0, 0), message("a", Mid::ZERO.next())),
            ]
        };
        let inbound = || vec![record(0, Command::Send(send("a")).encode())];
        let folded = fold(events(), inbound(), BTreeSet::new());
        assert_eq!(
            (folded.events.different, folded.events.differences()),
            (1, 1)
        );
        assert_eq!(folded.inbound.differences(), 0, "{:?}", folded.inbound);
        assert_eq!((folded.account.sequenced, folded.account.pending), (1, 0));
        assert_eq!((folded.repeated, folded.messages.len()), (0, 1));
        // Projections put it into the dead letters, as they do with what is no event.
        let buried = fold(events(), inbound(), BTreeSet::from([0]));
        assert_eq!(buried.events.differences(), 0, "{:?}", buried.events);
    }
}
