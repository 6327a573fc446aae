use schemas::ChangeContact;

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
    let accepted = context.client()?.post_command(change(args)).await?;
    answers::print_accepted(&accepted, json);
    Ok(())
}

fn change(args: &ContactArgs) -> ChangeContact {
    let (uid, peer) = (args.uid, args.peer);
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
    } = args.change;
    let set = |set: bool, unset: bool| (set || unset).then_some(set);
    ChangeContact {
        uid,
        peer,
        favourite: set(favourite, unfavourite),
        pinned: set(pin, unpin),
        muted: set(mute, unmute),
        blocked: set(block, unblock),
        deleted: delete,
        by_user: false,
    }
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
            client::line(&change(&args).into())
        };
        let line = |fields: &str| {
            format!(r#"{{"contact_change":{{"uid":"1000","peer":"1001",{fields}}}}}"#)
        };
        let pinned = posted(&["--pin", "--unblock"]);
        assert_eq!(pinned, line(r#""pinned":true,"blocked":false"#));
        assert_eq!(posted(&["--delete"]), line(r#""deleted":true"#));
    }
}
