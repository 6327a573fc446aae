//! Rows of users who left a group may be deleted, below an offset that the store names (PROTOCOL Y8).

use message_store::{ReadTx, Sink, StoreError};
use schemas::{DeviceClass, PartitionMap, topics::Topic};

use super::{
    key::{Key, Rows},
    value::Value,
};
use crate::{Sources, fold::Member};

/// The offset below which rows may be deleted, by partition, in the snapshot of the rows.
#[derive(Default)]
pub(super) struct Forgotten(PartitionMap<i64>);

impl Forgotten {
    pub(super) async fn read(
        sources: &Sources,
        snapshot: &mut ReadTx,
        rows: Rows,
    ) -> Result<Self, StoreError> {
        let sink = match rows {
            Rows::Members => Sink::Messages,
            Rows::Memberships => Sink::Contacts,
            _ => return Ok(Self::default()),
        };
        let topic = sources.kafka.topic(Topic::Events);
        Ok(Self(snapshot.forgotten_below(sink, &topic).await?))
    }

    /// Returns the `expected` value of the log if the store has only a part of it and may have deleted the rest; otherwise the found value. A user
    /// who joined again has a new row, and the old row no longer counts. If the user had cleared or hidden something, the old row is kept.
    pub(super) fn restore(
        &self,
        key: Key,
        found: Option<Value>,
        expected: impl FnOnce() -> Option<Value>,
    ) -> Option<Value> {
        let Some(below) = self.0.get(key.subject.partition()).copied() else {
            return found;
        };
        match (key.rows, found, expected()) {
            (Rows::Members, None, Some(Value::Member(expected)))
                if expected.role.is_none() && expected.event_offset < below =>
            {
                Some(Value::Member(expected))
            }
            (Rows::Memberships, None, Some(Value::Member(expected)))
                if was_forgotten(&expected, below) && expected.left_at > expected.joined_at =>
            {
                Some(Value::Member(expected))
            }
            (Rows::Memberships, Some(Value::Member(found)), Some(Value::Member(expected)))
                if was_forgotten(&expected, below) && found.left_at < 0 =>
            {
                Some(Value::Member(with_old(found, &expected)))
            }
            (_, found, _) => found,
        }
    }
}

fn was_forgotten(expected: &Member, below: i64) -> bool {
    (0..below).contains(&expected.left_at) && expected.clear_mid == 0 && expected.own_pos == 0
}

/// The row with the old values from before the user joined again, unless newer ones were written.
fn with_old(mut found: Member, expected: &Member) -> Member {
    let old = |found: &mut i64, expected_mid: i64| {
        if *found == 0 && expected_mid <= expected.join_mid {
            *found = expected_mid;
        }
    };
    found.left_at = expected.left_at;
    old(&mut found.own_last_mid, expected.own_last_mid);
    for device in DeviceClass::ALL {
        old(&mut found.reads[device], expected.reads[device]);
    }
    found
}

#[cfg(test)]
mod tests {
    use schemas::{GroupRole, Mid, PerDevice};

    use super::*;
    use crate::fold::Subject;

    const BELOW: i64 = 20;

    /// A user who joined at 10, sent and read, left at `left_at`, and perhaps joined again.
    fn expected(left_at: i64, joined_at: i64) -> Member {
        Member {
            joined_at,
            left_at,
            join_mid: 5,
            own_last_mid: 4,
            reads: PerDevice::default().map(|_: Mid| 5),
            event_offset: left_at.max(joined_at),
            ..Member::default()
        }
    }

    fn restored(rows: Rows, found: Option<Member>, expected: &Member) -> Option<Member> {
        let (gid, uid) = (64.try_into().unwrap(), 7.try_into().unwrap());
        let key = rows.of(Subject::Member(gid, uid));
        let below = [(key.subject.partition(), BELOW)].into_iter().collect();
        let expected = || Some(Value::Member(expected.clone()));
        match Forgotten(below).restore(key, found.map(Value::Member), expected) {
            Some(Value::Member(member)) => Some(member),
            None => None,
            Some(other) => panic!("{other:?} is of no member"),
        }
    }

    #[test]
    fn only_who_left_below_it_and_is_not_back_has_no_row() {
        for (left_at, joined_at, is_forgotten) in [
            (BELOW - 1, 10, true),
            (BELOW, 10, false),
            (-1, 10, false),
            (BELOW - 1, BELOW + 1, false),
        ] {
            let expected = expected(left_at, joined_at);
            let found = restored(Rows::Memberships, None, &expected);
            assert_eq!(found.is_some(), is_forgotten, "{left_at}, {joined_at}");
            let cleared = Member {
                clear_mid: 1,
                ..expected
            };
            assert_eq!(restored(Rows::Memberships, None, &cleared), None);
            let hidden = Member {
                clear_mid: 0,
                own_pos: 12,
                ..cleared
            };
            assert_eq!(restored(Rows::Memberships, None, &hidden), None);
        }
        for (role, event_offset, is_forgotten) in [
            (None, BELOW - 1, true),
            (None, BELOW, false),
            (Some(GroupRole::Member), BELOW - 1, false),
        ] {
            let expected = Member {
                role,
                event_offset,
                ..Member::default()
            };
            let found = restored(Rows::Members, None, &expected);
            assert_eq!(found.is_some(), is_forgotten, "{role:?}, {event_offset}");
        }
    }

    #[test]
    fn who_joined_again_lacks_what_was_before_and_nothing_else() {
        let expected = Member {
            reads: PerDevice::default().map(|_: Mid| 6),
            ..expected(BELOW - 1, BELOW + 1)
        };
        let found = Member {
            left_at: -1,
            own_last_mid: 0,
            ..expected.clone()
        };
        let restored = |found| restored(Rows::Memberships, Some(found), &expected);
        assert_eq!(restored(found.clone()), Some(expected.clone()));
        // Values read since joining again are not excused.
        let reads = PerDevice::default();
        let unread = Member { reads, ..found };
        assert_ne!(restored(unread), Some(expected.clone()));
    }
}
