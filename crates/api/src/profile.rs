//! Profiles: posted, read, and as they happen.

use std::{borrow::Cow, collections::BTreeMap};

use schemas::{InboundPosition, Profile, StoredProfile, UserId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::values::{Id, RawJson, utc};

/// What others see of a user. It replaces the earlier profile: a field that is absent here is absent afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileBody {
    /// 1 to 64 characters without control characters.
    #[schema(min_length = 1, max_length = 64, example = "Ann")]
    pub nick: String,
    /// An http or https URL of at most 1,024 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024, example = "https://example.com/ann.png")]
    pub avatar: Option<String>,
    /// An object of at most 4,096 bytes and 32 levels, kept as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub extra: Option<RawJson>,
    /// The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither
    /// this field nor the header `Idempotency-Key` has an id, one is generated and returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub command_id: Option<String>,
}

/// A profile in a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserProfileBody {
    /// Whose it is.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1001")]
    pub uid: UserId,
    /// 1 to 64 characters without control characters.
    #[schema(min_length = 1, max_length = 64, example = "Ann")]
    pub nick: String,
    /// An http or https URL of at most 1,024 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024, example = "https://example.com/ann.png")]
    pub avatar: Option<String>,
    /// An object of at most 4,096 bytes and 32 levels, kept as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub extra: Option<RawJson>,
    /// The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If it is
    /// absent, an id is generated and returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub command_id: Option<String>,
}

impl ProfileBody {
    /// The same with its user.
    #[must_use]
    pub fn of(self, uid: UserId) -> UserProfileBody {
        UserProfileBody {
            uid,
            nick: self.nick,
            avatar: self.avatar,
            extra: self.extra,
            command_id: self.command_id,
        }
    }
}

impl UserProfileBody {
    /// The profile, without the command id. It is not checked yet.
    #[must_use]
    pub fn into_command(self) -> Profile {
        Profile {
            uid: self.uid,
            nick: self.nick,
            avatar: self.avatar,
            extra: self.extra.map(RawJson::into_string),
        }
    }

    /// The same without its user.
    #[must_use]
    pub fn without_user(self) -> ProfileBody {
        ProfileBody {
            nick: self.nick,
            avatar: self.avatar,
            extra: self.extra,
            command_id: self.command_id,
        }
    }
}

impl From<&Profile> for UserProfileBody {
    /// Extra that is no JSON becomes a text, which ingest refuses.
    fn from(profile: &Profile) -> Self {
        let raw = |extra: &String| {
            let raw = RawJson::try_from(extra.clone());
            raw.unwrap_or_else(|_| RawJson::of(extra))
        };
        Self {
            uid: profile.uid,
            nick: profile.nick.clone(),
            avatar: profile.avatar.clone(),
            extra: profile.extra.as_ref().map(raw),
            command_id: None,
        }
    }
}

/// What others see of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProfileItem {
    /// The name.
    #[schema(example = "Ann")]
    pub nick: String,
    /// An http or https URL; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "https://example.com/ann.png")]
    pub avatar: Option<String>,
    /// A JSON object, as it was posted; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub extra: Option<RawJson>,
    /// When it was set, UTC.
    #[schema(example = "2025-11-21T08:00:00.123Z")]
    pub ts: String,
}

/// By user; users who have set none are left out.
pub type ProfileItems = BTreeMap<UserId, ProfileItem>;

/// A user's profile.
#[derive(Debug, Serialize, ToSchema)]
pub struct UserProfile {
    /// As asked.
    #[schema(value_type = String, example = "1001")]
    pub uid: UserId,
    /// What others see.
    #[serde(flatten)]
    pub profile: ProfileItem,
    /// With `after=`: how far the stores had come, by partition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<String>>, example = json!(["41:45"]))]
    pub as_of: Vec<InboundPosition>,
}

/// Profiles of several users.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Profiles {
    /// By user; users who have set none are left out.
    #[schema(value_type = BTreeMap<String, ProfileItem>)]
    pub profiles: ProfileItems,
    /// With `after=`: how far the stores had come, by partition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<String>>, example = json!(["41:45"]))]
    pub as_of: Vec<InboundPosition>,
}

// AsyncAPI names the bodies of events so.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ProfileBody)]
pub struct ProfileEvent<'a> {
    #[schema(value_type = Id)]
    pub uid: UserId,
    pub nick: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avatar: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub extra: Option<Cow<'a, RawValue>>,
}

impl<'a> ProfileEvent<'a> {
    pub(crate) fn new(profile: &'a Profile) -> Self {
        let extra = profile.extra.as_deref();
        Self {
            uid: profile.uid,
            nick: profile.nick.as_str().into(),
            avatar: profile.avatar.as_deref().map(Cow::from),
            extra: extra.and_then(|extra| serde_json::from_str(extra).ok().map(Cow::Borrowed)),
        }
    }
}

impl From<StoredProfile> for ProfileItem {
    fn from(stored: StoredProfile) -> Self {
        let Profile {
            nick,
            avatar,
            extra,
            ..
        } = stored.profile;
        Self {
            nick,
            avatar,
            // Ingest lets only JSON in. What is no JSON came into the store in another way, and is left out.
            extra: extra.and_then(|extra| extra.try_into().ok()),
            ts: utc(stored.ts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_is_read_and_written_as_it_is() {
        let extra = r#"{ "b": 1.50, "a": 123456789012345678901234567890 }"#;
        let text = format!(r#"{{"profiles":{{"1":{{"nick":"Ann","extra":{extra},"ts":"t"}}}}}}"#);
        let found: Profiles = serde_json::from_str(&text).unwrap();
        let profile = &found.profiles[&1.try_into().unwrap()];
        assert_eq!(profile.extra.as_ref().map(RawJson::as_str), Some(extra));
        assert_eq!(serde_json::to_string(&found).unwrap(), text);
    }
}
