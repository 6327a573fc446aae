//! What is asked for in groups, as ingest reads it.

use schemas::{Change, GroupAction, GroupCommand, UserId};
use serde_json::{Value, json};

/// The member of a line of a batch that holds it, and its body.
pub(crate) fn group_json(command: &GroupCommand) -> (&'static str, Value) {
    let (gid, by) = (command.gid, command.by);
    let whom = |uid: &Option<UserId>| match uid {
        Some(uid) => json!({ "uid": uid }),
        None => json!({ "all": true }),
    };
    let (member, value) = match &command.action {
        GroupAction::Send { client_msg_id, msg } => {
            let body =
                json!({ "srcid": by, "gid": gid, "client_msg_id": client_msg_id, "msg": msg });
            return ("message", body);
        }
        GroupAction::Read { device, mid } => {
            let mid = mid.map_or_else(|| json!("latest"), |mid| json!(mid));
            let body = json!({ "uid": by, "gid": gid, "device": device, "mid": mid });
            return ("read_ack", body);
        }
        GroupAction::ChangeMessage { mid, change } => {
            let mut body = json!({ "by": by, "gid": gid, "mid": mid, "kind": change.kind() });
            if let Change::Edit(msg) = change {
                body["msg"] = msg.as_str().into();
            }
            return ("message_change", body);
        }
        GroupAction::Create(create) => {
            let body = json!({
                "gid": gid,
                "owner": by,
                "name": create.name,
                "members": create.members,
                "open": create.open,
                "whole_history": create.whole_history,
            });
            return ("group", body);
        }
        GroupAction::Add(users) => ("add", json!(users)),
        GroupAction::Remove(users) => ("remove", json!(users)),
        GroupAction::Join => ("join", json!(true)),
        GroupAction::Leave => ("leave", json!(true)),
        GroupAction::SetRole { uid, role } => {
            ("role", json!({ "uid": uid, "role": role.as_str() }))
        }
        GroupAction::Rename(name) => ("rename", json!(name)),
        GroupAction::Mute(uid) => ("mute", whom(uid)),
        GroupAction::Unmute(uid) => ("unmute", whom(uid)),
        GroupAction::SetOptions(options) => (
            "options",
            json!({ "open": options.open, "whole_history": options.whole_history }),
        ),
        GroupAction::Dissolve => ("dissolve", json!(true)),
    };
    (
        "group_change",
        json!({ "gid": gid, "by": by, member: value }),
    )
}
