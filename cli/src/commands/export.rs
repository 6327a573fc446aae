//! Exports the log as Parquet files.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use access::{AuthConfig, ServiceKeys};
use anyhow::Context as _;
use event_log::LogReader;
use export::{Bounds, Estimate, Export, Exported, Lake, Privacy, Progress, Pseudonyms};
use schemas::topics::Topic;
use serde_json::json;
use time::OffsetDateTime;

use crate::{
    answers,
    args::ExportArgs,
    context::CommandContext,
    decided,
    failure::Failure,
    log_point::{LogPoint, LogRange},
    output::{grouped, per_second, progress_bar},
    times,
};

pub(super) async fn run(
    context: &CommandContext,
    args: &ExportArgs,
    json: bool,
) -> anyhow::Result<()> {
    if args.with_recalled {
        check_may_administer(context)?;
    }
    let kafka = context.kafka()?;
    let pseudonyms = args.pseudonyms.as_deref().map(pseudonyms).transpose()?;
    let export = Export {
        kafka,
        lake: Lake::open(&args.to_dir, environment(), args.dry_run)
            .map_err(|error| Failure::Usage(format!("--to-dir {}: {error}", args.to_dir)))?,
        dataset: args.dataset,
        privacy: Privacy {
            with_recalled: args.with_recalled,
            without_texts: args.without_texts,
            pseudonyms,
        },
    };
    if args.follow {
        let every = Duration::from_secs(args.every_s);
        let shown = |written| show(&written, None, json);
        return Ok(export.follow(every, shown).await?);
    }
    let bar = progress_bar()?;
    if let LogPoint::Time(to) = args.range.to.point
        && to <= times::now()
    {
        decided::everything_before(context, to, &bar).await?;
    }
    let bounds = bounds(&export, args.range).await?;
    if args.dry_run {
        show_estimate(&export.estimate(bounds).await?, json);
        return Ok(());
    }
    let started = Instant::now();
    let progress = {
        let bar = bar.clone();
        move |progress| match progress {
            Progress::Begun(records) => bar.set_length(records),
            Progress::Advanced(records) => bar.inc(records),
        }
    };
    let written = export.run(bounds, Arc::new(progress)).await;
    let read = bar.position();
    bar.finish_and_clear();
    show(&written?, Some((read, started.elapsed())), json);
    Ok(())
}

/// If callers are authenticated, this needs a service key with the scope admin.
fn check_may_administer(context: &CommandContext) -> anyhow::Result<()> {
    let auth: AuthConfig = context.source.section("auth")?;
    if !auth.is_configured() {
        return Ok(());
    }
    let keys = match &auth.keys_file {
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("auth.keys_file {}", file.display()))?;
            let keys = ServiceKeys::parse(&text);
            keys.map_err(|wrong| anyhow::anyhow!("auth.keys_file {} {wrong}", file.display()))?
        }
        None => ServiceKeys::default(),
    };
    let token = context.credentials.token()?;
    let caller = token.and_then(|token| keys.caller(token.expose(), OffsetDateTime::now_utc()));
    if caller.is_some_and(|caller| caller.may_administer().is_ok()) {
        return Ok(());
    }
    let why = "--with-recalled needs a service key with the scope admin, in --token-file or TIDEMARK_TOKEN: texts of recalled messages are for nobody else";
    Err(Failure::Usage(why.to_owned()).into())
}

/// The environment variables. Those that are not UTF-8 are left out: no setting of a bucket is such a variable.
fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

fn pseudonyms(path: &Path) -> anyhow::Result<Pseudonyms> {
    let secret = std::fs::read(path)
        .map_err(|error| Failure::Usage(format!("--pseudonyms {}: {error}", path.display())))?;
    let pseudonyms = Pseudonyms::new(&secret);
    Ok(pseudonyms
        .map_err(|error| Failure::Usage(format!("--pseudonyms {} {error}", path.display())))?)
}

/// The offsets of `--from` and `--to`.
async fn bounds(export: &Export, range: LogRange) -> anyhow::Result<Bounds> {
    let reader = Arc::new(LogReader::new(&export.kafka)?);
    let ranges = reader.blocking(move |reader| range.offsets(reader, Topic::Events));
    Ok(Bounds {
        asked: (range.beginning(), range.to.to_string()),
        ranges: ranges.await.context("looking for --from and --to")?,
    })
}

fn show(written: &Exported, read: Option<(u64, Duration)>, as_json: bool) {
    let Exported { rows, files, bytes } = *written;
    let rate = read.map(|(read, took)| per_second(read, took));
    let seconds = read.map(|(_, took)| took.as_secs_f64());
    let value = json!({"rows": rows, "files": files, "bytes": bytes, "seconds": seconds, "per_second": rate});
    let (rows, files) = (grouped(rows), grouped(files));
    let reading = read.map_or_else(String::new, |(read, took)| {
        let (read, rate) = (grouped(read), grouped(rate.unwrap_or_default() as u64));
        let seconds = took.as_secs_f64();
        format!("; {read} records read in {seconds:.1} s, {rate} a second")
    });
    let text = format!("{rows} rows in {files} files, {}{reading}", size(bytes));
    answers::show(as_json, value, text);
}

fn show_estimate(estimate: &Estimate, as_json: bool) {
    let Estimate {
        records,
        rows,
        bytes,
        time,
    } = *estimate;
    let seconds = time.as_secs_f64();
    let value = json!({"records": records, "rows": rows, "bytes": bytes, "seconds": seconds});
    let text = format!(
        "{} records; about {} rows, {}, {:.1} minutes",
        grouped(records),
        grouped(rows),
        size(bytes),
        seconds / 60.0
    );
    answers::show(as_json, value, text);
}

fn size(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}
