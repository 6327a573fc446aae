#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod arguments;
mod config;
mod contact;
mod conversation;
mod datetime;
mod device;
mod difference;
mod error;
mod group;
mod layout;
mod message;
mod multi_row;
mod names;
mod read;
mod read_row;
mod resume;
mod schema;
mod scratch;
mod session;
mod store;
mod swap;
#[cfg(feature = "test-databases")]
mod test_databases;
mod unresolved_read;
mod write;

pub use config::{MySqlConfig, ServerConfig, TlsMode};
pub use contact::{
    ContactCursor, ContactDelta, ContactRow, FlagsAt, LastMessage, PREVIEW_CHARS, ReadUpTo,
};
pub use device::DeviceRow;
pub use difference::{HowRowsDiffer, RowDifference, TableDifference};
pub use error::StoreError;
pub use group::{GroupDelta, GroupHead, GroupMemberRow, GroupRow, Membership, SettingsAt};
pub use layout::{Layout, Shard};
pub use message::{ChangeRow, MessageRow, MessageState, StoredChange};
pub use read::{ReadTx, UNREAD_LIMIT};
pub use read_row::{ReadRow, StoredRead};
pub use resume::{OffsetUpdate, Sink, StoredOffset};
pub use schema::{MONTHS_AHEAD, Month, MonthSize, RetentionRow, SchemaReport};
pub use scratch::{ScratchNote, ServerDisk};
pub use store::MessageStore;
pub use swap::{Fence, RebuildLock, ShadowState, Shadows};
#[cfg(feature = "test-databases")]
pub use test_databases::TestDatabases;
pub use unresolved_read::{StoredUnresolvedRead, UnresolvedRead};
pub use write::{ClearedCursors, ConversationRows, UserRows};
