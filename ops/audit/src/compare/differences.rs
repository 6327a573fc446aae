//! Compares a value with the state that follows from the log. Pure.

use schemas::{DeviceClass, PerDevice};

use super::{
    key::{Key, Rows},
    mismatch::{Compared, ComparedValues, Mismatch},
    unread,
    value::Value,
};
use crate::{
    Kind,
    fold::{Contact, Subject},
};

pub(super) fn mismatches(key: Key, values: ComparedValues<'_>) -> Vec<Mismatch> {
    let differences: Vec<(Kind, String)> = match (key.rows, key.subject) {
        (Rows::UnreadCounts, Subject::User(uid)) => return unread::mismatches(uid, values),
        (Rows::Hidden | Rows::HiddenInGroups, _) => hidden_difference(values),
        (Rows::ReadPositions, _) => read_difference(values).into_iter().collect(),
        (Rows::Contacts, _) => contact_difference(values).into_iter().collect(),
        (rows, _) => row_difference(rows, values).into_iter().collect(),
    };
    differences
        .into_iter()
        .map(|(kind, what)| key.mismatch(kind, &what))
        .collect()
}

fn contact(value: Option<&Value>) -> Contact {
    match value {
        Some(Value::Contact(contact)) => contact.clone(),
        _ => Contact::default(),
    }
}

fn read_difference(values: ComparedValues<'_>) -> Option<(Kind, String)> {
    let mids = |value| contact(value).reads.map(|read| read.mid);
    let Compared {
        found,
        lower,
        upper,
    } = values.map(mids);
    let is_within =
        |device: &DeviceClass| (lower[*device]..=upper[*device]).contains(&found[*device]);
    let device = DeviceClass::ALL.into_iter().find(|one| !is_within(one))?;
    let kind = if found == PerDevice::default() {
        Kind::Missing
    } else if upper[device] == 0 {
        Kind::Extra
    } else {
        Kind::Different
    };
    let (found, expected) = (found[device], lower[device]);
    Some((kind, format!("{device}Mid is {found}, {expected} is right")))
}

fn contact_difference(values: ComparedValues<'_>) -> Option<(Kind, String)> {
    let contacts = values.map(contact);
    let column = contacts.found.outside(&contacts.lower, &contacts.upper)?;
    let (kind, what) = match (values.found, values.upper) {
        (None, _) => (Kind::Missing, "no row"),
        (Some(_), None) => (Kind::Extra, "no such conversation"),
        _ => (Kind::Different, column),
    };
    Some((kind, what.to_owned()))
}

/// A hidden message stays hidden. Rows of cleared messages may be deleted.
fn hidden_difference(values: ComparedValues<'_>) -> Vec<(Kind, String)> {
    let hidden = values.map(|value| match value {
        Some(Value::Hidden { mids, clear_mid }) => (&mids[..], *clear_mid),
        _ => (&[][..], 0),
    });
    let ((found, _), (lower, _), (upper, clear_mid)) = (hidden.found, hidden.lower, hidden.upper);
    let kept = lower.iter().filter(|mid| **mid > clear_mid);
    let missing = kept.filter(|mid| !found.contains(mid));
    let missing = missing.map(|mid| (Kind::Missing, mid));
    let extra = found.iter().filter(|mid| !upper.contains(mid));
    let extra = extra.map(|mid| (Kind::Extra, mid));
    missing
        .chain(extra)
        .map(|(kind, mid)| (kind, format!("mid {mid}")))
        .collect()
}

/// Compares a row that names the event that changed it last.
fn row_difference(rows: Rows, values: ComparedValues<'_>) -> Option<(Kind, String)> {
    let (kind, what) = match (values.found, values.lower, values.upper) {
        (None, None, _) => return None,
        (None, Some(_), _) => match rows {
            // The profile has expired, or was never asked for.
            Rows::CachedProfiles => return None,
            Rows::Profiles => (Kind::Missing, "no profile"),
            _ => (Kind::Missing, "no row"),
        },
        (Some(_), _, None) => (Kind::Extra, "it is not in the log"),
        (Some(found), lower, Some(upper)) => (Kind::Different, outside(found, lower, upper)?),
    };
    Some((kind, what.to_owned()))
}

/// The state after an event between the two states is not known, so such a row may have any value.
fn outside(found: &Value, lower: Option<&Value>, upper: &Value) -> Option<&'static str> {
    let (event_offset, lower_offset, upper_offset) = (
        found.event_offset(),
        lower.map_or(-1, Value::event_offset),
        upper.event_offset(),
    );
    if lower_offset < event_offset && event_offset < upper_offset {
        return None;
    }
    let lower = lower.filter(|_| event_offset == lower_offset && event_offset != upper_offset);
    found.different(lower.unwrap_or(upper))
}

#[cfg(test)]
mod tests {
    use schemas::{ContactFlags, Profile, TimestampMs, UserId};

    use super::*;
    use crate::fold::{Flags, Member, ProfileVersion};

    fn user(uid: i64) -> UserId {
        uid.try_into().unwrap()
    }

    fn wrong(rows: Rows, [found, lower, upper]: [Option<Value>; 3]) -> Vec<(Kind, String)> {
        let (uid, gid) = (user(1), 5.try_into().unwrap());
        let subject = match rows {
            Rows::Profiles | Rows::CachedProfiles => Subject::User(uid),
            Rows::Memberships | Rows::HiddenInGroups => Subject::Member(gid, uid),
            _ => Subject::Contact(uid, user(2)),
        };
        let values = ComparedValues {
            found: found.as_ref(),
            lower: lower.as_ref(),
            upper: upper.as_ref(),
        };
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
            let kinds_of = |found: &[i64], lower: &[i64], upper: &[i64], cleared| {
                let hidden = |mids: &[i64], clear_mid| Value::hidden(mids.to_vec(), clear_mid);
                kinds(
                    rows,
                    [hidden(found, 0), hidden(lower, 0), hidden(upper, cleared)],
                )
            };
            let kinds =
                |found: &[i64], lower: &[i64], upper: &[i64]| kinds_of(found, lower, upper, 0);
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

    fn membership(read: i64, event_offset: i64) -> Value {
        Value::Member(Member {
            joined_at: 1,
            reads: PerDevice::from_fn(|_| read),
            event_offset,
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
            let (lower, upper) = (Some(row(3, 5)), Some(row(4, 9)));
            let kinds = |found, lower: &Option<Value>, upper: &Option<Value>| {
                kinds(rows, [found, lower.clone(), upper.clone()])
            };
            for (content, event_offset) in [(3, 5), (4, 9), (4, 7), (9, 7)] {
                assert_eq!(kinds(Some(row(content, event_offset)), &lower, &upper), []);
            }
            for (content, event_offset) in [(4, 5), (3, 9), (3, 4), (4, 10), (3, -1)] {
                let found = kinds(Some(row(content, event_offset)), &lower, &upper);
                assert_eq!(found, [Kind::Different], "{content} at {event_offset}");
            }
            let missing = match rows {
                Rows::CachedProfiles => vec![],
                _ => vec![Kind::Missing],
            };
            assert_eq!(kinds(None, &lower, &upper), missing);
            assert_eq!(kinds(None, &None, &upper), []);
            assert_eq!(kinds(upper.clone(), &None, &upper), []);
            assert_eq!(kinds(Some(row(3, -1)), &None, &upper), [Kind::Different]);
            assert_eq!(kinds(lower, &None, &None), [Kind::Extra]);
        }
    }

    #[test]
    fn a_contact_may_be_in_between_and_its_flags_any_while_they_change() {
        let contact = |change_seq, event_offset, pinned| {
            let set = ContactFlags {
                pinned,
                ..ContactFlags::default()
            };
            let flags = Flags {
                set,
                at: event_offset,
            };
            Contact {
                change_seq,
                event_offset,
                flags,
                ..Contact::default()
            }
        };
        let what = |found: Contact, lower: &Contact, upper: &Contact| {
            let values = [found, lower.clone(), upper.clone()];
            let wrong = wrong(Rows::Contacts, values.map(|one| Some(Value::Contact(one))));
            let (_, what) = wrong.into_iter().next()?;
            Some(what.rsplit(' ').next().unwrap().to_owned())
        };
        let (lower, upper) = (contact(1, 5, false), contact(3, 9, false));
        assert_eq!(what(contact(2, 7, true), &lower, &upper), None);
        assert_eq!(what(contact(3, 9, false), &lower, &upper), None);
        for (wrong, lower, upper, column) in [
            (contact(3, 9, true), &lower, &upper, "pinned"),
            (contact(1, 5, true), &lower, &lower, "pinned"),
            (contact(4, 7, false), &lower, &upper, "chg"),
            (contact(3, 10, false), &lower, &upper, "pos"),
        ] {
            assert_eq!(what(wrong, lower, upper).as_deref(), Some(column));
        }
        // A row from before schema version 4.
        let plain = contact(0, 9, false);
        let plain = Contact {
            flags: Flags::default(),
            ..plain
        };
        let old = Contact {
            event_offset: -1,
            ..plain.clone()
        };
        assert_eq!(what(old.clone(), &plain, &plain), None);
        assert_eq!(what(old, &upper, &upper).as_deref(), Some("chg"));
    }

    #[test]
    fn a_read_position_is_missing_extra_or_different() {
        let kind = |[pc, mobile]: [i64; 2], read| {
            let reads = |mids: PerDevice<i64>| {
                let mids = mids.map(|mid| mid.try_into().unwrap());
                Some(Value::reads(mids))
            };
            let expected = reads(PerDevice::from_fn(|_| read));
            let found = reads(PerDevice { pc, mobile });
            let found = kinds(Rows::ReadPositions, [found, expected.clone(), expected]);
            found.first().copied()
        };
        assert_eq!(kind([3, 3], 3), None);
        assert_eq!(kind([0, 0], 3), Some(Kind::Missing));
        assert_eq!(kind([3, 2], 3), Some(Kind::Different));
        assert_eq!(kind([3, 0], 0), Some(Kind::Extra));
    }
}
