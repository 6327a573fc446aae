//! The columns of events in tables: their names, what they mean, and how much they tell about people.

use crate::{GroupId, UserId};

/// A column of the table of a kind of event.
#[derive(Debug)]
pub struct Column<K: 'static> {
    /// Its name; that of the JSON field, if there is one.
    pub name: &'static str,
    /// What it means, with its unit.
    pub meaning: &'static str,
    /// Its type, and its value in the row of an event.
    pub value: ColumnValue<K>,
}

/// The type of a column, and its value in the row of an event. The type says what the value tells about people: who may see it depends on that.
#[derive(Debug)]
pub enum ColumnValue<K: 'static> {
    /// A user.
    User(fn(&K) -> Option<UserId>),
    /// Several users.
    Users(fn(&K) -> Vec<UserId>),
    /// A group.
    Group(fn(&K) -> Option<GroupId>),
    /// An id that a caller chose.
    ChosenId(fn(&K) -> Option<&str>),
    /// The text of a message.
    Text(fn(&K) -> Option<&str>),
    /// A text that tells who somebody is, or what a group is.
    Name(fn(&K) -> Option<&str>),
    /// One of a few words, or an emoji.
    Word(fn(&K) -> Option<&str>),
    /// Several words.
    Words(fn(&K) -> Vec<&str>),
    /// A number.
    Number(fn(&K) -> Option<i64>),
    /// True or false.
    Flag(fn(&K) -> bool),
}

/// A table of columns: each its name, its type and value, and its meaning.
#[macro_export]
macro_rules! columns {
    ($($name:ident: $kind:ident($value:expr), $meaning:literal;)*) => {
        &[$($crate::Column {
            name: stringify!($name),
            meaning: $meaning,
            value: $crate::ColumnValue::$kind($value),
        }),*]
    };
}
