//! What a reader would have been told at a time.

mod history;

use audit::{ConversationAt, StateAt};
use event_log::LogReader;
use indicatif::ProgressBar;
use schemas::{
    ConversationId, DeviceClass, GroupId, Partition, PartitionMap, Recipient, UserId, topics::Topic,
};
use serde_json::{Value, json};

use crate::{
    answers,
    args::{AtArgs, AtQuestion},
    context::CommandContext,
    failure::Failure,
    log_point::LogPoint,
    output::{Table, progress_bar},
    times,
};

pub(super) async fn run(context: &CommandContext, args: AtArgs, json: bool) -> anyhow::Result<()> {
    let reader = context.log_reader()?;
    let bar = progress_bar()?;
    let answered = {
        let bar = bar.clone();
        reader
            .blocking(move |reader| answer(reader, &args, &bar))
            .await
    };
    bar.finish_and_clear();
    let (answer, table) = answered?;
    answers::show_table(json, &answer, &table);
    Ok(())
}

/// # Errors
/// The point is no time, or has not passed.
pub(super) fn check(args: &AtArgs) -> Result<(), Failure> {
    args.point.past("the first argument").map(drop)
}

/// The answer for programs and for people. Blocks.
fn answer(reader: &LogReader, args: &AtArgs, bar: &ProgressBar) -> anyhow::Result<(Value, Table)> {
    let partitions = args.question.partitions();
    let ends = ends(reader, args.point, &partitions)?;
    bar.set_length(ends.iter().map(|(_, end)| end.cast_unsigned()).sum());
    let state = StateAt::fold(reader, &ends, || bar.inc(1))?;
    match &args.question {
        AtQuestion::Unread { uid } => Ok(unread(&state, *uid)),
        AtQuestion::Conversations { uid } => Ok(conversations(&state, *uid)),
        AtQuestion::Members { gid } => members(&state, *gid),
        AtQuestion::History(asked) => {
            let (uid, with) = (asked.uid, asked.with());
            let view = state.view(uid, with).ok_or_else(|| {
                Failure::NotFound(format!("{uid} was no member of this group then"))
            })?;
            history::answer(reader, &ends, asked, &view)
        }
    }
}

impl AtQuestion {
    /// The partitions of the log that have the answer.
    fn partitions(&self) -> Vec<Partition> {
        match self {
            Self::Unread { .. } | Self::Conversations { .. } => Partition::all().collect(),
            Self::Members { gid } => vec![ConversationId::Group(*gid).partition()],
            Self::History(asked) => {
                vec![asked.with().conversation_with(asked.uid).partition()]
            }
        }
    }
}

/// The offset of the point in each partition. The log has to begin at offset 0: the state would lack the events before its beginning.
fn ends(
    reader: &LogReader,
    point: LogPoint,
    partitions: &[Partition],
) -> anyhow::Result<PartitionMap<i64>> {
    let bounds = reader.bounds(Topic::Events, partitions)?;
    if let Some((partition, range)) = bounds.iter().find(|(_, range)| range.start > 0) {
        let start = range.start;
        return Err(Failure::NotFound(format!(
            "partition {partition} of chat.events begins at offset {start}: what was before is in no log, so nothing can be said of that time"
        ))
        .into());
    }
    Ok(point.offsets(reader, Topic::Events, partitions)?)
}

/// As `tidemark unread` shows it.
fn unread(state: &StateAt, uid: UserId) -> (Value, Table) {
    let mut table = Table::new(["device", "sender", "unread"]).right(&[1, 2]);
    let mut answer = serde_json::Map::new();
    for device in DeviceClass::ALL {
        let counts = state.unread(uid, device);
        let total: i64 = counts.values().copied().flatten().sum();
        for (peer, count) in &counts {
            table.row([device.to_string(), peer.to_string(), shown(*count)]);
        }
        table.row([device.to_string(), "total".to_owned(), total.to_string()]);
        let counts: serde_json::Map<_, _> = counts
            .into_iter()
            .map(|(peer, count)| (peer.to_string(), count.into()))
            .collect();
        answer.insert(
            device.to_string(),
            json!({"unread": counts, "total": total}),
        );
    }
    (answer.into(), table)
}

fn conversations(state: &StateAt, uid: UserId) -> (Value, Table) {
    let columns = [
        "with",
        "name",
        "last",
        "time",
        "unread (pc)",
        "unread (mobile)",
    ];
    let mut table = Table::new(columns).right(&[0, 2, 4, 5]);
    let mut items = Vec::new();
    for conversation in state.conversations(uid) {
        let ConversationAt {
            with,
            name,
            last_mid,
            last_ts,
            unread,
            read_mid,
            flags,
        } = conversation;
        let (peer, gid) = with.uid_or_gid();
        table.row([
            match with {
                Recipient::User(peer) => peer.to_string(),
                Recipient::Group(gid) => format!("g:{gid}"),
            },
            name.clone().unwrap_or_default(),
            last_mid.to_string(),
            times::rfc3339(last_ts),
            shown(unread[DeviceClass::Pc]),
            shown(unread[DeviceClass::Mobile]),
        ]);
        items.push(json!({
            "peer": peer,
            "gid": gid,
            "name": name,
            "last_mid": last_mid,
            "last_ts": times::rfc3339(last_ts),
            "unread": unread,
            "read_mid": read_mid,
            "favourite": flags.favourite,
            "pinned": flags.pinned,
            "muted": flags.muted,
            "blocked": flags.blocked,
        }));
    }
    (json!({ "items": items }), table)
}

fn members(state: &StateAt, gid: GroupId) -> anyhow::Result<(Value, Table)> {
    let found = state.members(gid);
    let (settings, members) =
        found.ok_or_else(|| Failure::NotFound(format!("there was no group {gid} then")))?;
    let mut table = Table::new(["uid", "role", "muted"]).right(&[0]);
    let mut items = Vec::new();
    for member in members {
        let muted = if member.muted { "yes" } else { "" };
        let role = member.role.as_str();
        table.row([member.uid.to_string(), role.to_owned(), muted.to_owned()]);
        items.push(json!({"uid": member.uid, "role": role, "muted": member.muted}));
    }
    let answer = json!({
        "gid": gid,
        "name": settings.name,
        "owner": settings.owner,
        "open": settings.open,
        "whole_history": settings.whole_history,
        "muted": settings.muted,
        "dissolved": settings.dissolved,
        "items": items,
    });
    Ok((answer, table))
}

fn shown(count: Option<i64>) -> String {
    count.map_or_else(|| "unknown".to_owned(), |count| count.to_string())
}
