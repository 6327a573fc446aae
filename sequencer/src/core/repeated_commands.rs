//! Commands that are on the log twice (PROTOCOL S15), and other rules of version 4.

use schemas::{
    Change, ChangeContact, ChangeGroup, ChangeMessage, CreateGroup, DeviceClass, GroupAction, Mid,
    Partition, Profile, Recipient, UserId,
    command::{Command, Control, ReadAck, SendMessage},
    dead_letter::Reason,
};

use super::{Decision, NoOp, test_log::TestLog};

fn user(uid: i64) -> UserId {
    UserId::try_from(uid).unwrap()
}

fn mid(mid: i64) -> Mid {
    Mid::try_from(mid).unwrap()
}

/// A log of users 1 and 3, who have sent each other a message, and of group 4 with owner 1 and member 3.
fn log_under(version: u32) -> TestLog {
    let partition = Partition::try_from(4_i64).unwrap();
    let control = Control {
        rule_version: Some(version),
        ..Control::default()
    };
    let mut log = TestLog::new(partition, 1_000_000, control);
    for (srcid, destid) in [(1, 3), (3, 1)] {
        log.applied(send(srcid, destid, "hello"));
    }
    log.applied(of_group(GroupAction::Create(CreateGroup {
        client_id: None,
        name: "Lunch".to_owned(),
        members: vec![user(3)],
        open: true,
        whole_history: false,
    })));
    log.applied(Command::Send(SendMessage {
        to: Recipient::Group(4.try_into().unwrap()),
        ..message(1, 3, "in the group")
    }));
    log
}

fn rules(ask: impl FnOnce(&mut Control)) -> Command {
    let mut control = Control::default();
    ask(&mut control);
    Command::Control(control)
}

fn message(srcid: i64, destid: i64, msg: &str) -> SendMessage {
    SendMessage {
        srcid: user(srcid),
        to: Recipient::User(user(destid)),
        client_msg_id: format!("{srcid}-{destid}-{msg}").try_into().unwrap(),
        msg: msg.to_owned(),
        by_user: true,
    }
}

fn send(srcid: i64, destid: i64, msg: &str) -> Command {
    Command::Send(message(srcid, destid, msg))
}

fn of_group(action: GroupAction) -> Command {
    let by = match action {
        GroupAction::Leave | GroupAction::Join => user(3),
        _ => user(1),
    };
    Command::ChangeGroup(ChangeGroup {
        gid: 4.try_into().unwrap(),
        by,
        // Only a service chooses a gid.
        by_user: !matches!(action, GroupAction::Create(_)),
        action,
    })
}

fn pins(peer: i64, pinned: bool) -> Command {
    Command::ChangeContact(ChangeContact {
        uid: user(1),
        peer: user(peer),
        favourite: None,
        pinned: Some(pinned),
        muted: None,
        blocked: None,
        deleted: false,
        by_user: true,
    })
}

fn changes(to: Recipient, change: Change) -> Command {
    Command::ChangeMessage(ChangeMessage {
        by: user(1),
        to,
        mid: mid(1),
        change,
    })
}

fn with_user() -> Recipient {
    Recipient::User(user(3))
}

fn with_group() -> Recipient {
    Recipient::Group(4.try_into().unwrap())
}

fn edit(msg: &str) -> Command {
    changes(with_user(), Change::Edit(msg.to_owned()))
}

fn nick(nick: &str) -> Command {
    Command::SetProfile(Profile {
        uid: user(4),
        nick: nick.to_owned(),
        avatar: None,
        extra: None,
    })
}

fn reads(mid: Option<Mid>) -> Command {
    Command::ReadAck(ReadAck {
        uid: user(1),
        to: with_user(),
        device: DeviceClass::Pc,
        mid,
    })
}

/// Commands, each with one that undoes it, so that a second application would take effect again.
fn undone() -> [(Command, Command); 7] {
    [
        (pins(3, true), pins(3, false)),
        (edit("new"), edit("newer")),
        (nick("Ann"), nick("Anna")),
        (of_group(GroupAction::Leave), of_group(GroupAction::Join)),
        (
            of_group(GroupAction::Rename("Dinner".to_owned())),
            of_group(GroupAction::Rename("Supper".to_owned())),
        ),
        (reads(None), send(3, 1, "later")),
        (
            rules(|control| control.max_msg_bytes = Some(7)),
            rules(|control| control.max_msg_bytes = Some(70)),
        ),
    ]
}

#[test]
fn a_command_that_is_there_twice_is_applied_once_from_version_4_on() {
    for version in [3, 4] {
        for (command, taken_back) in undone() {
            let mut log = log_under(version);
            let first = log.post(command.clone(), "once");
            assert!(matches!(first, Decision::Emit(_)), "{first:?}");
            log.applied(taken_back);
            let second = log.post(command, "once");
            match version {
                3 => assert!(matches!(second, Decision::Emit(_)), "{second:?}"),
                _ => assert_eq!(second, Decision::NoOp(NoOp::Repeat)),
            }
        }
    }
}

#[test]
fn the_id_of_another_command_is_a_conflict() {
    for (command, other) in undone() {
        if matches!(other, Command::Send(_)) {
            continue;
        }
        let mut log = log_under(4);
        log.post(command, "once");
        let Decision::DeadLetter(refusal) = log.post(other.clone(), "once") else {
            panic!("{other:?} has an id that is taken");
        };
        assert_eq!(refusal.reason, Reason::Conflict);
        assert!(matches!(log.post(other, "another"), Decision::Emit(_)));
    }
}

#[test]
fn who_posts_it_does_not_make_it_another_command() {
    let mut log = log_under(4);
    log.post(pins(3, true), "once");
    let Command::ChangeContact(mut again) = pins(3, true) else {
        unreachable!("it is one");
    };
    again.by_user = false;
    let again = log.post(Command::ChangeContact(again), "once");
    assert_eq!(again, Decision::NoOp(NoOp::Repeat));
}

#[test]
fn what_was_refused_is_decided_anew() {
    let mut log = log_under(4);
    let join = || of_group(GroupAction::Join);
    let set_open = |open| {
        of_group(GroupAction::SetOptions(schemas::SetGroupOptions {
            open: Some(open),
            whole_history: None,
        }))
    };
    log.applied(of_group(GroupAction::Leave));
    log.applied(set_open(false));
    assert!(matches!(log.post(join(), "once"), Decision::DeadLetter(_)));
    log.applied(set_open(true));
    assert!(matches!(log.post(join(), "once"), Decision::Emit(_)));
    assert_eq!(log.post(join(), "once"), Decision::NoOp(NoOp::Repeat));
}

#[test]
fn the_record_that_raises_the_version_is_remembered() {
    let mut log = log_under(3);
    let raise = || {
        rules(|control| {
            control.rule_version = Some(4);
            control.max_msg_bytes = Some(7);
        })
    };
    assert!(matches!(log.post(raise(), "once"), Decision::Emit(_)));
    log.applied(rules(|control| control.max_msg_bytes = Some(70)));
    assert_eq!(log.post(raise(), "once"), Decision::NoOp(NoOp::Repeat));
}

#[test]
fn a_read_ack_of_a_mid_that_is_there_takes_no_entry() {
    let mut log = log_under(4);
    let before = log.state.dedup_entries();
    log.post(reads(Some(mid(1))), "first");
    assert_eq!(log.state.dedup_entries(), before);
    // Clamped to message 2: a repeat would read messages that came later.
    log.post(reads(Some(mid(9))), "second");
    assert_eq!(log.state.dedup_entries(), before + 1);
    log.applied(send(3, 1, "later"));
    let again = log.post(reads(Some(mid(9))), "second");
    assert_eq!(again, Decision::NoOp(NoOp::Repeat));
}

#[test]
fn an_id_that_is_none_is_malformed_from_version_4_on() {
    for (version, is_malformed) in [(3, false), (4, true)] {
        let decision = log_under(version).post(pins(3, true), "a\nb");
        assert_eq!(
            matches!(decision, Decision::DeadLetter(_)),
            is_malformed,
            "{decision:?}"
        );
    }
}

#[test]
fn hiding_and_clearing_again_emits_nothing_from_version_4_on() {
    for (to, change) in [
        (with_user(), Change::Hide),
        (with_group(), Change::Hide),
        (with_user(), Change::Clear),
        (with_group(), Change::Clear),
    ] {
        let emits_twice = |version| {
            let mut log = log_under(version);
            // Each command has its own id.
            let [first, second] =
                ["first", "second"].map(|id| log.post(changes(to, change.clone()), id));
            assert!(matches!(first, Decision::Emit(_)), "{first:?}");
            matches!(second, Decision::Emit(_))
        };
        assert!(!emits_twice(4), "{to:?} {change:?}");
        let is_clear_of_two = change == Change::Clear && to == with_user();
        assert_eq!(emits_twice(3), !is_clear_of_two, "{to:?} {change:?}");
    }
}

#[test]
fn flags_and_a_first_message_begin_one_conversation() {
    // The uids of a pair add up to 4, or to 64 more.
    let strangers = [67, 131];
    let is_refused = |version| {
        let mut log = log_under(version);
        log.applied(rules(|control| {
            control.new_conversations_per_day = Some(4);
        }));
        for peer in strangers {
            log.applied(pins(peer, true));
        }
        let written = strangers.map(|peer| log.post(send(1, peer, "hello"), ""));
        written
            .iter()
            .any(|decision| matches!(decision, Decision::DeadLetter(_)))
    };
    assert!(is_refused(3));
    assert!(!is_refused(4));
}
