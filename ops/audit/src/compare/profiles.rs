//! Compares profiles with the log. They change while they are compared, as the other values do.

use std::collections::{BTreeSet, HashSet};

use message_store::StoreError;
use schemas::{Profile, TableNumber, UserId};
use unread_store::{Connection, UnreadError};

use super::Values;
use crate::{
    Area, AuditError, Finding, Kind, Scope, Sources,
    fold::{LogState, ProfileVersion},
};

const PAGE: u32 = 500;

/// A profile that looked wrong, and what the log said before it was read.
pub(crate) struct PossibleProfile {
    /// The store that has it.
    area: Area,
    uid: UserId,
    found: Found,
    low: Option<ProfileVersion>,
}

impl PossibleProfile {
    /// What is wrong with it, by what the log says now.
    fn mismatch(&self, log: &LogState) -> Option<(Kind, String)> {
        let found = match &self.found {
            Ok(found) => found.as_ref(),
            Err(cause) => return Some((Kind::Different, cause.clone())),
        };
        if found.is_none() && self.area == Area::CachedProfiles {
            // It has expired, or was never asked for.
            return None;
        }
        let (kind, what) = wrong(found, self.low.as_ref(), log.profile(self.uid))?;
        Some((kind, what.to_owned()))
    }
}

/// Compares a profile with what the log had before it was read (`low`) and after (`high`).
fn wrong(
    found: Option<&ProfileVersion>,
    low: Option<&ProfileVersion>,
    high: Option<&ProfileVersion>,
) -> Option<(Kind, &'static str)> {
    match (found, low, high) {
        (None, None, _) => None,
        (None, Some(_), _) => Some((Kind::Missing, "no profile")),
        (Some(_), _, None) => Some((Kind::Extra, "it is not in the log")),
        (Some(found), low, Some(high)) => {
            let at = |version: Option<&ProfileVersion>| version.map_or(-1, |version| version.at);
            // Which event a version between the two is of is not known any more.
            if at(low) < found.at && found.at < high.at {
                return None;
            }
            let right = low.filter(|low| low.at == found.at).unwrap_or(high);
            Some((Kind::Different, found.different(right)?))
        }
    }
}

impl Values {
    pub(super) fn check_profile(&mut self, log: &LogState, area: Area, uid: UserId, found: Found) {
        self.checks.of(area).compared += 1;
        let profile = PossibleProfile {
            area,
            uid,
            found,
            low: log.profile(uid).copied(),
        };
        if profile.mismatch(log).is_some() {
            self.possible_profiles.push(profile);
        }
    }

    /// See [`Values::clear`].
    pub(super) fn clear_profiles(&mut self, log: &LogState) {
        self.possible_profiles
            .retain(|profile| profile.mismatch(log).is_some());
    }

    /// See [`Values::confirm`].
    pub(crate) fn confirm_profiles(&mut self, log: &LogState, again: &[PossibleProfile]) {
        for profile in again {
            if let Some((kind, what)) = profile.mismatch(log) {
                let (area, uid) = (profile.area, profile.uid);
                let what = format!("{} of {uid}: {what}", area.name());
                let mut finding = Finding::new(kind, what);
                if let Some(version) = log.profile(uid) {
                    let partition = Profile::partition_of(uid);
                    finding = finding.at(self.events_topic(), partition, version.at);
                }
                self.checks.of(area).add(finding);
            }
        }
    }
}

/// Compares every `user_<n>` that has something in scope, and what Redis has of them.
pub(crate) async fn compare_profiles(
    sources: &Sources,
    scope: Scope,
    log: &LogState,
    values: &mut Values,
) -> Result<(), AuditError> {
    let tables: Vec<TableNumber> = match scope {
        Scope::All => TableNumber::all().collect(),
        Scope::User(uid) => vec![TableNumber::of_user(uid)],
        Scope::Conversation(_) => Vec::new(),
    };
    for table in tables {
        compare_profile_table(sources, log, table, values).await?;
    }
    for (index, slot) in sources.unread.slots().iter().enumerate() {
        let is_in_slot = |uid: &UserId| sources.unread.index_of(*uid) == index;
        let connection = slot.connect().await?;
        let uids: BTreeSet<UserId> = match scope {
            Scope::All => cached_users(&connection).await?,
            Scope::User(uid) => BTreeSet::from([uid])
                .into_iter()
                .filter(is_in_slot)
                .collect(),
            Scope::Conversation(_) => BTreeSet::new(),
        };
        for uid in uids.into_iter().filter(|uid| log.covers_profile(*uid)) {
            let found = read_cached(&connection, uid).await?;
            if !matches!(found, Ok(None)) {
                values.check_profile(log, Area::CachedProfiles, uid, found);
            }
        }
    }
    Ok(())
}

async fn cached_users(connection: &Connection) -> Result<BTreeSet<UserId>, AuditError> {
    let mut users = BTreeSet::new();
    let mut cursor = Some(0);
    while let Some(at) = cursor {
        let page = connection.scan_profiles(at).await?;
        users.extend(page.users);
        cursor = page.next;
    }
    Ok(users)
}

/// A profile, or why it cannot be read.
type Found = Result<Option<ProfileVersion>, String>;

/// The cached profile; none where the slot has no positions, since then nobody reads it.
async fn read_cached(connection: &Connection, uid: UserId) -> Result<Found, AuditError> {
    match connection.read_profiles(&[uid]).await {
        Err(UnreadError::NotReady) => Ok(Ok(None)),
        Err(error @ UnreadError::Malformed { .. }) => Ok(Err(error.to_string())),
        read => Ok(Ok(read?.profiles.get(&uid).map(ProfileVersion::of_stored))),
    }
}

/// Compares a whole `user_<n>`.
pub(crate) async fn compare_profile_table(
    sources: &Sources,
    log: &LogState,
    table: TableNumber,
    values: &mut Values,
) -> Result<(), AuditError> {
    let area = Area::Profiles;
    let store = &sources.messages;
    let mut snapshot = store.snapshot(store.layout().shard_of(table)).await?;
    let mut expected: HashSet<UserId> = log.users_with_profiles(table).collect();
    let mut after = None;
    loop {
        let page = match snapshot.scan_profiles(table, after, PAGE).await {
            // A row that cannot be decoded was not written by a projection.
            Err(StoreError::Fatal(cause)) => {
                let what = format!("user_{table} cannot be read: {cause}");
                let check = values.checks.of(area);
                check.add(Finding::new(Kind::Different, what));
                return Ok(());
            }
            page => page?,
        };
        let Some(last) = page.last() else { break };
        after = Some(last.profile.uid);
        for row in &page {
            let uid = row.profile.uid;
            if TableNumber::of_user(uid) != table {
                let what = format!("user_{table}: the row of {uid}");
                let check = values.checks.of(area);
                check.add(Finding::new(Kind::Extra, what));
            } else if log.covers_profile(uid) {
                expected.remove(&uid);
                values.check_profile(log, area, uid, Ok(Some(ProfileVersion::of_stored(row))));
            }
        }
    }
    for uid in expected {
        values.check_profile(log, area, uid, Ok(None));
    }
    Ok(())
}

/// Compares the rows of these users.
pub(crate) async fn compare_profile_rows(
    sources: &Sources,
    log: &LogState,
    uids: impl Iterator<Item = UserId>,
    values: &mut Values,
) -> Result<(), AuditError> {
    for uid in uids {
        let found = read_profile(sources, Area::Profiles, uid).await?;
        values.check_profile(log, Area::Profiles, uid, found);
    }
    Ok(())
}

/// Reads the profiles a second time; see [`read_again`](super::read_again).
pub(crate) async fn read_profiles_again(
    sources: &Sources,
    log: &LogState,
    possible: Vec<PossibleProfile>,
    has_passed: bool,
) -> Result<Vec<PossibleProfile>, AuditError> {
    let mut again = Vec::with_capacity(possible.len());
    for PossibleProfile { area, uid, low, .. } in possible {
        let low = if has_passed {
            log.profile(uid).copied()
        } else {
            low
        };
        let found = read_profile(sources, area, uid).await?;
        again.push(PossibleProfile {
            area,
            uid,
            found,
            low,
        });
    }
    Ok(again)
}

async fn read_profile(sources: &Sources, area: Area, uid: UserId) -> Result<Found, AuditError> {
    if area == Area::CachedProfiles {
        let connection = sources.unread.slot_of(uid).connect().await?;
        return read_cached(&connection, uid).await;
    }
    let store = &sources.messages;
    let shard = store.layout().shard_of(TableNumber::of_user(uid));
    let mut snapshot = store.snapshot(shard).await?;
    match snapshot.profiles(&[uid]).await {
        Err(StoreError::Fatal(cause)) => Ok(Err(cause.to_string())),
        rows => Ok(Ok(rows?.first().map(ProfileVersion::of_stored))),
    }
}

#[cfg(test)]
mod tests {
    use schemas::TimestampMs;

    use super::*;

    fn version(nick: &str, at: i64) -> ProfileVersion {
        let profile = Profile {
            uid: 1.try_into().unwrap(),
            nick: nick.to_owned(),
            avatar: None,
            extra: None,
        };
        ProfileVersion::new(&profile, TimestampMs(7), at)
    }

    #[test]
    fn a_profile_is_that_of_the_event_which_it_names() {
        let (low, high) = (version("a", 5), version("c", 9));
        let kind = |found: Option<ProfileVersion>, low: Option<&ProfileVersion>| {
            wrong(found.as_ref(), low, Some(&high)).map(|(kind, _)| kind)
        };
        for right in [low, high, version("b", 7)] {
            assert_eq!(kind(Some(right), Some(&low)), None);
        }
        for differs in [
            version("b", 5),
            version("b", 9),
            version("a", 4),
            version("c", 10),
        ] {
            assert_eq!(kind(Some(differs), Some(&low)), Some(Kind::Different));
        }
        assert_eq!(kind(None, Some(&low)), Some(Kind::Missing));
        assert_eq!(kind(None, None), None);
        assert_eq!(kind(Some(high), None), None);
        assert_eq!(wrong(Some(&low), None, None).unwrap().0, Kind::Extra);
    }
}
