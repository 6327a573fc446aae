//! Who may add a user to a group: what the installation says, and what users say of themselves in their profiles (PROTOCOL G13).

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use access::{Caller, CallerQuota};
use message_store::{ContactRow, MessageStore, MySqlConfig, Shard, StoreError};
use problem::Problem;
use schemas::{Ordinal, StoredProfile, UserId};
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    config::{AddedBy, GroupsConfig},
    post::Post,
};

/// The member of a profile's extra with which a user says who may add them.
const IN_PROFILE: &str = "groups_added_by";
/// How long MySQL may take; after that nothing is added.
const READ_TIME: Duration = Duration::from_secs(2);
/// How many users one statement reads.
const READ_AT_ONCE: usize = 256;
/// How many of the users who are not to be added are named.
const NAMED: usize = 100;

/// Decides whether the users whom a user's post makes members of a group let that user do so.
pub struct Consent {
    config: GroupsConfig,
    store: MessageStore,
    /// Shares the connections, so that no user has all of them.
    reads: Arc<CallerQuota>,
}

impl Consent {
    /// `None` if anybody may add anybody.
    pub fn new(config: GroupsConfig, mysql: &MySqlConfig) -> Option<Self> {
        (config != GroupsConfig::default()).then(|| Self {
            store: MessageStore::connect(mysql),
            reads: CallerQuota::of_quarters(mysql.connections_per_server as usize),
            config,
        })
    }

    /// # Errors
    /// Users are not to be added; or MySQL, which has to say so, does not answer.
    pub async fn check(&self, caller: &Caller, post: &Post) -> Result<(), Problem> {
        let Some((field, by, added)) = post.added_by_user() else {
            return Ok(());
        };
        let others: Vec<UserId> = added.iter().copied().filter(|uid| *uid != by).collect();
        let refused = match self.config.added_by {
            AddedBy::Nobody => others,
            _ => self.unwilling(caller, by, &others).await?,
        };
        if refused.is_empty() {
            return Ok(());
        }
        let wrong = format!("names {}", named(&refused));
        let right = format!("users who let {by} add them to groups");
        Err(Problem::forbidden_field(field, wrong, right))
    }

    /// Those who do not let `by` add them, in the order in which they are named.
    async fn unwilling(
        &self,
        caller: &Caller,
        by: UserId,
        users: &[UserId],
    ) -> Result<Vec<UserId>, Problem> {
        let read = async {
            let _permit = self.reads.acquire(caller, 1).await;
            let mut by_shard: BTreeMap<Shard, Vec<UserId>> = BTreeMap::new();
            for uid in users {
                let shard = self.store.layout().shard_of_user(*uid);
                by_shard.entry(shard).or_default().push(*uid);
            }
            let mut unwilling = Vec::new();
            for (shard, users) in by_shard {
                unwilling.extend(self.unwilling_of(shard, by, &users).await?);
            }
            Ok::<_, StoreError>(unwilling)
        };
        match timeout(READ_TIME, read).await {
            Ok(Ok(unwilling)) => {
                let is_unwilling = |uid: &&UserId| unwilling.contains(uid);
                Ok(users.iter().filter(is_unwilling).copied().collect())
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "who may add whom to groups is not read");
                Err(not_known())
            }
            Err(_elapsed) => Err(not_known()),
        }
    }

    async fn unwilling_of(
        &self,
        shard: Shard,
        by: UserId,
        users: &[UserId],
    ) -> Result<Vec<UserId>, StoreError> {
        let mut tx = self.store.snapshot(shard).await?;
        let mut unwilling = Vec::new();
        for users in users.chunks(READ_AT_ONCE) {
            let pairs: Vec<_> = users.iter().map(|uid| (*uid, by)).collect();
            let contacts = tx.contacts(&pairs).await?;
            let contacts: HashMap<_, _> = contacts
                .iter()
                .map(|row| (row.contact.uid, is_contact(row)))
                .collect();
            let said = match self.config.users_decide {
                true => tx.profiles(users).await?,
                false => Vec::new(),
            };
            let said: HashMap<_, _> = said
                .iter()
                .map(|row| (row.profile.uid, said_in(row)))
                .collect();
            unwilling.extend(users.iter().filter(|uid| {
                let said = said.get(uid).copied().unwrap_or_default();
                match self.config.added_by.max(said) {
                    AddedBy::Anybody => false,
                    AddedBy::Contacts => !contacts.get(uid).copied().unwrap_or(false),
                    AddedBy::Nobody => true,
                }
            }));
        }
        Ok(unwilling)
    }
}

/// Whether the owner of the row has done something to have the other user as a contact, and does not block that user. The row may also be there
/// because the owner was written to.
fn is_contact(row: &ContactRow) -> bool {
    let flags = row.flags();
    let has_written = row.contact.own_ordinal > Ordinal::ZERO;
    !flags.blocked && (has_written || flags.favourite || flags.pinned)
}

/// What a user's profile says: anybody if it says nothing, and nobody if what it says is not understood, since the user meant to allow fewer.
fn said_in(row: &StoredProfile) -> AddedBy {
    let said = || -> Option<Value> {
        let extra: Value = serde_json::from_str(row.profile.extra.as_deref()?).ok()?;
        extra.get(IN_PROFILE).cloned()
    };
    said().map_or_else(AddedBy::default, |said| {
        serde_json::from_value(said).unwrap_or(AddedBy::Nobody)
    })
}

fn named(users: &[UserId]) -> String {
    let first: Vec<String> = users.iter().take(NAMED).map(UserId::to_string).collect();
    match users.len().checked_sub(NAMED) {
        Some(more @ 1..) => format!("{} and {more} more", first.join(", ")),
        _ => first.join(", "),
    }
}

fn not_known() -> Problem {
    let detail = "whether these users let others add them to groups is not known at present; nothing was done";
    Problem::unavailable(detail, 1)
}

#[cfg(test)]
mod tests {
    use schemas::{Profile, TimestampMs};

    use super::*;

    #[test]
    fn a_profile_says_who_may_add_its_user() {
        for (extra, said) in [
            (None, AddedBy::Anybody),
            (Some(r#"{"mood":"hungry"}"#), AddedBy::Anybody),
            (Some(r#"{"groups_added_by":"contacts"}"#), AddedBy::Contacts),
            (Some(r#"{"groups_added_by":"nobody"}"#), AddedBy::Nobody),
            (Some(r#"{"groups_added_by":"anybody"}"#), AddedBy::Anybody),
            (Some(r#"{"groups_added_by":["nobody"]}"#), AddedBy::Nobody),
            (Some(r#"{"groups_added_by":"friends"}"#), AddedBy::Nobody),
        ] {
            let profile = Profile {
                uid: 1001.try_into().unwrap(),
                nick: "Ann".to_owned(),
                avatar: None,
                extra: extra.map(str::to_owned),
            };
            let row = StoredProfile {
                profile,
                ts: TimestampMs(0),
                event_offset: 0,
            };
            assert_eq!(said_in(&row), said, "{extra:?}");
        }
    }

    #[test]
    fn the_first_hundred_are_named() {
        let users: Vec<UserId> = (1..=101).map(|uid| uid.try_into().unwrap()).collect();
        assert_eq!(named(&users[..2]), "1, 2");
        assert!(named(&users[..100]).ends_with(", 100"));
        assert!(named(&users).ends_with(", 100 and 1 more"));
    }
}
