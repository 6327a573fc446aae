use schemas::{DirectConversation, Mid, PerDevice, UserId};

/// A user's read positions in a conversation: a row of `read_chat_mid_<n>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRow {
    /// The reader.
    pub uid: UserId,
    /// The conversation read.
    pub conversation: DirectConversation,
    /// The last message read, by device class; 0 if nothing is read.
    pub mids: PerDevice<Mid>,
}

/// A row of `read_chat_mid_<n>` as a scan finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredRead {
    /// The row's number in its table, which orders a scan and means nothing else.
    pub id: i64,
    /// Its values.
    pub row: ReadRow,
}
