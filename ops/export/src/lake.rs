//! Where an export is written: a folder or a bucket, with a manifest of the ranges that its files cover.

use std::{
    collections::{BTreeMap, HashSet},
    ops::Range,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use object_store::{
    ObjectStore, ObjectStoreExt as _, PutMode, PutPayload, WriteMultipart, aws::AmazonS3Builder,
    local::LocalFileSystem, memory::InMemory, path::Path as ObjectPath, prefix::PrefixStore,
};
use schemas::{Partition, PartitionMap};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{
    Dataset, ExportError, Privacy, StatedPrivacy,
    file_entry::{FileEntry, name_of_entry},
    table::Table,
};

/// The version of the format: to be raised with a change after which a manifest is written otherwise, or a range has other rows.
const FORMAT: u32 = 2;

const OPTIONS: &str = "options.json";

/// A larger file is uploaded in parts of this size.
const PART_BYTES: usize = 8 << 20;

/// A file that has been staged for longer was left by a process that was killed.
const LONGEST_WRITE: Duration = Duration::from_secs(3_600);

/// How many files of the manifest are read at the same time.
const CONCURRENT_READS: usize = 16;

/// A folder or a bucket for the files of exports.
#[derive(Clone, Debug)]
pub struct Lake {
    store: Arc<dyn ObjectStore>,
    is_folder: bool,
}

/// The options of the files of a dataset, `_manifest/options.json`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    /// Random: tells this dataset of this lake from all other datasets and lakes.
    id: String,
    format: u32,
    topic: String,
    privacy: StatedPrivacy,
    /// The names and types of the columns, in order.
    columns: Vec<(String, String)>,
}

/// The ranges of an export that was begun, `_manifest/plan.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// `--from` and `--to`, as given.
    pub(crate) asked: (String, String),
    pub(crate) partitions: BTreeMap<Partition, Range<i64>>,
}

impl Plan {
    pub(crate) fn new(asked: (String, String), ranges: &PartitionMap<Range<i64>>) -> Self {
        let ranges = ranges.iter();
        Self {
            asked,
            partitions: ranges.map(|(p, range)| (p, range.clone())).collect(),
        }
    }
}

impl Lake {
    /// A folder, or `s3://bucket/prefix` with the credentials and the endpoint of the usual `AWS_…` variables of `environment`. A folder that does not exist
    /// is created; if it is only to be looked at, an empty one in memory stands for it.
    ///
    /// # Errors
    /// The address is not valid, or the folder cannot be created.
    pub fn open(
        address: &str,
        environment: impl IntoIterator<Item = (String, String)>,
        only_look: bool,
    ) -> Result<Self, object_store::Error> {
        let is_folder = !address.contains("://");
        let folder = Path::new(address);
        let store: Arc<dyn ObjectStore> = if is_folder && only_look && !folder.exists() {
            Arc::new(InMemory::new())
        } else if is_folder {
            std::fs::create_dir_all(folder).map_err(|error| invalid(address, error))?;
            Arc::new(LocalFileSystem::new_with_prefix(folder)?)
        } else {
            let url = address.parse().map_err(|error| invalid(address, error))?;
            let (_, prefix) = object_store::ObjectStoreScheme::parse(&url)
                .map_err(|error| invalid(address, error))?;
            let mut s3 = AmazonS3Builder::new().with_url(address);
            for (name, value) in environment {
                if let Ok(key) = name.to_ascii_lowercase().parse()
                    && name.starts_with("AWS_")
                {
                    s3 = s3.with_config(key, value);
                }
            }
            Arc::new(PrefixStore::new(s3.build()?, prefix))
        };
        Ok(Self { store, is_folder })
    }

    /// Creates the options of a dataset, or compares them with those of the files that are there. Returns the id of this dataset in this lake.
    pub(crate) async fn agree(
        &self,
        dataset: Dataset,
        topic: &str,
        privacy: &Privacy,
    ) -> Result<String, ExportError> {
        let table = Table::new(dataset, privacy);
        let columns = table.schema().fields().iter();
        let mut asked = Options {
            id: Uuid::new_v4().to_string(),
            format: FORMAT,
            topic: topic.to_owned(),
            privacy: privacy.stated(),
            columns: columns
                .map(|field| (field.name().clone(), field.data_type().to_string()))
                .collect(),
        };
        for other in Dataset::ALL.into_iter().filter(|other| *other != dataset) {
            let found: Option<Options> = self.read(&manifest(other, OPTIONS)).await?;
            if let Some(found) = found
                && found.privacy.pseudonyms != asked.privacy.pseudonyms
            {
                return Err(found.difference(&asked, other));
            }
        }
        let path = manifest(dataset, OPTIONS);
        match self.create(&path, &asked).await {
            Err(ExportError::Store(object_store::Error::AlreadyExists { .. })) => {}
            created => return created.map(|()| asked.id),
        }
        let found: Options = self
            .read(&path)
            .await?
            .ok_or_else(|| wrong(&path, "it is gone"))?;
        asked.id.clone_from(&found.id);
        if found == asked {
            return Ok(asked.id);
        }
        Err(found.difference(&asked, dataset))
    }

    pub(crate) async fn plan(&self, dataset: Dataset) -> Result<Option<Plan>, ExportError> {
        self.read(&manifest(dataset, "plan.json")).await
    }

    pub(crate) async fn set_plan(&self, dataset: Dataset, plan: &Plan) -> Result<(), ExportError> {
        let path = manifest(dataset, "plan.json");
        self.store.put(&path, json(plan)).await?;
        Ok(())
    }

    /// The ranges of a partition that are exported, or at least claimed, in the order in which they were claimed.
    pub(crate) async fn entries(
        &self,
        dataset: Dataset,
        partition: Partition,
    ) -> Result<Vec<FileEntry>, ExportError> {
        let folder = entries_folder(dataset, partition);
        let found = self
            .store
            .list(Some(&folder))
            .try_collect::<Vec<_>>()
            .await?;
        let is_entry = |path: &ObjectPath| path.extension() == Some("json");
        let numbers = 0..found
            .iter()
            .filter(|found| is_entry(&found.location))
            .count();
        let read = async |number| {
            let entry = self.entry(dataset, partition, number).await?;
            entry.ok_or_else(|| wrong(&folder.clone().join(name_of_entry(number)), "it is gone"))
        };
        let read = stream::iter(numbers.map(read)).buffered(CONCURRENT_READS);
        read.try_collect().await
    }

    async fn entry(
        &self,
        dataset: Dataset,
        partition: Partition,
        number: usize,
    ) -> Result<Option<FileEntry>, ExportError> {
        let path = entries_folder(dataset, partition).join(name_of_entry(number));
        let found: Option<FileEntry> = self.read(&path).await?;
        if let Some(entry) = &found {
            entry.check(dataset, partition, &path)?;
        }
        Ok(found)
    }

    /// Reads the entries of a partition that were claimed after those that are `known`.
    pub(crate) async fn read_newer(
        &self,
        dataset: Dataset,
        partition: Partition,
        known: &mut Vec<FileEntry>,
    ) -> Result<(), ExportError> {
        while let Some(entry) = self.entry(dataset, partition, known.len()).await? {
            known.push(entry);
        }
        Ok(())
    }

    /// Claims a range by creating its entry, which becomes the last of those that are `known`. From now on the entry says what its file contains. Only an
    /// exporter that has read all entries of a partition can create the next one, so ranges do not overlap.
    pub(crate) async fn claim(
        &self,
        dataset: Dataset,
        entry: FileEntry,
        known: &mut Vec<FileEntry>,
    ) -> Result<(), ExportError> {
        loop {
            if known.iter().any(|other| other.overlaps(&entry)) {
                return Err(ExportError::Busy {
                    dataset,
                    partition: entry.partition,
                    offset: entry.from,
                });
            }
            let next = entry.clone().numbered(known.len());
            match self.create(&next.path_of_entry(dataset), &next).await {
                Err(ExportError::Store(object_store::Error::AlreadyExists { .. })) => {
                    self.read_newer(dataset, entry.partition, known).await?;
                }
                created => {
                    created?;
                    known.push(next);
                    return Ok(());
                }
            }
        }
    }

    /// Replaces an entry of which there is no file yet.
    pub(crate) async fn replace(
        &self,
        dataset: Dataset,
        entry: &FileEntry,
    ) -> Result<(), ExportError> {
        let path = entry.path_of_entry(dataset);
        self.store.put(&path, json(entry)).await?;
        Ok(())
    }

    /// Whether a file is there.
    pub(crate) async fn has(&self, path: &str) -> Result<bool, ExportError> {
        match self.store.head(&path.into()).await {
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            found => Ok(found.map(|_| true)?),
        }
    }

    /// Writes the file of an entry: whole or not at all. In a folder it is written beside the manifest, where no engine reads, and renamed.
    pub(crate) async fn write(
        &self,
        dataset: Dataset,
        path: &str,
        bytes: Vec<u8>,
    ) -> Result<(), ExportError> {
        if self.is_folder {
            let staged = staged_folder(dataset).join(Uuid::new_v4().to_string());
            self.store.put(&staged, bytes.into()).await?;
            return Ok(self.store.rename(&staged, &path.into()).await?);
        }
        let path = path.into();
        if bytes.len() <= PART_BYTES {
            self.store.put(&path, bytes.into()).await?;
            return Ok(());
        }
        let upload = self.store.put_multipart(&path).await?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
        upload.put(bytes.into());
        // If a part fails, the others are removed.
        upload.finish().await?;
        Ok(())
    }

    /// Removes the staged files of exporters that were killed while they wrote.
    pub(crate) async fn clear_staged(&self, dataset: Dataset) -> Result<(), ExportError> {
        let folder = staged_folder(dataset);
        let staged = self.store.list(Some(&folder)).try_collect::<Vec<_>>();
        for left in staged.await? {
            let age = SystemTime::now().duration_since(left.last_modified.into());
            if age.is_ok_and(|age| age > LONGEST_WRITE) {
                match self.store.delete(&left.location).await {
                    Err(object_store::Error::NotFound { .. }) => {}
                    deleted => deleted?,
                }
            }
        }
        Ok(())
    }

    /// The paths of all files of a dataset.
    pub(crate) async fn files(&self, dataset: Dataset) -> Result<HashSet<String>, ExportError> {
        let folder = ObjectPath::from(dataset.name());
        let found = self.store.list(Some(&folder));
        let paths = found.map_ok(|found| found.location.to_string());
        Ok(paths.try_collect().await?)
    }

    async fn create(&self, path: &ObjectPath, content: &impl Serialize) -> Result<(), ExportError> {
        let create = PutMode::Create.into();
        self.store.put_opts(path, json(content), create).await?;
        Ok(())
    }

    async fn read<T: DeserializeOwned>(&self, path: &ObjectPath) -> Result<Option<T>, ExportError> {
        let found = match self.store.get(path).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            found => found?.bytes().await?,
        };
        let mut content: Map<String, Value> =
            serde_json::from_slice(&found).map_err(|error| wrong(path, error))?;
        let hash = content.remove("hash");
        if hash != Some(hash_of(&content)) {
            return Err(wrong(path, "its hash is not that of its content"));
        }
        let content = serde_json::from_value(content.into());
        content.map(Some).map_err(|error| wrong(path, error))
    }
}

impl Options {
    /// The error for the first difference between the options that a dataset was found with, `self`, and those that are asked for, each in words.
    fn difference(&self, asked: &Self, dataset: Dataset) -> ExportError {
        let pseudonyms = |of: &Self| match &of.privacy.pseudonyms {
            Some(key) => format!("pseudonyms under the key with the fingerprint {key}"),
            None => "no pseudonyms".to_owned(),
        };
        let recalled = |of: &Self| match of.privacy.with_recalled {
            true => "texts of recalled messages".to_owned(),
            false => "no texts of recalled messages".to_owned(),
        };
        let texts = |of: &Self| match of.privacy.without_texts {
            true => "no texts".to_owned(),
            false => "texts".to_owned(),
        };
        let topic = |of: &Self| format!("events of the topic {}", of.topic);
        let format = |of: &Self| format!("{} columns in format {}", of.columns.len(), of.format);
        let sayings: [&dyn Fn(&Self) -> String; 5] =
            [&pseudonyms, &recalled, &texts, &topic, &format];
        let mut pairs = sayings.iter().map(|say| (say(self), say(asked)));
        let (found, asked) = pairs.find(|(found, asked)| found != asked).unwrap_or((
            "columns with other names or types".to_owned(),
            "the columns of this program".to_owned(),
        ));
        ExportError::OtherLake {
            dataset,
            found,
            asked,
        }
    }
}

pub(crate) fn entries_folder(dataset: Dataset, partition: Partition) -> ObjectPath {
    manifest(dataset, &format!("p{:02}", partition.get()))
}

fn staged_folder(dataset: Dataset) -> ObjectPath {
    manifest(dataset, "staged")
}

/// A folder whose name begins with `_` is not read by engines.
fn manifest(dataset: Dataset, name: &str) -> ObjectPath {
    format!("{}/_manifest/{name}", dataset.name()).into()
}

/// A file of the manifest: the fields of `content`, and a hash of them.
fn json(content: &impl Serialize) -> PutPayload {
    let Ok(Value::Object(mut content)) = serde_json::to_value(content) else {
        unreachable!("it is a struct with text keys")
    };
    content.insert("hash".to_owned(), hash_of(&content));
    let mut text = serde_json::to_vec_pretty(&content).expect("it has text keys only");
    text.push(b'\n');
    text.into()
}

fn hash_of(fields: &Map<String, Value>) -> Value {
    let fields = serde_json::to_vec(fields).expect("it has text keys only");
    blake3::hash(&fields).to_hex().to_string().into()
}

pub(crate) fn wrong(path: &ObjectPath, detail: impl ToString) -> ExportError {
    ExportError::Manifest {
        path: path.to_string(),
        detail: detail.to_string(),
    }
}

fn invalid(
    address: &str,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> object_store::Error {
    let error = error.into();
    object_store::Error::Generic {
        store: "lake",
        source: format!("{address}: {error}").into(),
    }
}
