//! Lists and shows dead letters, and posts their originals again.

mod candidate;
mod dead_letters;
mod event_lookup;
mod redrive;

use std::{convert::identity, process::ExitCode, sync::Arc};

use event_log::{EventLogError, KafkaConfig, LogReader};
use schemas::{InboundPosition, topics::Topic};
use serde_json::{Value, json};

use self::{
    dead_letters::{DeadLetter, Filter},
    redrive::RedriveOutcome,
};
use crate::{
    answers,
    args::{DlqCommand, DlqFilter, RedriveArgs},
    context::CommandContext,
    decoder::{self, Decoder},
    failure::{self, Failure},
    output::Table,
    times,
};

pub(super) async fn run(
    context: &CommandContext,
    command: DlqCommand,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let queue = Queue::open(context)?;
    match command {
        DlqCommand::List(filter) => queue.list(&filter, json).await,
        DlqCommand::Show { position } => queue.show(position, json).await,
        DlqCommand::Redrive(args) => queue.redrive(context, &args, json).await,
    }
}

struct Queue {
    kafka: KafkaConfig,
    reader: Arc<LogReader>,
}

impl Queue {
    fn open(context: &CommandContext) -> anyhow::Result<Self> {
        let kafka = context.kafka()?;
        let reader = Arc::new(LogReader::new(&kafka)?);
        Ok(Self { kafka, reader })
    }

    async fn dead_letters(
        &self,
        filter: &DlqFilter,
        keep: fn(DeadLetter) -> DeadLetter,
    ) -> anyhow::Result<Vec<DeadLetter>> {
        let filter = Filter::new(filter, |topic| self.kafka.topic(topic));
        let read = move |reader: &LogReader| dead_letters::read(reader, &filter, keep);
        Ok(self.reader.blocking(read).await?)
    }

    async fn list(&self, filter: &DlqFilter, json: bool) -> anyhow::Result<ExitCode> {
        let dead_letters = self
            .dead_letters(filter, DeadLetter::without_original)
            .await?;
        if json {
            for dead_letter in &dead_letters {
                println!("{}", json_of(dead_letter));
            }
            return Ok(ExitCode::SUCCESS);
        }
        if dead_letters.is_empty() {
            println!("no dead letters");
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = Table::new(["letter", "time", "original", "stage", "reason", "what"]);
        for dead_letter in &dead_letters {
            table.row([
                dead_letter.position(),
                times::rfc3339(dead_letter.record.timestamp),
                dead_letter.original(),
                dead_letter.headers.stage.clone(),
                dead_letter.headers.reason.to_string(),
                dead_letter.headers.message.clone(),
            ]);
        }
        print!("{table}");
        Ok(ExitCode::SUCCESS)
    }

    async fn show(&self, position: InboundPosition, json: bool) -> anyhow::Result<ExitCode> {
        let found = self
            .reader
            .blocking(move |reader| dead_letters::one(reader, position))
            .await?;
        let dead_letter = found
            .ok_or_else(|| Failure::NotFound(format!("there is no dead letter at {position}")))?;
        let (dead_letter, outcome_of) = self
            .reader
            .blocking({
                let inbound = self.kafka.topic(Topic::Inbound);
                move |reader| {
                    let dead_letters = [dead_letter];
                    let outcome_of = redrive::plan(reader, &inbound, &dead_letters)?.pop();
                    let [dead_letter] = dead_letters;
                    Ok::<_, EventLogError>((dead_letter, outcome_of))
                }
            })
            .await?;
        let mut all = json_of(&dead_letter);
        all["key"] = dead_letter
            .record
            .key
            .as_deref()
            .map(String::from_utf8_lossy)
            .into();
        all["value"] = Decoder::new()?.record(Topic::DeadLetters, &dead_letter.record);
        all["headers"] = decoder::headers(&dead_letter.record);
        all["redrive"] = outcome_of.map_or(Value::Null, |outcome_of| outcome_of.json());
        answers::show(json, &all, format_args!("{all:#}"));
        Ok(ExitCode::SUCCESS)
    }

    async fn redrive(
        &self,
        context: &CommandContext,
        args: &RedriveArgs,
        json: bool,
    ) -> anyhow::Result<ExitCode> {
        let dead_letters = self.dead_letters(&args.filter, identity).await?;
        let inbound = self.kafka.topic(Topic::Inbound);
        let (dead_letters, mut outcomes) = self
            .reader
            .blocking(move |reader| {
                let plan = redrive::plan(reader, &inbound, &dead_letters)?;
                Ok::<_, EventLogError>((dead_letters, plan))
            })
            .await?;
        if !args.dry_run {
            outcomes = redrive::execute(&context.client()?, outcomes).await?;
        }
        report(&dead_letters, &outcomes, json);
        let failed = outcomes.iter().any(RedriveOutcome::has_failed);
        Ok(failure::code_of_answer(!failed))
    }
}

fn report(dead_letters: &[DeadLetter], outcomes: &[RedriveOutcome], json: bool) {
    if json {
        for (dead_letter, outcome_of) in dead_letters.iter().zip(outcomes) {
            let mut line = json_of(dead_letter);
            line["redrive"] = outcome_of.json();
            println!("{line}");
        }
        return;
    }
    if dead_letters.is_empty() {
        println!("no dead letters");
        return;
    }
    let mut table = Table::new(["letter", "original", "reason", "redrive"]);
    for (dead_letter, outcome_of) in dead_letters.iter().zip(outcomes) {
        table.row([
            dead_letter.position(),
            dead_letter.original(),
            dead_letter.headers.reason.to_string(),
            outcome_of.text(),
        ]);
    }
    print!("{table}");
}

/// A dead letter as JSON, without its original.
fn json_of(dead_letter: &DeadLetter) -> Value {
    let DeadLetter { record, headers } = dead_letter;
    json!({
        "partition": record.partition,
        "offset": record.offset,
        "ts": times::rfc3339(record.timestamp),
        "original": { "topic": headers.topic, "partition": headers.partition, "offset": headers.offset },
        "stage": headers.stage,
        "reason": headers.reason.as_str(),
        "message": headers.message,
        "cut_from": headers.original_value_bytes,
    })
}
