//! Groups: commands in them, and queries about them.

use client::Query;
use schemas::{
    ChangeGroup, CreateGroup, GroupAction, GroupId, Recipient, SetGroupOptions,
    command::{Command, ReadAck},
};
use serde_json::Value;

use super::{changes, history, send};
use crate::{
    answers::{self, items, text},
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
        Request::Post(command) => client.post_command(command).await?,
        Request::Get(query, table) => return answers::ask(&client, &query, json, table).await,
    };
    answers::print_accepted(&accepted, json);
    if let (false, Some(gid)) = (json, accepted.gid) {
        println!("the group's gid is {gid}");
    }
    Ok(())
}

/// A call and, for a query, how its answer is shown.
enum Request {
    Post(Command),
    Get(Query, fn(&Value) -> Table),
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
            Request::Post(message.into())
        }
        GroupCommand::Ack {
            gid,
            uid,
            device,
            mid,
        } => {
            let ack = ReadAck {
                uid,
                to: Recipient::Group(gid),
                device,
                mid: mid.up_to(),
            };
            Request::Post(ack.into())
        }
        GroupCommand::List { uid, page } => {
            let query = Query::of(format!("/v1/users/{uid}/groups"));
            Request::Get(page.add_to(query), groups)
        }
        GroupCommand::Show { who, after } => {
            Request::Get(of_group(&who, "").with("after", after), settings)
        }
        GroupCommand::Members { who, page } => {
            Request::Get(page.add_to(of_group(&who, "/members")), members)
        }
        GroupCommand::History {
            who,
            before_mid,
            after_mid,
            limit,
            after,
        } => {
            let query = of_group(&who, "/messages")
                .with("before_mid", before_mid)
                .with("after_mid", after_mid)
                .with("limit", limit)
                .with("after", after);
            Request::Get(query, history::table)
        }
        GroupCommand::Changes {
            who,
            after_chg,
            after_own_pos,
            limit,
            after,
        } => {
            let query = of_group(&who, "/changes")
                .with("after_chg", after_chg)
                .with("after_own_pos", after_own_pos)
                .with("limit", limit)
                .with("after", after);
            Request::Get(query, changes::table)
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
    let change = ChangeGroup {
        gid,
        by,
        by_user: false,
        action,
    };
    Request::Post(change.into())
}

impl GroupPageArgs {
    fn add_to(&self, query: Query) -> Query {
        query
            .with("after", &self.after)
            .with("cursor", &self.cursor)
            .with("limit", self.limit)
    }
}

/// A call about a group, as one of its members asks.
fn of_group(who: &GroupUserArgs, call: &str) -> Query {
    Query::of(format!("/v1/groups/{}{call}", who.gid)).with("uid", [who.uid])
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
    answers::fields(["setting", "value"], answer)
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
    use crate::args;

    fn posted(words: &[&str]) -> String {
        let line = [&["tidemark", "group"], words].concat();
        let args::Command::Group(command) = args::Args::try_parse_from(line).unwrap().command
        else {
            panic!("it is of a group");
        };
        match request(command).unwrap() {
            Request::Post(command) => client::line(&command),
            Request::Get(query, _) => query.path().to_owned(),
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
        assert_eq!(path, "/v1/groups/5000/messages?uid=7&limit=3&after=8:1");
    }
}
