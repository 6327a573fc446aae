//! A lake in a folder, and what its files have.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use arrow_array::{
    RecordBatch,
    cast::AsArray as _,
    types::{Int32Type, Int64Type},
};
use export::{Bounds, Dataset, Export, ExportError, Exported, Lake, Privacy};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tempfile::TempDir;

use crate::story::{Story, partition_of_the_conversation};

const DEADLINE: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub struct LakeFolder {
    folder: Arc<TempDir>,
    privacy: Privacy,
}

impl LakeFolder {
    pub fn new() -> Self {
        Self::under(Privacy::default())
    }

    pub fn under(privacy: Privacy) -> Self {
        let folder = Arc::new(TempDir::new().unwrap());
        Self { folder, privacy }
    }

    /// The same folder with other options.
    pub fn with(&self, privacy: Privacy) -> Self {
        let folder = Arc::clone(&self.folder);
        Self { folder, privacy }
    }

    /// The files of a folder that something else has written.
    pub fn at(folder: TempDir) -> Self {
        Self {
            folder: Arc::new(folder),
            privacy: Privacy::default(),
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn of(&self, story: &Story, dataset: Dataset) -> Export {
        Export {
            kafka: story.kafka.clone(),
            lake: Lake::open(self.path().to_str().unwrap(), [], false).unwrap(),
            dataset,
            privacy: self.privacy.clone(),
        }
    }

    /// Exports everything.
    pub async fn export(&self, story: &Story, dataset: Dataset) -> Result<Exported, ExportError> {
        let export = self.of(story, dataset);
        export.run(story.everything(), Arc::new(|_| {})).await
    }

    /// Exports the conversation's partition from an offset on.
    pub async fn export_from(
        &self,
        story: &Story,
        dataset: Dataset,
        from: i64,
    ) -> Result<Exported, ExportError> {
        let range = (partition_of_the_conversation(), from..story.end());
        let bounds = Bounds {
            asked: ("a time".to_owned(), "now".to_owned()),
            ranges: [range].into(),
        };
        self.of(story, dataset).run(bounds, Arc::new(|_| {})).await
    }

    /// Waits until all events of the story are in the files.
    pub async fn wait_for(&self, story: &Story) {
        let expected = story.offsets(Dataset::Events);
        let deadline = Instant::now() + DEADLINE;
        while self.offsets(Dataset::Events).len() < expected.len() {
            assert!(Instant::now() < deadline, "rows are missing");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// The data files by their paths.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for found in std::fs::read_dir(folder).unwrap() {
                let path = found.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "parquet") {
                    let name = path.strip_prefix(self.path()).unwrap();
                    files.insert(
                        name.to_str().unwrap().to_owned(),
                        std::fs::read(&path).unwrap(),
                    );
                }
            }
        }
        files
    }

    /// The first entry of the manifest of the conversation's partition.
    pub fn an_entry(&self, dataset: Dataset) -> PathBuf {
        let partition = partition_of_the_conversation().get();
        let folder = format!("{}/_manifest/p{partition:02}", dataset.name());
        self.path().join(folder).join("000000000.json")
    }

    fn batches(&self, dataset: Dataset) -> Vec<RecordBatch> {
        let of_dataset = format!("{}/", dataset.name());
        let files = self.files().into_iter();
        let mut of_partition: Vec<(String, Vec<u8>)> = files
            .filter(|(name, _)| name.starts_with(&of_dataset))
            .collect();
        // By partition and offset, which the name of a file says.
        of_partition.sort_by_key(|(name, _)| name.rsplit('/').next().unwrap().to_owned());
        let read = |(_, bytes): (String, Vec<u8>)| {
            let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes));
            reader.unwrap().build().unwrap().map(Result::unwrap)
        };
        of_partition.into_iter().flat_map(read).collect()
    }

    /// Partition and offset of each row.
    pub fn offsets(&self, dataset: Dataset) -> Vec<(i32, i64)> {
        let rows = |batch: &RecordBatch| -> Vec<(i32, i64)> {
            let partitions = batch["partition"].as_primitive::<Int32Type>();
            let offsets = batch["offset"].as_primitive::<Int64Type>();
            let rows = partitions.values().iter().zip(offsets.values());
            rows.map(|(partition, offset)| (*partition, *offset))
                .collect()
        };
        self.batches(dataset).iter().flat_map(rows).collect()
    }

    /// Whether a message has this text.
    pub fn has_text(&self, text: &str) -> bool {
        let texts = self.texts(Dataset::Messages, "msg");
        texts.iter().flatten().any(|msg| msg == text)
    }

    pub fn texts(&self, dataset: Dataset, column: &str) -> Vec<Option<String>> {
        let batches = self.batches(dataset);
        let texts = |batch: &RecordBatch| -> Vec<Option<String>> {
            let texts = batch[column].as_string::<i32>().iter();
            texts.map(|text| text.map(str::to_owned)).collect()
        };
        batches.iter().flat_map(texts).collect()
    }

    pub fn numbers(&self, dataset: Dataset, column: &str) -> Vec<Option<i64>> {
        let batches = self.batches(dataset);
        let numbers = |batch: &RecordBatch| -> Vec<Option<i64>> {
            batch[column].as_primitive::<Int64Type>().iter().collect()
        };
        batches.iter().flat_map(numbers).collect()
    }

    pub fn lists(&self, dataset: Dataset, column: &str) -> Vec<Vec<String>> {
        let batches = self.batches(dataset);
        let lists = |batch: &RecordBatch| -> Vec<Vec<String>> {
            let lists = batch[column].as_list::<i32>().iter();
            let texts = |list: arrow_array::ArrayRef| -> Vec<String> {
                let texts = list.as_string::<i32>().iter();
                texts.map(|text| text.unwrap().to_owned()).collect()
            };
            lists.map(|list| texts(list.unwrap())).collect()
        };
        batches.iter().flat_map(lists).collect()
    }
}
