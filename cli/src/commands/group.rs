//! Groups: commands in them, and queries about them.

use schemas::{
    ChangeGroup, CreateGroup, GroupAction, GroupId, InboundPosition, Recipient, SetGroupOptions,
    command::{ReadAck, SendMessage},
};
use serde_json::Value;

use super::{changes, history, send};
use crate::{
    answers,
    context::CommandContext,
    failure::Failure,
    group_args::{
        CreateGroupArgs, GroupByArgs, GroupCommand, GroupPageArgs, GroupUserArgs, GroupUsersArgs,
    },
    output::Table,
};

pub(super) async fn run(
    context: &CommandContext,
    command: GroupCommand,
    json: bool,
) -> anyhow::Result<()> {
    let client = context.client()?;
    let accepted = match request(command)? {
        Request::Change(change) => client.change_group(&change).await?,
        Request::Send(message) => client.send(&message).await?,
        Request::Ack(ack) => client.acknowledge(&ack).await?,
        Request::Get(path, table) => {
            let answer: Value = client.get(&path).await?;
            if json {
                println!("{answer}");
            } else {
                answers::print_page(&answer, &table(&answer));
            }
            return Ok(());
        }
    };
    answers::print_accepted(&accepted, json);
    if let (false, Some(gid)) = (json, accepted.gid) {
        println!("the group's gid is {gid}");
    }
    Ok(())
}

/// A call and, for a query, how its answer is shown.
enum Request {
    Change(ChangeGroup),
    Send(SendMessage),
    Ack(ReadAck),
    Get(String, fn(&Value) -> Table),
}

fn request(command: GroupCommand) -> anyhow::Result<Request> {
    Ok(match command {
        GroupCommand::Create(args) => create(args)?,
        GroupCommand::Add(GroupUsersArgs { who, users }) => change(who, GroupAction::Add(users)),
        GroupCommand::Remove(GroupUsersArgs { who, users }) => {
            change(who, GroupAction::Remove(users))
        }
        GroupCommand::Join(GroupUserArgs { gid, uid }) => {
            change(GroupByArgs { gid, by: uid }, GroupAction::Join)
        }
        GroupCommand::Leave(GroupUserArgs { gid, uid }) => {
            change(GroupByArgs { gid, by: uid }, GroupAction::Leave)
        }
        GroupCommand::Role { who, uid, role } => change(who, GroupAction::SetRole { uid, role }),
        GroupCommand::Rename { who, name } => change(who, GroupAction::Rename(name)),
        GroupCommand::Mute(args) => change(args.who, GroupAction::Mute(args.uid)),
        GroupCommand::Unmute(args) => change(args.who, GroupAction::Unmute(args.uid)),
        GroupCommand::Options { who, options } => {
            let options = SetGroupOptions {
                open: options.open,
                whole_history: options.whole_history,
            };
            change(who, GroupAction::SetOptions(options))
        }
        GroupCommand::Dissolve(who) => change(who, GroupAction::Dissolve),
        GroupCommand::Send {
            gid,
            from,
            msg,
            client_msg_id,
        } => {
            let mut message = client::message_to(from, Recipient::Group(gid), msg);
            if let Some(id) = client_msg_id {
                message.client_msg_id = send::client_msg_id(id)?;
            }
            Request::Send(message)
        }
        GroupCommand::Ack {
            gid,
            uid,
            device,
            mid,
        } => Request::Ack(ReadAck {
            uid,
            to: Recipient::Group(gid),
            device,
            mid: mid.up_to(),
        }),
        GroupCommand::List { uid, page } => {
            let path = format!("/v1/users/{uid}/groups");
            Request::Get(answers::with_query(&path, &page.query()), groups)
        }
        GroupCommand::Show { who, after } => {
            let query = of_user(who.uid, positions(&after));
            let path = format!("/v1/groups/{}", who.gid);
            Request::Get(answers::with_query(&path, &query), settings)
        }
        GroupCommand::Members { who, page } => {
            let query = of_user(who.uid, page.query());
            let path = format!("/v1/groups/{}/members", who.gid);
            Request::Get(answers::with_query(&path, &query), members)
        }
        GroupCommand::History {
            who,
            before_mid,
            after_mid,
            limit,
            after,
        } => {
            let mut query = of_user(who.uid, positions(&after));
            query.extend(before_mid.map(|mid| ("before_mid", mid.to_string())));
            query.extend(after_mid.map(|mid| ("after_mid", mid.to_string())));
            query.extend(limit.map(|limit| ("limit", limit.to_string())));
            let path = format!("/v1/groups/{}/messages", who.gid);
            Request::Get(answers::with_query(&path, &query), history::table)
        }
        GroupCommand::Changes {
            who,
            after_chg,
            after_own_pos,
            limit,
            after,
        } => {
            let mut query = of_user(who.uid, positions(&after));
            query.extend(changes::behind(after_chg, after_own_pos));
            query.extend(limit.map(|limit| ("limit", limit.to_string())));
            let path = format!("/v1/groups/{}/changes", who.gid);
            Request::Get(answers::with_query(&path, &query), changes::table)
        }
    })
}

fn create(args: CreateGroupArgs) -> anyhow::Result<Request> {
    let gid = match (args.gid, &args.client_id) {
        (Some(gid), _) => gid,
        (None, Some(client_id)) => GroupId::of_owner(args.owner, client_id),
        (None, None) => {
            let missing = "--gid or --client-id is missing".to_owned();
            return Err(Failure::Usage(missing).into());
        }
    };
    let create = CreateGroup {
        name: args.name,
        members: args.members,
        open: args.open,
        whole_history: args.whole_history,
        client_id: args.client_id,
    };
    let by = args.owner;
    Ok(change(GroupByArgs { gid, by }, GroupAction::Create(create)))
}

fn change(GroupByArgs { gid, by }: GroupByArgs, action: GroupAction) -> Request {
    Request::Change(ChangeGroup {
        gid,
        by,
        by_user: false,
        action,
    })
}

type Parameters = Vec<(&'static str, String)>;

impl GroupPageArgs {
    fn query(&self) -> Parameters {
        let mut query = positions(&self.after);
        query.extend(self.cursor.clone().map(|cursor| ("cursor", cursor)));
        query.extend(self.limit.map(|limit| ("limit", limit.to_string())));
        query
    }
}

fn positions(after: &[InboundPosition]) -> Parameters {
    let after = after.iter();
    after
        .map(|position| ("after", position.to_string()))
        .collect()
}

fn of_user(uid: schemas::UserId, mut query: Parameters) -> Parameters {
    query.push(("uid", uid.to_string()));
    query
}

fn items(answer: &Value) -> impl Iterator<Item = &Value> {
    answer["items"].as_array().into_iter().flatten()
}

fn text(item: &Value, name: &str) -> String {
    item[name].as_str().unwrap_or_default().to_owned()
}

fn groups(answer: &Value) -> Table {
    let columns = ["gid", "name", "messages", "pc", "mobile", "newest"];
    let mut table = Table::new(columns).right(&[0, 2, 3, 4]);
    for item in items(answer) {
        table.row([
            text(item, "gid"),
            text(item, "name"),
            item["last_mid"].to_string(),
            item["unread"]["pc"].to_string(),
            item["unread"]["mobile"].to_string(),
            text(&item["last"], "msg"),
        ]);
    }
    table
}

fn settings(answer: &Value) -> Table {
    let mut table = Table::new(["setting", "value"]);
    for (name, value) in answer.as_object().into_iter().flatten() {
        let value = match value.as_str() {
            Some(_) => text(answer, name),
            None => value.to_string(),
        };
        table.row([name.clone(), value]);
    }
    table
}

fn members(answer: &Value) -> Table {
    let mut table = Table::new(["user", "role", "muted", "since message"]).right(&[0, 3]);
    for item in items(answer) {
        table.row([
            text(item, "uid"),
            text(item, "role"),
            item["muted"].to_string(),
            item["join_mid"].to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    fn posted(words: &[&str]) -> String {
        let line = [&["tidemark", "group"], words].concat();
        let Command::Group(command) = Args::try_parse_from(line).unwrap().command else {
            panic!("it is of a group");
        };
        match request(command).unwrap() {
            Request::Change(change) => client::line(&change.into()),
            Request::Send(message) => client::line(&message.into()),
            Request::Ack(ack) => client::line(&ack.into()),
            Request::Get(path, _) => path,
        }
    }

    #[test]
    fn what_is_asked_for_is_posted() {
        for (words, expected) in [
            (
                &["create", "1000", "Lunch", "1001", "--gid", "5000", "--open"][..],
                r#"{"group":{"gid":"5000","owner":"1000","name":"Lunch","members":["1001"],"open":true,"whole_history":false}}"#,
            ),
            (
                &["create", "1000", "Tea", "--client-id", "a"],
                r#"{"group":{"client_id":"a","owner":"1000","name":"Tea","members":[],"open":false,"whole_history":false}}"#,
            ),
            (
                &["add", "5000", "--by", "1000", "7", "8"],
                r#"{"group_change":{"gid":"5000","by":"1000","add":["7","8"]}}"#,
            ),
            (
                &["leave", "5000", "7"],
                r#"{"group_change":{"gid":"5000","by":"7","leave":true}}"#,
            ),
            (
                &["mute", "5000", "--by", "1000", "--all"],
                r#"{"group_change":{"gid":"5000","by":"1000","mute":{"all":true}}}"#,
            ),
            (
                &["role", "5000", "--by", "1000", "7", "admin"],
                r#"{"group_change":{"gid":"5000","by":"1000","role":{"uid":"7","role":"admin"}}}"#,
            ),
        ] {
            assert_eq!(posted(words), expected, "{words:?}");
        }
        let path = posted(&["history", "5000", "7", "--limit", "3", "--after", "8:1"]);
        assert_eq!(path, "/v1/groups/5000/messages?after=8:1&uid=7&limit=3");
    }
}
