use std::{collections::BTreeMap, fmt::Write as _};

use schemas::{Profile, UserId};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::Error as _};
use serde_json::value::RawValue;

use crate::{Accepted, Client, ClientError, ReadOptions, queries::Query};

/// What others see of a user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct UserProfile {
    /// The name.
    pub nick: String,
    /// An http or https URL.
    #[serde(default)]
    pub avatar: Option<String>,
    /// A JSON object, as it was posted.
    #[serde(default, deserialize_with = "raw")]
    pub extra: Option<String>,
    /// When it was set: RFC 3339, UTC.
    pub ts: String,
}

/// Of a field that may be left out.
pub(crate) fn raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    Ok((raw.get() != "null").then(|| raw.get().to_owned()))
}

/// The same, written.
pub(crate) fn write_raw<S: Serializer>(
    extra: &Option<String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let raw = extra.as_deref().map(serde_json::from_str::<&RawValue>);
    raw.transpose()
        .map_err(S::Error::custom)?
        .serialize(serializer)
}

#[derive(Deserialize)]
struct Profiles {
    profiles: BTreeMap<UserId, UserProfile>,
}

/// As ingest reads it, with extra as it is.
#[derive(Serialize)]
pub(crate) struct ProfileBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<UserId>,
    nick: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    avatar: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<&'a RawValue>,
}

impl<'a> ProfileBody<'a> {
    /// # Errors
    /// The extra is no JSON.
    fn new(profile: &'a Profile) -> Result<Self, serde_json::Error> {
        let extra = profile.extra.as_deref();
        Ok(Self {
            uid: None,
            nick: &profile.nick,
            avatar: profile.avatar.as_deref(),
            extra: extra.map(serde_json::from_str).transpose()?,
        })
    }

    /// Of a line of a batch. What is no JSON in extra becomes a text, which ingest refuses.
    pub(crate) fn line(profile: &Profile) -> String {
        let written = ProfileBody::new(profile).and_then(|body| {
            let uid = Some(profile.uid);
            serde_json::to_string(&ProfileBody { uid, ..body })
        });
        let profile = written.unwrap_or_else(|_| {
            serde_json::json!({ "uid": profile.uid, "nick": profile.nick, "extra": profile.extra })
                .to_string()
        });
        let mut line = String::new();
        write!(line, "{{\"profile\":{profile}}}").expect("a string takes everything");
        line
    }
}

impl Client {
    /// Sets a user's profile, whole. It is repeated while the outcome is unknown: what is repeated takes the place of a profile that was set
    /// meanwhile.
    ///
    /// # Errors
    /// It was refused, or not accepted in time.
    pub async fn set_profile(&self, profile: &Profile) -> Result<Accepted, ClientError> {
        let path = format!("/v1/users/{}/profile", profile.uid);
        let body = ProfileBody::new(profile);
        let body = body.map_err(|error| ClientError::invalid_response(&path, error))?;
        self.put_event(&path, &body).await
    }

    /// Reads a user's profile; `None` where none was set.
    ///
    /// # Errors
    /// It was refused, or not answered in time.
    pub async fn profile(
        &self,
        user: UserId,
        options: &ReadOptions,
    ) -> Result<Option<UserProfile>, ClientError> {
        Ok(self.profiles(&[user], options).await?.remove(&user))
    }

    /// Reads the profiles of up to 100 users; those who have set none are left out.
    ///
    /// # Errors
    /// As [`Client::profile`].
    pub async fn profiles(
        &self,
        users: &[UserId],
        options: &ReadOptions,
    ) -> Result<BTreeMap<UserId, UserProfile>, ClientError> {
        let uids: Vec<String> = users.iter().map(UserId::to_string).collect();
        let mut query = Query::of("/v1/profiles".to_owned());
        query.add("uid", uids.join(","));
        options.add_to(&mut query);
        let found: Profiles = self.get_waiting(&query.path, options.wait()).await?;
        Ok(found.profiles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_is_written_and_read_as_it_is() {
        let extra = r#"{ "b": 1.50, "a": 123456789012345678901234567890 }"#;
        let profile = Profile {
            uid: 1.try_into().unwrap(),
            nick: "Ann".to_owned(),
            avatar: None,
            extra: Some(extra.to_owned()),
        };
        let line = ProfileBody::line(&profile);
        let expected = format!(r#"{{"profile":{{"uid":"1","nick":"Ann","extra":{extra}}}}}"#);
        assert_eq!(line, expected);
        let body = serde_json::to_string(&ProfileBody::new(&profile).unwrap()).unwrap();
        assert_eq!(body, format!(r#"{{"nick":"Ann","extra":{extra}}}"#));
        let answer = format!(r#"{{"profiles":{{"1":{{"nick":"Ann","extra":{extra},"ts":"t"}}}}}}"#);
        let found: Profiles = serde_json::from_str(&answer).unwrap();
        assert_eq!(found.profiles[&profile.uid].extra.as_deref(), Some(extra));
    }
}
