//! Commands that are on the log twice, under rule version 4.

use schemas::{Change, ContactFlags, command::InboundValue};

use super::{
    changes::{Log, asked, asked_of},
    *,
};

fn log() -> Log {
    let mut log = Log::of_version_3();
    log.begin_version_4();
    log
}

/// User 1 pins or unpins the contact.
fn pin(log: &Log, pinned: bool, id: &str) -> (InboundValue, Body) {
    let ask = match pinned {
        true => |contact: &mut schemas::ChangeContact| contact.pinned = Some(true),
        false => |contact: &mut schemas::ChangeContact| contact.pinned = Some(false),
    };
    let asked = asked_of(1, ask);
    let flags = ContactFlags {
        pinned,
        ..ContactFlags::default()
    };
    let body = Body::ContactChange(log.next_contact(&asked, flags));
    let value = InboundValue {
        id: id.to_owned(),
        ..Command::ChangeContact(asked).into()
    };
    (value, body)
}

#[test]
fn a_command_that_is_there_twice_has_one_event() {
    let mut log = log();
    for (pinned, id) in [(true, "a"), (false, "b")] {
        let (value, body) = pin(&log, pinned, id);
        log.sequence_once(value, body, true);
    }
    let (again, body) = pin(&log, true, "a");
    log.post_value(again.clone());
    let folded = log.assert_sound();
    assert_eq!(folded.account.repeats, 1);
    log.sequence_once(again, body, true);
    log.assert_finds("a command is applied again within the window");
}

#[test]
fn an_id_with_other_contents_is_refused() {
    let mut log = log();
    let (value, body) = pin(&log, true, "a");
    log.sequence_once(value, body, true);
    let (other, _) = pin(&log, false, "a");
    log.refuse_value(other.clone(), Reason::Conflict);
    log.assert_sound();
    log.post_value(other);
    log.assert_finds("it is to be refused (conflict)");
}

#[test]
fn an_event_that_does_not_name_its_command_is_found() {
    let mut log = log();
    let (value, body) = pin(&log, true, "a");
    log.sequence_once(value, body, false);
    log.assert_finds("command is not that of its event");
}

#[test]
fn hiding_again_is_without_an_event() {
    let mut log = log();
    log.change(1, 1, Change::Hide);
    log.post(asked(1, 1, Change::Hide));
    log.assert_sound();
    log.change(1, 1, Change::Hide);
    log.assert_finds("a command is applied again within the window");
}
