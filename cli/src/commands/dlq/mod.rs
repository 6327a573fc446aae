//! The dead letters: listed, shown, and what can be mended posted once more.

mod history;
mod letters;
mod prospect;
mod redrive;

use std::{convert::identity, process::ExitCode, sync::Arc};

use event_log::{EventLogError, KafkaConfig, LogReader};
use schemas::{InboundPosition, topics::Topic};
use serde_json::{Value, json};

use self::{
    letters::{DeadLetter, Filter},
    redrive::Fate,
};
use crate::{
    args::{DlqCommand, DlqFilter, RedriveArgs},
    decoder::{self, Decoder},
    failure::{self, Failure},
    handles::Handles,
    output::Table,
    times,
};

pub(super) async fn run(
    handles: &Handles,
    command: DlqCommand,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let queue = Queue::open(handles)?;
    match command {
        DlqCommand::List(filter) => queue.list(&filter, json).await,
        DlqCommand::Show { position } => queue.show(position, json).await,
        DlqCommand::Redrive(args) => queue.redrive(handles, &args, json).await,
    }
}

struct Queue {
    kafka: KafkaConfig,
    reader: Arc<LogReader>,
}

impl Queue {
    fn open(handles: &Handles) -> anyhow::Result<Self> {
        let kafka = handles.kafka()?;
        let reader = Arc::new(LogReader::new(&kafka)?);
        Ok(Self { kafka, reader })
    }

    /// A reader's blocking call, off the async threads.
    async fn ask<T: Send + 'static>(
        &self,
        call: impl FnOnce(&LogReader) -> Result<T, EventLogError> + Send + 'static,
    ) -> anyhow::Result<T> {
        let reader = Arc::clone(&self.reader);
        Ok(tokio::task::spawn_blocking(move || call(&reader)).await??)
    }

    async fn letters(
        &self,
        filter: &DlqFilter,
        keep: fn(DeadLetter) -> DeadLetter,
    ) -> anyhow::Result<Vec<DeadLetter>> {
        let filter = Filter::new(filter, |topic| self.kafka.topic(topic))?;
        self.ask(move |reader| letters::read(reader, &filter, keep))
            .await
    }

    async fn list(&self, filter: &DlqFilter, json: bool) -> anyhow::Result<ExitCode> {
        let letters = self.letters(filter, DeadLetter::without_original).await?;
        if json {
            for letter in &letters {
                println!("{}", told(letter));
            }
            return Ok(ExitCode::SUCCESS);
        }
        if letters.is_empty() {
            println!("no dead letters");
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = Table::new(["letter", "time", "original", "stage", "reason", "what"]);
        for letter in &letters {
            table.row([
                letter.place(),
                times::rfc3339(letter.record.timestamp),
                letter.original(),
                letter.told.stage.clone(),
                letter.told.reason.to_string(),
                letter.told.message.clone(),
            ]);
        }
        print!("{table}");
        Ok(ExitCode::SUCCESS)
    }

    async fn show(&self, place: InboundPosition, json: bool) -> anyhow::Result<ExitCode> {
        let found = self.ask(move |reader| letters::one(reader, place)).await?;
        let letter =
            found.ok_or_else(|| Failure::Refused(format!("there is no dead letter at {place}")))?;
        let (letter, fate) = self
            .ask({
                let inbound = self.kafka.topic(Topic::Inbound);
                move |reader| {
                    let letters = [letter];
                    let fate = redrive::plan(reader, &inbound, &letters)?.pop();
                    let [letter] = letters;
                    Ok((letter, fate))
                }
            })
            .await?;
        let mut all = told(&letter);
        all["key"] = letter
            .record
            .key
            .as_deref()
            .map(String::from_utf8_lossy)
            .into();
        all["value"] = Decoder::new()?.record(Topic::DeadLetters, &letter.record);
        all["headers"] = decoder::headers(&letter.record);
        all["redrive"] = fate.map_or(Value::Null, |fate| fate.json());
        if json {
            println!("{all}");
        } else {
            println!("{all:#}");
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn redrive(
        &self,
        handles: &Handles,
        args: &RedriveArgs,
        json: bool,
    ) -> anyhow::Result<ExitCode> {
        let letters = self.letters(&args.filter, identity).await?;
        let inbound = self.kafka.topic(Topic::Inbound);
        let (letters, mut fates) = self
            .ask(move |reader| {
                let plan = redrive::plan(reader, &inbound, &letters)?;
                Ok((letters, plan))
            })
            .await?;
        if !args.dry_run {
            fates = redrive::carry_out(&handles.client()?, fates).await?;
        }
        report(&letters, &fates, json);
        let failed = fates.iter().any(Fate::has_failed);
        Ok(ExitCode::from(if failed { failure::NEGATIVE } else { 0 }))
    }
}

fn report(letters: &[DeadLetter], fates: &[Fate], json: bool) {
    if json {
        for (letter, fate) in letters.iter().zip(fates) {
            let mut line = told(letter);
            line["redrive"] = fate.json();
            println!("{line}");
        }
        return;
    }
    if letters.is_empty() {
        println!("no dead letters");
        return;
    }
    let mut table = Table::new(["letter", "original", "reason", "redrive"]);
    for (letter, fate) in letters.iter().zip(fates) {
        table.row([
            letter.place(),
            letter.original(),
            letter.told.reason.to_string(),
            fate.words(),
        ]);
    }
    print!("{table}");
}

/// What a letter says of itself, for programs.
fn told(letter: &DeadLetter) -> Value {
    let DeadLetter { record, told } = letter;
    json!({
        "partition": record.partition,
        "offset": record.offset,
        "ts": times::rfc3339(record.timestamp),
        "original": { "topic": told.topic, "partition": told.partition, "offset": told.offset },
        "stage": told.stage,
        "reason": told.reason.as_str(),
        "message": told.message,
        "cut_from": told.original_value_bytes,
    })
}
