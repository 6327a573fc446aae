//! Rows of who left a group.

use message_store::{ConversationRows, GroupMemberRow, Membership, Sink, UserRows};
use schemas::{GroupId, GroupRole, Partition, PartitionMap, UserId};

use crate::support::{Fixture, group, mid, resume, step};

/// A user of the group whose row says this.
struct Someone {
    uid: UserId,
    join_pos: i64,
    left_pos: i64,
    clear_mid: i64,
    own_pos: i64,
}

async fn store(fixture: &Fixture, gid: GroupId, all: &[Someone]) {
    let mut in_group = ConversationRows::default();
    for Someone {
        uid,
        join_pos,
        left_pos,
        clear_mid,
        own_pos,
    } in all
    {
        let membership = Membership {
            join_pos: *join_pos,
            left_pos: *left_pos,
            clear_mid: mid(*clear_mid),
            own_pos: *own_pos,
            event_offset: *join_pos.max(left_pos),
            ..Membership::new(*uid, gid)
        };
        let rows = UserRows {
            memberships: vec![&membership],
            ..UserRows::default()
        };
        let shard = fixture.store.layout().shard_of_user(*uid);
        let written = fixture
            .store
            .write_user_rows(shard, &fixture.topic, rows, &[]);
        written.await.unwrap();
        let member = GroupMemberRow {
            role: membership.is_member().then_some(GroupRole::Member),
            ..GroupMemberRow::new(gid, *uid, membership.event_offset)
        };
        in_group.members.insert((gid, *uid), member);
    }
    let shard = fixture.shard(gid.partition());
    let written = fixture
        .store
        .write_messages(shard, &fixture.topic, &in_group, &[]);
    written.await.unwrap();
}

/// Whose memberships are there, and of whom the group has a row.
async fn left_over(fixture: &Fixture, gid: GroupId, all: &[Someone]) -> (Vec<usize>, Vec<usize>) {
    let (mut memberships, mut members) = (Vec::new(), Vec::new());
    for (n, Someone { uid, .. }) in all.iter().enumerate() {
        let shard = fixture.store.layout().shard_of_user(*uid);
        let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
        let found = snapshot.memberships_of(*uid, &[gid]).await.unwrap();
        memberships.extend(found.iter().map(|_| n));
        let shard = fixture.shard(gid.partition());
        let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
        let found = snapshot.group_member(gid, *uid).await.unwrap();
        members.extend(found.map(|_| n));
    }
    (memberships, members)
}

async fn pass(fixture: &Fixture, partition: Partition, sink: Sink, next: i64) {
    for shard in fixture.store.layout().shards() {
        let is_its = fixture
            .store
            .layout()
            .source_partitions(sink, shard)
            .any(|one| one == partition);
        if !is_its {
            continue;
        }
        let read = fixture
            .store
            .read_resume_offsets(shard, sink, &fixture.topic, &[partition])
            .await;
        let from = read.unwrap()[partition];
        let moves = [step(partition, from, resume(next))];
        let moved = fixture
            .store
            .update_resume_offsets(shard, sink, &fixture.topic, &moves);
        moved.await.unwrap();
    }
}

async fn forgotten_below(fixture: &Fixture, sink: Sink, partition: Partition) -> Vec<i64> {
    let mut all = Vec::new();
    for shard in fixture.store.layout().shards() {
        let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
        let below = snapshot
            .forgotten_below(sink, &fixture.topic)
            .await
            .unwrap();
        all.extend(below.get(partition).copied());
    }
    all.sort_unstable();
    all
}

#[tokio::test]
async fn who_left_below_an_offset_that_every_sink_has_passed_is_forgotten() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(29);
    let (gid, partition) = (group(users), group(users).partition());
    let someone = |n: i64, join_pos, left_pos, (clear_mid, own_pos)| Someone {
        // In two databases.
        uid: (users.0.get() + 16 * n).try_into().unwrap(),
        join_pos,
        left_pos,
        clear_mid,
        own_pos,
    };
    let all = [
        someone(0, 10, 20, (0, 0)),
        someone(1, 10, 24, (0, 0)),
        // Those who stay: left later, is back, has cleared or hidden something, is a member.
        someone(2, 10, 25, (0, 0)),
        someone(3, 22, 20, (0, 0)),
        someone(4, 10, 20, (1, 0)),
        someone(5, 10, 20, (0, 15)),
        someone(6, 10, -1, (0, 0)),
    ];
    store(&fixture, gid, &all).await;
    let below = PartitionMap::full(|_| 25);
    let forget = async || {
        let deleted = fixture.store.forget_left(&fixture.topic, &below).await;
        deleted.unwrap()
    };
    let everybody = (vec![0, 1, 2, 3, 4, 5, 6], vec![0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(forget().await, 0, "no sink has passed anything");
    pass(&fixture, partition, Sink::Contacts, 40).await;
    assert_eq!(forget().await, 0, "the messages have not");
    pass(&fixture, partition, Sink::Messages, 21).await;
    assert_eq!(left_over(&fixture, gid, &all).await, everybody);
    // What the group has of who has cleared or hidden something is of no use to anybody.
    assert_eq!(forget().await, 4);
    let found = left_over(&fixture, gid, &all).await;
    assert_eq!(found, (vec![1, 2, 3, 4, 5, 6], vec![1, 2, 3, 6]));
    assert_eq!(
        forgotten_below(&fixture, Sink::Contacts, partition).await,
        [21]
    );
    pass(&fixture, partition, Sink::Messages, 40).await;
    assert_eq!(forget().await, 2);
    let found = left_over(&fixture, gid, &all).await;
    assert_eq!(found, (vec![2, 3, 4, 5, 6], vec![2, 3, 6]));
    assert_eq!(
        forgotten_below(&fixture, Sink::Contacts, partition).await,
        [21, 25]
    );
    assert_eq!(
        forgotten_below(&fixture, Sink::Messages, partition).await,
        [25]
    );
    // A projector that goes on from before writes some again; they go again, and the offset stays.
    store(&fixture, gid, &all[..1]).await;
    assert_eq!(forget().await, 2);
    assert_eq!(
        forgotten_below(&fixture, Sink::Messages, partition).await,
        [25]
    );
}
