//! What others see of a user.

use crate::{
    Column, TimestampMs, UserId,
    kind::{CommandKind, CommandScope, EventKind, Redrive, first_unequal},
    malformed::{Malformed, uid},
    proto,
};

const MAX_NICK_CHARS: usize = 64;
const MAX_AVATAR_BYTES: usize = 1_024;
/// The largest extra, bytes as posted.
pub const MAX_PROFILE_EXTRA_BYTES: usize = 4_096;
/// Readers embed extra in answers of their own, and many parsers stop at 128 levels.
const MAX_EXTRA_DEPTH: usize = 32;

/// What others see of a user. A later profile replaces the whole earlier one. The command and its event have the same content. It belongs to no
/// conversation: its partition is uid mod 64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The user.
    pub uid: UserId,
    /// 1 to 64 characters, none a control character.
    pub nick: String,
    /// An http or https URL of at most 1,024 bytes.
    pub avatar: Option<String>,
    /// A JSON object of at most 4,096 bytes, as it was posted.
    pub extra: Option<String>,
}

impl Profile {
    /// Checks all fields.
    ///
    /// # Errors
    /// [`Malformed`] names the first field that is not valid.
    pub fn checked(self) -> Result<Self, Malformed> {
        check_nick(&self.nick)?;
        self.avatar.as_deref().map_or(Ok(()), check_avatar)?;
        self.extra.as_deref().map_or(Ok(()), check_extra)?;
        Ok(self)
    }

    /// The first field in which the event differs from the command.
    pub(crate) fn mismatch(&self, set: &Self) -> Option<&'static str> {
        first_unequal([
            ("uid", self.uid == set.uid),
            ("nick", self.nick == set.nick),
            ("avatar", self.avatar == set.avatar),
            ("extra", self.extra == set.extra),
        ])
    }
}

impl Profile {
    /// The columns of its table.
    pub const COLUMNS: &[Column<Self>] = crate::columns! {
        uid: User(|p| Some(p.uid)), "the user";
        nick: Name(|p| Some(&p.nick)), "the name that others see";
        avatar: Name(|p| p.avatar.as_deref()), "a URL, or null";
        extra: Name(|p| p.extra.as_deref()), "a JSON object, or null";
    };
}

/// A profile as the stores have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredProfile {
    /// What others see of the user.
    pub profile: Profile,
    /// When it was set.
    pub ts: TimestampMs,
    /// The offset of its event in its partition of `chat.events`. Of two profiles of a user the one with the higher offset is current.
    pub event_offset: i64,
}

fn check_nick(nick: &str) -> Result<(), Malformed> {
    let chars = nick.chars().count();
    if chars == 0 || chars > MAX_NICK_CHARS {
        let wrong = format!("has {chars} characters; must be 1 to {MAX_NICK_CHARS}");
        return Err(Malformed::new("nick", wrong));
    }
    if nick.chars().any(char::is_control) {
        let wrong = "has a control character; must be a text of one line without any";
        return Err(Malformed::new("nick", wrong));
    }
    Ok(())
}

fn check_avatar(avatar: &str) -> Result<(), Malformed> {
    let rest = ["https://", "http://"]
        .into_iter()
        .find_map(|scheme| avatar.strip_prefix(scheme));
    let has_host =
        rest.is_some_and(|rest| rest.starts_with(|c: char| c == '[' || c.is_ascii_alphanumeric()));
    let is_plain = avatar
        .bytes()
        .all(|c| c.is_ascii_graphic() && !br#""<>\^`{|}"#.contains(&c));
    if avatar.len() > MAX_AVATAR_BYTES || !has_host || !is_plain {
        let wrong = format!(
            "is no such URL; must be an http or https URL of at most {MAX_AVATAR_BYTES} bytes, other characters than RFC 3986's in percent-encoding"
        );
        return Err(Malformed::new("avatar", wrong));
    }
    Ok(())
}

/// Parses extra as strictly as readers will (no halves of surrogate pairs, no numbers beyond a double). The text is stored unchanged.
fn check_extra(extra: &str) -> Result<(), Malformed> {
    let refused = |wrong: String| {
        let right = format!("must be a JSON object of at most {MAX_PROFILE_EXTRA_BYTES} bytes");
        Err(Malformed::new("extra", format!("{wrong}; {right}")))
    };
    if extra.len() > MAX_PROFILE_EXTRA_BYTES {
        return refused(format!("has {} bytes", extra.len()));
    }
    match serde_json::from_str(extra) {
        Ok(value @ serde_json::Value::Object(_)) if depth(&value) > MAX_EXTRA_DEPTH => {
            refused(format!("has more than {MAX_EXTRA_DEPTH} levels"))
        }
        Ok(serde_json::Value::Object(_)) => Ok(()),
        Ok(_) => refused("is no object".to_owned()),
        Err(error) => refused(format!("is no JSON that every reader takes ({error})")),
    }
}

fn depth(value: &serde_json::Value) -> usize {
    let below = match value {
        serde_json::Value::Array(items) => items.iter().map(depth).max(),
        serde_json::Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    1 + below.unwrap_or(0)
}

fn some_text(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

impl TryFrom<proto::SetProfile> for Profile {
    type Error = Malformed;

    fn try_from(asked: proto::SetProfile) -> Result<Self, Malformed> {
        let profile = Self {
            uid: uid("uid", asked.uid)?,
            nick: asked.nick,
            avatar: some_text(asked.avatar),
            extra: some_text(asked.extra),
        };
        profile.checked()
    }
}

impl From<Profile> for proto::SetProfile {
    fn from(profile: Profile) -> Self {
        Self {
            uid: profile.uid.get(),
            nick: profile.nick,
            avatar: profile.avatar.unwrap_or_default(),
            extra: profile.extra.unwrap_or_default(),
        }
    }
}

impl TryFrom<proto::ProfileSet> for Profile {
    type Error = Malformed;

    fn try_from(set: proto::ProfileSet) -> Result<Self, Malformed> {
        proto::SetProfile {
            uid: set.uid,
            nick: set.nick,
            avatar: set.avatar,
            extra: set.extra,
        }
        .try_into()
    }
}

impl From<Profile> for proto::ProfileSet {
    fn from(profile: Profile) -> Self {
        let asked = proto::SetProfile::from(profile);
        Self {
            uid: asked.uid,
            nick: asked.nick,
            avatar: asked.avatar,
            extra: asked.extra,
        }
    }
}

impl CommandKind for Profile {
    fn label(&self) -> &'static str {
        "profile"
    }

    fn scope(&self) -> CommandScope {
        CommandScope::of_user(self.uid)
    }

    fn author_field(&self) -> &'static str {
        "uid"
    }

    fn rule_version(&self) -> u32 {
        3
    }

    fn set_by_user(&mut self, _by_user: bool) {}

    fn redrive(&self) -> Redrive {
        Redrive::Never("it would take the place of what its user has set since")
    }
}

impl EventKind for Profile {
    fn label(&self) -> &'static str {
        "profile"
    }

    fn scope(&self) -> CommandScope {
        CommandScope::of_user(self.uid)
    }

    fn is_for_author(&self) -> bool {
        true
    }

    fn extra_bytes(&self) -> usize {
        let length = |text: &Option<String>| text.as_deref().map_or(0, str::len);
        self.nick.len() + length(&self.avatar) + length(&self.extra)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Partition;

    fn profile() -> Profile {
        Profile {
            uid: 1001.try_into().unwrap(),
            nick: "Ann".to_owned(),
            avatar: None,
            extra: None,
        }
    }

    fn field(edit: impl FnOnce(&mut Profile)) -> Option<&'static str> {
        let mut profile = profile();
        edit(&mut profile);
        profile.checked().err().map(|malformed| malformed.field)
    }

    #[test]
    fn a_nick_has_1_to_64_characters() {
        let nick = |nick: &str| field(|p| p.nick = nick.to_owned());
        assert_eq!(nick(&"\u{1f30a}".repeat(64)), None);
        for wrong in ["", "a\nb", "a\0b", "a\u{85}", &"a".repeat(65)] {
            assert_eq!(nick(wrong), Some("nick"), "{wrong:?}");
        }
    }

    #[test]
    fn an_avatar_is_a_url_of_the_web() {
        let avatar = |avatar: &str| field(|p| p.avatar = Some(avatar.to_owned()));
        let of_length = |length: usize| format!("https://a/{}", "b".repeat(length - 10));
        for right in ["http://[::1]:80/x?y=%20#z", &of_length(1_024)] {
            assert_eq!(avatar(right), None, "{right}");
        }
        for wrong in [
            "",
            "a.png",
            "https://",
            "https:///a.png",
            "javascript:alert(1)",
            "data:image/png;base64,AA==",
            "https://a/\"onload=\"x",
            "https://a/ b",
            "https://a/\u{fc}",
            &of_length(1_025),
        ] {
            assert_eq!(avatar(wrong), Some("avatar"), "{wrong}");
        }
    }

    #[test]
    fn an_extra_is_an_object_that_every_reader_takes() {
        let extra = |extra: &str| field(|p| p.extra = Some(extra.to_owned()));
        let of_length = |length: usize| format!("{{\"a\":\"{}\"}}", "b".repeat(length - 8));
        let nested = |levels: usize| {
            format!(
                "{{\"a\":{}}}",
                "[".repeat(levels - 1) + &"]".repeat(levels - 1)
            )
        };
        let big = r#"{"n":123456789012345678901234567890, "é":[1.0e2,null]}"#;
        for right in ["{}", big, &of_length(4_096), &nested(32)] {
            assert_eq!(extra(right), None, "{right}");
        }
        for wrong in [
            "",
            "[]",
            "\"a\"",
            "{\"a\":1} {}",
            "{\"a\":}",
            r#"{"a":"\ud800"}"#,
            r#"{"a":1e999}"#,
            &of_length(4_097),
            &of_length(5 * 1_024),
            &nested(33),
            &nested(2_000),
        ] {
            assert_eq!(extra(wrong), Some("extra"), "{wrong}");
        }
    }

    #[test]
    fn a_profile_round_trips_and_has_a_key_of_its_user() {
        let profile = Profile {
            avatar: Some("https://a/b".to_owned()),
            extra: Some("{ \"a\" : 1 }".to_owned()),
            ..profile()
        };
        let command = proto::SetProfile::from(profile.clone());
        assert_eq!(Profile::try_from(command), Ok(profile.clone()));
        let event = proto::ProfileSet::from(profile.clone());
        assert_eq!(Profile::try_from(event), Ok(profile.clone()));
        assert_eq!(CommandKind::scope(&profile).key().to_string(), "u:1001");
        let partition = CommandKind::scope(&profile).partition();
        assert_eq!(partition.map(Partition::get), Some(41));
    }
}
