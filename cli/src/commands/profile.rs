use client::{ProfileItem, RawJson, ReadOptions};
use schemas::{Profile, UserId};
use serde::Serialize;

use crate::{
    answers,
    args::{ProfileCommand, SetProfileArgs},
    context::CommandContext,
    failure::Failure,
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
                    if json {
                        println!("{}", line(uid, &profile)?);
                        continue;
                    }
                    table.row([
                        uid.to_string(),
                        profile.nick,
                        profile.avatar.unwrap_or_default(),
                        profile.extra.map(RawJson::into_string).unwrap_or_default(),
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

/// One line of JSON, with `extra` as it was posted: its numbers do not go through a type of ours.
fn line(uid: UserId, profile: &ProfileItem) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Line<'a> {
        uid: UserId,
        nick: &'a str,
        avatar: Option<&'a str>,
        extra: Option<&'a RawJson>,
        ts: &'a str,
    }
    serde_json::to_string(&Line {
        uid,
        nick: &profile.nick,
        avatar: profile.avatar.as_deref(),
        extra: profile.extra.as_ref(),
        ts: &profile.ts,
    })
}

async fn set(context: &CommandContext, args: &SetProfileArgs, json: bool) -> anyhow::Result<()> {
    let profile = Profile {
        uid: args.uid,
        nick: args.nick.clone(),
        avatar: args.avatar.clone(),
        extra: args.extra.clone(),
    };
    let profile = profile
        .checked()
        .map_err(|why| Failure::Usage(format!("no such profile can be set: {why}")))?;
    let accepted = context.client()?.post_command(profile).await?;
    answers::print_accepted(&accepted, json);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_is_printed_as_it_was_posted() {
        let extra = r#"{"id":123456789012345678901234567890,"price":1.50,"e":1E2}"#;
        let profile = ProfileItem {
            nick: "Ann".to_owned(),
            avatar: None,
            extra: Some(extra.to_owned().try_into().unwrap()),
            ts: "t".to_owned(),
        };
        let line = line(1.try_into().unwrap(), &profile).unwrap();
        let expected =
            format!(r#"{{"uid":"1","nick":"Ann","avatar":null,"extra":{extra},"ts":"t"}}"#);
        assert_eq!(line, expected);
    }
}
