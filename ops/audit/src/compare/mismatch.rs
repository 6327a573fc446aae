//! Compares a value with the state that follows from the log. Pure.

use schemas::{DeviceClass, PerDevice};

use super::{
    key::{Key, Rows},
    unread,
    value::Value,
};
use crate::{
    Area, Kind,
    fold::{Contact, Subject},
};

/// A value that does not follow from the log.
#[derive(Debug)]
pub(super) struct Mismatch {
    pub(super) area: Area,
    pub(super) kind: Kind,
    pub(super) what: String,
    /// The report names the newest event of it.
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

    /// That of a value which no projection writes.
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

/// What a store has, and what the log had before that was read (`low`) and after (`high`).
pub(super) type Compared<'a> = [Option<&'a Value>; 3];

pub(super) fn mismatches(key: Key, values: Compared<'_>) -> Vec<Mismatch> {
    let wrong: Vec<(Kind, String)> = match (key.rows, key.subject) {
        (Rows::UnreadCounts, Subject::User(uid)) => return unread::mismatches(uid, values),
        (Rows::Hidden | Rows::HiddenInGroups, _) => wrong_hidden(values),
        (Rows::ReadPositions, _) => wrong_reads(values).into_iter().collect(),
        (Rows::Contacts, _) => wrong_contact(values).into_iter().collect(),
        (rows, _) => wrong_row(rows, values).into_iter().collect(),
    };
    let wrong = wrong.into_iter();
    wrong
        .map(|(kind, what)| key.mismatch(kind, &what))
        .collect()
}

fn contact(value: Option<&Value>) -> Contact {
    match value {
        Some(Value::Contact(contact)) => contact.clone(),
        _ => Contact::default(),
    }
}

fn wrong_reads(values: Compared<'_>) -> Option<(Kind, String)> {
    let mids = |value| contact(value).reads.map(|read| read.mid);
    let [found, low, high] = values.map(mids);
    let is_right = |device: &DeviceClass| (low[*device]..=high[*device]).contains(&found[*device]);
    let device = DeviceClass::ALL.into_iter().find(|one| !is_right(one))?;
    let kind = if found == PerDevice::default() {
        Kind::Missing
    } else if high[device] == 0 {
        Kind::Extra
    } else {
        Kind::Different
    };
    let (found, right) = (found[device], low[device]);
    Some((kind, format!("{device}Mid is {found}, {right} is right")))
}

fn wrong_contact(values: Compared<'_>) -> Option<(Kind, String)> {
    let [found, low, high] = values.map(contact);
    let column = found.outside(&low, &high)?;
    let (kind, what) = match values {
        [None, ..] => (Kind::Missing, "no row"),
        [Some(_), _, None] => (Kind::Extra, "no such conversation"),
        _ => (Kind::Different, column),
    };
    Some((kind, what.to_owned()))
}

/// What is hidden stays so. What is cleared may be deleted.
fn wrong_hidden(values: Compared<'_>) -> Vec<(Kind, String)> {
    let [(found, _), (low, _), (high, clear_mid)] = values.map(|value| match value {
        Some(Value::Hidden { mids, clear_mid }) => (&mids[..], *clear_mid),
        _ => (&[][..], 0),
    });
    let kept = low.iter().filter(|mid| **mid > clear_mid);
    let missing = kept.filter(|mid| !found.contains(mid));
    let missing = missing.map(|mid| (Kind::Missing, mid));
    let extra = found.iter().filter(|mid| !high.contains(mid));
    let extra = extra.map(|mid| (Kind::Extra, mid));
    let wrong = missing.chain(extra);
    wrong
        .map(|(kind, mid)| (kind, format!("mid {mid}")))
        .collect()
}

/// A row that names the event that changed it last.
fn wrong_row(rows: Rows, values: Compared<'_>) -> Option<(Kind, String)> {
    let (kind, what) = match values {
        [None, None, _] => return None,
        [None, Some(_), _] => match rows {
            // It has expired, or was never asked for.
            Rows::CachedProfiles => return None,
            Rows::Profiles => (Kind::Missing, "no profile"),
            _ => (Kind::Missing, "no row"),
        },
        [Some(_), _, None] => (Kind::Extra, "it is not in the log"),
        [Some(found), low, Some(high)] => (Kind::Different, outside(found, low, high)?),
    };
    Some((kind, what.to_owned()))
}

/// What the events between the two states left is not known any more: such a row may be any.
fn outside(found: &Value, low: Option<&Value>, high: &Value) -> Option<&'static str> {
    let [at, low_at, high_at] =
        [Some(found), low, Some(high)].map(|row| row.map_or(-1, Value::pos));
    if low_at < at && at < high_at {
        return None;
    }
    let low = low.filter(|_| at == low_at && at != high_at);
    found.different(low.unwrap_or(high))
}

#[cfg(test)]
mod tests {
    use schemas::{ContactFlags, Profile, TimestampMs, UserId};

    use super::*;
    use crate::fold::{Flags, Member, ProfileVersion};

    fn user(uid: i64) -> UserId {
        uid.try_into().unwrap()
    }

    fn wrong(rows: Rows, [found, low, high]: [Option<Value>; 3]) -> Vec<(Kind, String)> {
        let (uid, gid) = (user(1), 5.try_into().unwrap());
        let subject = match rows {
            Rows::Profiles | Rows::CachedProfiles => Subject::User(uid),
            Rows::Memberships | Rows::HiddenInGroups => Subject::Member(gid, uid),
            _ => Subject::Contact(uid, user(2)),
        };
        let values = [found.as_ref(), low.as_ref(), high.as_ref()];
        let wrong = mismatches(rows.of(subject), values).into_iter();
        wrong.map(|one| (one.kind, one.what)).collect()
    }

    fn kinds(rows: Rows, values: [Option<Value>; 3]) -> Vec<Kind> {
        let wrong = wrong(rows, values).into_iter();
        wrong.map(|(kind, _)| kind).collect()
    }

    #[test]
    fn a_hidden_message_is_missing_or_extra() {
        for (rows, whose) in [
            (Rows::Hidden, "hidden of 1 with 2: mid 5"),
            (Rows::HiddenInGroups, "hidden of 1 in g:5: mid 5"),
        ] {
            let kinds_of = |found: &[i64], low: &[i64], high: &[i64], cleared| {
                let hidden = |mids: &[i64], clear_mid| Value::hidden(mids.to_vec(), clear_mid);
                kinds(
                    rows,
                    [hidden(found, 0), hidden(low, 0), hidden(high, cleared)],
                )
            };
            let kinds = |found: &[i64], low: &[i64], high: &[i64]| kinds_of(found, low, high, 0);
            assert_eq!(kinds(&[3], &[3], &[3, 5]), []);
            assert_eq!(kinds(&[3, 5], &[3], &[3, 5]), []);
            assert_eq!(kinds(&[5], &[3], &[3, 5]), [Kind::Missing]);
            assert_eq!(kinds(&[3, 6], &[3], &[3, 5]), [Kind::Extra]);
            assert_eq!(kinds(&[], &[3], &[3]), [Kind::Missing]);

            let hidden = [3, 5, 7];
            for (found, kinds) in [
                (vec![7], vec![]),
                (vec![3, 5, 7], vec![]),
                (vec![3, 5], vec![Kind::Missing]),
                (vec![4, 7], vec![Kind::Extra]),
            ] {
                assert_eq!(kinds_of(&found, &hidden, &hidden, 5), kinds);
            }
            let extra = wrong(rows, [Value::hidden(vec![5], 0), None, None]);
            assert_eq!(extra, [(Kind::Extra, whose.to_owned())]);
        }
    }

    fn membership(read: i64, pos: i64) -> Value {
        Value::Member(Member {
            joined_at: 1,
            reads: PerDevice::from_fn(|_| read),
            pos,
            ..Member::default()
        })
    }

    fn profile(nick: i64, at: i64) -> Value {
        let profile = Profile {
            uid: user(1),
            nick: nick.to_string(),
            avatar: None,
            extra: None,
        };
        Value::Profile(ProfileVersion::new(&profile, TimestampMs(7), at))
    }

    #[test]
    fn a_row_is_as_the_event_left_it_that_it_names() {
        for (rows, row) in [
            (Rows::Memberships, membership as fn(i64, i64) -> Value),
            (Rows::Profiles, profile),
            (Rows::CachedProfiles, profile),
        ] {
            let (low, high) = (Some(row(3, 5)), Some(row(4, 9)));
            let kinds = |found, low: &Option<Value>, high: &Option<Value>| {
                kinds(rows, [found, low.clone(), high.clone()])
            };
            for (content, pos) in [(3, 5), (4, 9), (4, 7), (9, 7)] {
                assert_eq!(kinds(Some(row(content, pos)), &low, &high), []);
            }
            for (content, pos) in [(4, 5), (3, 9), (3, 4), (4, 10), (3, -1)] {
                let found = kinds(Some(row(content, pos)), &low, &high);
                assert_eq!(found, [Kind::Different], "{content} at {pos}");
            }
            let missing = match rows {
                Rows::CachedProfiles => vec![],
                _ => vec![Kind::Missing],
            };
            assert_eq!(kinds(None, &low, &high), missing);
            assert_eq!(kinds(None, &None, &high), []);
            assert_eq!(kinds(high.clone(), &None, &high), []);
            assert_eq!(kinds(Some(row(3, -1)), &None, &high), [Kind::Different]);
            assert_eq!(kinds(low, &None, &None), [Kind::Extra]);
        }
    }

    #[test]
    fn a_contact_may_be_in_between_and_its_flags_any_while_they_change() {
        let contact = |chg, pos, pinned| {
            let set = ContactFlags {
                pinned,
                ..ContactFlags::default()
            };
            let flags = Flags { set, at: pos };
            Contact {
                chg,
                pos,
                flags,
                ..Contact::default()
            }
        };
        let what = |found: Contact, low: &Contact, high: &Contact| {
            let values = [found, low.clone(), high.clone()];
            let wrong = wrong(Rows::Contacts, values.map(|one| Some(Value::Contact(one))));
            let (_, what) = wrong.into_iter().next()?;
            Some(what.rsplit(' ').next().unwrap().to_owned())
        };
        let (low, high) = (contact(1, 5, false), contact(3, 9, false));
        assert_eq!(what(contact(2, 7, true), &low, &high), None);
        assert_eq!(what(contact(3, 9, false), &low, &high), None);
        for (wrong, low, high, column) in [
            (contact(3, 9, true), &low, &high, "pinned"),
            (contact(1, 5, true), &low, &low, "pinned"),
            (contact(4, 7, false), &low, &high, "chg"),
            (contact(3, 10, false), &low, &high, "pos"),
        ] {
            assert_eq!(what(wrong, low, high).as_deref(), Some(column));
        }
        // From before schema version 4.
        let plain = contact(0, 9, false);
        let plain = Contact {
            flags: Flags::default(),
            ..plain
        };
        let old = Contact {
            pos: -1,
            ..plain.clone()
        };
        assert_eq!(what(old.clone(), &plain, &plain), None);
        assert_eq!(what(old, &high, &high).as_deref(), Some("chg"));
    }

    #[test]
    fn a_read_position_is_missing_extra_or_different() {
        let kind = |[pc, mobile]: [i64; 2], read| {
            let reads = |mids: PerDevice<i64>| {
                let mids = mids.map(|mid| mid.try_into().unwrap());
                Some(Value::reads(mids))
            };
            let right = reads(PerDevice::from_fn(|_| read));
            let found = reads(PerDevice { pc, mobile });
            let found = kinds(Rows::ReadPositions, [found, right.clone(), right]);
            found.first().copied()
        };
        assert_eq!(kind([3, 3], 3), None);
        assert_eq!(kind([0, 0], 3), Some(Kind::Missing));
        assert_eq!(kind([3, 2], 3), Some(Kind::Different));
        assert_eq!(kind([3, 0], 0), Some(Kind::Extra));
    }
}
