mod apply;

use std::{collections::HashMap, iter::Peekable, ops::Range};

use event_log::{EventLogError, Record};
use schemas::{
    ConversationId, DirectConversation, GroupId, Partition, TimestampMs, UserId,
    command::{Command, InboundValue},
    dead_letter::Reason,
    event::{Body, Event, Rules},
};

use super::{
    answered, applied,
    begun::BegunConversations,
    control,
    conversation::Conversation,
    dedup::DedupWindow,
    digest::Messages,
    expected::Expected,
    group::Group,
    inbound::{self, Needs},
    memberships::Memberships,
    outcomes::{Outcome, Outcomes},
    profile::ProfileVersion,
    recall_window::RecallWindow,
    state_before::StateBefore,
    watermark::Watermark,
};
use crate::{
    Area, AuditError, Check, Finding, InboundAccount, Kind, Scope, dead_letters::OfPartition, read,
};

/// Records of one partition, in order.
pub(crate) type Records = Box<dyn Iterator<Item = Result<Record, EventLogError>> + Send>;

/// What the fold of a partition needs besides the events.
pub(crate) struct PartitionInput {
    pub(crate) partition: Partition,
    pub(crate) scope: Scope,
    pub(crate) events_topic: String,
    pub(crate) inbound_topic: String,
    /// The first offset of `chat.events`; if it is above 0, retention has deleted earlier events.
    pub(crate) events_start: i64,
    /// The offsets of `chat.inbound` that are retained and checked.
    pub(crate) inbound: Range<i64>,
    /// The dead letters of records of `chat.inbound` and of `chat.events`.
    pub(crate) dead_lettered_inbound: OfPartition,
    pub(crate) dead_lettered_events: OfPartition,
    pub(crate) examples: usize,
}

/// The result of folding a partition.
pub(crate) struct FoldedPartition {
    pub(crate) conversations: HashMap<DirectConversation, Conversation>,
    pub(crate) groups: HashMap<GroupId, Group>,
    pub(crate) profiles: HashMap<UserId, ProfileVersion>,
    /// The messages in scope.
    pub(crate) messages: Messages,
    pub(crate) watermark: Watermark,
    pub(crate) events: Check,
    pub(crate) inbound: Check,
    pub(crate) account: InboundAccount,
    pub(crate) repeated: u64,
}

/// The fold of one partition of `chat.events`, with its inbound records beside it.
pub(crate) struct PartitionFold<'a> {
    input: &'a PartitionInput,
    /// Reads `chat.inbound` from its start again: a new epoch can make earlier matches void.
    open_inbound: &'a dyn Fn() -> Records,
    records: Peekable<Records>,
    /// One above the last inbound record that was accounted for.
    next_inbound: i64,
    /// Records below this offset may also have dead letters of an earlier epoch, which decided with another state.
    decided_earlier: i64,
    clock: i64,
    rules: Rules,
    /// Whether `rules` are the rules in force. If the start of the log is gone, they are not until the first control event.
    knows_rules: bool,
    dedup: DedupWindow,
    begun: BegunConversations,
    memberships: Memberships,
    recent: RecallWindow,
    outcomes: Outcomes,
    folded: FoldedPartition,
}

impl<'a> PartitionFold<'a> {
    pub(crate) fn new(input: &'a PartitionInput, open_inbound: &'a dyn Fn() -> Records) -> Self {
        Self {
            input,
            open_inbound,
            records: open_inbound().peekable(),
            next_inbound: 0,
            decided_earlier: 0,
            clock: 0,
            rules: Rules::VERSION_1,
            knows_rules: input.events_start == 0,
            dedup: DedupWindow::default(),
            begun: BegunConversations::default(),
            memberships: Memberships::default(),
            recent: RecallWindow::default(),
            outcomes: Outcomes::new(input.examples),
            folded: FoldedPartition {
                conversations: HashMap::new(),
                groups: HashMap::new(),
                profiles: HashMap::new(),
                messages: Messages::default(),
                watermark: if input.events_start == 0 {
                    Watermark::START
                } else {
                    Watermark::UNKNOWN
                },
                events: Check::new(Area::Events, input.examples),
                inbound: Check::new(Area::Inbound, input.examples),
                account: InboundAccount::default(),
                repeated: 0,
            },
        }
    }

    /// Folds `events`, which begin at the start of `chat.events`.
    pub(crate) fn run(
        mut self,
        events: impl Iterator<Item = Result<Record, EventLogError>>,
    ) -> Result<FoldedPartition, AuditError> {
        for record in events {
            self.event(&record?)?;
        }
        let Self {
            outcomes,
            mut folded,
            input,
            ..
        } = self;
        outcomes.sum(&mut folded.inbound, &mut folded.account);
        count_pending(&mut folded, input);
        Ok(folded)
    }

    fn is_whole(&self) -> bool {
        self.input.events_start == 0
    }

    fn event(&mut self, record: &Record) -> Result<(), AuditError> {
        self.folded.events.compared += 1;
        let refused = self.input.dead_lettered_events.reasons_of(record).next();
        let event = match (read::event(record)?, refused) {
            (Ok(event), None) => event,
            (Ok(event), Some(reason)) => {
                let what = format!("an event, and in the dead letters ({reason})");
                self.note_event(record.offset, Kind::Different, what);
                event
            }
            (Err(_), Some(_)) => return Ok(()),
            (Err(_), None) if self.may_be_deleted_of_event() => return Ok(()),
            (Err(wrong), None) => {
                let what = format!("{wrong}, and not in the dead letters");
                self.note_event(record.offset, Kind::Different, what);
                return Ok(());
            }
        };
        let source = event.src.offset;
        let epoch_before = self.folded.watermark.get().map(|highest| highest.epoch);
        if !self.folded.watermark.rise_to(source) {
            self.folded.repeated += 1;
            return Ok(());
        }
        if epoch_before.is_some_and(|before| source.epoch > before) {
            self.begin_epoch(source.offset)?;
        }
        self.account_below(source.offset)?;
        self.account_at(source.offset, record.offset, &event)?;
        self.apply(record.offset, event);
        Ok(())
    }

    /// A producer sets the time of a record of `chat.events`, so that time may be any. The record is not older than the event before it.
    fn may_be_deleted_of_event(&self) -> bool {
        let letters = &self.input.dead_lettered_events;
        letters.may_be_deleted(TimestampMs(self.clock))
    }

    /// An operator raised the epoch: sequencing continues after `offset`. If records above it were already accounted for, `chat.inbound` lost its end
    /// or was created again, and the retained records above `offset` belong to this epoch only.
    fn begin_epoch(&mut self, offset: i64) -> Result<(), EventLogError> {
        if self.next_inbound <= offset + 1 {
            return Ok(());
        }
        self.outcomes.discard_above(offset);
        self.decided_earlier = self.decided_earlier.max(self.next_inbound);
        self.records = (self.open_inbound)().peekable();
        while self
            .take_inbound(|record| record.offset <= offset)?
            .is_some()
        {}
        self.next_inbound = offset + 1;
        Ok(())
    }

    /// Accounts for every inbound record below `offset`: they have no event.
    fn account_below(&mut self, offset: i64) -> Result<(), EventLogError> {
        while let Some(record) = self.take_inbound(|record| record.offset < offset)? {
            self.account_without_event(&record);
        }
        Ok(())
    }

    /// Accounts for the inbound record that an event names as its source.
    fn account_at(&mut self, offset: i64, at: i64, event: &Event) -> Result<(), EventLogError> {
        let Some(record) = self.take_inbound(|record| record.offset == offset)? else {
            return Ok(());
        };
        if event.body == Body::Progress {
            self.account_without_event(&record);
            return Ok(());
        }
        let wrong = self
            .content_mismatch(&record, at, event)
            .or_else(|| self.second_outcome(&record, event));
        let wrong = wrong.map(|(kind, what)| self.inbound_finding(offset, kind, what));
        self.outcomes.add(offset, Outcome::Sequenced, wrong);
        Ok(())
    }

    fn content_mismatch(&self, record: &Record, at: i64, event: &Event) -> Option<(Kind, String)> {
        let what = match InboundValue::parse(record.bytes()) {
            Err(malformed) => Some(format!("sequenced although it is no command ({malformed})")),
            Ok(asked) => self
                .mismatched_field(&asked.command, event, record.timestamp)
                .or_else(|| (asked.words != event.words).then_some("words"))
                .or_else(|| (!self.names_its_command(&asked, event)).then_some("command"))
                .map(|name| {
                    let partition = self.input.partition;
                    format!("{name} is not that of its event, {partition}:{at}")
                })
                .or_else(|| {
                    let reason = self.refusal(record)?;
                    // Other refusals of changes and in groups are judged by their events: see `judge_change`.
                    let is_of_record = matches!(
                        reason,
                        Reason::TooManyConversations
                            | Reason::Conflict
                            | Reason::WrongGid
                            | Reason::TooManyMemberships
                            | Reason::HasLeft
                    );
                    let is_judged = answered::command_of(&event.body).is_some() && !is_of_record;
                    (!is_judged)
                        .then(|| format!("sequenced although it is to be refused ({reason})"))
                }),
        };
        // An event is not older than its cause: a younger record of the same content replaced the cause.
        let is_younger = || {
            (record.timestamp > event.ts)
                .then(|| format!("younger than its event, {}:{at}", self.input.partition))
        };
        Some((Kind::Different, what.or_else(is_younger)?))
    }

    fn mismatched_field(
        &self,
        command: &Command,
        event: &Event,
        time: TimestampMs,
    ) -> Option<&'static str> {
        let body = &event.body;
        if let Some(field) = command.mismatched_field(body) {
            return Some(field);
        }
        if let (Command::Control(control), Body::Control(rules)) = (command, body) {
            return control::mismatched_rule(control, &self.rules, rules)
                .filter(|_| self.knows_rules);
        }
        // Without the log's start the newest message, to which a position is clamped, may be unknown.
        if !self.is_whole() || self.mismatch_in_itself(event).is_some() {
            return None;
        }
        inbound::mismatch_by_state(command, body, &self.before(command, time))
    }

    /// Whether an event names its command exactly if it should.
    fn names_its_command(&self, asked: &InboundValue, event: &Event) -> bool {
        let expected = applied::applied_in_event(asked, &event.body, &self.rules);
        !self.knows_rules || event.command.as_deref() == expected.as_ref()
    }

    /// The field in which an event in a group differs from what follows from the log before it, whatever its cause asked for.
    fn mismatch_in_itself(&self, event: &Event) -> Option<&'static str> {
        let command = answered::command_of(&event.body)?;
        let before = self.before_event(&command, event);
        let is_in_group = inbound::is_in_group(&command);
        inbound::mismatch_by_state(&command, &event.body, &before).filter(|_| is_in_group)
    }

    /// A second outcome of the record, besides this event.
    fn second_outcome(&self, record: &Record, event: &Event) -> Option<(Kind, String)> {
        if let Some(reason) = self.input.dead_lettered_inbound.reasons_of(record).next() {
            let what = format!("sequenced, and in the dead letters ({reason})");
            return Some((Kind::Different, what));
        }
        if self.outcomes.was_sequenced_earlier(record.offset) {
            let what = format!(
                "sequenced in epoch {}, and in an earlier one",
                event.src.offset.epoch
            );
            return Some((Kind::Extra, what));
        }
        None
    }

    fn take_inbound(
        &mut self,
        condition: impl Fn(&Record) -> bool,
    ) -> Result<Option<Record>, EventLogError> {
        let fits = |next: &Result<Record, EventLogError>| next.as_ref().is_ok_and(&condition);
        match self.records.next_if(|next| next.is_err() || fits(next)) {
            Some(Ok(record)) => {
                self.next_inbound = record.offset + 1;
                Ok(Some(record))
            }
            Some(Err(fault)) => Err(fault),
            None => Ok(None),
        }
    }

    /// Accounts for a record without an event: a dead letter, a repeat, an ack or change without effect, or a difference.
    fn account_without_event(&mut self, record: &Record) {
        let expected = self.expected(record);
        let refused = self.refused(record, expected);
        let is_gone = matches!(expected, Expected::Refused(_))
            && refused.is_none()
            && self
                .input
                .dead_lettered_inbound
                .may_be_deleted(record.timestamp);
        let (outcome, wrong) = match inbound::judge(expected, refused) {
            (_, Some(_)) if is_gone || !self.is_certain(record, expected) => {
                (Outcome::Unverifiable, None)
            }
            judged => judged,
        };
        let wrong = wrong.map(|(kind, what)| self.inbound_finding(record.offset, kind, what));
        self.outcomes.add(record.offset, outcome, wrong);
    }

    /// The reason for which a record was refused, if it was. Of several dead letters, one with a wrong reason, if there is one.
    fn refused(&self, record: &Record, expected: Expected) -> Option<&str> {
        let mut reasons = self.input.dead_lettered_inbound.reasons_of(record);
        let last = reasons.next()?;
        let is_wrong = |reason: &&str| !expected.is_refused_for(reason);
        if record.offset < self.decided_earlier || is_wrong(&last) {
            return Some(last);
        }
        Some(reasons.find(is_wrong).unwrap_or(last))
    }

    /// The expected outcome of a record, from the log before it.
    fn expected(&self, record: &Record) -> Expected {
        let Ok(asked) = InboundValue::parse(record.bytes()) else {
            return Expected::Refused(Reason::Malformed);
        };
        let before = self.before(&asked.command, record.timestamp);
        applied::expected_by_id(&asked, self.input.partition, &before)
            .unwrap_or_else(|| self.expected_of(&asked.command, record.timestamp))
    }

    fn expected_of(&self, command: &Command, time: TimestampMs) -> Expected {
        inbound::expected(command, self.input.partition, &self.before(command, time))
    }

    fn before(&self, command: &Command, time: TimestampMs) -> StateBefore<'_> {
        let folded = &self.folded;
        let (conversation, group) = match command.conversation() {
            Some(ConversationId::Direct(id)) => (folded.conversations.get(&id), None),
            Some(ConversationId::Group(gid)) => (None, folded.groups.get(&gid)),
            None => (None, None),
        };
        let is_forgotten = match command.conversation() {
            Some(ConversationId::Group(gid)) => self.memberships.has_forgotten(gid),
            _ => false,
        };
        StateBefore {
            conversation,
            group,
            is_forgotten,
            dedup: &self.dedup,
            begun: &self.begun,
            memberships: &self.memberships,
            recent: &self.recent,
            rules: &self.rules,
            now: time.0.max(self.clock),
            is_of_event: false,
        }
    }

    /// The state before the command that an event answers.
    fn before_event(&self, command: &Command, event: &Event) -> StateBefore<'_> {
        StateBefore {
            is_of_event: true,
            ..self.before(command, event.ts)
        }
    }

    /// Why a record must be refused, if that is certain.
    fn refusal(&self, record: &Record) -> Option<Reason> {
        match self.expected(record) {
            expected @ Expected::Refused(reason) if self.is_certain(record, expected) => {
                Some(reason)
            }
            _ => None,
        }
    }

    /// Whether the expected outcome is certain. It is not if it depends on events that are gone.
    fn is_certain(&self, record: &Record, expected: Expected) -> bool {
        if self.is_whole() {
            return true;
        }
        let Ok(asked) = InboundValue::parse(record.bytes()) else {
            return true;
        };
        match Needs::of(&asked, expected, &self.rules) {
            Needs::Nothing => true,
            Needs::Rules => self.knows_rules,
            Needs::Everything => false,
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
            .add(Finding::new(kind, what).at(events_topic, *partition, at));
    }

    fn inbound_finding(&self, at: i64, kind: Kind, what: impl Into<String>) -> Finding {
        let PartitionInput {
            partition,
            inbound_topic,
            ..
        } = self.input;
        Finding::new(kind, what).at(inbound_topic, *partition, at)
    }
}

/// Counts the inbound records above the last source, and reports those that retention deleted before they were sequenced.
fn count_pending(folded: &mut FoldedPartition, input: &PartitionInput) {
    let Range { start, end } = input.inbound;
    let next = folded
        .watermark
        .get()
        .map_or(0, |highest| highest.offset + 1);
    folded.account.pending += u64::try_from(end - next.max(start)).unwrap_or(0);
    if next < start {
        let what = format!(
            "{} records went with retention before they were sequenced",
            start - next
        );
        let finding = Finding::new(Kind::Missing, what);
        folded
            .inbound
            .add(finding.at(&input.inbound_topic, input.partition, next));
    }
}

#[cfg(test)]
mod tests;
