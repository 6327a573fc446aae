//! States that are not a difference.

use std::time::Duration;

use audit::{Area, AuditError, Kind, Report, Scope};
use event_log::Admin;
use message_store::Month;
use schemas::{
    Change, Partition, TimestampMs, command::Command, dead_letter::Reason, event::Body,
    topics::Topic,
};

use crate::{
    story::{now, user},
    test_env::TestEnv,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_consistent_world_has_no_difference_and_everything_was_compared() {
    let env = TestEnv::with_story().await;
    let report = env.assert_sound().await;
    let compared = |area| report.check(area).unwrap().compared;
    // 11 messages, 4 read positions and the last progress.
    assert_eq!(compared(Area::Events), 16);
    assert_eq!(compared(Area::Messages), 11);
    assert_eq!(compared(Area::ReadPositions), 3);
    assert_eq!(compared(Area::Contacts), 5);
    assert_eq!(
        (compared(Area::UnreadStates), compared(Area::UnreadViews)),
        (4, 8)
    );
    let inbound = report.inbound;
    assert_eq!((inbound.sequenced, inbound.repeats), (15, 1));
    assert_eq!((inbound.without_effect, inbound.dead_letters), (2, 1));
    assert_eq!((inbound.pending, inbound.unverifiable), (0, 0));
    assert!(report.unchecked.is_empty(), "{report}");
    // The JSON report has the same number.
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["differences"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_every_kind_are_none_and_were_compared() {
    let mut env = TestEnv::with_changes().await;
    let report = env.assert_sound().await;
    let compared = |report: &Report, area| report.check(area).unwrap().compared;
    assert_eq!(compared(&report, Area::Messages), 12);
    assert_eq!(compared(&report, Area::Changes), 9);
    assert_eq!(compared(&report, Area::Hidden), 1);
    // 937 has said nothing, so there is no row, and only that is compared.
    assert_eq!(compared(&report, Area::Contacts), 6);
    assert_eq!(report.inbound.sequenced, 31);
    // A message brings the deleted contact back, and a recalled message stays recalled.
    env.story.send(40, 7, "are you there?").await;
    env.story.change(40, 7, 5, Change::Recall).await;
    env.catch_up().await;
    let report = env.assert_sound().await;
    assert_eq!(compared(&report, Area::Changes), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_former_owners_repeats_and_pending_records_are_none() {
    let mut env = TestEnv::with_story().await;
    for logged in env.story.events.clone() {
        env.story.append(logged.partition, logged.event).await;
    }
    let pending = env.story.command(1000, 1001, "not sequenced yet");
    env.story.post(Command::Send(pending)).await;
    env.catch_up().await;
    // With a wait, the audit does not report success while a sequencer is stopped.
    let patience = Some(Duration::from_secs(1));
    let late = env.try_audit(Scope::All, patience).await.unwrap_err();
    assert!(
        late.to_string().contains("the sequencer has 1 records"),
        "{late}"
    );
    let report = env.try_audit(Scope::All, None).await.unwrap();
    assert_eq!(report.differences(), 0, "{report}");
    assert_eq!((report.repeated_events, report.inbound.pending), (16, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_gone_are_named_and_no_difference() {
    let env = TestEnv::with_story().await;
    for key in ["state-1000", "pc-1000", "mobile-1000"] {
        env.redis(&["DEL", key]).await;
    }
    let report = env.assert_sound().await;
    assert_eq!(report.check(Area::UnreadStates).unwrap().compared, 3);
    assert!(
        report.to_string().contains("1 users of the log"),
        "{report}"
    );
    let of_one = env.audit_of(Scope::User(user(1000))).await;
    let said = "unread counts of 1 users of the log, who have no state in Redis";
    assert_eq!(of_one.unchecked, [said]);
}

/// Users who are being rebuilt are shown no counts yet, so there is nothing to compare.
#[tokio::test(flavor = "multi_thread")]
async fn users_who_are_being_rebuilt_are_named_and_no_difference() {
    let env = TestEnv::with_story().await;
    for uid in [7, 1000] {
        for key in ["state", "pc", "mobile"] {
            env.redis(&["DEL", &format!("{key}-{uid}")]).await;
        }
        env.begin_rebuild(uid).await;
    }
    let report = env.assert_sound().await;
    assert_eq!(report.check(Area::UnreadStates).unwrap().compared, 2);
    let said = "unread counts of 2 users, whose states are being rebuilt: 7, 1000";
    assert_eq!(report.unchecked, [said]);
    // The same holds for an audit of one of them.
    let of_one = env.audit_of(Scope::User(user(7))).await;
    let said = "unread counts of 1 users, whose states are being rebuilt: 7";
    assert_eq!(of_one.unchecked, [said]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_behind_is_waited_for_and_named() {
    let mut env = TestEnv::with_story().await;
    env.story.send(1000, 1001, "not projected yet").await;
    let error = env
        .try_audit(Scope::All, Some(Duration::ZERO))
        .await
        .unwrap_err();
    assert!(matches!(error, AuditError::Behind { .. }), "{error}");
    let behind = "of chat.events is there up to offset";
    assert!(error.to_string().contains(behind), "{error}");
    // Without waiting, the audit compares what all projections have passed, and names the rest.
    let report = env.try_audit(Scope::All, None).await.unwrap();
    assert_eq!(report.differences(), 0, "{report}");
    assert!(report.to_string().contains("the last 1 events"), "{report}");
    assert_eq!(report.not_compared, [], "{report}");
    // This partition has events, but none that can be compared.
    let other = 60.try_into().unwrap();
    let junk = env.story.post_junk(other).await;
    env.story.refuse(junk, b"junk", Reason::Malformed).await;
    env.story.progress(junk).await;
    let report = env.try_audit(Scope::All, None).await.unwrap();
    assert_eq!(report.differences(), 0, "{report}");
    assert_eq!(report.not_compared, [other], "{report}");
    let said = "partitions 60: not every projection has passed an event of theirs";
    assert!(report.to_string().contains(said), "{report}");
    env.catch_up().await;
    env.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_retention_took_is_named() {
    let env = TestEnv::with_story().await;
    // The conversation of 1000 and 1001.
    let partition = Partition::try_from(17).unwrap();
    let admin = Admin::new(&env.kafka).unwrap();
    admin
        .delete_before(Topic::Events, partition, 3)
        .await
        .unwrap();
    let report = env.assert_sound().await;
    assert!(
        report
            .to_string()
            .contains("partition 17 of chat.events before 3"),
        "{report}"
    );
    // The causes of the three deleted events.
    assert_eq!(report.inbound.unverifiable, 3, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_that_were_deleted_are_named_in_one_line() {
    let mut env = TestEnv::with_story().await;
    let admin = Admin::new(&env.kafka).unwrap();
    for number in [3, 4, 60] {
        // No event is before the junk: it may be as old as the log.
        let partition = Partition::try_from(number).unwrap();
        let junk = env.story.append_junk(partition).await;
        env.story.refuse(junk, b"junk", Reason::Malformed).await;
        let deleted = admin.delete_before(Topic::DeadLetters, partition, 1);
        deleted.await.unwrap();
    }
    env.catch_up().await;
    let report = env.assert_sound().await;
    let said = "records of 3 partitions (3 to 4, 60) that were refused or skipped so long ago that retention may have deleted their dead letters";
    assert_eq!(report.unchecked, [said]);
}

#[tokio::test(flavor = "multi_thread")]
async fn months_that_were_dropped_are_named_and_no_difference() {
    let mut env = TestEnv::with_story().await;
    let later = TimestampMs(now().0 + 40 * 24 * 3_600_000);
    let send = env.story.command(1001, 1000, "some weeks later");
    let cause = env.story.post(Command::Send(send.clone())).await;
    let message = env.story.number(&send);
    env.story
        .tell_at(cause, later, Body::Message(message))
        .await;
    env.catch_up().await;
    let before = env.assert_sound().await;

    let store = &env.sources.messages;
    let month = Month::of(later).unwrap();
    assert!(store.drop_months(month, later).await.unwrap() > 0);
    let after = env.assert_sound().await;
    let compared = |report: &Report| report.check(Area::Messages).unwrap().compared;
    assert!(compared(&before) > 1, "{before}");
    assert_eq!(compared(&after), 1, "{after}");
    // One line, although every table lacks these months.
    let said = format!("messages before {month} of all partitions, which were dropped");
    assert_eq!(after.unchecked, [said]);

    // A missing row of a later month is still found.
    let name = month.to_string().replace('-', "");
    let sql = format!("ALTER TABLE {{p}}0.chat_msg_17 TRUNCATE PARTITION p{name}");
    env.sql(&sql).await;
    env.assert_finds(Area::Messages, Kind::Missing, "chat_msg_17")
        .await;
}
