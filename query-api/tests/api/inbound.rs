use schemas::{
    AppliedCommand, Change, ChangeContact, ChangeMessage, ChangeSeq, ContactChange, ContactFlags,
    DeletedContact, DeviceClass, InboundPosition, MessageChange, Ordinal, Partition, Recipient,
    TimestampMs,
    command::{Command, Control, InboundValue, ReadAck, SendMessage},
    dead_letter::{DeadLetterRecord, Origin, OriginalRecord, Reason},
    event::{Body, Event, ReadPosition, Rules, Source, SourceOffset},
    topics::Topic,
};
use serde_json::json;

use crate::{
    chat::{Chat, message, mid},
    deployment::{Deployment, now, partition},
    service::{Service, env},
};

fn path(position: InboundPosition) -> String {
    let InboundPosition { partition, offset } = position;
    format!("/v1/inbound/{partition}/{offset}")
}

fn event(epoch: u32, offset: i64, ts: TimestampMs, body: Body) -> Event {
    Event {
        src: Source {
            offset: SourceOffset { epoch, offset },
            leader_epoch: 0,
        },
        ts,
        body,
        command: None,
        words: None,
    }
}

fn send_of(chat: &Chat, index: usize) -> Command {
    let message = message(&chat.rows[index]);
    Command::Send(SendMessage {
        by_user: false,
        srcid: message.srcid,
        to: message.to,
        client_msg_id: message.client_msg_id,
        msg: message.msg,
    })
}

fn sequenced(chat: &Chat, index: usize) -> Body {
    Body::Message(message(&chat.rows[index]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_is_pending_and_then_sequenced() {
    let (deployment, service) = env().await;
    let p = partition(1);
    let mut chat = Chat::in_partition(p);
    chat.talk(2);
    let first = deployment.post(p, send_of(&chat, 0)).await;
    let second = deployment.post(p, send_of(&chat, 1)).await;
    let pending = json!({"partition": 1, "offset": first.offset, "state": "pending"});
    assert_eq!(service.ok(&path(first)).await, pending);

    let ts = now();
    deployment
        .emit(p, event(0, first.offset, ts, sequenced(&chat, 0)))
        .await;
    assert_eq!(service.ok(&path(second)).await["state"], "pending");
    let at = deployment
        .emit(p, event(0, second.offset, ts, sequenced(&chat, 1)))
        .await;
    // A former owner wakes up and appends its decisions again.
    deployment
        .emit(p, event(0, first.offset, ts, sequenced(&chat, 0)))
        .await;

    let body = service.ok(&path(second)).await;
    let ts = body["ts"].as_str().unwrap();
    let (lo, hi) = (chat.me.min(chat.peer), chat.me.max(chat.peer));
    assert_eq!(
        body,
        json!({
            "partition": 1,
            "offset": second.offset,
            "state": "sequenced",
            "conversation": format!("{lo},{hi}"),
            "mid": 2,
            "events_offset": at,
            "ts": ts,
        })
    );
    let body = service.ok(&path(first)).await;
    assert_eq!(
        (&body["mid"], &body["events_offset"]),
        (&json!(1), &json!(at - 1))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_names_the_message_that_it_repeats() {
    let (deployment, service) = env().await;
    let p = partition(2);
    let mut chat = Chat::in_partition(p);
    chat.talk(1);
    let first = deployment.post(p, send_of(&chat, 0)).await;
    let ts = now();
    let at = deployment
        .emit(p, event(0, first.offset, ts, sequenced(&chat, 0)))
        .await;
    // Until the clock of the events is certainly behind the repeat's own time.
    while now() <= ts {
        tokio::task::yield_now().await;
    }
    let again = deployment.post(p, send_of(&chat, 0)).await;
    assert_eq!(service.ok(&path(again)).await["state"], "pending");
    // Progress carries the state's clock, which a repeat does not move.
    deployment
        .emit(p, event(0, again.offset, ts, Body::Progress))
        .await;

    let body = service.ok(&path(again)).await;
    assert_eq!(
        body,
        json!({
            "partition": 2,
            "offset": again.offset,
            "state": "repeat",
            "conversation": body["conversation"],
            "of_mid": 1,
            "client_msg_id": chat.rows[0].client_msg_id.as_str(),
            "of_offset": first.offset,
            "events_offset": at,
        })
    );
    // It has been edited since, as its author may.
    chat.rows[0].id = at;
    chat.rows[0].msg = "edited".to_owned();
    chat.rows[0].edited_ts = Some(ts);
    deployment.write_messages(&chat.rows).await;
    let body = service.ok(&path(again)).await;
    let client_msg_id = chat.rows[0].client_msg_id.as_str();
    assert_eq!(
        (&body["state"], &body["of_mid"]),
        (&json!("repeat"), &json!(1))
    );
    assert_eq!(body["client_msg_id"], client_msg_id);
    assert_eq!(service.ok(&path(first)).await["state"], "sequenced");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_there_twice_names_the_one_that_holds() {
    let (deployment, service) = env().await;
    let p = partition(14);
    let chat = Chat::in_partition(p);
    let value = |pinned| InboundValue {
        id: "once".to_owned(),
        ..Command::ChangeContact(ChangeContact {
            uid: chat.me,
            peer: chat.peer,
            favourite: None,
            pinned: Some(pinned),
            muted: None,
            blocked: None,
            deleted: false,
            by_user: true,
        })
        .into()
    };
    let [first, second, other] = [
        deployment.post_value(p, value(true)).await,
        deployment.post_value(p, value(true)).await,
        deployment.post_value(p, value(false)).await,
    ];
    let pinned = ContactFlags {
        pinned: true,
        ..ContactFlags::default()
    };
    let command = AppliedCommand {
        id: "once".to_owned().try_into().unwrap(),
        content: 7,
    };
    let pinned = Event {
        command: Some(Box::new(command)),
        ..event(
            0,
            first.offset,
            now(),
            Body::ContactChange(ContactChange {
                uid: chat.me,
                peer: chat.peer,
                flags: pinned,
                deleted: None,
            }),
        )
    };
    let at = deployment.emit(p, pinned).await;
    dead_letter(deployment, other, Reason::Conflict, "another one's").await;
    deployment
        .emit(p, event(0, other.offset, now(), Body::Progress))
        .await;

    let held = service.ok(&path(first)).await;
    assert_eq!(
        (&held["state"], &held["pinned"]),
        (&json!("contact_changed"), &json!(true))
    );
    let (lo, hi) = (chat.me.min(chat.peer), chat.me.max(chat.peer));
    assert_eq!(
        service.ok(&path(second)).await,
        json!({
            "partition": 14,
            "offset": second.offset,
            "state": "repeat",
            "conversation": format!("{lo},{hi}"),
            "of_mid": null,
            "command_id": "once",
            "of_offset": first.offset,
            "events_offset": at,
        })
    );
    assert_eq!(service.ok(&path(other)).await["state"], "refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_refused_says_why() {
    let (deployment, service) = env().await;
    let p = partition(3);
    let mut chat = Chat::in_partition(p);
    chat.talk(2);
    let conflict = deployment.post(p, send_of(&chat, 0)).await;
    let offset = deployment
        .append(Topic::Inbound, p, b"junk", None, &[])
        .await;
    let junk = InboundPosition {
        partition: p,
        offset,
    };
    let control = Control {
        rule_version: Some(0),
        ..Control::default()
    };
    let control = deployment.post(p, Command::Control(control)).await;
    dead_letter(deployment, conflict, Reason::Conflict, "used before").await;
    deployment
        .emit(p, event(0, control.offset + 1, now(), sequenced(&chat, 1)))
        .await;

    let body = service.ok(&path(conflict)).await;
    assert_eq!(
        body,
        json!({
            "partition": 3,
            "offset": conflict.offset,
            "state": "refused",
            "reason": "conflict",
            "detail": "used before",
        })
    );
    // Their dead letters are gone, and still nothing else can have become of them.
    let body = service.ok(&path(junk)).await;
    assert_eq!(
        (&body["state"], &body["reason"]),
        (&json!("refused"), &json!("malformed"))
    );
    let body = service.ok(&path(control)).await;
    assert_eq!(
        (&body["state"], &body["reason"]),
        (&json!("refused"), &json!("invalid-control"))
    );
}

async fn dead_letter(deployment: &Deployment, at: InboundPosition, reason: Reason, words: &str) {
    let topic = deployment.config.kafka.topic(Topic::Inbound);
    let origin = Origin::of_inbound(&topic, at);
    let letter = DeadLetterRecord::new(&origin, reason, words, &OriginalRecord::default());
    deployment
        .append(Topic::DeadLetters, at.partition, b"", None, &letter.headers)
        .await;
}

/// One user can fill a partition with refused sends: far more than a call reads.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_full_of_dead_letters_hides_no_outcome() {
    let deployment = Deployment::shared().await;
    let mut config = deployment.config.clone();
    config.query_api.inbound_scan_records = 64;
    let service = Service::start(&config).await;
    let p = partition(8);
    let mut chat = Chat::in_partition(p);
    chat.talk(1);
    let ack = Command::ReadAck(ReadAck {
        uid: chat.me,
        to: Recipient::User(chat.peer),
        device: DeviceClass::Pc,
        mid: None,
    });
    let original = deployment.post(p, send_of(&chat, 0)).await;
    let mut refused = Vec::new();
    for _ in 0..200 {
        refused.push(deployment.post(p, send_of(&chat, 0)).await);
    }
    let kept = deployment.post(p, ack).await;
    let repeat = deployment.post(p, send_of(&chat, 0)).await;
    // Repeats, too, of a recall and of a message that is not stored.
    let recall = Command::ChangeMessage(ChangeMessage {
        by: chat.me,
        to: Recipient::User(chat.peer),
        mid: mid(1),
        change: Change::Recall,
    });
    let mut other = Chat::in_partition(p);
    other.talk(1);
    let not_stored = send_of(&other, 0);
    let without_letters = [
        deployment.post(p, recall).await,
        deployment.post(p, not_stored).await,
    ];
    for _ in 0..200 {
        refused.push(deployment.post(p, send_of(&chat, 0)).await);
    }
    chat.rows[0].id = deployment
        .emit(p, event(0, original.offset, now(), sequenced(&chat, 0)))
        .await;
    for at in &refused {
        dead_letter(deployment, *at, Reason::Conflict, &at.to_string()).await;
    }
    let last = refused[refused.len() - 1];
    deployment
        .emit(p, event(0, last.offset, now(), Body::Progress))
        .await;
    deployment.write_messages(&chat.rows).await;

    for at in [refused[0], refused[199], refused[200], last] {
        let body = service.ok(&path(at)).await;
        assert_eq!(body["detail"], at.to_string(), "{body}");
    }
    let body = service.ok(&path(repeat)).await;
    assert_eq!(
        (&body["state"], &body["of_mid"]),
        (&json!("repeat"), &json!(1))
    );
    let body = service.ok(&path(kept)).await;
    assert_eq!(body["state"], "read_position_kept");
    for at in without_letters {
        assert_eq!(service.ok(&path(at)).await["state"], "no_event");
    }
}

/// Two owners of a partition both append what they refuse, and the one that is behind may do so last.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_found_among_those_that_were_appended_again() {
    let (deployment, service) = env().await;
    let p = partition(9);
    let mut chat = Chat::in_partition(p);
    chat.talk(1);
    let mut sends = Vec::new();
    for _ in 0..20 {
        sends.push(deployment.post(p, send_of(&chat, 0)).await);
    }
    let again = sends.iter().take(10).cycle().take(60);
    for at in sends.iter().chain(again) {
        dead_letter(deployment, *at, Reason::Conflict, &at.to_string()).await;
    }
    deployment
        .emit(p, event(0, sends[19].offset, now(), Body::Progress))
        .await;
    for at in sends {
        assert_eq!(service.ok(&path(at)).await["detail"], at.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_ack_moved_the_position_or_not_and_control_changed_the_rules() {
    let (deployment, service) = env().await;
    let p = partition(4);
    let chat = Chat::in_partition(p);
    let ack = ReadAck {
        uid: chat.me,
        to: Recipient::User(chat.peer),
        device: DeviceClass::Mobile,
        mid: None,
    };
    let moved = deployment.post(p, Command::ReadAck(ack)).await;
    let kept = deployment.post(p, Command::ReadAck(ack)).await;
    let control = Command::Control(Control::default());
    let control = deployment.post(p, control).await;
    let position = ReadPosition {
        uid: ack.uid,
        to: ack.to,
        device: ack.device,
        mid: mid(3),
        ordinal: None,
    };
    let ts = now();
    let at = deployment
        .emit(p, event(0, moved.offset, ts, Body::ReadPosition(position)))
        .await;
    let rules = Body::Control(Rules::VERSION_1);
    deployment
        .emit(p, event(0, control.offset, ts, rules))
        .await;

    let body = service.ok(&path(moved)).await;
    assert_eq!(body["state"], "read_position_moved");
    assert_eq!(
        (&body["mid"], &body["events_offset"]),
        (&json!(3), &json!(at))
    );
    assert_eq!(
        service.ok(&path(kept)).await,
        json!({
            "partition": 4,
            "offset": kept.offset,
            "state": "read_position_kept",
            "uid": chat.me.to_string(),
            "peer": chat.peer.to_string(),
            "device": "mobile",
        })
    );
    assert_eq!(service.ok(&path(control)).await["state"], "rules_changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_to_a_message_has_its_number_or_no_effect_or_a_reason() {
    let (deployment, service) = env().await;
    let p = partition(10);
    let chat = Chat::in_partition(p);
    let (lo, hi) = (chat.me.min(chat.peer), chat.me.max(chat.peer));
    let command = |change: Change| {
        Command::ChangeMessage(ChangeMessage {
            by: chat.me,
            to: Recipient::User(chat.peer),
            mid: mid(3),
            change,
        })
    };
    let recall = deployment.post(p, command(Change::Recall)).await;
    let again = deployment.post(p, command(Change::Recall)).await;
    let edit = command(Change::Edit("new".to_owned()));
    let edit = deployment.post(p, edit).await;
    let elsewhere = deployment
        .post(partition(11), command(Change::Recall))
        .await;
    assert_eq!(service.ok(&path(again)).await["state"], "pending");

    let ts = now();
    let body = Body::MessageChange(MessageChange {
        by: chat.me,
        to: Recipient::User(chat.peer),
        mid: mid(3),
        change: Change::Recall,
        change_seq: ChangeSeq::ZERO.next(),
        ordinal: None,
    });
    let at = deployment.emit(p, event(0, recall.offset, ts, body)).await;
    let words = "was recalled before";
    dead_letter(deployment, edit, Reason::Recalled, words).await;
    for end in [edit, elsewhere] {
        deployment
            .emit(end.partition, event(0, end.offset, ts, Body::Progress))
            .await;
    }

    let body = service.ok(&path(recall)).await;
    assert_eq!(
        body,
        json!({
            "partition": 10,
            "offset": recall.offset,
            "state": "message_changed",
            "conversation": format!("{lo},{hi}"),
            "mid": 3,
            "kind": "recall",
            "chg": 1,
            "events_offset": at,
            "ts": body["ts"],
        })
    );
    assert_eq!(
        service.ok(&path(again)).await,
        json!({
            "partition": 10,
            "offset": again.offset,
            "state": "without_effect",
            "conversation": format!("{lo},{hi}"),
        })
    );
    let body = service.ok(&path(edit)).await;
    assert_eq!(
        (&body["state"], &body["reason"], &body["detail"]),
        (&json!("refused"), &json!("recalled"), &json!(words))
    );
    let body = service.ok(&path(elsewhere)).await;
    assert_eq!(body["reason"], "wrong-partition");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_to_a_contact_shows_what_holds_then() {
    let (deployment, service) = env().await;
    let p = partition(12);
    let chat = Chat::in_partition(p);
    let command = Command::ChangeContact(ChangeContact {
        uid: chat.me,
        peer: chat.peer,
        favourite: None,
        pinned: Some(true),
        muted: None,
        blocked: None,
        deleted: true,
        by_user: true,
    });
    let first = deployment.post(p, command.clone()).await;
    let second = deployment.post(p, command).await;
    let body = Body::ContactChange(ContactChange {
        uid: chat.me,
        peer: chat.peer,
        flags: ContactFlags {
            pinned: true,
            muted: true,
            ..ContactFlags::default()
        },
        deleted: Some(DeletedContact {
            mid: mid(3),
            ordinal: Ordinal::ZERO.next(),
        }),
    });
    let ts = now();
    let at = deployment.emit(p, event(0, first.offset, ts, body)).await;
    deployment
        .emit(p, event(0, second.offset, ts, Body::Progress))
        .await;

    let body = service.ok(&path(first)).await;
    assert_eq!(
        body,
        json!({
            "partition": 12,
            "offset": first.offset,
            "state": "contact_changed",
            "uid": chat.me.to_string(),
            "peer": chat.peer.to_string(),
            "favourite": false,
            "pinned": true,
            "muted": true,
            "blocked": false,
            "deleted": true,
            "events_offset": at,
            "ts": body["ts"],
        })
    );
    assert_eq!(service.ok(&path(second)).await["state"], "without_effect");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_in_a_group_is_one_and_a_read_ack_without_effect_is_none() {
    let (deployment, service) = env().await;
    let p = partition(13);
    let uid = Chat::in_partition(p).me;
    let to = Recipient::Group(13.try_into().unwrap());
    let send = Command::Send(SendMessage {
        srcid: uid,
        to,
        client_msg_id: "again".to_owned().try_into().unwrap(),
        msg: "hello".to_owned(),
        by_user: true,
    });
    let read = Command::ReadAck(ReadAck {
        uid,
        to,
        device: DeviceClass::Pc,
        mid: None,
    });
    let repeat = deployment.post(p, send).await;
    let read = deployment.post(p, read).await;
    deployment
        .emit(p, event(0, read.offset, now(), Body::Progress))
        .await;
    let body = service.ok(&path(repeat)).await;
    assert_eq!(
        (&body["state"], &body["of_mid"], &body["client_msg_id"]),
        (&json!("repeat"), &json!(null), &json!("again"))
    );
    assert_eq!(service.ok(&path(read)).await["state"], "without_effect");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_longer_or_not_yet_there() {
    let (deployment, service) = env().await;
    let p = partition(5);
    let mut chat = Chat::in_partition(p);
    chat.talk(1);
    let first = deployment.post(p, send_of(&chat, 0)).await;
    let second = deployment.post(p, send_of(&chat, 0)).await;
    let admin = event_log::Admin::new(&deployment.config.kafka).unwrap();
    let deleted = admin.delete_before(Topic::Inbound, p, second.offset);
    deleted.await.unwrap();

    let expired = json!({"partition": 5, "offset": first.offset, "state": "expired"});
    let body = service
        .until(&path(first), |answer| answer.body == expired)
        .await;
    assert_eq!(body.status, 200);
    assert_eq!(service.ok(&path(second)).await["state"], "pending");

    let beyond = service
        .get(&format!("/v1/inbound/5/{}", second.offset + 1))
        .await;
    assert_eq!(beyond.status, 404);
    assert_eq!(
        service
            .get("/v1/inbound/5/9223372036854775806")
            .await
            .status,
        404
    );
    for (path, field) in [
        ("/v1/inbound/64/0", "partition"),
        ("/v1/inbound/-1/0", "partition"),
        ("/v1/inbound/5/-1", "offset"),
        ("/v1/inbound/5/9223372036854775807", "offset"),
        ("/v1/inbound/5/x", "offset"),
        ("/v1/inbound/5/0?after=1:1", "after"),
    ] {
        assert_eq!(service.get(path).await.field(), field, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_reads_a_bounded_part_of_the_log() {
    let deployment = Deployment::shared().await;
    let mut config = deployment.config.clone();
    config.query_api.inbound_scan_records = 3;
    let service = Service::start(&config).await;
    let p = partition(6);
    let mut chat = Chat::in_partition(p);
    chat.talk(1);
    for _ in 0..5 {
        deployment.post(p, send_of(&chat, 0)).await;
    }
    let last = deployment.post(p, send_of(&chat, 0)).await;
    for offset in 0..4 {
        deployment
            .emit(p, event(0, offset, now(), Body::Control(Rules::VERSION_1)))
            .await;
    }
    let answer = service.get(&path(last)).await;
    assert_eq!(answer.status, 504);
    assert!(answer.detail().contains("3 records"), "{}", answer.detail());
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_are_those_of_the_current_epoch() {
    let deployment = Deployment::new();
    deployment.apply_topics().await;
    let p: Partition = partition(7);
    let mut chat = Chat::in_partition(p);
    chat.talk(1);
    let ts = TimestampMs(now().0 + 60_000);
    // What the log says of a former chat.inbound, whose clock was ahead, and of its end.
    deployment
        .emit(p, event(0, 9, ts, Body::Control(Rules::VERSION_1)))
        .await;
    deployment.emit(p, event(1, -1, ts, Body::Progress)).await;
    let position = deployment.post(p, send_of(&chat, 0)).await;
    let service = Service::start(&deployment.config).await;
    let body = service
        .until(&path(position), |answer| answer.body["state"] == "pending")
        .await;
    assert_eq!(body.status, 200);
    deployment
        .emit(p, event(1, position.offset, ts, sequenced(&chat, 0)))
        .await;
    assert_eq!(service.ok(&path(position)).await["mid"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_decided_before_a_raise_keeps_its_outcome() {
    let deployment = Deployment::new();
    deployment.apply_topics().await;
    let p = partition(6);
    let mut chat = Chat::in_partition(p);
    chat.talk(2);
    let ack = ReadAck {
        uid: chat.me,
        to: Recipient::User(chat.peer),
        device: DeviceClass::Pc,
        mid: None,
    };
    let position = ReadPosition {
        uid: ack.uid,
        to: ack.to,
        device: ack.device,
        mid: mid(1),
        ordinal: None,
    };
    let control = Command::Control(Control::default());
    let control = deployment.post(p, control).await;
    let send = deployment.post(p, send_of(&chat, 0)).await;
    let moved = deployment.post(p, Command::ReadAck(ack)).await;
    let kept = deployment.post(p, Command::ReadAck(ack)).await;
    let ts = TimestampMs(now().0 + 60_000);
    for (at, body) in [
        (control, Body::Control(Rules::VERSION_1)),
        (send, sequenced(&chat, 0)),
        (moved, Body::ReadPosition(position)),
        (kept, Body::Progress),
    ] {
        deployment.emit(p, event(0, at.offset, ts, body)).await;
    }
    // A former `chat.inbound` had decided more, which it lost. The epoch was raised twice.
    let lost = Body::Control(Rules::VERSION_1);
    deployment
        .emit(p, event(0, kept.offset + 1, ts, lost))
        .await;
    for epoch in [1, 2] {
        deployment
            .emit(p, event(epoch, kept.offset, ts, Body::Progress))
            .await;
    }
    let later = deployment.post(p, send_of(&chat, 1)).await;
    deployment
        .emit(p, event(2, later.offset, ts, sequenced(&chat, 1)))
        .await;
    let pending = deployment.post(p, Command::ReadAck(ack)).await;

    let service = Service::start(&deployment.config).await;
    // Once the service knows the current epoch.
    service
        .until(&path(later), |answer| answer.body["state"] == "sequenced")
        .await;
    for (at, state) in [
        (control, "rules_changed"),
        (send, "sequenced"),
        (moved, "read_position_moved"),
        (kept, "read_position_kept"),
        (later, "sequenced"),
        (pending, "pending"),
    ] {
        let body = service.ok(&path(at)).await;
        assert_eq!(body["state"], state, "{at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_former_owner_appends_behind_a_raise_hides_no_outcome() {
    let deployment = Deployment::new();
    deployment.apply_topics().await;
    let p = partition(5);
    let mut chat = Chat::in_partition(p);
    chat.talk(4);
    let mut sends = Vec::new();
    for index in 0..4 {
        sends.push(deployment.post(p, send_of(&chat, index)).await);
    }
    let ts = TimestampMs(now().0 + 60_000);
    let decided =
        |epoch, index: usize| event(epoch, sends[index].offset, ts, sequenced(&chat, index));
    let raise = |epoch| event(epoch, sends[0].offset, ts, Body::Progress);
    // The service takes the current epoch from the newest event of any partition.
    deployment.emit(partition(4), raise(2)).await;
    // The former owner had decided more of a log that lost its end.
    let of_former_owner = || [decided(0, 0), decided(0, 1)];
    for event in of_former_owner() {
        deployment.emit(p, event).await;
    }
    for event in [raise(1), raise(2), decided(2, 1), decided(2, 2)] {
        deployment.emit(p, event).await;
    }
    for _ in 0..3 {
        for event in of_former_owner() {
            deployment.emit(p, event).await;
        }
    }
    deployment.emit(p, decided(2, 3)).await;
    for event in of_former_owner() {
        deployment.emit(p, event).await;
    }

    let service = Service::start(&deployment.config).await;
    for (index, events_offset) in [(3, 12), (2, 5), (1, 4), (0, 0)] {
        service
            .until(&path(sends[index]), |answer| {
                answer.body["events_offset"] == events_offset
            })
            .await;
    }
}
