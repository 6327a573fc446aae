use event_log::EventLogError;
use schemas::{Partition, event::UnknownRules};

use crate::Dataset;

/// Why an export failed. What it has written stays, and the same command goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The log cannot be read.
    #[error(transparent)]
    Kafka(#[from] EventLogError),
    /// A newer program wrote the next record.
    #[error("chat.events, {partition}:{offset}: {source}")]
    UnknownRules {
        /// The record's partition.
        partition: Partition,
        /// Its offset.
        offset: i64,
        /// Why it is not understood.
        source: UnknownRules,
    },
    /// Records of the range were deleted by retention.
    #[error(
        "partition {partition} of chat.events begins at offset {start}, and the export at {from}: what came before was deleted by retention. \
         --from {partition}:{start}, or a later time, exports what is left"
    )]
    Removed {
        /// The partition.
        partition: Partition,
        /// Where the export would begin.
        from: i64,
        /// The first offset that is left.
        start: i64,
    },
    /// The folder or bucket cannot be read or written.
    #[error("the lake")]
    Store(#[from] object_store::Error),
    /// A temporary file cannot be written or read.
    #[error("a temporary file")]
    Temporary(#[from] std::io::Error),
    /// Parquet cannot be written.
    #[error("writing Parquet")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// The folder has an export with other options, or by a program that writes other files.
    #[error(
        "the {dataset} of this folder were exported with {found}, and this command asks for {asked}: use another folder"
    )]
    OtherLake {
        /// The dataset.
        dataset: Dataset,
        /// What is there.
        found: String,
        /// What was asked for.
        asked: String,
    },
    /// Another range is not exported to its end.
    #[error(
        "{dataset} in this folder are exported from {from} to {to}, and that is not finished: repeat it with these bounds, or use another folder"
    )]
    Unfinished {
        /// The dataset.
        dataset: Dataset,
        /// As it was given.
        from: String,
        /// As it was given.
        to: String,
    },
    /// A file of the manifest is not as an export writes it.
    #[error("{path} is not as an export wrote it ({detail}): restore it, or use another folder")]
    Manifest {
        /// The file.
        path: String,
        /// What is wrong.
        detail: String,
    },
    /// The membership of the consumer group has ended.
    #[error("the consumer group: {0}")]
    Group(String),
    /// Another process exports the same range.
    #[error(
        "partition {partition}, offset {offset}: another export writes this range of {dataset} to this folder. Wait for it, then repeat this command"
    )]
    Busy {
        /// The dataset.
        dataset: Dataset,
        /// The partition.
        partition: Partition,
        /// Where the range begins.
        offset: i64,
    },
}

impl ExportError {
    /// Whether Kafka or the bucket does not answer, or does not let this user in.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        use object_store::Error;
        match self {
            Self::Kafka(_) => true,
            Self::Store(Error::Generic { store, .. }) => *store == "S3",
            Self::Store(Error::PermissionDenied { .. } | Error::Unauthenticated { .. }) => true,
            _ => false,
        }
    }
}
