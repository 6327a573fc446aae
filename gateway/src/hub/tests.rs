//! Of what the simulation does not look at: sizes, and who counts as a member.

use schemas::DeviceClass;

use super::*;
use crate::hub::test_events::{dissolve_body, event, member_body, message_body, uid};

const GID: i64 = 64;

fn limits() -> HubLimits {
    HubLimits {
        ring_ms: 100,
        ring_bytes: usize::MAX,
        max_devices: 2,
        dead_letters_ms: 1,
    }
}

fn gid() -> GroupId {
    GID.try_into().unwrap()
}

/// A device of a user gets its stream from the start on; what it gets at once.
fn connect(hub: &mut Hub, number: u64, who: i64, stored: &StoredMemberships) -> usize {
    let device = DeviceOf {
        uid: uid(who),
        id: format!("d{number}").try_into().unwrap(),
        class: DeviceClass::Pc,
    };
    let connection = Connection::new(device, number, crate::encoded::Format::Json, 10_000);
    let connection = Arc::new(connection);
    let since = SyncToken::new(0, &PartitionMap::new());
    hub.welcome(&connection, &since, stored).unwrap();
    let next = || matches!(connection.next(), Next::Write(_)).then_some(());
    std::iter::from_fn(next).count()
}

/// Memberships of a user who joined the group at its beginning, as of its first events.
fn stored() -> StoredMemberships {
    let joined = Span {
        join_pos: 0,
        left_pos: None,
    };
    StoredMemberships {
        spans: vec![(gid(), joined)],
        applied: PartitionMap::new(),
    }
}

#[test]
fn nobody_is_a_member_of_a_dissolved_group_whenever_he_connects() {
    let mut hub = Hub::new(limits(), 0, &PartitionMap::new());
    hub.apply(event(Partition::FIRST, 0, member_body(GID, 1, true, 0)), 0);
    connect(&mut hub, 1, 1, &StoredMemberships::default());
    assert!(hub.is_member(uid(1), gid()));
    hub.apply(event(Partition::FIRST, 1, dissolve_body(GID)), 0);
    assert!(!hub.is_member(uid(1), gid()), "who was connected");
    let known = hub.memberships_of(uid(1)).unwrap();
    assert_eq!(
        connect(&mut hub, 2, 1, &known),
        2,
        "the dissolution is his, too"
    );
    assert!(!hub.is_member(uid(1), gid()), "with a second device");
    assert_eq!(connect(&mut hub, 3, 2, &stored()), 2);
    assert!(!hub.is_member(uid(2), gid()), "who comes later");
    assert!(hub.members.is_empty());
}

#[test]
fn who_has_left_is_in_no_list_of_members() {
    let mut hub = Hub::new(limits(), 0, &PartitionMap::new());
    for who in [1, 2] {
        connect(&mut hub, who as u64, who, &stored());
    }
    hub.apply(event(Partition::FIRST, 0, member_body(GID, 1, false, 0)), 0);
    assert_eq!(hub.members[&gid()], HashSet::from([uid(2)]));
    hub.apply(event(Partition::FIRST, 1, member_body(GID, 2, false, 0)), 0);
    assert!(hub.members.is_empty());
    hub.apply(event(Partition::FIRST, 2, member_body(GID, 1, true, 0)), 0);
    assert!(hub.is_member(uid(1), gid()) && hub.members[&gid()].contains(&uid(1)));
}

#[test]
fn what_leaves_the_rings_for_room_is_counted_and_what_is_old_is_not() {
    let message = |offset| event(Partition::FIRST, offset, message_body(1, 2, "a", 1));
    let limits = HubLimits {
        ring_bytes: 2 * message(0).bytes,
        ..limits()
    };
    let mut hub = Hub::new(limits, 0, &PartitionMap::new());
    for offset in 0..5 {
        hub.apply(message(offset), 0);
    }
    hub.drop_old(100);
    assert_eq!(
        (hub.dropped_for_room(), hub.ring_bytes()),
        (3, limits.ring_bytes)
    );
    hub.drop_old(101);
    assert_eq!((hub.dropped_for_room(), hub.ring_bytes()), (3, 0));
}
