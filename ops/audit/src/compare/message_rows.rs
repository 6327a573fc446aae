//! The rows of the two kinds of tables of messages, in one form.

use message_store::{MessageRow, ReadTx, StoreError};
use schemas::{ClientMsgId, ConversationId, Mid, Ordinal, TableNumber, TimestampMs, UserId};

use crate::{
    Area,
    fold::{MessageDigest, Messages, Place, SentMessage, Text},
};

/// Which table of messages it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageRows {
    /// `chat_msg_<n>`.
    Direct,
    /// `group_msg_<n>`.
    InGroups,
}

/// A row, with a digest in place of its text.
pub(super) struct StoredMessage {
    pub(super) id: i64,
    pub(super) ts: TimestampMs,
    pub(super) digest: MessageDigest,
    without_reactions: MessageDigest,
    conversation: ConversationId,
    srcid: UserId,
    client_msg_id: ClientMsgId,
    mid: Mid,
    ordinal: i64,
}

impl MessageRows {
    pub(crate) fn area(self) -> Area {
        match self {
            Self::Direct => Area::Messages,
            Self::InGroups => Area::GroupMessages,
        }
    }

    /// The digests that the log has for the table.
    pub(super) fn digests(self, messages: &Messages) -> &[(i64, u64)] {
        match self {
            Self::Direct => &messages.digests,
            Self::InGroups => &messages.group_digests,
        }
    }

    /// The next rows after the id `after`, ascending.
    pub(super) async fn scan(
        self,
        snapshot: &mut ReadTx,
        number: TableNumber,
        after: i64,
        limit: u32,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        let rows = match self {
            Self::Direct => snapshot.scan_messages(number, after, limit).await?,
            Self::InGroups => snapshot.scan_group_messages(number, after, limit).await?,
        };
        Ok(rows.into_iter().map(StoredMessage::from).collect())
    }

    /// The rows of these messages; messages of other tables are left out.
    pub(super) async fn by_mid(
        self,
        snapshot: &mut ReadTx,
        places: &[Place],
    ) -> Result<Vec<StoredMessage>, StoreError> {
        let is_here = |(conversation, _): &&Place| match conversation {
            ConversationId::Direct(_) => self == Self::Direct,
            ConversationId::Group(_) => self == Self::InGroups,
        };
        let places: Vec<Place> = places.iter().filter(is_here).copied().collect();
        let rows = snapshot.messages_by_mid(&places).await?;
        Ok(rows.into_values().map(StoredMessage::from).collect())
    }
}

impl From<MessageRow> for StoredMessage {
    fn from(row: MessageRow) -> Self {
        let text = Text {
            msg: &row.msg,
            state: row.state.into(),
            edited_ts: row.edited_ts,
        };
        let sent = SentMessage {
            conversation: row.conversation(),
            srcid: row.srcid,
            client_msg_id: &row.client_msg_id,
            mid: row.mid,
            ordinal: row.ordinal.map_or(0, Ordinal::get),
        };
        let without_reactions = MessageDigest::of(row.ts, &sent, &text);
        Self {
            id: row.id,
            ts: row.ts,
            digest: without_reactions.with_reactions(&row.reactions),
            without_reactions,
            conversation: sent.conversation,
            srcid: sent.srcid,
            mid: sent.mid,
            ordinal: sent.ordinal,
            client_msg_id: row.client_msg_id,
        }
    }
}

impl StoredMessage {
    pub(super) fn place(&self) -> Place {
        (self.conversation, self.mid)
    }

    /// The digest without what changes have added; a text that was not changed is as it was sent.
    pub(super) fn as_sent(&self) -> MessageDigest {
        self.without_reactions
    }

    /// The columns that differ from those of the message at this offset.
    pub(super) fn different(&self, sent: &SentMessage<'_>, ts: TimestampMs) -> String {
        let found = SentMessage {
            conversation: self.conversation,
            srcid: self.srcid,
            client_msg_id: &self.client_msg_id,
            mid: self.mid,
            ordinal: self.ordinal,
        };
        let receiver = match self.conversation {
            ConversationId::Direct(_) => "destid",
            ConversationId::Group(_) => "gid",
        };
        let columns = [
            ("srcid", sent.srcid == found.srcid),
            (receiver, sent.receiver() == found.receiver()),
            ("mid", sent.mid == found.mid),
            ("ts", ts == self.ts),
            ("client_msg_id", sent.client_msg_id == found.client_msg_id),
            ("n", sent.ordinal == found.ordinal),
        ];
        let names = columns.iter().filter(|(_, equal)| !equal);
        let names: Vec<&str> = names.map(|(name, _)| *name).collect();
        names.join(", ")
    }
}
