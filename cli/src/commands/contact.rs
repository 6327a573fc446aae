use client::{ContactChangeBody, new_command_id};

use crate::{
    answers,
    args::{ContactArgs, ContactChangeArgs},
    context::CommandContext,
};

pub(super) async fn run(
    context: &CommandContext,
    args: &ContactArgs,
    json: bool,
) -> anyhow::Result<()> {
    let accepted = context
        .client()?
        .post("/v1/contact-changes", &body(args))
        .await?;
    answers::print_accepted(&accepted, json);
    Ok(())
}

fn body(args: &ContactArgs) -> ContactChangeBody {
    let ContactArgs { uid, peer, change } = args;
    let ContactChangeArgs {
        favourite,
        unfavourite,
        pin,
        unpin,
        mute,
        unmute,
        block,
        unblock,
        delete,
    } = *change;
    let set = |set: bool, unset: bool| (set || unset).then_some(set);
    ContactChangeBody {
        uid: *uid,
        peer: *peer,
        favourite: set(favourite, unfavourite),
        pinned: set(pin, unpin),
        muted: set(mute, unmute),
        blocked: set(block, unblock),
        deleted: set(delete, false),
        command_id: Some(new_command_id()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use serde_json::json;

    use super::*;
    use crate::args::{Args, Command};

    #[test]
    fn only_what_is_given_is_posted() {
        let posted = |flags: &[&str]| {
            let line = ["tidemark", "contact", "--uid", "1000", "--peer", "1001"];
            let args = Args::try_parse_from([&line, flags].concat()).unwrap();
            let Command::Contact(args) = args.command else {
                panic!("it changes a contact");
            };
            let body = ContactChangeBody {
                command_id: None,
                ..body(&args)
            };
            json!(body)
        };
        let pinned = json!({ "uid": "1000", "peer": "1001", "pinned": true, "blocked": false });
        assert_eq!(posted(&["--pin", "--unblock"]), pinned);
        let deleted = json!({ "uid": "1000", "peer": "1001", "deleted": true });
        assert_eq!(posted(&["--delete"]), deleted);
    }
}
