//! A value that does not follow from the log.

use super::{
    key::{Key, Rows},
    value::Value,
};
use crate::{Area, Kind, fold::Subject};

/// A value that does not follow from the log.
#[derive(Debug)]
pub(super) struct Mismatch {
    pub(super) area: Area,
    pub(super) kind: Kind,
    pub(super) what: String,
    /// The report names the newest event of this subject.
    pub(super) about: Option<Subject>,
}

impl Key {
    pub(super) fn mismatch(self, kind: Kind, what: &str) -> Mismatch {
        let area = self.rows.area();
        Mismatch {
            area,
            kind,
            what: format!("{} of {}: {what}", area.name(), self.subject),
            about: Some(self.subject),
        }
    }

    /// The mismatch of a value that no projection writes.
    pub(super) fn unreadable(self, cause: &str) -> Mismatch {
        let mismatch = self.mismatch(Kind::Different, cause);
        let about = match self.rows {
            Rows::UnreadCounts => None,
            Rows::ReadPositions | Rows::Contacts | Rows::Hidden => mismatch.about,
            _ => return mismatch,
        };
        let what = cause.to_owned();
        Mismatch {
            what,
            about,
            ..mismatch
        }
    }
}

/// What a store has, and what the log had before and after the store was read.
#[derive(Clone, Copy)]
pub(super) struct Compared<T> {
    pub(super) found: T,
    pub(super) lower: T,
    pub(super) upper: T,
}

impl<T> Compared<T> {
    pub(super) fn map<U>(self, to: impl Fn(T) -> U) -> Compared<U> {
        Compared {
            found: to(self.found),
            lower: to(self.lower),
            upper: to(self.upper),
        }
    }
}

/// `None` stands for an absent value.
pub(super) type ComparedValues<'a> = Compared<Option<&'a Value>>;
