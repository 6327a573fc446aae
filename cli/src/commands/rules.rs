//! The sequencer's rules, which change through a control record in every partition of `chat.inbound` (PROTOCOL S5).

use std::{
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use event_log::{AppendRecord, Appender, KafkaConfig, LogReader, ProducerSettings};
use schemas::{
    CommandId, HashKey, OffsetRange, Partition, PartitionMap,
    command::{Command, Control, InboundValue},
    event::{Body, KNOWN_RULE_VERSION, Rules},
    topics::Topic,
};
use sequencer::core::change;
use serde_json::json;

use crate::{
    answers,
    args::{RuleArgs, RulesCommand},
    context::CommandContext,
    failure::Failure,
    output::Table,
};

/// How long an append may take.
const APPEND_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(super) async fn run(
    context: &CommandContext,
    command: RulesCommand,
    json: bool,
) -> anyhow::Result<()> {
    let kafka = context.kafka()?;
    let reader = Arc::new(LogReader::new(&kafka)?);
    let in_force = reader.blocking(rules_in_force).await?;
    let rules = match command {
        RulesCommand::Show => in_force,
        RulesCommand::Set(args) => {
            let controls = controls(&in_force, &args.rules)?;
            set(&kafka, &reader, controls, Duration::from_secs(args.wait_s)).await?
        }
    };
    print(&rules, json);
    Ok(())
}

/// Raises the rule version of an installation to which nothing was ever posted, or finishes such a raise. In other installations this is the
/// operator's decision: programs that do not know the version stop.
pub(super) async fn begin_with_the_newest(kafka: &KafkaConfig) -> anyhow::Result<()> {
    let reader = Arc::new(LogReader::new(kafka)?);
    let inbound = reader.ends(Topic::Inbound).await?;
    let events = reader.ends(Topic::Events).await?;
    let is_empty = |partition: &Partition| inbound[*partition] == 0 && events[*partition] == 0;
    let (empty, used): (Vec<Partition>, Vec<Partition>) = Partition::all().partition(is_empty);
    let is_begun = move |reader: &LogReader| begin_with_a_rule_version(reader, &used);
    if empty.is_empty() || !reader.blocking(is_begun).await? {
        return Ok(());
    }
    let control = Control {
        rule_version: Some(KNOWN_RULE_VERSION),
        hash_key: Some(random_key()),
        ..Control::default()
    };
    let controls = empty
        .into_iter()
        .map(|partition| (partition, control.clone()));
    append_all(kafka, controls.collect(), &random_id()).await?;
    Ok(())
}

/// Whether the first record of each of these partitions of `chat.inbound` sets the rule version.
fn begin_with_a_rule_version(reader: &LogReader, partitions: &[Partition]) -> anyhow::Result<bool> {
    for &partition in partitions {
        let first = reader.record(Topic::Inbound, partition, 0)?;
        let command = first.map(|record| Command::parse(record.bytes()));
        let Some(Ok(Command::Control(control))) = command else {
            return Ok(false);
        };
        if control.rule_version.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn random_id() -> CommandId {
    let id = client::new_client_msg_id().into_string();
    CommandId::try_from(id).expect("what is right for a message is right for a command")
}

fn random_key() -> Vec<u8> {
    rand::random::<[u8; HashKey::BYTES]>().to_vec()
}

fn rules_in_force(reader: &LogReader) -> anyhow::Result<PartitionMap<Rules>> {
    Partition::all()
        .map(|partition| {
            // One partition at a time, since a state may be large.
            let states = || sequencer::states(reader, &[partition]);
            // A snapshot may be replaced by a newer one while it is read.
            let states = states().or_else(|_| states())?;
            Ok((partition, *states[partition].rules()))
        })
        .collect()
}

/// The control record of each partition. Nothing is appended if one of them would be refused.
fn controls(
    in_force: &PartitionMap<Rules>,
    args: &RuleArgs,
) -> Result<PartitionMap<Control>, Failure> {
    let key = random_key();
    let control = |rules: &Rules| Control {
        hash_key: (args.rule_version > Some(1) && rules.hash_key.is_none()).then(|| key.clone()),
        ..args.control()
    };
    in_force
        .iter()
        .map(|(partition, rules)| {
            let control = control(rules);
            if let Some(asked) = args.rule_version {
                check_known(asked, rules.rule_version)?;
            }
            check_version(&control, control.rule_version.unwrap_or(rules.rule_version))?;
            change(*rules, &control)
                .map_err(|wrong| Failure::Usage(format!("partition {partition}: {wrong}")))?;
            Ok((partition, control))
        })
        .collect()
}

impl RuleArgs {
    /// The control record that sets these rules, without a key.
    pub(crate) fn control(&self) -> Control {
        Control {
            rule_version: self.rule_version,
            hash_key: None,
            dedup_window_ms: self.dedup_window_ms,
            dedup_max_entries: self.dedup_max_entries,
            max_msg_bytes: self.max_msg_bytes,
            dedup_max_per_sender: self.dedup_max_per_sender,
            new_conversations_per_day: self.new_conversations_per_day,
            recall_window_ms: self.recall_window_ms,
            delete_for_all: self.delete_for_all,
            max_group_members: self.max_group_members,
            new_memberships_per_day: self.new_memberships_per_day,
            max_memberships_by_others: self.max_memberships_by_others,
        }
    }
}

fn check_known(asked: u32, in_force: u32) -> Result<(), Failure> {
    let wrong = if asked > KNOWN_RULE_VERSION {
        format!("this program knows rule versions up to {KNOWN_RULE_VERSION}")
    } else if asked < in_force {
        format!("rule version {in_force} is in force, and cannot be taken back")
    } else {
        return Ok(());
    };
    Err(Failure::Usage(format!(
        "--rule-version is {asked}; {wrong}; nothing was changed"
    )))
}

/// Older versions ignore some settings.
fn check_version(control: &Control, version: u32) -> Result<(), Failure> {
    let ignored: Vec<_> = control.ignored_by(version).collect();
    let Some(needed) = ignored.iter().map(|(_, since)| since).max() else {
        return Ok(());
    };
    let names: Vec<&str> = ignored.iter().map(|(name, _)| *name).collect();
    Err(Failure::Usage(format!(
        "{}: needs --rule-version {needed}, which cannot be taken back",
        names.join(", ")
    )))
}

/// Appends the control records, and returns the rules of their events.
async fn set(
    kafka: &KafkaConfig,
    reader: &Arc<LogReader>,
    controls: PartitionMap<Control>,
    wait: Duration,
) -> anyhow::Result<PartitionMap<Rules>> {
    let ends = reader.ends(Topic::Events).await?;
    let id = random_id();
    let appended = append_all(kafka, controls, &id).await?;
    let deadline = Instant::now() + wait;
    let mut waiting = Waiting {
        id,
        from: ends,
        appended,
        applied: PartitionMap::new(),
    };
    loop {
        waiting = reader
            .blocking(move |reader| waiting.read_on(reader))
            .await?;
        let left = waiting.appended.len();
        if left == 0 {
            return Ok(waiting.applied);
        }
        if Instant::now() >= deadline {
            let why = format!(
                "the control records are on the log, and {left} partitions have not come to them within {} s: does a sequencer run? \
                 `tidemark rules show` shows what is in force",
                wait.as_secs()
            );
            return Err(Failure::Timeout(why).into());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Control records that wait for their events.
struct Waiting {
    /// The id that all of them have.
    id: CommandId,
    /// The offsets at which `chat.events` is to be read next.
    from: PartitionMap<i64>,
    /// The offsets of the control records without an event so far.
    appended: PartitionMap<i64>,
    applied: PartitionMap<Rules>,
}

impl Waiting {
    fn read_on(mut self, reader: &LogReader) -> anyhow::Result<Self> {
        let partitions: Vec<Partition> = self.appended.partitions().collect();
        let ranges: Vec<_> = reader
            .bounds(Topic::Events, &partitions)?
            .into_iter()
            .map(|(partition, OffsetRange { end, .. })| (partition, self.from[partition]..end))
            .filter(|(_, range)| !range.is_empty())
            .collect();
        let mut refused = Vec::new();
        reader.scan(Topic::Events, &ranges, |record| {
            let partition = record.partition;
            self.from.insert(partition, record.offset + 1);
            let (Some(&sought), Ok(event)) = (self.appended.get(partition), record.event()) else {
                return ControlFlow::Continue(());
            };
            let reached = event.src.offset.offset;
            // If the producer appended the record twice, the copy that it knows of may have no event (PROTOCOL S15).
            let is_repeated = event.command.is_some_and(|command| command.id == self.id);
            if reached >= sought || is_repeated {
                self.appended.remove(partition);
                match event.body {
                    Body::Control(rules) if reached == sought || is_repeated => {
                        self.applied.insert(partition, rules);
                    }
                    _ => refused.push(format!("{partition}:{sought}")),
                }
            }
            ControlFlow::Continue(())
        })?;
        if !refused.is_empty() {
            anyhow::bail!(
                "refused at {} of chat.inbound, since the rules changed meanwhile; `tidemark where {}` says why",
                refused.join(", "),
                refused[0]
            );
        }
        Ok(self)
    }
}

/// Appends the control records, and returns their offsets.
async fn append_all(
    kafka: &KafkaConfig,
    controls: PartitionMap<Control>,
    id: &CommandId,
) -> anyhow::Result<PartitionMap<i64>> {
    let appender = Appender::new(kafka, &ProducerSettings::WITHOUT_TIMEOUT)?;
    let topic = kafka.topic(Topic::Inbound);
    let mut offsets = PartitionMap::new();
    for (partition, control) in controls {
        let value = InboundValue {
            id: id.as_str().to_owned(),
            ..Command::Control(control).into()
        }
        .encode();
        let append = appender.append(AppendRecord {
            topic: &topic,
            partition,
            key: b"",
            value: Some(&value),
            timestamp: None,
            headers: &[],
        });
        let offset = tokio::time::timeout(APPEND_TIMEOUT, append)
            .await
            .map_err(|_| {
                Failure::Timeout(format!("{topic} partition {partition} accepts no record"))
            })?
            .with_context(|| format!("appending to {topic} partition {partition}"))?;
        offsets.insert(partition, offset);
    }
    Ok(offsets)
}

fn print(rules: &PartitionMap<Rules>, as_json: bool) {
    let values: Vec<_> = rules
        .iter()
        .map(|(partition, rules)| {
            let mut rules = json!(rules);
            rules["partition"] = partition.get().into();
            rules
        })
        .collect();
    let mut table = Table::new([
        "partition",
        "rule version",
        "dedup window, ms",
        "dedup entries",
        "of a sender",
        "msg bytes",
        "new conversations",
        "recall window, ms",
        "delete for all",
        "group members",
        "new memberships",
        "by others",
    ])
    .right(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    for (partition, rules) in rules.iter() {
        table.row([
            partition.to_string(),
            rules.rule_version.to_string(),
            rules.dedup_window_ms.to_string(),
            rules.dedup_max_entries.to_string(),
            rules.dedup_max_per_sender.to_string(),
            rules.max_msg_bytes.to_string(),
            rules.new_conversations_per_day.to_string(),
            rules.recall_window_ms.to_string(),
            rules.delete_for_all.to_string(),
            rules.max_group_members.to_string(),
            rules.new_memberships_per_day.to_string(),
            rules.max_memberships_by_others.to_string(),
        ]);
    }
    answers::show_table(as_json, &json!({ "rules": values }), &table);
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command as CommandLine};

    #[test]
    fn a_setting_needs_the_rule_version_that_has_it() {
        let names_of = |setting: [&str; 2], version: u32| {
            let line = [&["tidemark", "rules", "set"][..], &setting].concat();
            let CommandLine::Rules(RulesCommand::Set(set)) =
                Args::try_parse_from(line).unwrap().command
            else {
                panic!("it sets rules");
            };
            check_version(&set.rules.control(), version).map_err(|failure| failure.to_string())
        };
        for (setting, needed) in [
            (["--max-msg-bytes", "1"], 1),
            (["--dedup-max-per-sender", "1"], 2),
            (["--new-conversations-per-day", "1"], 2),
            (["--recall-window-ms", "0"], 3),
            (["--delete-for-all", "false"], 3),
            (["--new-memberships-per-day", "0"], 4),
            (["--max-memberships-by-others", "0"], 4),
        ] {
            for version in 1..=KNOWN_RULE_VERSION {
                let checked = names_of(setting, version);
                assert_eq!(checked.is_ok(), version >= needed, "{setting:?} {version}");
                if let Err(words) = checked {
                    assert!(
                        words.contains(&format!("--rule-version {needed}")),
                        "{words}"
                    );
                }
            }
        }
    }
}
