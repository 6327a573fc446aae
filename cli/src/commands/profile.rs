use anyhow::Context as _;
use client::ReadOptions;
use schemas::Profile;
use serde_json::{Value, json, value::RawValue};

use crate::{
    args::{ProfileCommand, SetProfileArgs},
    context::CommandContext,
    output::Table,
};

pub(super) async fn run(
    context: &CommandContext,
    command: &ProfileCommand,
    json: bool,
) -> anyhow::Result<()> {
    match command {
        ProfileCommand::Set(args) => set(context, args, json).await,
        ProfileCommand::Show { uids, after } => {
            let client = context.client()?;
            let options = ReadOptions::after(after.iter().copied());
            let mut table = Table::new(["user", "nick", "avatar", "extra", "time"]).right(&[0]);
            for uids in uids.chunks(100) {
                for (uid, profile) in client.profiles(uids, &options).await? {
                    let text = |text: Option<&String>| text.cloned().unwrap_or_default();
                    if json {
                        let extra: Option<Box<RawValue>> = match &profile.extra {
                            Some(extra) => Some(serde_json::from_str(extra)?),
                            None => None,
                        };
                        let line = json!({ "uid": uid, "nick": profile.nick, "avatar": profile.avatar, "extra": extra, "ts": profile.ts });
                        println!("{line}");
                        continue;
                    }
                    // Control characters in a text must not reach the terminal.
                    let shown = |text: String| text.escape_debug().to_string();
                    table.row([
                        uid.to_string(),
                        shown(profile.nick.clone()),
                        shown(text(profile.avatar.as_ref())),
                        shown(text(profile.extra.as_ref())),
                        profile.ts,
                    ]);
                }
            }
            if !json {
                print!("{table}");
            }
            Ok(())
        }
    }
}

async fn set(context: &CommandContext, args: &SetProfileArgs, json: bool) -> anyhow::Result<()> {
    let profile = Profile {
        uid: args.uid,
        nick: args.nick.clone(),
        avatar: args.avatar.clone(),
        extra: args.extra.clone(),
    };
    let profile = profile.checked().context("no such profile can be set")?;
    let accepted = context.client()?.set_profile(&profile).await?;
    let position = accepted.position;
    let accepted: Value = json!({ "partition": position.partition, "offset": position.offset });
    super::print_accepted(&accepted, json);
    Ok(())
}
