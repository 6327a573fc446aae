//! Compares what Redis has with the log.

use std::collections::BTreeSet;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use schemas::UserId;
use unread_store::{Connection, Generation, Slot, StoredPositions, UnreadError};

use super::{
    comparison::Comparison,
    key::Rows,
    read::{read_cached_profile, read_keys},
};
use crate::{
    Area, AuditError, Finding, Kind, Options, Scope, Sources,
    fold::{LogState, Subject},
};

/// How many users are read at a time.
const CONCURRENT_READS: usize = 32;

/// A profile that is not cached has expired, or was never asked for.
pub(super) async fn compare_cached_profiles(
    sources: &Sources,
    scope: Scope,
    log: &LogState,
    comparison: &mut Comparison,
) -> Result<(), AuditError> {
    let rows = Rows::CachedProfiles;
    for (index, slot) in sources.unread.slots().iter().enumerate() {
        let is_in_slot = |uid: &UserId| sources.unread.index_of(*uid) == index;
        let connection = slot.connect().await?;
        let users = match scope.users() {
            Some(users) => users.into_iter().filter(is_in_slot).collect(),
            None => users_in_slot(&connection, rows).await?,
        };
        let keys = users.into_iter().map(|uid| (uid, Subject::User(uid)));
        for (uid, user) in keys.filter(|(_, user)| log.covers(*user)) {
            let found = read_cached_profile(&connection, uid).await?;
            if !matches!(found, Ok(None)) {
                comparison.check(log, rows.of(user), found);
            }
        }
    }
    Ok(())
}

pub(super) async fn compare_unread_counts(
    sources: &Sources,
    options: &Options,
    log: &LogState,
    comparison: &mut Comparison,
) -> Result<(), AuditError> {
    let mut has_paused = false;
    for (index, slot) in sources.unread.slots().iter().enumerate() {
        let is_in_slot = |uid: &UserId| sources.unread.index_of(*uid) == index;
        let connection = slot.connect().await?;
        let mut positions = connection.read_positions().await?;
        if positions.generation().is_none() && !has_paused {
            // A running projector writes the positions again.
            tokio::time::sleep(options.pause).await;
            has_paused = true;
            positions = connection.read_positions().await?;
        }
        let users = match options.scope.users() {
            Some(users) => users.into_iter().filter(is_in_slot).collect(),
            None => users_in_slot(&connection, Rows::UnreadCounts).await?,
        };
        let Some(generation) = positions.generation() else {
            without_watermarks(slot, &connection, &positions, &users, comparison).await?;
            continue;
        };
        if options.scope.users().is_none() {
            let all = log.users().filter(is_in_slot);
            comparison.without_keys += all.filter(|uid| !users.contains(uid)).count();
        }
        compare_users(&connection, generation, users, log, comparison).await?;
    }
    Ok(())
}

async fn compare_users(
    connection: &Connection,
    generation: Generation,
    users: BTreeSet<UserId>,
    log: &LogState,
    comparison: &mut Comparison,
) -> Result<(), AuditError> {
    let mut looks = stream::iter(users)
        .map(|uid| {
            let connection = connection.clone();
            async move {
                let found = read_keys(&connection, generation, uid, log).await?;
                Ok::<_, AuditError>((uid, found))
            }
        })
        .buffer_unordered(CONCURRENT_READS);
    while let Some((uid, found)) = looks.try_next().await? {
        let key = Rows::UnreadCounts.of(Subject::User(uid));
        comparison.check(log, key, found);
    }
    Ok(())
}

/// Without all watermarks of one generation, the values in Redis cannot be compared. If users have keys, somebody sees them.
async fn without_watermarks(
    slot: &Slot,
    connection: &Connection,
    positions: &StoredPositions,
    users: &BTreeSet<UserId>,
    comparison: &mut Comparison,
) -> Result<(), AuditError> {
    let missing: Vec<String> = positions.missing().map(|p| p.to_string()).collect();
    let why = match &missing[..] {
        [] => format!("{slot} has watermarks of several generations"),
        [one] => format!("{slot} is without the watermark of partition {one}"),
        many => format!(
            "{slot} is without the watermarks of partitions {}",
            many.join(", ")
        ),
    };
    for uid in users {
        let has_keys = match connection.read_state(*uid).await {
            Ok(user) => user.state.is_some() || user.views.iter().any(|(_, view)| view.is_some()),
            Err(UnreadError::Malformed { .. }) => true,
            Err(error) => return Err(error.into()),
        };
        if has_keys {
            let what = format!("unread counts are shown that cannot be compared: {why}");
            let check = comparison.checks.of(Area::UnreadViews);
            check.add(Finding::new(Kind::Missing, what));
            return Ok(());
        }
    }
    comparison.unchecked.push(format!("unread counts: {why}"));
    Ok(())
}

/// The users who have such keys in Redis.
async fn users_in_slot(
    connection: &Connection,
    rows: Rows,
) -> Result<BTreeSet<UserId>, AuditError> {
    let mut users = BTreeSet::new();
    let mut cursor = Some(0);
    while let Some(at) = cursor {
        let page = match rows {
            Rows::CachedProfiles => connection.scan_profiles(at).await?,
            _ => connection.scan_users(at).await?,
        };
        users.extend(page.users);
        cursor = page.next;
    }
    Ok(users)
}
