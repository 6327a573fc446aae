//! Rows of groups.

use message_store::{ConversationRows, GroupDelta, GroupMemberRow, SettingsAt};
use schemas::{GroupId, GroupRole, GroupSettings, UserId};

use crate::support::{Fixture, group};

/// What an event of the group says: its name and the role of a user. The event's offset decides.
fn rows_of(
    gid: GroupId,
    uid: UserId,
    event_offset: i64,
    name: &str,
    role: Option<GroupRole>,
) -> ConversationRows {
    let settings = GroupSettings {
        name: name.to_owned(),
        owner: uid,
        open: false,
        whole_history: false,
        muted: false,
        dissolved: false,
    };
    let delta = GroupDelta {
        settings: Some(SettingsAt {
            event_offset,
            settings,
            member_count: 1,
        }),
        event_offset,
        ..GroupDelta::default()
    };
    let member = GroupMemberRow {
        role,
        ..GroupMemberRow::new(gid, uid, event_offset)
    };
    ConversationRows {
        groups: [(gid, delta)].into(),
        members: [((gid, uid), member)].into(),
        ..ConversationRows::default()
    }
}

/// A log that is read again after its offset was lost may end before it reaches what the rows say already.
#[tokio::test]
async fn settings_and_members_of_an_earlier_event_change_no_row() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(31);
    let (gid, uid) = (group(users), users.0);
    let shard = fixture.shard(gid.partition());
    let write = async |offset, name, role| {
        let rows = rows_of(gid, uid, offset, name, role);
        let written = fixture
            .store
            .write_messages(shard, &fixture.topic, &rows, &[]);
        written.await.unwrap();
        let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
        let row = snapshot.groups(&[gid]).await.unwrap().remove(0);
        let member = snapshot.group_member(gid, uid).await.unwrap().unwrap();
        (row.settings.unwrap().name, member.role)
    };
    let left = ("later".to_owned(), None);
    assert_eq!(write(20, "later", None).await, left);
    assert_eq!(
        write(10, "earlier", Some(GroupRole::Member)).await,
        left,
        "an earlier event"
    );
    let back = ("newest".to_owned(), Some(GroupRole::Member));
    assert_eq!(
        write(30, "newest", Some(GroupRole::Member)).await,
        back,
        "a later event"
    );
}
