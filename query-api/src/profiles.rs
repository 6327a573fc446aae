//! Profiles: read from the cache in Redis, or from `user_<n>` if the cache lacks them (PROTOCOL K6).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api::ProfileItems;
use futures::future::join_all;
use message_store::{Shard, Sink};
use schemas::{Partition, StoredProfile, UserId};
use tokio::time::timeout;
use unread_store::{CachedProfiles, Connection, ProfileUpdate};

use crate::{
    after::{AsOf, RequiredWatermarks, Watermarks},
    call::Call,
    deadline::Deadline,
    error::{LaggingStore, QueryError},
    parameters::Switch,
    sink_watermarks,
};

/// How long Redis may take: MySQL has every profile, too.
const REDIS_TIMEOUT: Duration = Duration::from_millis(500);

/// Reads the profiles of these users, as of now or later. Of `required`, only the partitions of these users count.
pub(crate) async fn read(
    call: &Call,
    uids: &BTreeSet<UserId>,
    required: &RequiredWatermarks,
    deadline: Deadline,
) -> Result<(ProfileItems, AsOf), QueryError> {
    let partitions: BTreeSet<Partition> = uids.iter().map(|uid| Partition::of_user(*uid)).collect();
    let required = &required.clone().restrict_to(|p| partitions.contains(&p));
    let cache = from_cache(call, uids, required).await;
    let mut found: ProfileItems = into_items(cache.profiles);
    let mut as_of = AsOf::from(cache.watermarks);
    let mut by_shard: BTreeMap<Shard, Vec<UserId>> = BTreeMap::new();
    for uid in uids.iter().filter(|uid| !found.contains_key(uid)) {
        let shard = call.store.layout().shard_of_user(*uid);
        by_shard.entry(shard).or_default().push(*uid);
    }
    for (shard, uids) in by_shard {
        let attempt = || from_rows(call, shard, &uids, required);
        let (rows, watermarks) = call.poll(deadline, attempt).await?;
        if cache.responds {
            fill(call, &rows).await;
        }
        let rows = rows.into_iter().map(|row| row.stored);
        found.extend(into_items(rows));
        as_of = as_of.and(watermarks);
    }
    Ok((found, as_of))
}

/// The profiles of the users in an answer, if the caller asked for them, and how far the stores had come for the whole answer.
pub(crate) async fn join(
    call: &Call,
    Switch(wanted): Switch,
    users: impl IntoIterator<Item = UserId>,
    required: &RequiredWatermarks,
    deadline: Deadline,
    as_of: AsOf,
) -> Result<(Option<ProfileItems>, AsOf), QueryError> {
    if !wanted {
        return Ok((None, as_of));
    }
    let users = users.into_iter().collect();
    let (found, of_profiles) = read(call, &users, required, deadline).await?;
    Ok((Some(found), as_of.and(of_profiles)))
}

fn into_items(profiles: impl IntoIterator<Item = StoredProfile>) -> ProfileItems {
    let items = profiles.into_iter();
    items.map(|one| (one.profile.uid, one.into())).collect()
}

/// What the cache has.
struct Cached {
    profiles: Vec<StoredProfile>,
    /// The watermarks of the required partitions that have users among the profiles.
    watermarks: Watermarks,
    /// Whether every slot that was asked has answered.
    responds: bool,
}

/// The cached profiles that reflect `required`.
async fn from_cache(call: &Call, uids: &BTreeSet<UserId>, required: &RequiredWatermarks) -> Cached {
    let by_slot = call.redis.store().by_slot(uids.iter().copied(), |uid| *uid);
    let reads = by_slot.iter().map(async |(slot, uids)| {
        let read = |redis: Connection| async move { redis.read_profiles(uids).await };
        timeout(REDIS_TIMEOUT, call.redis.call(*slot, read)).await
    });
    let mut cached = Cached {
        profiles: Vec::new(),
        watermarks: Watermarks::default(),
        responds: true,
    };
    for read in join_all(reads).await {
        match read {
            Ok(Ok(read)) => cached.add(read, required),
            // MySQL has the profiles that the cache does not return.
            Ok(Err(_)) | Err(_) => cached.responds = false,
        }
    }
    cached
}

impl Cached {
    fn add(&mut self, read: CachedProfiles, required: &RequiredWatermarks) {
        for (uid, stored) in read.profiles {
            let partition = Partition::of_user(uid);
            let own = required.clone().restrict_to(|p| p == partition);
            let at = read.positions.get(partition);
            let at = at.map(|at| (partition, at.position));
            let watermarks: Watermarks = at.into_iter().collect();
            if own.missing_in(&watermarks).is_empty() {
                let watermarks = watermarks.restrict_to(required);
                self.watermarks = std::mem::take(&mut self.watermarks).or(watermarks);
                self.profiles.push(stored);
            }
        }
    }
}

/// Rows of one database, and how far the partition of each row was projected into it.
async fn from_rows(
    call: &Call,
    shard: Shard,
    uids: &[UserId],
    required: &RequiredWatermarks,
) -> Result<(Vec<ProfileUpdate>, Watermarks), QueryError> {
    let partitions: BTreeSet<Partition> = uids.iter().map(|uid| Partition::of_user(*uid)).collect();
    let required = required.clone().restrict_to(|p| partitions.contains(&p));
    let all: Vec<Partition> = partitions.into_iter().collect();
    let mut tx = call.snapshot(shard).await?;
    let resume = tx
        .resume_offsets(Sink::Contacts, &call.events_topic, &all)
        .await?;
    let at = |partition| resume.get(partition).copied().unwrap_or_default();
    let watermarks: Watermarks = all.iter().map(|p| (*p, at(*p))).collect();
    let store = LaggingStore::Sink(shard, Sink::Contacts);
    sink_watermarks::expect_reached(store, &required, &watermarks)?;
    let rows = tx.profiles(uids).await?.into_iter();
    let update = |stored: StoredProfile| ProfileUpdate {
        reflects: at(Partition::of_user(stored.profile.uid)).next,
        stored,
    };
    Ok((
        rows.map(update).collect(),
        watermarks.restrict_to(&required),
    ))
}

/// Caches rows. Redis refuses those that could be older than what it has applied; if Redis does not answer, they are not cached.
async fn fill(call: &Call, rows: &[ProfileUpdate]) {
    let uid = |row: &ProfileUpdate| row.stored.profile.uid;
    let by_slot = call.redis.store().by_slot(rows.iter().cloned(), uid);
    let fills = by_slot.iter().map(async |(slot, rows)| {
        let fill = |redis: Connection| async move { redis.cache_profiles(rows).await };
        let filled = timeout(REDIS_TIMEOUT, call.redis.call(*slot, fill)).await;
        if let Ok(Err(error)) = filled {
            tracing::debug!(%error, "profiles are not cached");
        }
    });
    join_all(fills).await;
}
