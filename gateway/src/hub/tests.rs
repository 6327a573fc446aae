//! What the simulation does not look at: sizes, and who counts as a member.

use schemas::DeviceClass;

use schemas::{GroupMember, Recipient, event::Body};

use super::*;
use crate::hub::test_events::{
    dissolve_body, dissolved, event, group_message_body, member_body, message_body, recall_body,
    uid,
};

const GID: i64 = 64;

fn limits() -> HubLimits {
    HubLimits {
        ring_ms: 100,
        ring_bytes: usize::MAX,
        ring_bytes_of_account: usize::MAX,
        max_devices: 2,
        dead_letters_ms: 1,
        turn: 1_000,
    }
}

fn gid() -> GroupId {
    GID.try_into().unwrap()
}

fn connection(number: u64, who: i64) -> Arc<Connection> {
    let device = DeviceOf {
        uid: uid(who),
        id: format!("d{number}").try_into().unwrap(),
        class: DeviceClass::Pc,
    };
    Arc::new(Connection::new(device, number, 10_000))
}

/// Replays from the start on.
fn replay(hub: &mut Hub, connection: &Arc<Connection>) -> Result<bool, NoStream> {
    let uid = connection.uid();
    if !hub.knows(uid) {
        assert!(hub.adopt(&mut Adoption::new(uid, stored()), 0)?);
    }
    let since = SyncToken::new(0, &PartitionMap::new());
    hub.welcome(&mut Replay::new(uid, since, 10_000), connection)
}

/// A device of a user gets its stream from the start on. Returns how much it gets at once.
fn connect(hub: &mut Hub, number: u64, who: i64, stored: StoredMemberships) -> usize {
    let connection = connection(number, who);
    let since = SyncToken::new(0, &PartitionMap::new());
    if !hub.knows(uid(who)) {
        assert!(hub.adopt(&mut Adoption::new(uid(who), stored), 0).unwrap());
    }
    let mut replay = Replay::new(uid(who), since, 10_000);
    assert!(hub.welcome(&mut replay, &connection).unwrap());
    let next = || matches!(connection.next(), Next::Write(_)).then_some(());
    std::iter::from_fn(next).count()
}

/// Memberships of a user who joined the group at its beginning, as of its first events.
fn stored() -> StoredMemberships {
    let joined = Span {
        join_pos: -1,
        left_pos: None,
    };
    StoredMemberships {
        spans: [(gid(), joined)].into(),
        applied: PartitionMap::new(),
    }
}

#[test]
fn members_of_a_dissolved_group_hear_of_it_until_they_leave_whenever_they_connect() {
    let mut hub = Hub::new(limits(), 0, &PartitionMap::new());
    let leave = |who| member_body(GID, who, false, 0);
    hub.apply(event(Partition::FIRST, 0, member_body(GID, 1, true, 0)), 0);
    connect(&mut hub, 1, 1, StoredMemberships::default());
    hub.apply(event(Partition::FIRST, 1, dissolve_body(GID)), 0);
    assert_eq!(connect(&mut hub, 2, 2, stored()), 2);
    hub.apply(event(Partition::FIRST, 2, recall_body(GID, 1)), 0);
    for (number, who) in [(3, 1), (4, 2), (5, 3)] {
        assert_eq!(connect(&mut hub, number, who, stored()), 3, "user {who}");
        assert!(hub.members[&gid()].contains(&uid(who)), "user {who}");
    }
    hub.apply(event(Partition::FIRST, 3, dissolved(leave(1))), 0);
    hub.apply(event(Partition::FIRST, 4, recall_body(GID, 2)), 0);
    assert_eq!(connect(&mut hub, 6, 1, stored()), 4, "who has left");
    assert_eq!(connect(&mut hub, 7, 2, stored()), 5, "who has not");
    assert_eq!(hub.members[&gid()], HashSet::from([uid(2), uid(3)]));
}

#[test]
fn who_has_left_is_in_no_list_of_members() {
    let mut hub = Hub::new(limits(), 0, &PartitionMap::new());
    for who in [1, 2] {
        connect(&mut hub, who as u64, who, stored());
    }
    hub.apply(event(Partition::FIRST, 0, member_body(GID, 1, false, 0)), 0);
    assert_eq!(hub.members[&gid()], HashSet::from([uid(2)]));
    hub.apply(event(Partition::FIRST, 1, member_body(GID, 2, false, 0)), 0);
    assert!(hub.members.is_empty());
    hub.apply(event(Partition::FIRST, 2, member_body(GID, 1, true, 0)), 0);
    assert!(hub.is_member(uid(1), gid()) && hub.members[&gid()].contains(&uid(1)));
}

/// Then they are as MySQL has them, once it has what was in the gap.
#[test]
fn after_a_gap_of_the_log_everybodys_groups_are_read_again() {
    let mut hub = Hub::new(limits(), 0, &PartitionMap::new());
    connect(&mut hub, 1, 1, stored());
    hub.begin_again(Partition::FIRST, NextOffset::after(9));
    assert!(!hub.knows(uid(1)) && hub.members.is_empty());
    let applied = [(Partition::FIRST, NextOffset::after(9))];
    let left = Span {
        join_pos: -1,
        left_pos: Some(5),
    };
    let stored = StoredMemberships {
        spans: [(gid(), left)].into(),
        applied: applied.into_iter().collect(),
    };
    let since = SyncToken::new(0, &stored.applied);
    assert!(hub.adopt(&mut Adoption::new(uid(1), stored), 0).unwrap());
    let connection = connection(2, 1);
    let mut replay = Replay::new(uid(1), since, 10_000);
    assert!(hub.welcome(&mut replay, &connection).unwrap());
    let message = group_message_body(GID, 2, "a", 1);
    hub.apply(event(Partition::FIRST, 10, message), 0);
    assert!(!matches!(connection.next(), Next::Write(_)), "who has left");
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

/// Whatever has happened to a user or to the user's groups, others wait for one turn's work only.
#[test]
fn a_turn_looks_at_no_more_than_it_may_and_all_of_a_replay_is_there_in_the_end() {
    let limits = HubLimits {
        ring_ms: u64::MAX,
        turn: 256,
        ..limits()
    };
    let mut hub = Hub::new(limits, 0, &PartitionMap::new());
    for offset in 0..20_000 {
        let body = match offset % 4 {
            0 => member_body(GID, 1, offset % 8 == 0, offset),
            _ => group_message_body(GID, 2, &offset.to_string(), offset),
        };
        hub.apply(event(Partition::FIRST, offset, body), 0);
    }
    let span = Span {
        join_pos: -1,
        left_pos: None,
    };
    let gids = (1..=5_000).map(|n| GroupId::try_from(64 * n).unwrap());
    let stored = StoredMemberships {
        spans: gids.map(|gid| (gid, span)).collect(),
        applied: PartitionMap::new(),
    };
    let mut adoption = Adoption::new(uid(1), stored);
    let mut turns = Turns::default();
    while !turns.take(|| hub.adopt(&mut adoption, 0).unwrap()) {
        adoption.settle();
    }
    let connection = connection(1, 1);
    let since = PartitionMap::full(|_| NextOffset::new(18_000));
    let mut replay = Replay::new(uid(1), SyncToken::new(0, &since), 1 << 20);
    while !turns.take(|| hub.welcome(&mut replay, &connection).unwrap()) {
        replay.settle().unwrap();
    }
    assert!(turns.count > 50, "{} turns", turns.count);
}

/// What is looked at in each turn.
#[derive(Default)]
struct Turns {
    count: usize,
}

impl Turns {
    fn take(&mut self, turn: impl FnOnce() -> bool) -> bool {
        ring::looked_at::take();
        let is_done = turn();
        let looked_at = ring::looked_at::take();
        // Each partition is looked at to see whether there is something.
        assert!(looked_at <= 256 + 64, "{looked_at} entries in a turn");
        self.count += 1;
        is_done
    }
}

#[test]
fn one_accounts_bytes_leave_the_others_their_streams() {
    let text = |offset, from| event(Partition::FIRST, offset, message_body(from, 9, "a", 1));
    let limits = HubLimits {
        ring_bytes_of_account: 10 * text(0, 1).bytes,
        turn: 10_000,
        ..limits()
    };
    let mut hub = Hub::new(limits, 0, &PartitionMap::new());
    hub.apply(text(0, 3), 0);
    for offset in 1..=1_000 {
        hub.apply(text(offset, 1), 0);
    }
    hub.apply(
        event(Partition::FIRST, 1_001, message_body(3, 4, "b", 1)),
        0,
    );
    let whole = hub.rings[Partition::FIRST].newest_first(Recipient::User(uid(1)));
    assert_eq!(whole.count(), 10, "of the account that has sent so much");
    assert_eq!(connect(&mut hub, 1, 3, stored()), 2, "all of another's");
    let lacks = replay(&mut hub, &connection(2, 9));
    assert_eq!(lacks, Err(NoStream::SyncRequired), "who got so much");
    for offset in 1_002..1_100 {
        hub.apply(
            event(
                Partition::FIRST,
                offset,
                group_message_body(GID, 1, "c", offset),
            ),
            0,
        );
    }
    assert_eq!(
        connect(&mut hub, 3, 5, stored()),
        1,
        "a head of all of them"
    );
    let mut added = member_body(GID, 77, true, 0);
    if let Body::GroupChange(change) = &mut added {
        change.by = uid(1);
    }
    hub.apply(event(Partition::FIRST, 1_100, added), 0);
    for offset in 1_101..1_200 {
        let changes = member_body(GID, 1, offset % 2 == 0, 0);
        hub.apply(event(Partition::FIRST, offset, changes), 0);
    }
    let whole = hub.rings[Partition::FIRST].newest_first(Recipient::Group(gid()));
    assert!(whole.count() <= 10, "changes of a group are charged, too");
    // What was stripped of them still says who is a member.
    let in_none = StoredMemberships {
        spans: [].into(),
        ..stored()
    };
    for (who, stored, is_member) in [(1, stored(), false), (77, in_none, true)] {
        assert!(hub.adopt(&mut Adoption::new(uid(who), stored), 0).unwrap());
        assert_eq!(hub.is_member(uid(who), gid()), is_member);
    }
}

#[test]
fn a_frame_names_few_of_a_thousand_and_the_devices_own_user_among_them() {
    let mut body = member_body(GID, 1, true, 0);
    if let Body::GroupChange(change) = &mut body {
        let member = change.members[0];
        change.members = (1..=1_000)
            .map(|who| GroupMember {
                uid: uid(who),
                ..member
            })
            .collect();
    }
    let change = event(Partition::FIRST, 0, body);
    for who in [1, 16, 17, 1_000, 1_001] {
        let frame = change.frame_for(uid(who)).into_message();
        let frame: serde_json::Value = serde_json::from_str(frame.to_text().unwrap()).unwrap();
        let change = &frame["group_change"];
        let members = change["members"].as_array().unwrap();
        let named = who.to_string();
        let is_named = members.iter().any(|member| member["uid"] == *named);
        assert_eq!((members.len(), is_named), (16, who <= 1_000), "{who}");
        assert_eq!(change["members_omitted"], 984);
    }
    assert!(change.frame_bytes() < 2_000);
}
