//! The demo's stories, whose events are in `cli/stories`: a second run finds everything as it is.

use anyhow::Context as _;
use client::{Client, ConversationsQuery, GroupsQuery, MessageItem, MessagesQuery, ReadOptions};
use schemas::{DeviceClass, GroupId, InboundPosition, Mid, UserId};
use serde_json::json;

const FIRST: &str = include_str!("../../stories/first.ndjson");
const SECOND: &str = include_str!("../../stories/second.ndjson");
const THIRD: &str = include_str!("../../stories/third.ndjson");
/// The user whom the first story is about, and the user who writes there.
pub(super) const ME: i64 = 1000;
pub(super) const BOSS: i64 = 1001;

/// The boss writes three times while I am away; I read on the telephone; the pc still counts three.
pub(super) async fn run_first(client: &Client) -> anyhow::Result<()> {
    println!("\nA first story: 1001 sends three messages to 1000, who then reads on mobile.");
    let lines: Vec<&str> = FIRST.lines().collect();
    let (messages, ack) = lines.split_at(3);
    let options = post(client, messages).await?;
    let [pc, mobile] = unread_of_boss(client, &options).await?;
    println!("  after the third message:  pc {pc}, mobile {mobile}");
    if mobile == 0 {
        println!("  (run before: the same ids add nothing, and what is read stays read)");
    }
    let options = post(client, ack).await?;
    let [pc, mobile] = unread_of_boss(client, &options).await?;
    println!("  after reading on mobile:  pc {pc}, mobile {mobile}");
    let is_used = is_used_since(client, &options).await?;
    check_end([pc, mobile] == [3, 0], is_used)
}

/// The counts on pc and on mobile.
async fn unread_of_boss(client: &Client, options: &ReadOptions) -> anyhow::Result<[i64; 2]> {
    let (me, boss) = (ME.try_into()?, BOSS.try_into()?);
    let mut counts = [0; 2];
    for (count, device) in counts.iter_mut().zip(DeviceClass::ALL) {
        let unread = client.unread(me, device, options).await?.unread;
        *count = unread.get(&boss).copied().unwrap_or(0);
    }
    Ok(counts)
}

/// Whether the first conversation has more messages than the story, or is read further.
async fn is_used_since(client: &Client, options: &ReadOptions) -> anyhow::Result<bool> {
    let boss = BOSS.try_into()?;
    let which = ConversationsQuery {
        limit: Some(200),
        ..ConversationsQuery::default()
    };
    let list = client
        .conversations(ME.try_into()?, &which, options)
        .await?;
    let mut of_boss = list.items.iter().filter(|one| one.peer == Some(boss));
    let read = |pc: Mid, mobile: Mid| [pc.get(), mobile.get()];
    Ok(of_boss
        .any(|one| one.last_mid.get() != 3 || read(one.read_mid.pc, one.read_mid.mobile) != [0, 3]))
}

/// One user writes three messages, edits the first and recalls the second; the other hides the third and pins the contact; the first has set a
/// profile.
pub(super) async fn run_second(client: &Client) -> anyhow::Result<()> {
    println!(
        "\nA second story: 1003 sends three messages to 1002, edits the first and recalls the second; 1002 hides the third and pins the contact. 1003 has set a profile."
    );
    let (author, reader): (UserId, UserId) = (1003.try_into()?, 1002.try_into()?);
    let lines: Vec<&str> = SECOND.lines().collect();
    let options = post(client, &lines).await?;
    let newest = MessagesQuery::default();
    let history = client.messages(reader, author, &newest, &options).await?;
    let seen = show_messages(reader, &history.items);
    let which = ConversationsQuery {
        profiles: true,
        ..ConversationsQuery::default()
    };
    let list = client.conversations(reader, &which, &options).await?;
    let first = list.items.first().context("1002 has no conversation")?;
    let peer = first.peer.map_or("nobody".to_owned(), |p| p.to_string());
    let pinned = first.flags.pinned;
    let profiles = list.profiles.unwrap_or_default();
    let nick = profiles.get(&author).map(|profile| &*profile.nick);
    println!(
        "  at the top of the list:   {peer} (pinned: {pinned}), by the name of {}",
        json!(nick)
    );
    let is_as_told = seen == ["1: Lunch at noon? (edited)", "2: (recalled)"]
        && first.peer == Some(author)
        && pinned
        && nick == Some("Ann");
    check_end(is_as_told, newest_mid(&history.items) > 3)
}

/// A group of three: its owner recalls a message, one of the others answers, the third reads.
pub(super) async fn run_third(client: &Client) -> anyhow::Result<()> {
    println!(
        "\nA third story: 1004 begins a group with 1005 and 1006 and sends three messages, of which the second is recalled; 1005 answers; 1006 reads two of them on pc."
    );
    let (gid, reader): (GroupId, UserId) = (5000.try_into()?, 1006.try_into()?);
    let lines: Vec<&str> = THIRD.lines().collect();
    let options = post(client, &lines).await?;
    let newest = MessagesQuery::default();
    let history = client.group_messages(gid, reader, &newest, &options);
    let history = history.await?;
    let seen = show_messages(reader, &history.items);
    let all = GroupsQuery::default();
    let groups = client.groups(reader, &all, &options).await?.items;
    let own = groups.iter().filter(|group| group.gid == gid);
    let unread = json!(own.map(|group| group.unread).collect::<Vec<_>>());
    println!("  unread for 1006:          {unread}");
    let is_as_told = seen == ["1: Who is in?", "2: (recalled)", "3: Me.", "4: At eight."]
        && unread == json!([{ "pc": 2, "mobile": 4 }]);
    check_end(is_as_told, newest_mid(&history.items) > 4)
}

/// Posts lines in order. A read with the returned options reflects them.
async fn post(client: &Client, lines: &[&str]) -> anyhow::Result<ReadOptions> {
    let posted = client.post_batch(lines, lines.len(), |_| ()).await?;
    if let Some(refused) = posted.rejected.first() {
        anyhow::bail!("line {}: {}", refused.line, refused.problem);
    }
    let positions = posted.accepted.iter().map(|accepted| accepted.position);
    Ok(ReadOptions::after(InboundPosition::newest(positions)))
}

/// Shows messages as their reader sees them, the oldest first.
fn show_messages(reader: UserId, newest_first: &[MessageItem]) -> Vec<String> {
    let seen: Vec<String> = newest_first.iter().rev().map(as_seen).collect();
    println!("  what {reader} sees:           {}", seen.join("; "));
    seen
}

fn as_seen(message: &MessageItem) -> String {
    let MessageItem { mid, msg, .. } = message;
    match message {
        _ if message.recalled => format!("{mid}: (recalled)"),
        _ if message.edited_ts.is_some() => format!("{mid}: {msg} (edited)"),
        _ => format!("{mid}: {msg}"),
    }
}

fn newest_mid(newest_first: &[MessageItem]) -> i64 {
    newest_first.first().map_or(0, |newest| newest.mid.get())
}

/// # Errors
/// The story has not ended as it should, although its conversation was not used since.
fn check_end(is_as_told: bool, is_used_since: bool) -> anyhow::Result<()> {
    if is_used_since {
        println!("  (somebody has used this conversation since; that counts, too)");
        return Ok(());
    }
    anyhow::ensure!(is_as_told, "the story does not end as it is told");
    Ok(())
}
