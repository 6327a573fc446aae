//! Groups: what is asked for in them, and what they are.

use client::{
    AcceptedBody, GroupBody, GroupChangeBody, MessageBody, MuteBody, Object, OptionsBody,
    ReadAckBody, RoleBody, new_command_id,
};
use schemas::{GroupId, InboundPosition};
use serde_json::Value;

use super::{changes, history};
use crate::{
    answers,
    context::CommandContext,
    group_args::{
        CreateGroupArgs, GroupByArgs, GroupCommand, GroupPageArgs, GroupUserArgs, GroupUsersArgs,
        MuteArgs,
    },
    output::Table,
};

pub(super) async fn run(
    context: &CommandContext,
    command: GroupCommand,
    json: bool,
) -> anyhow::Result<()> {
    let client = context.client()?;
    let accepted: AcceptedBody = match request(command)? {
        Request::Create(body) => client.post("/v1/groups", &body).await?,
        Request::Change(gid, body) => {
            let path = format!("/v1/groups/{gid}/changes");
            client.post(&path, &body).await?
        }
        Request::Send(body) => client.post("/v1/messages", &body).await?,
        Request::Ack(body) => client.post("/v1/read-acks", &body).await?,
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

/// A call, and of a query how its answer is shown.
enum Request {
    Create(GroupBody),
    Change(GroupId, Box<GroupChangeBody>),
    Send(MessageBody),
    Ack(ReadAckBody),
    Get(String, fn(&Value) -> Table),
}

fn request(command: GroupCommand) -> anyhow::Result<Request> {
    Ok(match command {
        GroupCommand::Create(args) => Request::Create(create_body(args)),
        GroupCommand::Add(GroupUsersArgs { who, users }) => {
            change(who, |body| body.add = Some(users))
        }
        GroupCommand::Remove(GroupUsersArgs { who, users }) => {
            change(who, |body| body.remove = Some(users))
        }
        GroupCommand::Join(GroupUserArgs { gid, uid }) => {
            change(GroupByArgs { gid, by: uid }, |body| body.join = Some(true))
        }
        GroupCommand::Leave(GroupUserArgs { gid, uid }) => {
            change(GroupByArgs { gid, by: uid }, |body| body.leave = Some(true))
        }
        GroupCommand::Role { who, uid, role } => {
            let role = role.as_str().to_owned();
            change(who, |body| body.role = Some(Object(RoleBody { uid, role })))
        }
        GroupCommand::Rename { who, name } => change(who, |body| body.rename = Some(name)),
        GroupCommand::Mute(args) => {
            let whom = whom(&args);
            change(args.who, |body| body.mute = Some(whom))
        }
        GroupCommand::Unmute(args) => {
            let whom = whom(&args);
            change(args.who, |body| body.unmute = Some(whom))
        }
        GroupCommand::Options { who, options } => {
            let options = OptionsBody {
                open: options.open,
                whole_history: options.whole_history,
            };
            change(who, |body| body.options = Some(Object(options)))
        }
        GroupCommand::Dissolve(who) => change(who, |body| body.dissolve = Some(true)),
        GroupCommand::Send {
            gid,
            from,
            msg,
            client_msg_id,
        } => Request::Send(MessageBody {
            srcid: from,
            destid: None,
            gid: Some(gid),
            client_msg_id: Some(client_msg_id.unwrap_or_else(new_command_id)),
            msg,
        }),
        GroupCommand::Ack {
            gid,
            uid,
            device,
            mid,
        } => Request::Ack(ReadAckBody {
            uid,
            peer: None,
            gid: Some(gid),
            device,
            mid: mid.up_to()?,
            command_id: Some(new_command_id()),
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

fn create_body(args: CreateGroupArgs) -> GroupBody {
    GroupBody {
        gid: args.gid,
        client_id: args.client_id,
        owner: args.owner,
        name: args.name,
        members: args.members,
        open: args.open,
        whole_history: args.whole_history,
        command_id: Some(new_command_id()),
    }
}

fn change(GroupByArgs { gid, by }: GroupByArgs, ask: impl FnOnce(&mut GroupChangeBody)) -> Request {
    let mut body = GroupChangeBody::new(gid, by);
    body.command_id = Some(new_command_id());
    ask(&mut body);
    Request::Change(gid, Box::new(body))
}

fn whom(args: &MuteArgs) -> Object<MuteBody> {
    Object(MuteBody {
        uid: args.uid,
        all: args.uid.is_none().then_some(true),
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
    use serde_json::json;

    use super::*;
    use crate::args::{Args, Command};

    fn posted(words: &[&str]) -> Value {
        let line = [&["tidemark", "group"], words].concat();
        let Command::Group(command) = Args::try_parse_from(line).unwrap().command else {
            panic!("it is of a group");
        };
        let mut body = match request(command).unwrap() {
            Request::Create(body) => json!(body),
            Request::Change(_, body) => json!(body),
            Request::Send(body) => json!(body),
            Request::Ack(body) => json!(body),
            Request::Get(path, _) => json!(path),
        };
        if let Some(body) = body.as_object_mut() {
            body.remove("command_id");
        }
        body
    }

    #[test]
    fn what_is_asked_for_is_posted() {
        let body = posted(&["create", "1000", "Lunch", "1001", "--gid", "5000", "--open"]);
        assert_eq!(
            (&body["gid"], &body["open"]),
            (&json!("5000"), &json!(true))
        );
        assert_eq!(body["members"], json!(["1001"]));
        for (words, expected) in [
            (
                &["add", "5000", "--by", "1000", "7", "8"][..],
                json!({"gid": "5000", "by": "1000", "add": ["7", "8"]}),
            ),
            (
                &["leave", "5000", "7"],
                json!({"gid": "5000", "by": "7", "leave": true}),
            ),
            (
                &["mute", "5000", "--by", "1000", "--all"],
                json!({"gid": "5000", "by": "1000", "mute": {"all": true}}),
            ),
            (
                &["role", "5000", "--by", "1000", "7", "admin"],
                json!({"gid": "5000", "by": "1000", "role": {"uid": "7", "role": "admin"}}),
            ),
        ] {
            assert_eq!(posted(words), expected, "{words:?}");
        }
        let path = posted(&["history", "5000", "7", "--limit", "3", "--after", "8:1"]);
        assert_eq!(path, "/v1/groups/5000/messages?after=8:1&uid=7&limit=3");
    }
}
