use serde_json::{Value, json};

use crate::{
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
    super::print_accepted(&accepted, json);
    Ok(())
}

fn body(args: &ContactArgs) -> Value {
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
    let mut body = json!({ "uid": uid, "peer": peer });
    for (name, set, unset) in [
        ("favourite", favourite, unfavourite),
        ("pinned", pin, unpin),
        ("muted", mute, unmute),
        ("blocked", block, unblock),
        ("deleted", delete, false),
    ] {
        if set || unset {
            body[name] = set.into();
        }
    }
    body
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

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
            body(&args)
        };
        let pinned = json!({ "uid": "1000", "peer": "1001", "pinned": true, "blocked": false });
        assert_eq!(posted(&["--pin", "--unblock"]), pinned);
        let deleted = json!({ "uid": "1000", "peer": "1001", "deleted": true });
        assert_eq!(posted(&["--delete"]), deleted);
    }
}
