//! The unread counts and cached profiles of all users in Redis.

use std::time::{Duration, Instant};

use audit::ShadowAudit;
use message_store::{RebuildLock, Shard};
use schemas::{Partition, TableNumber, UserId};
use unread_rebuild::{RebuildConfig, Rebuilder, UnreadRebuildError};
use unread_store::{Connection, UnreadError, slot_index};

use crate::{Context, Progress, RebuildError, Rebuilt};

/// How many rows are scanned for users at a time, and how many users' rows are in memory.
const PAGE: u32 = 2_000;
const USERS_AT_ONCE: usize = 100;

/// The lease on users that are rebuilt together; when it expires they stay as they were.
const LEASE_MS: u64 = 60_000;

/// How long to retry while Redis, MySQL or the contacts projection is unavailable or behind.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Marks a table all of whose users are done.
const ALL: i64 = i64::MAX;

/// Drops the cached profiles, which are cached again when they are read, and rebuilds the keys of users with contacts: of all users, or only of those
/// with uid mod 64 = `only`. The keys are computed from contact rows that were compared with a fold of the log, and replaced in one step per user.
///
/// It may be stopped at any moment: a next run within the hour continues from there.
///
/// # Errors
/// [`RebuildError`].
pub async fn unread(
    context: &Context,
    only: Option<TableNumber>,
    progress: &(impl Fn(Progress) + Sync),
) -> Result<Rebuilt, RebuildError> {
    let all: Vec<Partition> = Partition::all().collect();
    let ends = context.ends_of_complete_log(&all).await?;
    let first = context.store.layout().shards().next();
    let _lock = lock(context, first).await?;
    let config = RebuildConfig::default();
    let Context {
        store,
        reader,
        unread,
        topic,
        ..
    } = context;
    let mut users = Users {
        context,
        redis: unread.connect().await?,
        rebuilder: Rebuilder::new(store, reader, unread, topic, &config),
        proof: ShadowAudit::new(context.live_sources(), &all)?,
        rebuilt: Rebuilt::default(),
    };
    let tables = all_or(only);
    users.begin(&tables, progress).await?;
    progress(Progress::At("reading the log".to_owned()));
    users.proof.fold_to(&ends).await?;
    drop_profiles(&users.redis, &tables).await?;
    for n in tables {
        progress(Progress::At(format!("users of contact_{n}")));
        users.rebuild_table(n).await?;
        progress(Progress::Advanced(1));
    }
    for slot in &users.redis {
        slot.clear_rebuild_progress().await?;
    }
    Ok(users.rebuilt)
}

async fn lock(
    context: &Context,
    shard: Option<Shard>,
) -> Result<Option<RebuildLock>, RebuildError> {
    let Some(shard) = shard else { return Ok(None) };
    let lock = RebuildLock::take(&context.store, shard, "unread").await?;
    Ok(Some(lock.ok_or(RebuildError::Busy { what: "unread" })?))
}

/// The tables that a rebuild is for: all, or the only one.
pub(crate) fn all_or(only: Option<TableNumber>) -> Vec<TableNumber> {
    only.map_or_else(|| TableNumber::all().collect(), |only| vec![only])
}

/// Drops the cached profiles of the users of these tables, which are cached again from `user_<n>`.
pub(crate) async fn drop_profiles(
    redis: &[Connection],
    tables: &[TableNumber],
) -> Result<(), UnreadError> {
    for slot in redis {
        let mut cursor = Some(0);
        while let Some(at) = cursor {
            let mut page = slot.scan_profiles(at).await?;
            page.users
                .retain(|uid| tables.contains(&TableNumber::of_user(*uid)));
            slot.drop_profiles(&page.users).await?;
            cursor = page.next;
        }
    }
    Ok(())
}

struct Users<'a> {
    context: &'a Context,
    /// The connections by slot.
    redis: Vec<Connection>,
    rebuilder: Rebuilder,
    proof: ShadowAudit,
    rebuilt: Rebuilt,
}

impl Users<'_> {
    /// The slot of the users of `contact_<n>`.
    fn redis(&self, n: TableNumber) -> &Connection {
        &self.redis[slot_index(n, self.redis.len())]
    }

    async fn begin(
        &self,
        tables: &[TableNumber],
        progress: &(impl Fn(Progress) + Sync),
    ) -> Result<(), RebuildError> {
        let mut done = 0;
        for n in tables {
            done += usize::from(self.redis(*n).rebuild_progress(*n).await? == Some(ALL));
        }
        progress(Progress::Begun {
            wanted: tables.len() - done,
            left_over: (done > 0).then_some(tables.len() - done),
            steps: tables.len() as u64,
        });
        Ok(())
    }

    async fn rebuild_table(&mut self, n: TableNumber) -> Result<(), RebuildError> {
        let mut after = self.redis(n).rebuild_progress(n).await?.unwrap_or(0);
        while after < ALL {
            let uids = self.users_after(n, after).await?;
            after = uids.last().map_or(ALL, |uid| uid.get());
            self.rebuild_users(n, uids).await?;
            self.redis(n).set_rebuild_progress(n, after).await?;
        }
        Ok(())
    }

    /// The next users with contacts, ascending; empty after the last.
    async fn users_after(&self, n: TableNumber, uid: i64) -> Result<Vec<UserId>, RebuildError> {
        let store = &self.context.store;
        let last_peer = UserId::try_from(i64::MAX).ok();
        let after = UserId::try_from(uid).ok().zip(last_peer);
        let mut snapshot = store.snapshot(store.layout().shard_of(n)).await?;
        let rows = snapshot.scan_contacts(n, after, PAGE).await?;
        let mut uids: Vec<UserId> = rows.iter().map(|row| row.contact.uid).collect();
        uids.dedup();
        Ok(uids)
    }

    /// Rebuilds users. Retries those who were dropped or taken over meanwhile, and while a store is unavailable.
    async fn rebuild_users(
        &mut self,
        n: TableNumber,
        mut uids: Vec<UserId>,
    ) -> Result<(), RebuildError> {
        let deadline = Instant::now() + RETRY_TIMEOUT;
        while !uids.is_empty() {
            match self.try_rebuild(n, &uids).await {
                Ok(left) => uids = left,
                Err(RebuildError::Unread(UnreadRebuildError::Transient(why)))
                    if Instant::now() < deadline =>
                {
                    tracing::debug!(why, "retrying");
                }
                Err(error) => return Err(error),
            }
            if !uids.is_empty() {
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// Returns the users who must be rebuilt again.
    async fn try_rebuild(
        &mut self,
        n: TableNumber,
        uids: &[UserId],
    ) -> Result<Vec<UserId>, RebuildError> {
        let mut shadow = self
            .rebuilder
            .begin_shadow_rebuild(n, uids, LEASE_MS)
            .await?;
        self.proof.fold_to(shadow.ends()).await?;
        let mut left_over = Vec::new();
        while let Some(users) = shadow.next(USERS_AT_ONCE).await? {
            let all: Vec<Partition> = Partition::all().collect();
            let ends = self.context.ends_of_complete_log(&all).await?;
            let check = self.proof.rows(&users.uids, &users.rows, &ends).await?;
            if check.differences() > 0 {
                return Err(RebuildError::Contacts(check));
            }
            let wanted = users.uids.len();
            let left = shadow.complete(users).await?;
            self.rebuilt.replaced += wanted - left.len();
            self.rebuilt.compared += check.compared;
            left_over.extend(left);
        }
        self.rebuilt.in_progress += shadow.in_progress();
        Ok(left_over)
    }
}
