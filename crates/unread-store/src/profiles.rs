//! Cached profiles: `user-<uid>`.

use std::collections::{BTreeMap, BTreeSet};

use redis::{RedisResult, Value};
use schemas::{NextOffset, Partition, PartitionMap, Profile, StoredProfile, TimestampMs, UserId};

use crate::{Connection, ScanPage, StoredPosition, UnreadError, read::parse, scripts};

/// A profile to be cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileUpdate {
    /// The profile.
    pub stored: StoredProfile,
    /// The profile reflects all events of its partition below this offset.
    pub reflects: NextOffset,
}

/// Cached profiles, and the positions that they reflect at least.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CachedProfiles {
    /// The profiles of the slot's generation. A user who is absent here may still have a profile.
    pub profiles: BTreeMap<UserId, StoredProfile>,
    /// The positions of the users' partitions, read before the profiles.
    pub positions: PartitionMap<StoredPosition>,
}

impl ProfileUpdate {
    /// The profile that an event has set; it reflects that event.
    #[must_use]
    pub fn of_event(stored: StoredProfile) -> Self {
        Self {
            reflects: NextOffset::after(stored.event_offset),
            stored,
        }
    }
}

/// How many profiles go to Redis in one pipeline; up to 6 KB each.
const PROFILES_PER_PIPELINE: usize = 128;

const FIELDS: [&str; 6] = ["gen", "nick", "avatar", "extra", "ts", "pos"];

impl Connection {
    /// Caches profiles, except those that are cached already, or that could be older than what the slot has applied (PROTOCOL K6).
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn cache_profiles(&self, updates: &[ProfileUpdate]) -> Result<(), UnreadError> {
        for updates in updates.chunks(PROFILES_PER_PIPELINE) {
            let mut pipe = redis::pipe();
            for update in updates {
                pipe.add_command(self.cache_command(update)).ignore();
            }
            self.run::<()>(&pipe).await?;
        }
        Ok(())
    }

    fn cache_command(&self, ProfileUpdate { stored, reflects }: &ProfileUpdate) -> redis::Cmd {
        let profile = &stored.profile;
        let keys = [
            self.keys().profile(profile.uid),
            self.keys().position(Partition::of_user(profile.uid)),
        ];
        let mut cmd = scripts::call(&scripts::SET_PROFILE, &keys);
        cmd.arg(reflects.get())
            .arg(stored.event_offset)
            .arg(stored.ts.0)
            .arg(self.expiry_ms());
        cmd.arg("nick").arg(&profile.nick);
        for (field, text) in [("avatar", &profile.avatar), ("extra", &profile.extra)] {
            if let Some(text) = text {
                cmd.arg(field).arg(text);
            }
        }
        cmd
    }

    /// Reads the cached profiles of these users, all of this slot: first the positions, then the profiles, in one pipeline (PROTOCOL A).
    ///
    /// # Errors
    /// [`UnreadError::NotReady`] on a slot without positions; [`UnreadError::Transient`], [`UnreadError::Malformed`].
    pub async fn read_profiles(&self, uids: &[UserId]) -> Result<CachedProfiles, UnreadError> {
        let partitions: BTreeSet<Partition> =
            uids.iter().map(|uid| Partition::of_user(*uid)).collect();
        let mut pipe = redis::pipe();
        for partition in &partitions {
            pipe.add_command(self.get_position(*partition));
        }
        for uid in uids {
            pipe.cmd("HMGET")
                .arg(self.keys().profile(*uid))
                .arg(&FIELDS);
        }
        // A key of another type, which a person has written, counts as absent.
        pipe.ignore_errors();
        let responses: Vec<RedisResult<Value>> = self.run(&pipe).await?;
        let mut responses = responses.into_iter();
        let mut read = CachedProfiles::default();
        for (partition, response) in partitions.into_iter().zip(responses.by_ref()) {
            let fields = response.map_err(|error| self.fail(error))?;
            let stored = self.parse_position(partition, parse(fields)?)?;
            let stored = stored.ok_or(UnreadError::NotReady)?;
            read.positions.insert(partition, stored);
        }
        for (uid, response) in uids.iter().zip(responses) {
            let fields = match response {
                Err(error) if error.code() == Some("WRONGTYPE") => continue,
                response => parse(response.map_err(|error| self.fail(error))?)?,
            };
            let generation = read.positions.get(Partition::of_user(*uid));
            let generation = generation.map(|stored| stored.generation.to_string());
            if let Some(stored) = self.parse_profile(*uid, generation.as_deref(), fields)? {
                read.profiles.insert(*uid, stored);
            }
        }
        Ok(read)
    }

    /// `None` if there is no profile of this generation.
    fn parse_profile(
        &self,
        uid: UserId,
        generation: Option<&str>,
        fields: [Option<String>; 6],
    ) -> Result<Option<StoredProfile>, UnreadError> {
        let [found, nick, avatar, extra, ts, event_offset] = fields;
        if found.is_none() || found.as_deref() != generation {
            return Ok(None);
        }
        let malformed = |why: &str| UnreadError::malformed(&self.keys().profile(uid), why);
        let number = |text: Option<String>| text.and_then(|text| text.parse().ok());
        let (Some(nick), Some(ts), Some(event_offset)) = (nick, number(ts), number(event_offset))
        else {
            return Err(malformed("a profile without all its fields"));
        };
        Ok(Some(StoredProfile {
            profile: Profile {
                uid,
                nick,
                avatar,
                extra,
            },
            ts: TimestampMs(ts),
            event_offset,
        }))
    }

    /// One page of the users with a cached profile, of any generation; the first page has cursor 0.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn scan_profiles(&self, cursor: u64) -> Result<ScanPage, UnreadError> {
        self.scan(cursor, |key| self.keys().profile_of(key)).await
    }

    /// Drops the cached profiles of these users; reading them caches them again.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn drop_profiles(&self, uids: &BTreeSet<UserId>) -> Result<(), UnreadError> {
        let mut pipe = redis::pipe();
        for uid in uids {
            pipe.cmd("UNLINK").arg(self.keys().profile(*uid)).ignore();
        }
        if uids.is_empty() {
            return Ok(());
        }
        self.run(&pipe).await
    }
}
