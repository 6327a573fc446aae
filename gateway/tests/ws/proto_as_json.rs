//! Frames of protobuf as those of JSON that say the same, by code of its own.

use schemas::{
    TimestampMs,
    proto::{
        self, ChangeKind, ClientFrame, DeviceClass, GroupChangeKind, GroupRole, RecordPosition,
        ServerFrame, client_frame as client, sequenced_event::Event, server_frame::Frame,
    },
};
use serde_json::{Map, Value, json};

/// What a frame of the gateway says.
pub fn to_json(frame: ServerFrame) -> Value {
    let (kind, members) = match frame.frame.unwrap() {
        Frame::Welcome(f) => {
            let members = json!({"resumed": f.resumed, "token": f.token, "frames_per_s": f.frames_per_s, "bytes_per_s": f.bytes_per_s, "ping_seconds": f.ping_seconds});
            ("welcome", members)
        }
        Frame::SyncRequired(f) => {
            let members =
                json!({"after_ms": f.after_ms, "token": f.token, "ping_seconds": f.ping_seconds});
            ("sync_required", members)
        }
        Frame::Event(f) => {
            let event = f.event.unwrap();
            assert_eq!((event.src, event.words), (None, None));
            let (kind, mut body) = body(event.event.unwrap(), &time(f.ts_ms));
            if f.members_omitted > 0 {
                body["members_omitted"] = f.members_omitted.into();
            }
            ("event", json!({"at": at(f.at), kind: body}))
        }
        Frame::Head(f) => {
            let members = json!({"at": at(f.at), "until": at(f.until), "gid": id(f.gid), "mid": f.mid, "chg": f.chg, "own_mid": f.own_mid});
            ("head", members)
        }
        Frame::Ping(f) => ("ping", json!({"token": f.token})),
        Frame::Accepted(f) => ("accepted", json!({"ref": f.r#ref, "at": at(f.at)})),
        Frame::Sent(f) => {
            let members = json!({"ref": f.r#ref, "mid": f.mid, "ts": f.ts_ms.map(time)});
            ("sent", members)
        }
        Frame::Refused(f) => {
            let retry = f.retry.then_some(true);
            let members =
                json!({"ref": f.r#ref, "reason": f.reason, "detail": f.detail, "retry": retry});
            ("refused", members)
        }
        Frame::Error(f) => ("error", json!({"detail": f.detail})),
        Frame::Typing(f) => {
            let members = json!({"from": id(f.from), "to": id(f.to), "gid": id(f.gid)});
            ("typing", members)
        }
        Frame::Presence(f) => return presence(&f),
        Frame::Replaced(_) => ("replaced", json!({})),
        Frame::Reconnect(f) => ("reconnect", json!({"after_ms": f.after_ms})),
    };
    let mut frame = present(members);
    frame["type"] = kind.into();
    frame
}

/// `online` is there and null where it is not known.
fn presence(presence: &proto::server_frame::Presence) -> Value {
    let classes = presence.classes();
    let classes: Vec<String> = classes
        .map(|class| name(class.as_str_name(), "DEVICE_CLASS_"))
        .collect();
    let classes = (!classes.is_empty()).then_some(classes);
    let mut frame = present(json!({
        "type": "presence", "uid": id(presence.uid), "classes": classes, "last_seen": presence.last_seen_ms.map(time),
    }));
    frame["online"] = presence.online.into();
    frame
}

fn body(event: Event, ts: &str) -> (&'static str, Value) {
    match event {
        Event::Message(m) => {
            let n = (m.destid != 0).then_some(m.n);
            let body = json!({
                "mid": m.mid, "n": n, "srcid": id(m.srcid), "destid": id(m.destid), "gid": id(m.gid),
                "msg": m.msg, "ts": ts, "client_msg_id": m.client_msg_id,
            });
            ("message", present(body))
        }
        Event::ReadPosition(r) => {
            let device = DeviceClass::try_from(r.device).unwrap().as_str_name();
            let body = json!({
                "uid": id(r.uid), "peer": id(r.peer), "gid": id(r.gid), "mid": r.mid, "n": r.n,
                "device": name(device, "DEVICE_CLASS_"),
            });
            ("read_position", present(body))
        }
        Event::MessageChange(c) => {
            let kind = ChangeKind::try_from(c.kind).unwrap();
            let msg = (kind == ChangeKind::Edit).then_some(c.msg);
            let body = json!({
                "by": id(c.by), "peer": id(c.peer), "gid": id(c.gid), "mid": c.mid, "chg": c.chg,
                "kind": name(kind.as_str_name(), "CHANGE_KIND_"), "ts": ts, "msg": msg, "n": c.n,
            });
            ("message_change", present(body))
        }
        Event::ContactChange(c) => {
            let body = json!({
                "uid": id(c.uid), "peer": id(c.peer), "favourite": c.favourite, "pinned": c.pinned,
                "muted": c.muted, "blocked": c.blocked,
                "deleted_mid": c.deleted.map(|deleted| deleted.mid),
                "deleted_n": c.deleted.map(|deleted| deleted.n),
            });
            ("contact_change", present(body))
        }
        Event::Profile(p) => {
            let text = |text: String| (!text.is_empty()).then_some(text);
            let extra = text(p.extra).map(|extra| serde_json::from_str::<Value>(&extra).unwrap());
            let avatar = text(p.avatar);
            let body = json!({"uid": id(p.uid), "nick": p.nick, "avatar": avatar, "extra": extra});
            ("profile", present(body))
        }
        Event::GroupChange(change) => ("group_change", group_change(change)),
        Event::Control(_) | Event::Progress(_) => panic!("for no device"),
    }
}

fn group_change(change: proto::GroupChanged) -> Value {
    let member = |member: &proto::GroupMember| {
        let role = match GroupRole::try_from(member.role).unwrap() {
            GroupRole::Unspecified => Value::Null,
            role => name(role.as_str_name(), "GROUP_ROLE_").into(),
        };
        json!({"uid": id(member.uid), "role": role, "muted": member.muted, "joined": member.joined})
    };
    let kind = GroupChangeKind::try_from(change.kind).unwrap();
    let members: Vec<Value> = change.members.iter().map(member).collect();
    let settings = change.settings.unwrap();
    json!({
        "gid": id(change.gid), "by": id(change.by),
        "kind": name(kind.as_str_name(), "GROUP_CHANGE_KIND_"),
        "name": settings.name, "owner": id(settings.owner), "open": settings.open,
        "whole_history": settings.whole_history, "muted": settings.muted,
        "dissolved": settings.dissolved, "member_count": change.member_count,
        "last_mid": change.last_mid, "members": members,
    })
}

/// What a device says, as protobuf. What is no frame makes no sense here.
pub fn from_json(frame: &Value) -> ClientFrame {
    let text = |name: &str| frame[name].as_str().unwrap_or_default().to_owned();
    let number = |name: &str| text(name).parse().unwrap_or_default();
    let frame = match frame["type"].as_str().unwrap() {
        "hello" => client::Frame::Hello(client::Hello {
            device: Some(device(&frame["device"])),
            since: frame.get("since").map(|_| text("since")),
        }),
        "resume" => client::Frame::Resume(client::Resume {
            since: text("since"),
        }),
        "send" => client::Frame::Send(client::Send {
            r#ref: text("ref"),
            to: number("to"),
            gid: number("gid"),
            client_msg_id: text("client_msg_id"),
            msg: text("msg"),
        }),
        "read" => client::Frame::Read(client::Read {
            r#ref: text("ref"),
            peer: number("peer"),
            gid: number("gid"),
            mid: frame["mid"].as_i64().unwrap(),
        }),
        "pong" => client::Frame::Pong(client::Pong {}),
        "typing" => client::Frame::Typing(client::Typing {
            to: number("to"),
            gid: number("gid"),
        }),
        "focus" => client::Frame::Focus(client::Focus {
            peer: number("peer"),
            gid: number("gid"),
        }),
        other => panic!("no frame {other}"),
    };
    ClientFrame { frame: Some(frame) }
}

fn device(device: &Value) -> client::Device {
    let class = match device["class"].as_str() {
        Some("pc") => DeviceClass::Pc,
        Some("mobile") => DeviceClass::Mobile,
        _ => DeviceClass::Unspecified,
    };
    client::Device {
        id: device["id"].as_str().unwrap().to_owned(),
        class: class.into(),
        name: device["name"].as_str().unwrap_or_default().to_owned(),
    }
}

/// What is not there is left out.
fn present(members: Value) -> Value {
    let Value::Object(members) = members else {
        panic!("no object: {members}");
    };
    let members = members.into_iter().filter(|(_, value)| !value.is_null());
    members.collect::<Map<_, _>>().into()
}

/// 0 stands for none.
fn id(id: i64) -> Option<String> {
    (id != 0).then(|| id.to_string())
}

fn at(at: Option<RecordPosition>) -> String {
    let at = at.unwrap();
    format!("{}:{}", at.partition, at.offset)
}

fn time(ms: i64) -> String {
    TimestampMs(ms).rfc3339().unwrap()
}

fn name(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap().to_lowercase()
}
