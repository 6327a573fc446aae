//! Exports ranges of the log.

use std::{
    ops::{ControlFlow, Range},
    sync::Arc,
};

use event_log::{KafkaConfig, LogReader};
use futures::{TryStreamExt as _, stream::FuturesUnordered};
use parking_lot::Mutex;
use schemas::{
    OffsetRange, Partition, PartitionMap, SourceWatermark,
    event::{ReadError, SourceOffset},
    topics::Topic,
};
use tokio::runtime::Handle;

use crate::{
    Dataset, ExportError, Lake, Privacy,
    file_entry::FileEntry,
    lake::{Plan, wrong},
    later_changes::LaterChanges,
    writer::RangeWriter,
};

/// How many partitions are exported at the same time. Each takes up to some 80 MB.
const CONCURRENT_PARTITIONS: usize = 2;

/// What to export, and where to.
#[derive(Clone)]
pub struct Export {
    /// The log.
    pub kafka: KafkaConfig,
    /// Where to.
    pub lake: Lake,
    /// Which table.
    pub dataset: Dataset,
    /// What is left out or replaced.
    pub privacy: Privacy,
}

/// Ranges of the partitions of `chat.events`.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// `--from` (with `--partition`) and `--to` as they were given: an export that was interrupted goes on if they are the same.
    pub asked: (String, String),
    /// The offsets.
    pub ranges: PartitionMap<Range<i64>>,
}

/// How far an export is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has this many records to read.
    Begun(u64),
    /// It has read as many more.
    Advanced(u64),
}

/// What an export has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Rows.
    pub rows: u64,
    /// Files.
    pub files: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

/// A range to be exported, after `watermark` if that is known.
pub(crate) struct Gap {
    pub(crate) partition: Partition,
    pub(crate) range: Range<i64>,
    state_to: i64,
    watermark: Option<SourceWatermark>,
    /// The entry that was claimed for the range, without its file.
    claimed: Option<FileEntry>,
    /// The entries of the partition, as they were read last.
    known: Vec<FileEntry>,
}

impl Export {
    /// Exports the parts of `bounds` that are not in the lake yet. It may be stopped at any moment: the same call goes on from there, and the files
    /// are the same.
    ///
    /// # Errors
    /// [`ExportError`].
    pub async fn run(
        &self,
        bounds: Bounds,
        progress: Arc<dyn Fn(Progress) + Send + Sync>,
    ) -> Result<Exported, ExportError> {
        let topic = self.kafka.topic(Topic::Events);
        self.lake.agree(self.dataset, &topic, &self.privacy).await?;
        let log = self.log().await?;
        self.lake.clear_staged(self.dataset).await?;
        let (plan, gaps) = self.planned(bounds, &log).await?;
        self.lake.set_plan(self.dataset, &plan).await?;
        self.fill_all(gaps, &log, progress).await
    }

    /// The offsets that `chat.events` has.
    pub(crate) async fn log(&self) -> Result<PartitionMap<OffsetRange>, ExportError> {
        let all: Vec<Partition> = Partition::all().collect();
        let reader = Arc::new(LogReader::new(&self.kafka)?);
        Ok(reader
            .blocking(move |reader| reader.bounds(Topic::Events, &all))
            .await?)
    }

    /// Writes the files of all gaps.
    async fn fill_all(
        &self,
        gaps: Vec<Gap>,
        log: &PartitionMap<OffsetRange>,
        progress: Arc<dyn Fn(Progress) + Send + Sync>,
    ) -> Result<Exported, ExportError> {
        check_retained(&gaps, log)?;
        progress(Progress::Begun(
            gaps.iter().map(|gap| self.steps(gap)).sum(),
        ));
        let written = Arc::new(Mutex::new(Exported::default()));
        let workers = CONCURRENT_PARTITIONS.min(gaps.len());
        let queue = Arc::new(Mutex::new(gaps.into_iter()));
        let workers: FuturesUnordered<_> = (0..workers)
            .map(|_| {
                let (export, queue) = (self.clone(), Arc::clone(&queue));
                let (written, progress) = (Arc::clone(&written), Arc::clone(&progress));
                let handle = Handle::current();
                tokio::task::spawn_blocking(move || {
                    let reader = LogReader::new(&export.kafka)?;
                    let next = || queue.lock().next();
                    while let Some(gap) = next() {
                        export.fill(&reader, &handle, &gap, &written, &*progress)?;
                    }
                    Ok::<_, ExportError>(())
                })
            })
            .collect();
        workers
            .map_err(|panic| std::panic::resume_unwind(panic.into_panic()))
            .try_for_each(std::future::ready)
            .await?;
        Ok(*written.lock())
    }

    /// The plan of the same export, if one was interrupted, or a new one; and the ranges of it that have no files.
    pub(crate) async fn planned(
        &self,
        bounds: Bounds,
        log: &PartitionMap<OffsetRange>,
    ) -> Result<(Plan, Vec<Gap>), ExportError> {
        if let Some(begun) = self.lake.plan(self.dataset).await? {
            let left = self.gaps(&begun, log).await?;
            if !left.is_empty() && begun.asked == bounds.asked {
                return Ok((begun, left));
            }
            if !left.is_empty() {
                let (from, to) = begun.asked;
                return Err(ExportError::Unfinished {
                    dataset: self.dataset,
                    from,
                    to,
                });
            }
        }
        let plan = Plan::new(bounds.asked, &bounds.ranges);
        let gaps = self.gaps(&plan, log).await?;
        Ok((plan, gaps))
    }

    /// The ranges of a plan that have no files.
    async fn gaps(
        &self,
        plan: &Plan,
        log: &PartitionMap<OffsetRange>,
    ) -> Result<Vec<Gap>, ExportError> {
        let files = self.lake.files(self.dataset).await?;
        let is_there = |path: &str| files.contains(path);
        let mut gaps = Vec::new();
        for (&partition, planned) in &plan.partitions {
            let entries = self.lake.entries(self.dataset, partition).await?;
            let state_to = log[partition].end;
            let planned = (planned.clone(), state_to);
            gaps.extend(self.gaps_of(partition, planned, &entries, is_there)?);
        }
        Ok(gaps)
    }

    /// The parts of a range of a partition that have no files. Their files will have the messages in their state at `state_to`. That includes a file
    /// that a killed process has claimed and not written, since a message may have been recalled meanwhile.
    pub(crate) fn gaps_of(
        &self,
        partition: Partition,
        (planned, state_to): (Range<i64>, i64),
        entries: &[FileEntry],
        is_there: impl Fn(&str) -> bool,
    ) -> Result<Vec<Gap>, ExportError> {
        let mut gaps = Vec::new();
        let mut at = planned.start;
        let mut watermark = (at == 0).then(|| SourceWatermark::above(SourceOffset::START));
        let gap = |range, watermark| Gap {
            partition,
            range,
            state_to,
            watermark,
            claimed: None,
            known: entries.to_vec(),
        };
        let mut ascending: Vec<&FileEntry> = entries.iter().collect();
        ascending.sort_by_key(|entry| entry.from);
        if let Some(two) = ascending.windows(2).find(|two| two[0].overlaps(two[1])) {
            let path = two[1].path_of_entry(self.dataset);
            return Err(wrong(&path, "its range overlaps with another"));
        }
        for entry in ascending {
            let before = at..entry.from.min(planned.end);
            if !before.is_empty() {
                gaps.push(gap(before, watermark.take()));
            }
            let path = entry.path(self.dataset);
            if path.is_some_and(|path| !is_there(&path)) {
                gaps.push(Gap {
                    claimed: Some(entry.clone()),
                    ..gap(entry.from..entry.to, watermark.filter(|_| at == entry.from))
                });
            }
            if entry.to >= at {
                at = entry.to;
                watermark = Some(SourceWatermark::above(entry.watermark()));
            }
        }
        if at < planned.end {
            gaps.push(gap(at..planned.end, watermark));
        }
        Ok(gaps)
    }

    /// How many records are read for a gap.
    fn steps(&self, gap: &Gap) -> u64 {
        let Range { start, end } = gap.range;
        let later = match self.dataset.has_texts_of_messages() {
            true => gap.state_to - start,
            false => 0,
        };
        (end - start + later.max(0)).cast_unsigned()
    }

    /// Writes the files of a gap. Blocks.
    pub(crate) fn fill(
        &self,
        reader: &LogReader,
        handle: &Handle,
        gap: &Gap,
        written: &Mutex<Exported>,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<(), ExportError> {
        let Gap {
            partition,
            range,
            state_to,
            ..
        } = gap;
        let watermark = match gap.watermark {
            Some(known) => known,
            None => reader.watermark_before(*partition, range.start)?,
        };
        let later = if self.dataset.has_texts_of_messages() {
            let changes = range.start..*state_to;
            progress(Progress::Advanced(
                (changes.end - changes.start).max(0).cast_unsigned(),
            ));
            Some(LaterChanges::read(reader, *partition, changes, watermark)?)
        } else {
            None
        };
        let mut known = gap.known.clone();
        let mut commit = |entry: FileEntry, bytes: Option<Vec<u8>>| {
            handle.block_on(self.commit(gap, &mut known, entry, (bytes, written)))
        };
        let mut writer = RangeWriter::new(
            (self.dataset, &self.privacy),
            *partition,
            range.start,
            watermark,
            (*state_to, later),
            gap.claimed.is_some(),
            &mut commit,
        );
        scan_into(reader, *partition, range.clone(), &mut writer, || {
            progress(Progress::Advanced(1));
        })?;
        writer.finish(range.end)
    }

    /// Claims the range of a file, unless it was claimed before, then writes the file.
    async fn commit(
        &self,
        gap: &Gap,
        known: &mut Vec<FileEntry>,
        entry: FileEntry,
        (bytes, written): (Option<Vec<u8>>, &Mutex<Exported>),
    ) -> Result<(), ExportError> {
        match &gap.claimed {
            Some(claimed) => {
                let entry = entry.clone().numbered(claimed.number);
                if !claimed.has_rows_of(&entry) {
                    let path = claimed.path_of_entry(self.dataset);
                    return Err(wrong(&path, "the log gives other rows for its range now"));
                }
                if *claimed != entry {
                    self.lake.replace(self.dataset, &entry).await?;
                }
            }
            None => self.lake.claim(self.dataset, entry.clone(), known).await?,
        }
        let Some((path, bytes)) = entry.path(self.dataset).zip(bytes) else {
            return Ok(());
        };
        let size = bytes.len() as u64;
        self.lake.write(self.dataset, &path, bytes).await?;
        let mut written = written.lock();
        written.rows += entry.rows;
        written.files += 1;
        written.bytes += size;
        Ok(())
    }
}

/// Gives the events of a range to a writer. Blocks.
pub(crate) fn scan_into(
    reader: &LogReader,
    partition: Partition,
    range: Range<i64>,
    writer: &mut RangeWriter<'_>,
    mut progress: impl FnMut(),
) -> Result<(), ExportError> {
    let mut taken = Ok(());
    reader.scan(Topic::Events, &[(partition, range)], |record| {
        progress();
        let offset = record.offset;
        taken = match record.event() {
            Ok(event) => writer.take(offset, event),
            Err(ReadError::Skipped(_)) => Ok(()),
            Err(ReadError::UnknownRules(source)) => Err(ExportError::UnknownRules {
                partition,
                offset,
                source,
            }),
        };
        match taken {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    taken
}

pub(crate) fn check_retained(
    gaps: &[Gap],
    log: &PartitionMap<OffsetRange>,
) -> Result<(), ExportError> {
    let removed = |gap: &&Gap| gap.range.start < log[gap.partition].start;
    match gaps.iter().find(removed) {
        None => Ok(()),
        Some(gap) => Err(ExportError::Removed {
            partition: gap.partition,
            from: gap.range.start,
            start: log[gap.partition].start,
        }),
    }
}
