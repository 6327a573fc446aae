//! What the sequencer of this program decides about the records of a partition of `chat.inbound`, compared with what was decided. Pure code.

use std::collections::{BTreeMap, HashMap};

use event_log::Record;
use schemas::{
    Partition, TimestampMs, WordVerdict,
    command::{Control, InboundValue},
    dead_letter::Reason,
    event::{Body, Event, Rules, Source, SourceOffset, UnknownRules},
};
use sequencer::core::{Decision, Inbound, InvalidRules, State, change, step};
use word_filter::{Checked, WordFilter};

/// What is different from the installation whose log is replayed.
pub(super) struct Changes {
    /// Settings of the rules that hold from the beginning on.
    pub(super) rules: Control,
    /// Another dictionary of words.
    pub(super) words: Option<WordFilter>,
}

/// A dead letter of a record of `chat.inbound`.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeadLetter {
    pub(super) reason: Reason,
    /// When it was appended.
    pub(super) ts: TimestampMs,
}

/// How far clocks may differ. A dead letter that is older than its record by more than this is of the record that had this offset in an earlier epoch.
const CLOCKS_DIFFER_MS: i64 = 60_000;

/// Decides about the records of a partition in their order.
pub(super) struct Judge<'a> {
    partition: Partition,
    changes: &'a Changes,
    state: State,
    /// Dead letters of the partition's records.
    dead_letters: HashMap<i64, DeadLetter>,
    /// Dead letters of records before this time may have been deleted.
    dead_letters_since: TimestampMs,
}

/// What was found about a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// It is decided as it was.
    Same,
    /// It is decided otherwise: as it was, and as it is now.
    Different(String, String),
    /// It cannot be judged.
    Unknown(&'static str),
}

impl<'a> Judge<'a> {
    /// # Errors
    /// [`InvalidRules`] if the changed settings are outside of their bounds.
    pub(super) fn new(
        partition: Partition,
        changes: &'a Changes,
        dead_letters: HashMap<i64, DeadLetter>,
        dead_letters_since: TimestampMs,
    ) -> Result<Self, InvalidRules> {
        let mut judge = Self {
            partition,
            changes,
            state: State::default(),
            dead_letters,
            dead_letters_since,
        };
        let rules = *judge.state.rules();
        let begin = Event {
            src: Source {
                offset: SourceOffset::START,
                leader_epoch: -1,
            },
            ts: TimestampMs::default(),
            body: Body::Control(rules),
            command: None,
            words: None,
        };
        judge.apply(&begin)?;
        Ok(judge)
    }

    /// Applies what was decided, but under the changed rules.
    pub(super) fn apply(&mut self, event: &Event) -> Result<(), InvalidRules> {
        let Body::Control(rules) = event.body else {
            self.state.apply(event);
            return Ok(());
        };
        self.state.apply(&Event {
            body: Body::Control(self.changed(rules)?),
            ..event.clone()
        });
        Ok(())
    }

    fn changed(&self, rules: Rules) -> Result<Rules, InvalidRules> {
        if self.changes.rules == Control::default() {
            return Ok(rules);
        }
        let mut control = self.changes.rules.clone();
        if rules.hash_key.is_some() {
            control.hash_key = None;
        }
        change(rules, &control)
    }

    /// Judges a record that `event` has answered, if any has. The state is that before the event.
    pub(super) fn judge(&self, record: &Record, epoch: u32, event: Option<&Event>) -> Judgement {
        if let Some(judgement) = self.judge_words(record, event) {
            return judgement;
        }
        let inbound = Inbound {
            src: Source {
                offset: SourceOffset {
                    epoch,
                    offset: record.offset,
                },
                leader_epoch: event.map_or(record.leader_epoch, |event| event.src.leader_epoch),
            },
            ts: record.timestamp,
            value: record.bytes(),
        };
        let decision = step(&self.state, self.partition, &inbound);
        let letter = self.dead_letters.get(&record.offset);
        let was_refused = letter
            .filter(|letter| letter.ts.0 + CLOCKS_DIFFER_MS >= record.timestamp.0)
            .map(|letter| letter.reason);
        let same = match (&decision, event, was_refused) {
            (Decision::Emit(now), Some(then), _) => self.is_same_event(now, then),
            (Decision::DeadLetter(now), None, Some(then)) => now.reason == then,
            (Decision::NoOp(_), None, None) => true,
            (Decision::DeadLetter(_), None, None) if record.timestamp < self.dead_letters_since => {
                return Judgement::Unknown("its dead letter may have been deleted");
            }
            _ => false,
        };
        if same {
            return Judgement::Same;
        }
        let then = match (event, was_refused) {
            (Some(event), _) => event.body.label().to_owned(),
            (None, Some(reason)) => refused(reason),
            (None, None) => "nothing".to_owned(),
        };
        let now = match &decision {
            Decision::Emit(now) => match event {
                Some(then) => format!("another {}: {}", now.body.label(), difference(now, then)),
                None => now.body.label().to_owned(),
            },
            Decision::DeadLetter(refusal) => refused(refusal.reason),
            Decision::NoOp(_) => "nothing".to_owned(),
            Decision::Halt(unknown) => halted(*unknown),
        };
        Judgement::Different(then, now)
    }

    /// The judgement about a text, if another dictionary is given and says something else about the text.
    fn judge_words(&self, record: &Record, event: Option<&Event>) -> Option<Judgement> {
        let words = self.changes.words.as_ref()?;
        let mut value = InboundValue::parse(record.bytes()).ok()?;
        let verdict = value.words;
        if verdict.is_some_and(|verdict| verdict.masked) {
            return Some(Judgement::Unknown("words of its text were masked"));
        }
        let text = value.command.kind_mut().text_mut()?;
        let was = verdict.map_or("clean", |WordVerdict { .. }| "flagged");
        let now = match words.check(text) {
            Checked::Clean => "clean",
            Checked::Flagged => "flagged",
            Checked::Masked(_) => "masked",
            Checked::Refused => "refused by the dictionary",
        };
        let label = |verdict| match event {
            Some(event) => format!("{}, {verdict}", event.body.label()),
            None => format!("no event, {verdict}"),
        };
        (was != now).then(|| Judgement::Different(label(was), label(now)))
    }

    /// Whether the two events are the same. Under changed rules two events that set rules count as the same, since the new one sets other rules.
    fn is_same_event(&self, now: &Event, then: &Event) -> bool {
        match (&now.body, &then.body) {
            (Body::Control(_), Body::Control(_)) if self.changes.rules != Control::default() => {
                true
            }
            _ => now == then,
        }
    }
}

fn refused(reason: Reason) -> String {
    format!("dead letter: {reason}")
}

fn halted(unknown: UnknownRules) -> String {
    format!("halt: {unknown}")
}

/// The first part in which two events differ.
fn difference(now: &Event, then: &Event) -> &'static str {
    if now.ts != then.ts {
        "its time"
    } else if now.body != then.body {
        "what it says"
    } else if now.command != then.command {
        "the command's id"
    } else {
        "the verdict of the word filter"
    }
}

/// How often each difference was found, and the first records of each.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) judged: u64,
    pub(super) unknown: BTreeMap<&'static str, u64>,
    pub(super) differences: BTreeMap<(String, String), Found>,
}

#[derive(Default)]
pub(super) struct Found {
    pub(super) count: u64,
    /// Partition and offset in `chat.inbound`.
    pub(super) first: Vec<(Partition, i64)>,
}

/// How many records of a difference are named.
pub(super) const NAMED: usize = 20;

impl Findings {
    pub(super) fn add(&mut self, partition: Partition, offset: i64, judgement: Judgement) {
        self.judged += 1;
        match judgement {
            Judgement::Same => {}
            Judgement::Unknown(why) => *self.unknown.entry(why).or_default() += 1,
            Judgement::Different(then, now) => {
                let found = self.differences.entry((then, now)).or_default();
                found.count += 1;
                if found.first.len() < NAMED {
                    found.first.push((partition, offset));
                }
            }
        }
    }

    /// Adds those of other partitions.
    pub(super) fn merge(&mut self, other: Self) {
        self.judged += other.judged;
        for (why, count) in other.unknown {
            *self.unknown.entry(why).or_default() += count;
        }
        for (difference, found) in other.differences {
            let all = self.differences.entry(difference).or_default();
            all.count += found.count;
            all.first.extend(found.first);
            all.first.sort_unstable();
            all.first.truncate(NAMED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_name_the_first_of_each_difference() {
        let [one, two] = [1_i64, 2].map(|n| Partition::try_from(n).unwrap());
        let different = |now: &str| Judgement::Different("message".to_owned(), now.to_owned());
        let mut findings = Findings::default();
        for offset in 0..30 {
            findings.add(two, offset, different("nothing"));
        }
        let mut others = Findings::default();
        others.add(one, 7, different("nothing"));
        others.add(one, 8, Judgement::Same);
        others.add(one, 9, Judgement::Unknown("words of its text were masked"));
        findings.merge(others);
        assert_eq!(findings.judged, 33);
        let found = &findings.differences[&("message".to_owned(), "nothing".to_owned())];
        assert_eq!((found.count, found.first.len()), (31, NAMED));
        assert_eq!(found.first[..2], [(one, 7), (two, 0)]);
    }
}
