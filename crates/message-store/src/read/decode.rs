//! Rows as types. A value that its type refuses does not come from the log: another program wrote it.

use schemas::{
    DirectConversation, LogPosition, Mid, NextOffset, Ordinal, Partition, PartitionMap, PerDevice,
    UserId,
    event::{Message, SourceOffset},
};
use sqlx::{Row as _, mysql::MySqlRow, types::time::PrimitiveDateTime};

use crate::{
    ContactDelta, ContactRow, LastMessage, MessageRow, ReadRow, ReadUpTo, StoreError, StoredRead,
    datetime,
};

/// Rows of `resume_offset`.
pub(crate) fn resume_offsets(rows: &[MySqlRow]) -> Result<PartitionMap<LogPosition>, StoreError> {
    rows.iter()
        .map(|row| {
            let partition = i64::from(row.try_get::<u8, _>("partition_no")?);
            let position = LogPosition {
                next: NextOffset::new(row.try_get("next_offset")?),
                watermark: SourceOffset {
                    epoch: row.try_get("src_epoch")?,
                    offset: row.try_get("src_offset")?,
                },
            };
            let partition = Partition::try_from(partition).map_err(StoreError::fatal)?;
            Ok((partition, position))
        })
        .collect()
}

pub(super) fn message(row: &MySqlRow) -> Result<MessageRow, StoreError> {
    let id: i64 = row.try_get("id")?;
    Ok(MessageRow {
        id,
        ts: datetime::from_column(row.try_get::<PrimitiveDateTime, _>("ts")?),
        message: Message {
            srcid: uid(row, "srcid")?,
            destid: uid(row, "destid")?,
            client_msg_id: row
                .try_get::<String, _>("client_msg_id")?
                .try_into()
                .map_err(|error| refused("client_msg_id", error))?,
            msg: row.try_get("msg")?,
            mid: mid(row, "mid")?,
            n: ordinal(row, "n")?,
        },
    })
}

pub(super) fn contact(row: &MySqlRow) -> Result<ContactRow, StoreError> {
    Ok(ContactRow {
        contact: ContactDelta {
            uid: uid(row, "uid")?,
            peer: uid(row, "peer")?,
            last: last_message(row)?,
            peer_n: ordinal(row, "peer_n")?,
            own_n: ordinal(row, "own_n")?,
            read: PerDevice {
                pc: read_up_to(row, "pc_read_mid", "pc_read_n")?,
                mobile: read_up_to(row, "mobile_read_mid", "mobile_read_n")?,
            },
        },
        deleted: row.try_get::<i8, _>("del_flag")? != 0,
        favourite: row.try_get::<i8, _>("favourite")? != 0,
    })
}

fn last_message(row: &MySqlRow) -> Result<Option<LastMessage>, StoreError> {
    let mid = mid(row, "last_mid")?;
    if mid == Mid::ZERO {
        return Ok(None);
    }
    Ok(Some(LastMessage {
        mid,
        ts: datetime::from_column(row.try_get::<PrimitiveDateTime, _>("last_ts")?),
        srcid: uid(row, "last_srcid")?,
        preview: row.try_get("preview")?,
    }))
}

fn read_up_to(row: &MySqlRow, mid_column: &str, n_column: &str) -> Result<ReadUpTo, StoreError> {
    let n: Option<i64> = row.try_get(n_column)?;
    Ok(ReadUpTo {
        mid: mid(row, mid_column)?,
        n: n.map(Ordinal::try_from)
            .transpose()
            .map_err(|error| refused(n_column, error))?,
    })
}

pub(super) fn read_mids(row: &MySqlRow) -> Result<PerDevice<Mid>, StoreError> {
    Ok(PerDevice {
        pc: mid(row, "pcMid")?,
        mobile: mid(row, "mobileMid")?,
    })
}

pub(super) fn stored_read(row: &MySqlRow) -> Result<StoredRead, StoreError> {
    let conversation: DirectConversation = row
        .try_get::<String, _>("sessionId")?
        .parse()
        .map_err(|error| refused("sessionId", error))?;
    Ok(StoredRead {
        id: row.try_get("id")?,
        row: ReadRow {
            uid: uid(row, "uid")?,
            conversation,
            mids: read_mids(row)?,
        },
    })
}

pub(crate) fn uid(row: &MySqlRow, column: &str) -> Result<UserId, StoreError> {
    UserId::try_from(row.try_get::<i64, _>(column)?).map_err(|error| refused(column, error))
}

pub(crate) fn mid(row: &MySqlRow, column: &str) -> Result<Mid, StoreError> {
    Mid::try_from(row.try_get::<i64, _>(column)?).map_err(|error| refused(column, error))
}

pub(super) fn ordinal(row: &MySqlRow, column: &str) -> Result<Ordinal, StoreError> {
    Ordinal::try_from(row.try_get::<i64, _>(column)?).map_err(|error| refused(column, error))
}

fn refused(column: &str, error: impl std::fmt::Display) -> StoreError {
    StoreError::fatal(format!("column {column}: {error}"))
}
