use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use schemas::{Profile, StoredProfile, TimestampMs};

/// A profile as an event of the log has set it, without its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProfileVersion {
    /// The offset of the event.
    pub(crate) at: i64,
    pub(crate) ts: TimestampMs,
    nick: u64,
    avatar: u64,
    extra: u64,
}

impl ProfileVersion {
    pub(crate) fn new(profile: &Profile, ts: TimestampMs, at: i64) -> Self {
        Self {
            at,
            ts,
            nick: digest(Some(&profile.nick)),
            avatar: digest(profile.avatar.as_ref()),
            extra: digest(profile.extra.as_ref()),
        }
    }

    pub(crate) fn of_stored(stored: &StoredProfile) -> Self {
        Self::new(&stored.profile, stored.ts, stored.event_offset)
    }

    /// The first column that differs.
    pub(crate) fn different(&self, expected: &Self) -> Option<&'static str> {
        let columns = [
            ("nick", self.nick == expected.nick),
            ("avatar", self.avatar == expected.avatar),
            ("extra", self.extra == expected.extra),
            ("ts", self.ts == expected.ts),
            ("pos", self.at == expected.at),
        ];
        let (name, _) = columns.into_iter().find(|(_, equal)| !equal)?;
        Some(name)
    }
}

fn digest(text: Option<&String>) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
