//! The demo's groups: made of the users of the real input with the most partners.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use client::{Client, GroupsQuery, ReadOptions, message_to};
use schemas::{
    ChangeGroup, CreateGroup, DeviceClass, GroupAction, GroupId, InboundPosition, Mid, Recipient,
    UserId,
    command::{Command, ReadAck, SendMessage},
};
use serde::Deserialize;

use super::load;
use crate::{
    input::{Input, Line},
    output::{Table, grouped},
};

/// How many users become owners of groups of their partners.
const GROUPS_OF_PARTNERS: usize = 20;
const BATCH_LINES: usize = 500;

/// A user, and the users with whom this one has exchanged messages in both directions.
struct Partners {
    owner: UserId,
    members: BTreeSet<UserId>,
}

impl Partners {
    fn has(&self, message: &DirectMessage) -> bool {
        let pair = [message.srcid, message.destid];
        pair.contains(&self.owner) && pair.iter().any(|uid| self.members.contains(uid))
    }
}

/// A message of the input.
#[derive(Deserialize)]
struct DirectMessage {
    srcid: UserId,
    destid: UserId,
    client_msg_id: String,
    msg: String,
}

/// Makes groups for the users of the real messages with the most partners who answered, loads their conversations into the groups, and shows them.
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

fn messages_of(input: &Input) -> anyhow::Result<Vec<DirectMessage>> {
    #[derive(Deserialize)]
    struct Body {
        message: DirectMessage,
    }
    let lines = input.events.iter();
    let messages = lines.map(|line| Ok(serde_json::from_str::<Body>(&line.text)?.message));
    messages.collect()
}

fn largest_contact_lists(messages: &[DirectMessage]) -> Vec<Partners> {
    let pairs = messages.iter().map(|one| (one.srcid, one.destid));
    let written: BTreeSet<(UserId, UserId)> = pairs.collect();
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

/// For each of these users: a group with the owner's number, then the messages between the owner and the others, in order. Then the first member
/// reads half of the messages on pc.
fn events_of(
    all: &[Partners],
    messages: &[DirectMessage],
) -> anyhow::Result<(Vec<Line>, Vec<Line>)> {
    let (mut events, mut acks) = (Vec::new(), Vec::new());
    for partners in all {
        let gid: GroupId = partners.owner.get().try_into()?;
        let to = Recipient::Group(gid);
        let line = |command: Command| Line {
            number: 0,
            partition: Some(gid.partition()),
            text: client::line(&command),
        };
        events.push(line(creation(gid, partners)));
        let mut mid = Mid::ZERO;
        for message in messages.iter().filter(|message| partners.has(message)) {
            events.push(line(Command::Send(SendMessage {
                client_msg_id: format!("{gid}-{}", message.client_msg_id).try_into()?,
                ..message_to(message.srcid, to, message.msg.as_str())
            })));
            mid = mid.next();
        }
        acks.push(line(Command::ReadAck(ReadAck {
            uid: *partners.members.first().unwrap_or(&partners.owner),
            to,
            device: DeviceClass::Pc,
            mid: Some(Mid::try_from(mid.get() / 2 + 1)?),
        })));
    }
    for (number, line) in (1..).zip(events.iter_mut().chain(&mut acks)) {
        line.number = number;
    }
    Ok((events, acks))
}

fn creation(gid: GroupId, partners: &Partners) -> Command {
    let group = CreateGroup {
        name: format!("Partners of {}", partners.owner),
        members: partners.members.iter().copied().collect(),
        open: false,
        whole_history: true,
        client_id: None,
    };
    Command::ChangeGroup(ChangeGroup {
        gid,
        by: partners.owner,
        by_user: false,
        action: GroupAction::Create(group),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partners_are_who_answered() {
        let user = |uid: i64| UserId::try_from(uid).unwrap();
        let messages =
            [(1, 2), (2, 1), (1, 3), (3, 1), (4, 1), (1, 1), (2, 3)].map(|(from, to)| {
                DirectMessage {
                    srcid: user(from),
                    destid: user(to),
                    client_msg_id: format!("{from}-{to}"),
                    msg: "a".to_owned(),
                }
            });
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
