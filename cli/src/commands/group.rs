//! Groups: what is asked for in them, and what they are.

use schemas::{GroupId, InboundPosition};
use serde_json::{Value, json};

use super::{changes, history};
use crate::{
    args::ReadMid,
    context::CommandContext,
    group_args::{CreateGroupArgs, GroupByArgs, GroupCommand, GroupPageArgs, MuteArgs},
    output::Table,
};

pub(super) async fn run(
    context: &CommandContext,
    command: GroupCommand,
    json: bool,
) -> anyhow::Result<()> {
    let client = context.client()?;
    match request(command) {
        Request::Post(path, body) => {
            let accepted: Value = client.post(&path, &body).await?;
            super::print_accepted(&accepted, json);
            if let (false, Some(gid)) = (json, accepted["gid"].as_str()) {
                println!("the group's gid is {gid}");
            }
        }
        Request::Get(path, table) => {
            let answer: Value = client.get(&path).await?;
            if json {
                println!("{answer}");
            } else {
                super::print_page(&answer, &table(&answer));
            }
        }
    }
    Ok(())
}

/// A call, and of a query how its answer is shown.
enum Request {
    Post(String, Value),
    Get(String, fn(&Value) -> Table),
}

fn request(command: GroupCommand) -> Request {
    match command {
        GroupCommand::Create(args) => Request::Post("/v1/groups".to_owned(), create_body(&args)),
        GroupCommand::Add(args) => change(&args.who, "add", json!(args.users)),
        GroupCommand::Remove(args) => change(&args.who, "remove", json!(args.users)),
        GroupCommand::Join(who) => change_by(who.gid, json!({ "by": who.uid, "join": true })),
        GroupCommand::Leave(who) => change_by(who.gid, json!({ "by": who.uid, "leave": true })),
        GroupCommand::Role { who, uid, role } => {
            let role = json!({ "uid": uid, "role": role.as_str() });
            change(&who, "role", role)
        }
        GroupCommand::Rename { who, name } => change(&who, "rename", name.into()),
        GroupCommand::Mute(args) => change(&args.who, "mute", whom(&args)),
        GroupCommand::Unmute(args) => change(&args.who, "unmute", whom(&args)),
        GroupCommand::Options { who, options } => {
            let options = json!({ "open": options.open, "whole_history": options.whole_history });
            change(&who, "options", options)
        }
        GroupCommand::Dissolve(who) => change(&who, "dissolve", true.into()),
        GroupCommand::Send {
            gid,
            from,
            msg,
            client_msg_id,
        } => {
            let id = client_msg_id.unwrap_or_else(|| client::new_client_msg_id().into_string());
            let body = json!({ "srcid": from, "gid": gid, "msg": msg, "client_msg_id": id });
            Request::Post("/v1/messages".to_owned(), body)
        }
        GroupCommand::Ack {
            gid,
            uid,
            device,
            mid,
        } => {
            let mid = match mid {
                ReadMid::Latest => Value::from("latest"),
                ReadMid::Mid(mid) => Value::from(mid),
            };
            let body = json!({ "uid": uid, "gid": gid, "device": device, "mid": mid });
            Request::Post("/v1/read-acks".to_owned(), body)
        }
        GroupCommand::List { uid, page } => {
            let path = format!("/v1/users/{uid}/groups");
            Request::Get(super::with_query(&path, &page.query()), groups)
        }
        GroupCommand::Show { who, after } => {
            let query = of_user(who.uid, positions(&after));
            let path = format!("/v1/groups/{}", who.gid);
            Request::Get(super::with_query(&path, &query), settings)
        }
        GroupCommand::Members { who, page } => {
            let query = of_user(who.uid, page.query());
            let path = format!("/v1/groups/{}/members", who.gid);
            Request::Get(super::with_query(&path, &query), members)
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
            Request::Get(super::with_query(&path, &query), history::table)
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
            Request::Get(super::with_query(&path, &query), changes::table)
        }
    }
}

fn create_body(args: &CreateGroupArgs) -> Value {
    json!({
        "gid": args.gid,
        "client_id": args.client_id,
        "owner": args.owner,
        "name": args.name,
        "members": args.members,
        "open": args.open,
        "whole_history": args.whole_history,
    })
}

fn change(who: &GroupByArgs, member: &str, value: Value) -> Request {
    change_by(who.gid, json!({ "by": who.by, member: value }))
}

fn change_by(gid: GroupId, body: Value) -> Request {
    Request::Post(format!("/v1/groups/{gid}/changes"), body)
}

fn whom(args: &MuteArgs) -> Value {
    match args.uid {
        Some(uid) => json!({ "uid": uid }),
        None => json!({ "all": true }),
    }
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

    fn posted(words: &[&str]) -> (String, Value) {
        let line = [&["tidemark", "group"], words].concat();
        let Command::Group(command) = Args::try_parse_from(line).unwrap().command else {
            panic!("it is of a group");
        };
        match request(command) {
            Request::Post(path, body) => (path, body),
            Request::Get(path, _) => (path, Value::Null),
        }
    }

    #[test]
    fn what_is_asked_for_is_posted() {
        let (path, body) = posted(&["create", "1000", "Lunch", "1001", "--gid", "5000", "--open"]);
        assert_eq!(path, "/v1/groups");
        assert_eq!(
            (&body["gid"], &body["open"]),
            (&json!("5000"), &json!(true))
        );
        assert_eq!(body["members"], json!(["1001"]));
        for (words, expected) in [
            (
                &["add", "5000", "--by", "1000", "7", "8"][..],
                json!({"by": "1000", "add": ["7", "8"]}),
            ),
            (&["leave", "5000", "7"], json!({"by": "7", "leave": true})),
            (
                &["mute", "5000", "--by", "1000", "--all"],
                json!({"by": "1000", "mute": {"all": true}}),
            ),
            (
                &["role", "5000", "--by", "1000", "7", "admin"],
                json!({"by": "1000", "role": {"uid": "7", "role": "admin"}}),
            ),
        ] {
            let expected = ("/v1/groups/5000/changes".to_owned(), expected);
            assert_eq!(posted(words), expected, "{words:?}");
        }
        let (path, _) = posted(&["history", "5000", "7", "--limit", "3", "--after", "8:1"]);
        assert_eq!(path, "/v1/groups/5000/messages?after=8:1&uid=7&limit=3");
    }
}
