//! The rows of a dataset that wait for their batch.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, RecordBatch,
    builder::{Int32Builder, Int64Builder, TimestampMillisecondBuilder},
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::{
    Dataset, Privacy,
    columns::{ColumnGroup, Shown, with_meaning},
    dataset::Row,
};

/// The rows of a dataset since the last batch.
pub(crate) struct Table {
    schema: SchemaRef,
    privacy: Privacy,
    partitions: Int32Builder,
    offsets: Int64Builder,
    times: TimestampMillisecondBuilder,
    groups: Vec<Box<dyn ColumnGroup>>,
}

impl Table {
    pub(crate) fn new(dataset: Dataset, privacy: &Privacy) -> Self {
        let groups = dataset.column_groups();
        let mut fields = position_fields();
        fields.extend(groups.iter().flat_map(|group| group.fields()));
        Self {
            schema: Arc::new(Schema::new(fields)),
            privacy: privacy.clone(),
            partitions: Int32Builder::new(),
            offsets: Int64Builder::new(),
            times: TimestampMillisecondBuilder::new().with_timezone("UTC"),
            groups,
        }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds a row of the dataset.
    pub(crate) fn push(&mut self, row: &Row) {
        let Privacy {
            with_recalled,
            without_texts,
            pseudonyms,
        } = &self.privacy;
        let shown = Shown {
            texts: !without_texts && (*with_recalled || row.state.recalled.is_none()),
            names: !without_texts && pseudonyms.is_none(),
            pseudonyms: pseudonyms.as_ref(),
        };
        self.partitions.append_value(row.partition.get().into());
        self.offsets.append_value(row.offset);
        self.times.append_value(row.event.ts.0);
        for group in &mut self.groups {
            group.push(row, shown);
        }
    }

    /// The rows since the last call.
    pub(crate) fn finish(&mut self) -> RecordBatch {
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(self.partitions.finish()),
            Arc::new(self.offsets.finish()),
            Arc::new(self.times.finish()),
        ];
        arrays.extend(self.groups.iter_mut().flat_map(|group| group.finish()));
        RecordBatch::try_new(Arc::clone(&self.schema), arrays)
            .expect("the schema and the arrays come from the same columns, and every row has all")
    }
}

/// The columns that every dataset begins with.
fn position_fields() -> Vec<Field> {
    let time = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    [
        (
            "partition",
            DataType::Int32,
            "the event's partition of chat.events",
        ),
        (
            "offset",
            DataType::Int64,
            "the event's offset in its partition",
        ),
        ("time", time, "when it was decided: log time, UTC"),
    ]
    .map(|(name, data_type, meaning)| with_meaning(Field::new(name, data_type, false), meaning))
    .into()
}
