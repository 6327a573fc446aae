//! What is wrong with a field, and the checks that several kinds share.

use crate::{Mid, Ordinal, UserId};

/// A record's value that is not a valid command or event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct Malformed {
    /// The field at fault by its name in the `.proto` file, or `value` for the whole value.
    pub field: &'static str,
    /// What is wrong with the field and what is allowed.
    pub problem: String,
}

impl Malformed {
    /// `problem` says what is wrong with `field` and what is allowed.
    pub fn new(field: &'static str, problem: impl ToString) -> Self {
        Self {
            field,
            problem: problem.to_string(),
        }
    }
}

/// Checks a uid of a protobuf message.
pub(crate) fn uid(field: &'static str, value: i64) -> Result<UserId, Malformed> {
    UserId::try_from(value).map_err(|e| Malformed::new(field, e))
}

/// Checks a text.
pub(crate) fn text(msg: String) -> Result<String, Malformed> {
    if msg.is_empty() {
        return Err(Malformed::new("msg", "is empty; must be at least one byte"));
    }
    if memchr::memchr(0, msg.as_bytes()).is_some() {
        return Err(Malformed::new(
            "msg",
            "has a NUL character; must be UTF-8 without NUL",
        ));
    }
    Ok(msg)
}

/// Checks the number of a message.
pub(crate) fn mid(value: i64) -> Result<Mid, Malformed> {
    match Mid::try_from(value) {
        Ok(mid) if mid > Mid::ZERO => Ok(mid),
        _ => Err(Malformed::new(
            "mid",
            format!("is {value}; must be a message's number, 1 or more"),
        )),
    }
}

/// Checks a number among the messages of a sender.
pub(crate) fn ordinal(value: i64) -> Result<Ordinal, Malformed> {
    Ordinal::try_from(value).map_err(|e| Malformed::new("n", e))
}

/// Checks an ordinal; `None` in a group, where messages are not counted by sender.
pub(crate) fn ordinal_between_users(
    n: Option<i64>,
    gid: i64,
) -> Result<Option<Ordinal>, Malformed> {
    n.filter(|_| gid == 0).map(ordinal).transpose()
}
