//! Changes of groups, as ingest reads them.

use schemas::{ChangeGroup, GroupAction, UserId};
use serde_json::{Value, json};

/// The member of a line of a batch that holds it, and its body.
pub(crate) fn group_json(command: &ChangeGroup) -> (&'static str, Value) {
    let (gid, by) = (command.gid, command.by);
    let whom = |uid: &Option<UserId>| match uid {
        Some(uid) => json!({ "uid": uid }),
        None => json!({ "all": true }),
    };
    let (member, value) = match &command.action {
        GroupAction::Create(create) => {
            let body = json!({
                "gid": create.client_id.is_none().then_some(gid),
                "client_id": create.client_id,
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
