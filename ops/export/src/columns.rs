//! The cells of columns that wait for their batch.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{
    ArrayRef,
    builder::{BooleanBuilder, Int64Builder, ListBuilder, StringBuilder},
};
use arrow_schema::{DataType, Field};
use schemas::{Column, ColumnValue, GroupId, UserId};

use crate::{Pseudonyms, dataset::Row};

/// The key of a field's metadata with the meaning of the column.
pub(crate) const MEANING: &str = "meaning";

pub(crate) fn with_meaning(field: Field, meaning: &str) -> Field {
    let metadata = HashMap::from([(MEANING.to_owned(), meaning.to_owned())]);
    field.with_metadata(metadata)
}

/// Columns whose values come from rows.
pub(crate) trait ColumnGroup: Send {
    /// Their names, types and meanings.
    fn fields(&self) -> Vec<Field>;

    /// Adds the cells of a row.
    fn push(&mut self, row: &Row, shown: Shown<'_>);

    /// The arrays of the rows since the last call.
    fn finish(&mut self) -> Vec<ArrayRef>;
}

/// The columns of a kind of event, or of all rows.
pub(crate) struct Columns<K: 'static> {
    columns: Vec<(&'static Column<K>, Cells)>,
    of_row: fn(&Row) -> Option<&K>,
}

enum Cells {
    Numbers(Int64Builder),
    Flags(BooleanBuilder),
    Texts(StringBuilder),
    NumberLists(ListBuilder<Int64Builder>),
    TextLists(ListBuilder<StringBuilder>),
}

impl<K> Columns<K> {
    /// `of_row` finds the kind in a row of the dataset.
    pub(crate) fn boxed(
        columns: &'static [Column<K>],
        of_row: fn(&Row) -> Option<&K>,
    ) -> Box<dyn ColumnGroup> {
        let with_cells = |column: &'static Column<K>| (column, Cells::of(&column.value));
        Box::new(Self {
            columns: columns.iter().map(with_cells).collect(),
            of_row,
        })
    }
}

impl<K> ColumnGroup for Columns<K> {
    fn fields(&self) -> Vec<Field> {
        let field = |(column, cells): &(&Column<K>, Cells)| {
            let field = Field::new(column.name, cells.data_type(), true);
            with_meaning(field, column.meaning)
        };
        self.columns.iter().map(field).collect()
    }

    fn push(&mut self, row: &Row, shown: Shown<'_>) {
        let row = (self.of_row)(row).expect("`Dataset::has` has chosen the row");
        for (column, cells) in &mut self.columns {
            cells.push(&column.value, row, shown);
        }
    }

    fn finish(&mut self) -> Vec<ArrayRef> {
        let cells = self.columns.iter_mut();
        cells.map(|(_, cells)| cells.finish()).collect()
    }
}

/// The elements of a list, by the name that the format gives them: Iceberg refuses others.
fn element(data_type: DataType) -> Field {
    Field::new("element", data_type, true)
}

/// What of a row is shown.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) texts: bool,
    pub(crate) names: bool,
    /// Instead of ids.
    pub(crate) pseudonyms: Option<&'a Pseudonyms>,
}

impl Cells {
    fn of<K>(value: &ColumnValue<K>) -> Self {
        match value {
            ColumnValue::User(_) | ColumnValue::Group(_) | ColumnValue::Number(_) => {
                Self::Numbers(Int64Builder::new())
            }
            ColumnValue::ChosenId(_)
            | ColumnValue::Text(_)
            | ColumnValue::Name(_)
            | ColumnValue::Word(_) => Self::Texts(StringBuilder::new()),
            ColumnValue::Flag(_) => Self::Flags(BooleanBuilder::new()),
            ColumnValue::Users(_) => {
                let cells = ListBuilder::new(Int64Builder::new());
                Self::NumberLists(cells.with_field(element(DataType::Int64)))
            }
            ColumnValue::Words(_) => {
                let cells = ListBuilder::new(StringBuilder::new());
                Self::TextLists(cells.with_field(element(DataType::Utf8)))
            }
        }
    }

    fn data_type(&self) -> DataType {
        let list = |item| DataType::List(Arc::new(element(item)));
        match self {
            Self::Numbers(_) => DataType::Int64,
            Self::Flags(_) => DataType::Boolean,
            Self::Texts(_) => DataType::Utf8,
            Self::NumberLists(_) => list(DataType::Int64),
            Self::TextLists(_) => list(DataType::Utf8),
        }
    }

    fn push<K>(&mut self, value: &ColumnValue<K>, row: &K, shown: Shown<'_>) {
        let user = |uid: UserId| shown.pseudonyms.map_or(uid.get(), |key| key.user(uid));
        let group = |gid: GroupId| shown.pseudonyms.map_or(gid.get(), |key| key.group(gid));
        match (self, value) {
            (Self::Numbers(cells), ColumnValue::User(of)) => cells.append_option(of(row).map(user)),
            (Self::Numbers(cells), ColumnValue::Group(of)) => {
                cells.append_option(of(row).map(group));
            }
            (Self::Numbers(cells), ColumnValue::Number(of)) => cells.append_option(of(row)),
            (Self::Flags(cells), ColumnValue::Flag(of)) => cells.append_value(of(row)),
            (Self::Texts(cells), ColumnValue::ChosenId(of)) => match shown.pseudonyms {
                Some(key) => cells.append_option(of(row).map(|id| key.chosen_id(id))),
                None => cells.append_option(of(row)),
            },
            (Self::Texts(cells), ColumnValue::Text(of)) => {
                cells.append_option(of(row).filter(|_| shown.texts));
            }
            (Self::Texts(cells), ColumnValue::Name(of)) => {
                cells.append_option(of(row).filter(|_| shown.names));
            }
            (Self::Texts(cells), ColumnValue::Word(of)) => cells.append_option(of(row)),
            (Self::NumberLists(cells), ColumnValue::Users(of)) => {
                cells.append_value(of(row).into_iter().map(|uid| Some(user(uid))));
            }
            (Self::TextLists(cells), ColumnValue::Words(of)) => {
                cells.append_value(of(row).into_iter().map(Some));
            }
            _ => unreachable!("`Cells::of` has made the cells for this type"),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Numbers(cells) => Arc::new(cells.finish()),
            Self::Flags(cells) => Arc::new(cells.finish()),
            Self::Texts(cells) => Arc::new(cells.finish()),
            Self::NumberLists(cells) => Arc::new(cells.finish()),
            Self::TextLists(cells) => Arc::new(cells.finish()),
        }
    }
}
