//! The demo's groups: a story of three, and the users of the real input with the most partners.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use client::{Client, Event, GroupsQuery, ReadOptions, message};
use schemas::{
    ChangeGroup, ClientMsgId, CreateGroup, DeviceClass, GroupAction, GroupId, InboundPosition, Mid,
    Recipient, UserId,
    command::{ReadAck, SendMessage},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{demo::as_seen, load};
use crate::{
    input::{Input, Line},
    output::{Table, grouped},
};

const GROUP: &str = "5000";
const OWNER: &str = "1004";
const OTHERS: [&str; 2] = ["1005", "1006"];

/// The owner begins a group of three, and one of the others answers; the third reads, and the owner recalls a message. A second run finds
/// everything as it is.
pub(super) async fn run_story(client: &Client) -> anyhow::Result<()> {
    println!(
        "\nA third story: 1004 begins a group with 1005 and 1006 and sends three messages, of which the second is recalled; 1005 answers; 1006 reads two of them on pc."
    );
    let group = json!({ "gid": GROUP, "owner": OWNER, "name": "Harbour", "members": OTHERS });
    let _: Value = client.post("/v1/groups", &group).await?;
    let sends = [
        (OWNER, "Who is in?"),
        (OWNER, "Wrong group."),
        (OTHERS[0], "Me."),
        (OWNER, "At eight."),
    ];
    for (n, (srcid, text)) in (1..).zip(sends) {
        let body = json!({ "srcid": srcid, "gid": GROUP, "client_msg_id": format!("third-{n}"), "msg": text });
        let _: Value = client.post("/v1/messages", &body).await?;
    }
    let recall = json!({ "by": OWNER, "gid": GROUP, "mid": 2, "kind": "recall" });
    let _: Value = client.post("/v1/message-changes", &recall).await?;
    let read = json!({ "uid": OTHERS[1], "gid": GROUP, "device": "pc", "mid": 2 });
    let last: Value = client.post("/v1/read-acks", &read).await?;
    let query = [
        ("uid", OTHERS[1].to_owned()),
        ("after", super::position_of(&last)),
        ("timeout_ms", "30000".to_owned()),
    ];
    let path = super::with_query(&format!("/v1/groups/{GROUP}/messages"), &query);
    let history: Value = client.get(&path).await?;
    let seen = history["items"].as_array().into_iter().flatten();
    let seen: Vec<String> = seen.rev().map(as_seen).collect();
    println!("  what 1006 sees:           {}", seen.join("; "));
    let path = super::with_query(&format!("/v1/users/{}/groups", OTHERS[1]), &query[1..]);
    let groups: Value = client.get(&path).await?;
    let groups = groups["items"].as_array().into_iter().flatten();
    let unread = groups.filter(|group| group["gid"] == GROUP);
    let unread: Vec<&Value> = unread.map(|group| &group["unread"]).collect();
    println!("  unread for 1006:          {}", json!(unread));
    if history["items"][0]["mid"].as_i64() > Some(4) {
        println!("  (somebody has used this group since; that counts, too)");
        return Ok(());
    }
    anyhow::ensure!(
        seen == ["1: Who is in?", "2: (recalled)", "3: Me.", "4: At eight."],
        "the story ends with four messages, one of them recalled"
    );
    anyhow::ensure!(
        unread == [&json!({ "pc": 2, "mobile": 4 })],
        "the story ends with two unread messages on pc and four on mobile"
    );
    Ok(())
}

/// How many users' partners become groups.
const GROUPS_OF_PARTNERS: usize = 20;
const BATCH_LINES: usize = 500;

/// A user, and those with whom he has exchanged messages in both directions.
struct Partners {
    owner: UserId,
    members: BTreeSet<UserId>,
}

impl Partners {
    fn has(&self, message: &SendMessage) -> bool {
        let Recipient::User(to) = message.to else {
            return false;
        };
        let from = message.srcid;
        from == self.owner && self.members.contains(&to)
            || to == self.owner && self.members.contains(&from)
    }
}

/// Makes groups of the users of the real messages with the most partners who answered, loads what was said in each into its group, and shows them.
pub(super) async fn load(client: &Client, input: &Input) -> anyhow::Result<()> {
    let messages = messages_of(input)?;
    let all = largest_contact_lists(&messages);
    let (events, acks) = events_of(&all, &messages)?;
    println!(
        "\nThe {GROUPS_OF_PARTNERS} users with the most partners who answered become the owners of groups of these: {} events of groups.",
        grouped((events.len() + acks.len()) as u64)
    );
    let loaded = load::post(client, &Input { events, acks }, BATCH_LINES).await?;
    let rejected = loaded.rejected().count();
    anyhow::ensure!(rejected == 0, "{rejected} events were rejected");
    let newest = InboundPosition::newest(loaded.accepted().map(|one| one.position));
    show(client, &all, &ReadOptions::after(newest)).await
}

async fn show(client: &Client, all: &[Partners], options: &ReadOptions) -> anyhow::Result<()> {
    let columns = ["group", "members", "messages", "unread on pc", "on mobile"];
    let mut table = Table::new(columns).right(&[1, 2, 3, 4]);
    for partners in &all[..5] {
        let first = partners.members.first().unwrap_or(&partners.owner);
        let which = GroupsQuery::default();
        let groups = client.groups(*first, &which, options).await?;
        let gid: GroupId = partners.owner.get().try_into()?;
        for group in groups.items.into_iter().filter(|one| one.gid == gid) {
            table.row([
                group.name,
                group.member_count.to_string(),
                group.last_mid.to_string(),
                group.unread.pc.to_string(),
                group.unread.mobile.to_string(),
            ]);
        }
    }
    println!("The five largest, and what the first member of each has not read:\n{table}");
    Ok(())
}

fn messages_of(input: &Input) -> anyhow::Result<Vec<SendMessage>> {
    #[derive(Deserialize)]
    struct Body {
        message: Fields,
    }
    #[derive(Deserialize)]
    struct Fields {
        srcid: UserId,
        destid: UserId,
        client_msg_id: String,
        msg: String,
    }
    let lines = input.events.iter();
    let messages = lines.map(|line| {
        let Body { message: fields } = serde_json::from_str(&line.text)?;
        Ok(SendMessage {
            client_msg_id: ClientMsgId::try_from(fields.client_msg_id)?,
            ..message(fields.srcid, fields.destid, fields.msg)
        })
    });
    messages.collect()
}

fn largest_contact_lists(messages: &[SendMessage]) -> Vec<Partners> {
    let written: BTreeSet<(UserId, UserId)> = messages
        .iter()
        .filter_map(|message| match message.to {
            Recipient::User(to) => Some((message.srcid, to)),
            Recipient::Group(_) => None,
        })
        .collect();
    let mut members: BTreeMap<UserId, BTreeSet<UserId>> = BTreeMap::new();
    for (from, to) in &written {
        if from != to && written.contains(&(*to, *from)) {
            members.entry(*from).or_default().insert(*to);
        }
    }
    let mut all: Vec<Partners> = members
        .into_iter()
        .map(|(owner, members)| Partners { owner, members })
        .collect();
    all.sort_by_key(|partners| (Reverse(partners.members.len()), partners.owner));
    all.truncate(GROUPS_OF_PARTNERS);
    all
}

/// For each of these users a group with the owner's number, then the messages between the owner and the others, in order; then the first member reads
/// half of them on pc.
fn events_of(all: &[Partners], messages: &[SendMessage]) -> anyhow::Result<(Vec<Line>, Vec<Line>)> {
    let (mut events, mut acks) = (Vec::new(), Vec::new());
    for partners in all {
        let gid: GroupId = partners.owner.get().try_into()?;
        let to = Recipient::Group(gid);
        let line = |event: Event| Line {
            number: 0,
            partition: Some(gid.partition()),
            text: event.to_line(),
        };
        let create = GroupAction::Create(CreateGroup {
            name: format!("Partners of {}", partners.owner),
            members: partners.members.iter().copied().collect(),
            open: false,
            whole_history: true,
            client_id: None,
        });
        events.push(line(Event::GroupChange(ChangeGroup {
            gid,
            by: partners.owner,
            by_user: false,
            action: create,
        })));
        let mut mid = Mid::ZERO;
        for message in messages.iter().filter(|message| partners.has(message)) {
            events.push(line(Event::Message(SendMessage {
                to,
                client_msg_id: format!("{gid}-{}", message.client_msg_id.as_str()).try_into()?,
                ..(*message).clone()
            })));
            mid = mid.next();
        }
        acks.push(line(Event::ReadAck(ReadAck {
            uid: *partners.members.first().unwrap_or(&partners.owner),
            to,
            device: DeviceClass::Pc,
            mid: Some(Mid::try_from(mid.get() / 2 + 1)?),
        })));
    }
    let lines = events.iter_mut().chain(&mut acks);
    for (number, line) in (1..).zip(lines) {
        line.number = number;
    }
    Ok((events, acks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partners_are_who_answered() {
        let user = |uid: i64| UserId::try_from(uid).unwrap();
        let messages = [(1, 2), (2, 1), (1, 3), (3, 1), (4, 1), (1, 1), (2, 3)]
            .map(|(from, to)| message(user(from), user(to), "a"));
        let all = largest_contact_lists(&messages);
        let owners: Vec<i64> = all.iter().map(|partners| partners.owner.get()).collect();
        assert_eq!(owners, [1, 2, 3]);
        assert_eq!(all[0].members, BTreeSet::from([user(2), user(3)]));
        let (events, acks) = events_of(&all[..1], &messages).unwrap();
        assert_eq!((events.len(), acks.len()), (5, 1));
        assert!(
            events[0].text.contains(r#""members":["2","3"]"#),
            "{events:?}"
        );
        assert!(acks[0].text.contains(r#""mid":3"#), "{acks:?}");
    }
}
