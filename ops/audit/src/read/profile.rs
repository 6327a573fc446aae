//! Profiles, read without the code that services share.

use schemas::Profile;

use super::field;

/// Of the fields of a command or an event, which have the same rules.
pub(super) fn profile(
    uid: i64,
    nick: String,
    avatar: String,
    extra: String,
) -> Result<Profile, String> {
    if !(1..=64).contains(&nick.chars().count()) || nick.contains(char::is_control) {
        return Err("nick is no line of 1 to 64 characters".to_owned());
    }
    if !avatar.is_empty() && !is_avatar(&avatar) {
        return Err("avatar is no URL of the web".to_owned());
    }
    if !extra.is_empty() && !is_extra(&extra) {
        return Err("extra is no JSON object of at most 4096 bytes and 32 levels".to_owned());
    }
    let given = |text: String| Some(text).filter(|text| !text.is_empty());
    Ok(Profile {
        uid: field("uid", uid)?,
        nick,
        avatar: given(avatar),
        extra: given(extra),
    })
}

fn is_avatar(url: &str) -> bool {
    let host = match url.split_once("://") {
        Some(("http" | "https", host)) => host.as_bytes(),
        _ => return false,
    };
    let allowed = |c: &u8| (b'!'..=b'~').contains(c) && !b"\"<>\\^`{|}".contains(c);
    url.len() <= 1024
        && matches!(
            host.first(),
            Some(b'[' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z')
        )
        && url.as_bytes().iter().all(allowed)
}

fn is_extra(extra: &str) -> bool {
    extra.len() <= 4096
        && serde_json::from_str::<serde_json::Value>(extra)
            .is_ok_and(|value| value.is_object() && has_levels(&value, 32))
}

/// Whether there are at most so many objects and arrays inside each other.
fn has_levels(value: &serde_json::Value, most: usize) -> bool {
    let has_fewer = |value: &serde_json::Value| most > 0 && has_levels(value, most - 1);
    match value {
        serde_json::Value::Array(items) => most > 0 && items.iter().all(has_fewer),
        serde_json::Value::Object(members) => most > 0 && members.values().all(has_fewer),
        _ => true,
    }
}
