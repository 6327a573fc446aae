//! How conversations are stored: the differences between those of two users and groups.

use schemas::{ConversationId, Mid, UserId};

use crate::names::Table;

/// What a recall and a delete take from a row of a message, as statements assign it.
pub(crate) const EMPTIED: &str = "msg = '', edited_ts = NULL, reactions = NULL";

/// The two kinds of conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Direct = 0,
    Group = 1,
}

impl Kind {
    pub(crate) fn of(conversation: ConversationId) -> Self {
        match conversation {
            ConversationId::Direct(_) => Self::Direct,
            ConversationId::Group(_) => Self::Group,
        }
    }

    /// `kind` in `contact_<n>` and `hidden_<n>`.
    pub(crate) fn to_column(self) -> i8 {
        self as i8
    }

    /// The table of its messages.
    pub(crate) fn messages(self) -> Table {
        match self {
            Self::Direct => Table::ChatMsg,
            Self::Group => Table::GroupMsg,
        }
    }

    /// Fills in what differs between the kinds: `{columns}`, `{is_same_conversation}` and `{is_of_editor}`.
    pub(crate) fn fill(self, sql: &str) -> String {
        sql.replace("{columns}", self.columns())
            .replace("{is_same_conversation}", self.is_same_conversation())
            .replace("{is_of_editor}", self.is_of_editor())
    }

    /// The columns of a message that reads select.
    fn columns(self) -> &'static str {
        match self {
            Self::Direct => {
                "id, srcid, destid, mid, msg, ts, client_msg_id, n, state, edited_ts, reactions"
            }
            Self::Group => {
                "id, srcid, gid, mid, msg, ts, client_msg_id, state, edited_ts, reactions"
            }
        }
    }

    /// The condition that a message `m` is in the conversation of a change `c`.
    fn is_same_conversation(self) -> &'static str {
        match self {
            Self::Direct => {
                "c.lo = LEAST(m.srcid, m.destid) AND c.hi = GREATEST(m.srcid, m.destid)"
            }
            Self::Group => "c.lo = 0 AND c.hi = m.gid",
        }
    }

    /// The condition that a message `m` is in the conversation of an edit `c`, in a form that the index can use: between two users only the sender
    /// edits a message.
    fn is_of_editor(self) -> &'static str {
        match self {
            Self::Direct => "m.srcid = c.uid AND m.destid = IF(c.uid = c.lo, c.hi, c.lo)",
            Self::Group => "m.gid = c.hi",
        }
    }
}

/// (lo, hi) of `msg_change_<n>`; 0 is not a uid.
pub(crate) fn lo_and_hi(conversation: ConversationId) -> (i64, i64) {
    match conversation {
        ConversationId::Direct(direct) => (direct.lo().get(), direct.hi().get()),
        ConversationId::Group(gid) => (0, gid.get()),
    }
}

/// The number that, together with the kind, identifies a conversation of a user: `peer` of `hidden_<n>`.
pub(crate) fn peer_number(conversation: ConversationId, uid: UserId) -> i64 {
    match conversation {
        ConversationId::Direct(direct) => direct.peer_of(uid).get(),
        ConversationId::Group(gid) => gid.get(),
    }
}

/// The condition that identifies one message. Between two users it needs the sender, too.
pub(crate) fn message_key(conversation: ConversationId, srcid: UserId, mid: Mid) -> String {
    match conversation {
        ConversationId::Direct(direct) => {
            let destid = direct.peer_of(srcid);
            format!("srcid = {srcid} AND destid = {destid} AND mid = {mid}")
        }
        ConversationId::Group(gid) => format!("gid = {gid} AND mid = {mid}"),
    }
}

/// Conditions of which one is true of the message: either user may have sent it. The index can use them; it cannot use a list of tuples.
pub(crate) fn message_keys(conversation: ConversationId, mid: Mid) -> Vec<String> {
    match conversation {
        ConversationId::Direct(direct) => {
            let of_sender = |srcid| message_key(conversation, srcid, mid);
            direct.users().map(of_sender).collect()
        }
        ConversationId::Group(gid) => vec![format!("gid = {gid} AND mid = {mid}")],
    }
}
