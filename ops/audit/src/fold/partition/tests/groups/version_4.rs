//! What rule version 4 changes in groups.

use super::*;

fn begin() -> GroupLog {
    let mut group = GroupLog::begin();
    group.log.begin_version_4();
    group
}

/// The same command, posted by the user.
fn by_user(by: i64, action: GroupAction) -> Command {
    match command(by, action) {
        Command::ChangeGroup(asked) => Command::ChangeGroup(ChangeGroup {
            by_user: true,
            ..asked
        }),
        other => other,
    }
}

fn refuse_all(group: &GroupLog, refused: impl IntoIterator<Item = (Command, Reason)>) {
    for (command, reason) in refused {
        let mut right = group.log.clone();
        right.refuse(command.clone(), reason);
        right.assert_sound();
        let mut wrong = group.log.clone();
        wrong.refuse(command, Reason::Conflict);
        wrong.assert_finds(&format!("refused (conflict), {reason} is right"));
    }
}

#[test]
fn a_gid_is_its_owners_or_a_services() {
    let create = |gid: GroupId, user: bool, client_id: Option<&str>| {
        let GroupAction::Create(asked) = created() else {
            unreachable!();
        };
        Command::ChangeGroup(ChangeGroup {
            gid,
            by: self::user(1),
            by_user: user,
            action: GroupAction::Create(CreateGroup {
                client_id: client_id.map(str::to_owned),
                ..asked
            }),
        })
    };
    let own = |by: i64| {
        let of_number = |number| {
            let client_id = format!("g{number}");
            (GroupId::of_owner(user(by), &client_id), client_id)
        };
        let is_here = |(gid, _): &(GroupId, String)| gid.get() % 64 == GID;
        (0..).map(of_number).find(is_here).unwrap()
    };
    let ((gid, id), (of_other, id_of_other)) = (own(1), own(2));
    let chosen = GroupId::try_from(GID + 64).unwrap();
    let group = begin();
    refuse_all(
        &group,
        [
            create(of_other, true, Some(&id_of_other)),
            create(of_other, false, None),
            create(chosen, true, None),
            create(chosen, false, Some(&id)),
        ]
        .map(|command| (command, Reason::WrongGid)),
    );
    for (gid, client_id) in [(gid, Some(&*id)), (chosen, None)] {
        let mut group = group.clone();
        group.members = 0;
        let first = first_members();
        let change = GroupChange {
            gid,
            ..group.next_change(1, &created(), &first)
        };
        let command = create(gid, client_id.is_some(), client_id);
        let body = Body::GroupChange(Box::new(change));
        group.log.sequence(command, body.clone());
        group.log.assert_sound();
        let mut wrong = begin();
        wrong.log.sequence(create(gid, true, None), body);
        wrong
            .log
            .assert_finds("sequenced although it is to be refused (wrong-gid)");
    }
}

#[test]
fn one_user_makes_so_many_members_and_gets_into_so_many_groups() {
    let mut group = begin();
    group.log.set_rules(|control| {
        control.new_memberships_per_day = Some(3);
        control.max_memberships_by_others = Some(1);
    });
    let add = |uids: &[i64]| GroupAction::Add(users(uids));
    let members = [4, 5].map(|uid| new(uid, GroupRole::Member));
    group.change(1, add(&[4, 5]), |_| {}, &members);
    // Two were added today: members of version 3 do not count.
    refuse_all(
        &group,
        [(by_user(1, add(&[6, 7])), Reason::TooManyMemberships)],
    );
    let mut wrong = group.clone();
    let added = [6, 7].map(|uid| new(uid, GroupRole::Member));
    let change = wrong.next_change(1, &add(&[6, 7]), &added);
    let body = Body::GroupChange(Box::new(change));
    wrong.log.sequence(by_user(1, add(&[6, 7])), body);
    wrong
        .log
        .assert_finds("sequenced although it is to be refused (too-many-memberships)");
    // Others have made 4 a member of one group; that count ends with the membership.
    let service = |action| command(1, action);
    let other = GroupAction::Create(CreateGroup {
        name: "Dinner".to_owned(),
        members: users(&[4]),
        open: false,
        whole_history: false,
        client_id: None,
    });
    let elsewhere = |by_user| {
        let Command::ChangeGroup(asked) = service(other.clone()) else {
            unreachable!();
        };
        Command::ChangeGroup(ChangeGroup {
            gid: (GID + 64).try_into().unwrap(),
            by_user,
            ..asked
        })
    };
    group.log.post(elsewhere(false));
    group.log.assert_finds("unanswered: no event");
}

#[test]
fn who_left_by_himself_is_not_put_back() {
    let mut group = begin();
    group.change(2, GroupAction::Leave, |_| {}, &[now(2, None, false)]);
    let removed = GroupAction::Remove(users(&[3]));
    group.change(1, removed, |_| {}, &[now(3, None, false)]);
    let add = |uids: &[i64]| GroupAction::Add(users(uids));
    refuse_all(&group, [(by_user(1, add(&[2, 3])), Reason::HasLeft)]);
    // Others may add a user whom others removed, and a service may add anybody.
    for (uid, by_a_user) in [(3, true), (2, false)] {
        let mut right = group.clone();
        let change = right.next_change(1, &add(&[uid]), &[new(uid, GroupRole::Member)]);
        let asked = if by_a_user {
            by_user(1, add(&[uid]))
        } else {
            command(1, add(&[uid]))
        };
        let body = Body::GroupChange(Box::new(change));
        right.log.sequence(asked, body);
        right.log.assert_sound();
    }
    group.change(1, open(true), |s| s.open = true, &[]);
    let join = GroupAction::Join;
    group.change(2, join, |_| {}, &[new(2, GroupRole::Member)]);
    let removed = GroupAction::Remove(users(&[2]));
    group.change(1, removed, |_| {}, &[now(2, None, false)]);
    let change = group.next_change(1, &add(&[2]), &[new(2, GroupRole::Member)]);
    let body = Body::GroupChange(Box::new(change));
    group.log.sequence(by_user(1, add(&[2])), body);
    group.log.assert_sound();
}

#[test]
fn a_dissolved_group_is_left_and_cleared_up() {
    let mut group = begin();
    group.send(2);
    group.send(3);
    group.make_admin(2);
    group.dissolve();
    refuse_all(
        &group,
        [
            (1, changing(1, edit("x")), Reason::Dissolved),
            (3, changing(1, Change::Recall), Reason::Dissolved),
            (3, send_of(-1), Reason::Dissolved),
            (
                1,
                GroupAction::Rename("x".to_owned()).into(),
                Reason::Dissolved,
            ),
            (9, changing(1, Change::Hide), Reason::NotAMember),
        ]
        .map(|(by, asked, reason)| (command(by, asked), reason)),
    );
    group.change_message(3, 1, Change::Hide);
    group.change_message(3, 2, Change::Clear);
    group.change_message(2, 2, Change::Recall);
    for uid in [1, 2, 3] {
        group.change(uid, GroupAction::Leave, |_| {}, &[now(uid, None, false)]);
        group.log.post(command(uid, GroupAction::Leave));
    }
    // Only the owner recalls from outside.
    group.change_message(1, 1, Change::Recall);
    let recall = || changing(1, Change::Recall);
    group.log.refuse(command(2, recall()), Reason::NotAMember);
    group.log.assert_sound();
}

#[test]
fn of_a_group_that_was_dissolved_before_its_owner_is_known() {
    let mut group = GroupLog::begin();
    group.send(2);
    group.dissolve();
    group.log.begin_version_4();
    group.log.post(command(3, GroupAction::Leave));
    let hide = changing(1, Change::Hide);
    group.log.refuse(command(3, hide), Reason::NotAMember);
    group.change_message(1, 1, Change::Recall);
    // The sequencer does not remember that the message was recalled.
    group.change_message(1, 1, Change::Recall);
    group.log.assert_sound();
}

#[test]
fn strangers_hear_one_reason() {
    let mut group = begin();
    let unknown = |action| {
        let Command::ChangeGroup(asked) = command(9, action) else {
            unreachable!();
        };
        Command::ChangeGroup(ChangeGroup {
            gid: (GID + 64).try_into().unwrap(),
            ..asked
        })
    };
    let rename = || GroupAction::Rename("x".to_owned());
    for _ in 0..2 {
        refuse_all(
            &group,
            [
                command(9, rename()),
                command(9, GroupAction::Join),
                command(9, send_of(-1)),
                command(9, Asked::Read(None)),
                command(9, changing(1, Change::Recall)),
                unknown(rename()),
                unknown(GroupAction::Join),
            ]
            .map(|command| (command, Reason::NotAMember)),
        );
        group.log.post(command(9, GroupAction::Leave));
        group.log.post(unknown(GroupAction::Leave));
        group.log.assert_sound();
        if !group.settings.dissolved {
            group.dissolve();
        }
    }
}

#[test]
fn a_new_role_keeps_a_mute_but_the_owners() {
    let mut group = begin();
    group.mute(2);
    let admin = now(2, Some(GroupRole::Admin), true);
    group.change(1, role(2, GroupRole::Admin), |_| {}, &[admin]);
    let members = [
        now(1, Some(GroupRole::Admin), false),
        now(2, Some(GroupRole::Owner), false),
    ];
    group.change(
        1,
        role(2, GroupRole::Owner),
        |s| s.owner = user(2),
        &members,
    );
    group.log.assert_sound();
}
