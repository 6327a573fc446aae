//! What users cannot do to each other in groups, from rule version 4 on (PROTOCOL G9 to G12).

use schemas::{
    Recipient, SetGroupOptions,
    command::{Command, Control},
    event::KNOWN_RULE_VERSION,
};

use super::*;
use crate::core::{Decision, test_log::TestLog};

const DAY_MS: i64 = 24 * 3_600_000;

/// A gid in partition 5.
fn chosen(number: i64) -> GroupId {
    GroupId::try_from(5 + 64 * number).unwrap()
}

fn user(uid: i64) -> UserId {
    UserId::try_from(uid).unwrap()
}

fn users(uids: &[i64]) -> Vec<UserId> {
    uids.iter().map(|uid| user(*uid)).collect()
}

/// The newest rules with these limits, decided record by record.
struct Log(TestLog);

impl Log {
    fn new(control: Control) -> Self {
        let control = Control {
            rule_version: Some(KNOWN_RULE_VERSION),
            ..control
        };
        Self(TestLog::new(chosen(0).partition(), 1_000 * DAY_MS, control))
    }

    /// `event`, `nothing`, or the reason for which it is refused.
    fn decide(&mut self, command: Command) -> &'static str {
        match self.0.post(command, "") {
            Decision::Emit(_) => "event",
            Decision::NoOp(_) => "nothing",
            Decision::DeadLetter(refusal) => refusal.reason.as_str(),
            Decision::Halt(unknown) => panic!("{unknown}"),
        }
    }

    fn change(&mut self, gid: GroupId, by: i64, action: GroupAction) -> &'static str {
        self.change_as(true, gid, by, action)
    }

    fn by_service(&mut self, gid: GroupId, by: i64, action: GroupAction) -> &'static str {
        self.change_as(false, gid, by, action)
    }

    fn change_as(
        &mut self,
        by_user: bool,
        gid: GroupId,
        by: i64,
        action: GroupAction,
    ) -> &'static str {
        self.decide(Command::ChangeGroup(ChangeGroup {
            gid,
            by: user(by),
            by_user,
            action,
        }))
    }

    fn change_message(&mut self, gid: GroupId, by: i64, change: Change) -> &'static str {
        self.decide(Command::ChangeMessage(ChangeMessage {
            by: user(by),
            to: Recipient::Group(gid),
            mid: Mid::ZERO.next(),
            change,
        }))
    }

    fn send(&mut self, gid: GroupId, by: i64) -> &'static str {
        self.decide(Command::Send(SendMessage {
            srcid: user(by),
            to: Recipient::Group(gid),
            client_msg_id: self.0.offset.to_string().try_into().unwrap(),
            msg: "an insult".to_owned(),
            by_user: true,
        }))
    }
}

fn create(client_id: Option<&str>, members: &[i64], open: bool) -> GroupAction {
    GroupAction::Create(CreateGroup {
        name: "Lunch".to_owned(),
        members: users(members),
        open,
        whole_history: false,
        client_id: client_id.map(str::to_owned),
    })
}

fn add(uids: &[i64]) -> GroupAction {
    GroupAction::Add(users(uids))
}

#[test]
fn nobody_takes_the_gid_of_another_users_client_id() {
    let mut log = Log::new(Control::default());
    let gid = GroupId::of_owner(user(1), "family");
    for (by, client_id) in [
        (2, Some("family")),
        (2, Some("other")),
        (2, None),
        (1, None),
    ] {
        let taken = log.change(gid, by, create(client_id, &[1], false));
        assert_eq!(taken, "wrong-gid", "{by} {client_id:?}");
    }
    let by_service = log.by_service(gid, 2, create(None, &[1], false));
    assert_eq!(by_service, "wrong-gid");
    let own = || create(Some("family"), &[2], false);
    assert_eq!(log.change(gid, 1, own()), "event");
    assert_eq!(log.change(gid, 1, own()), "nothing");
    // A user may not choose a gid that a service chooses.
    assert_eq!(
        log.change(chosen(0), 1, create(None, &[], false)),
        "wrong-gid"
    );
    assert_eq!(
        log.by_service(chosen(0), 1, create(None, &[], false)),
        "event"
    );
}

#[test]
fn a_user_makes_so_many_users_members_in_a_day() {
    let mut log = Log::new(Control {
        new_memberships_per_day: Some(5),
        ..Control::default()
    });
    let gid = chosen(0);
    let created = log.by_service(gid, 1, create(None, &[2, 3], true));
    assert_eq!(created, "event");
    assert_eq!(
        log.change(gid, 1, add(&[4, 5, 6, 7])),
        "too-many-memberships"
    );
    assert_eq!(log.change(gid, 1, add(&[4, 5, 6])), "event");
    // Users who are members already are not new.
    assert_eq!(log.change(gid, 1, add(&[4, 5, 6])), "nothing");
    // A removal does not lower the count.
    assert_eq!(
        log.change(gid, 1, GroupAction::Remove(users(&[6]))),
        "event"
    );
    assert_eq!(log.change(gid, 1, add(&[6])), "too-many-memberships");
    assert_eq!(log.by_service(gid, 1, add(&[6])), "event");
    assert_eq!(log.change(gid, 9, GroupAction::Join), "event");
    log.0.now += DAY_MS;
    assert_eq!(log.change(gid, 1, add(&[7])), "event");
}

#[test]
fn others_make_a_user_a_member_of_so_many_groups() {
    let mut log = Log::new(Control {
        max_memberships_by_others: Some(2),
        ..Control::default()
    });
    for (number, owner) in [1, 1, 5, 6].into_iter().enumerate() {
        let created = log.by_service(chosen(number as i64), owner, create(None, &[], true));
        assert_eq!(created, "event");
    }
    // A membership that the user began does not count.
    assert_eq!(log.change(chosen(0), 2, GroupAction::Join), "event");
    for (number, owner) in [(1, 1), (2, 5)] {
        assert_eq!(log.change(chosen(number), owner, add(&[2])), "event");
    }
    assert_eq!(
        log.change(chosen(3), 6, add(&[3, 2])),
        "too-many-memberships"
    );
    // A membership in a dissolved group counts until the user leaves.
    assert_eq!(log.change(chosen(1), 1, GroupAction::Dissolve), "event");
    assert_eq!(log.change(chosen(3), 6, add(&[2])), "too-many-memberships");
    assert_eq!(log.change(chosen(1), 2, GroupAction::Leave), "event");
    assert_eq!(log.change(chosen(3), 6, add(&[2])), "event");
}

#[test]
fn one_user_makes_another_a_member_of_a_tenth_of_them() {
    let mut log = Log::new(Control {
        max_memberships_by_others: Some(20),
        ..Control::default()
    });
    for (number, owner) in [1, 1, 1, 5].into_iter().enumerate() {
        let created = log.by_service(chosen(number as i64), owner, create(None, &[1, 5], true));
        assert_eq!(created, "event");
    }
    for number in [0, 1] {
        assert_eq!(log.change(chosen(number), 1, add(&[2])), "event");
    }
    assert_eq!(log.change(chosen(2), 1, add(&[2])), "too-many-memberships");
    // Another user may add, and a service too, and so may a user whose share is free again.
    assert_eq!(log.change(chosen(3), 5, add(&[2])), "event");
    assert_eq!(log.by_service(chosen(2), 1, add(&[2])), "event");
    for number in [0, 1] {
        let leaves = log.change(chosen(number), 2, GroupAction::Leave);
        assert_eq!(leaves, "event");
    }
    let own = GroupId::of_owner(user(1), "family");
    let created = log.change(own, 1, create(Some("family"), &[2], false));
    assert_eq!(created, "event");
}

#[test]
fn nobody_is_added_and_removed_as_often_as_somebody_likes() {
    let mut log = Log::new(Control {
        max_memberships_by_others: Some(20),
        ..Control::default()
    });
    let gid = chosen(0);
    assert_eq!(log.by_service(gid, 1, create(None, &[], true)), "event");
    for _ in 0..2 {
        assert_eq!(log.change(gid, 1, add(&[2])), "event");
        let removed = log.change(gid, 1, GroupAction::Remove(users(&[2])));
        assert_eq!(removed, "event");
    }
    assert_eq!(log.change(gid, 1, add(&[2])), "too-many-memberships");
    log.0.now += DAY_MS;
    assert_eq!(log.change(gid, 1, add(&[2])), "event");
}

#[test]
fn who_left_by_himself_is_not_put_back_until_he_joins() {
    let mut log = Log::new(Control {
        max_group_members: Some(3),
        ..Control::default()
    });
    let gid = chosen(0);
    assert_eq!(log.by_service(gid, 1, create(None, &[2, 3], true)), "event");
    assert_eq!(log.change(gid, 2, GroupAction::Leave), "event");
    assert_eq!(log.change(gid, 1, add(&[2])), "has-left");
    assert_eq!(log.change(gid, 2, GroupAction::Join), "event");
    assert_eq!(
        log.change(gid, 1, GroupAction::Remove(users(&[2]))),
        "event"
    );
    assert_eq!(log.change(gid, 1, add(&[2])), "event");
    // Three leavers are remembered: as many as the group may have members.
    for uid in [2, 4, 5, 6] {
        log.change(gid, uid, GroupAction::Join);
        assert_eq!(log.change(gid, uid, GroupAction::Leave), "event");
    }
    assert_eq!(log.change(gid, 1, add(&[4])), "has-left");
    assert_eq!(log.change(gid, 1, add(&[2])), "event");
}

#[test]
fn a_dissolved_group_is_cleared_up_and_left() {
    let mut log = Log::new(Control::default());
    let gid = chosen(0);
    assert_eq!(log.by_service(gid, 1, create(None, &[2, 3], true)), "event");
    assert_eq!(log.send(gid, 3), "event");
    assert_eq!(log.change(gid, 1, GroupAction::Dissolve), "event");
    for by in [1, 2, 3] {
        assert_eq!(log.send(gid, by), "dissolved");
        assert_eq!(log.change_message(gid, by, Change::Clear), "event");
        assert_eq!(log.change_message(gid, by, Change::Hide), "event");
    }
    assert_eq!(log.change(gid, 2, GroupAction::Join), "dissolved");
    assert_eq!(log.change_message(gid, 2, Change::Recall), "dissolved");
    for by in [1, 2] {
        assert_eq!(log.change(gid, by, GroupAction::Leave), "event");
        assert_eq!(log.change(gid, by, GroupAction::Leave), "nothing");
        assert_eq!(log.send(gid, by), "not-a-member");
        let edit = Change::Edit("later".to_owned());
        assert_eq!(log.change_message(gid, by, edit), "not-a-member");
        // The message was hidden before: a repeat reveals nothing about the group.
        assert_eq!(log.change_message(gid, by, Change::Hide), "nothing");
    }
    assert_eq!(log.change_message(gid, 1, Change::Recall), "event");
    assert_eq!(log.change_message(gid, 1, Change::Recall), "nothing");
}

#[test]
fn a_recalled_message_is_neither_edited_nor_recalled_again() {
    let mut log = Log::new(Control::default());
    let gid = chosen(0);
    assert_eq!(log.by_service(gid, 1, create(None, &[2], true)), "event");
    assert_eq!(log.send(gid, 2), "event");
    assert_eq!(log.change_message(gid, 2, Change::Recall), "event");
    let edit = Change::Edit("again".to_owned());
    assert_eq!(log.change_message(gid, 2, edit), "recalled");
    assert_eq!(log.change_message(gid, 1, Change::Recall), "nothing");
}

#[test]
fn strangers_hear_the_same_of_every_group() {
    let mut log = Log::new(Control::default());
    let (there, ended, never) = (chosen(0), chosen(1), chosen(2));
    for gid in [there, ended] {
        assert_eq!(log.by_service(gid, 1, create(None, &[], false)), "event");
    }
    assert_eq!(log.change(ended, 1, GroupAction::Dissolve), "event");
    let mut heard = [there, ended, never].map(|gid| {
        let mut of_actions = [
            GroupAction::Join,
            add(&[3]),
            GroupAction::Rename("x".to_owned()),
            GroupAction::Dissolve,
        ]
        .map(|action| log.change(gid, 2, action))
        .to_vec();
        of_actions.push(log.send(gid, 2));
        of_actions.push(log.change_message(gid, 2, Change::Hide));
        of_actions.push(log.change_message(gid, 2, Change::Recall));
        assert_eq!(log.change(gid, 2, GroupAction::Leave), "nothing");
        of_actions
    });
    heard.iter_mut().for_each(Vec::dedup);
    assert_eq!(heard, [["not-a-member"]; 3]);
}

#[test]
fn only_a_new_owner_is_unmuted_by_his_role() {
    let mut log = Log::new(Control::default());
    let gid = chosen(0);
    assert_eq!(log.by_service(gid, 1, create(None, &[2], false)), "event");
    let uid = user(2);
    let role = |role| GroupAction::SetRole { uid, role };
    assert_eq!(log.change(gid, 1, GroupAction::Mute(Some(uid))), "event");
    assert_eq!(log.change(gid, 1, role(GroupRole::Admin)), "event");
    assert_eq!(log.send(gid, 2), "muted");
    assert_eq!(log.change(gid, 1, role(GroupRole::Owner)), "event");
    assert_eq!(log.send(gid, 2), "event");
    let open = GroupAction::SetOptions(SetGroupOptions {
        open: Some(true),
        whole_history: None,
    });
    assert_eq!(log.change(gid, 2, open), "event");
}
