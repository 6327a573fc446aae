//! The file of service keys: TOML, hashes only.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use garde::Validate as _;
use serde::{Deserialize, Serialize};
use service_runtime::without_mark;
use time::OffsetDateTime;

use crate::{
    caller::{Caller, Scope, Service},
    config::LimitConfig,
    service_key::{SecretHash, ServiceKey, is_id},
};

/// The keys of a file.
#[derive(Debug, Default)]
pub struct ServiceKeys(HashMap<String, Known>);

#[derive(Debug)]
struct Known {
    hash: SecretHash,
    expires: Option<OffsetDateTime>,
    service: Arc<Service>,
}

/// One `[[keys]]` of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyEntry {
    /// Names the key: the part between the underscores of `tmk_<id>_<secret>`.
    pub id: String,
    /// For people.
    pub name: String,
    /// What its holder may do.
    pub scopes: BTreeSet<Scope>,
    /// The hash of its secret, hexadecimal.
    pub sha256: String,
    /// From when on it is no longer taken, RFC 3339.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "time::serde::rfc3339::option"
    )]
    pub expires: Option<OffsetDateTime>,
    /// How much its holder may do; absent: as much as the service can take. A limit that is left out is the default one of users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitConfig>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    keys: Vec<KeyEntry>,
}

impl KeyEntry {
    /// The entry of a key.
    #[must_use]
    pub fn of(
        key: &ServiceKey,
        name: String,
        scopes: BTreeSet<Scope>,
        expires: Option<OffsetDateTime>,
    ) -> Self {
        Self {
            id: key.id().to_owned(),
            name,
            scopes,
            sha256: key.hash().to_string(),
            expires,
            limits: None,
        }
    }

    /// As it is in a file.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let file = File {
            keys: vec![self.clone()],
        };
        toml::to_string(&file).expect("an entry is strings, lists and numbers")
    }

    /// The entries of a file, in their order.
    ///
    /// # Errors
    /// What is wrong with the file, as the end of a sentence that begins with its name, and without any value of it.
    pub fn all_of(text: &str) -> Result<Vec<Self>, String> {
        let text = without_mark(text);
        let file: File = toml::from_str(text).map_err(|error| unreadable(text, &error))?;
        let mut ids = BTreeSet::new();
        for (number, entry) in (1..).zip(&file.keys) {
            let refuse =
                |problem: &str| format!("has a fault in [[keys]] number {number}: {problem}");
            entry.check().map_err(|problem| refuse(&problem))?;
            if !ids.insert(&entry.id) {
                return Err(refuse("its id is there before; must be of its own"));
            }
        }
        Ok(file.keys)
    }

    fn check(&self) -> Result<SecretHash, String> {
        if !is_id(&self.id) {
            return Err("id is not 12 lowercase hexadecimal digits; must be as `tidemark key new` printed it".to_owned());
        }
        if self.name.trim().is_empty() {
            return Err("name is empty; must say who holds the key".to_owned());
        }
        if self.scopes.is_empty() {
            return Err("scopes is empty; must name send:any, read:any or admin".to_owned());
        }
        if let Some(limits) = &self.limits {
            limits
                .validate()
                .map_err(|report| format!("limits: {report}"))?;
        }
        SecretHash::parse(&self.sha256)
            .ok_or_else(|| "sha256 is not 64 lowercase hexadecimal digits; must be".to_owned())
    }
}

impl ServiceKeys {
    /// Reads a file; an empty one has no keys.
    ///
    /// # Errors
    /// As [`KeyEntry::all_of`].
    pub fn parse(text: &str) -> Result<Self, String> {
        let known = KeyEntry::all_of(text)?.into_iter().map(|entry| {
            let known = Known {
                hash: entry.check()?,
                expires: entry.expires,
                service: Arc::new(Service {
                    id: entry.id.clone(),
                    name: entry.name,
                    scopes: entry.scopes,
                    limits: entry.limits,
                }),
            };
            Ok((entry.id, known))
        });
        known.collect::<Result<_, String>>().map(Self)
    }

    /// The service that holds the key in a text, if that is a key and valid at `now`: for tools, which read the file themselves.
    #[must_use]
    pub fn caller(&self, text: &str, now: OffsetDateTime) -> Option<Caller> {
        let (service, _) = self.find(&ServiceKey::parse(text)?, now)?;
        Some(Caller::Service(service))
    }

    /// The service that holds this key at `now`.
    pub(crate) fn find(
        &self,
        key: &ServiceKey,
        now: OffsetDateTime,
    ) -> Option<(Arc<Service>, Option<OffsetDateTime>)> {
        let known = self.0.get(key.id())?;
        let is_valid = known.hash.is(&key.hash()) && known.expires.is_none_or(|end| now < end);
        is_valid.then(|| (Arc::clone(&known.service), known.expires))
    }
}

/// The place of the error, with the parser's words if they quote only names of fields; otherwise only that it is wrong.
fn unreadable(text: &str, error: &toml::de::Error) -> String {
    let end = error.span().map_or(0, |span| span.start);
    let before = text.as_bytes().get(..end).unwrap_or_default();
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    let words = error.message();
    let words = if words.starts_with("unknown field") || words.starts_with("missing field") {
        words
    } else {
        "is not what it should be"
    };
    format!(
        "has a fault in line {line}: {words}; must be [[keys]] with id, name, scopes (of send:any, read:any, admin), sha256 and maybe expires, limits"
    )
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);

    fn entry(key: &ServiceKey) -> KeyEntry {
        KeyEntry::of(key, "mailer".to_owned(), [Scope::SendAny].into(), None)
    }

    #[test]
    fn an_entry_reads_back_and_finds_its_key_only() {
        let (key, other) = (
            ServiceKey::generate().unwrap(),
            ServiceKey::generate().unwrap(),
        );
        let text = entry(&key).to_toml();
        assert!(!text.contains(key.text().expose()));
        let keys = ServiceKeys::parse(&text).unwrap();
        let (found, _) = keys.find(&key, NOW).unwrap();
        assert_eq!(
            (found.name.as_str(), found.id.as_str()),
            ("mailer", key.id())
        );
        assert!(keys.find(&other, NOW).is_none());
        let stolen_id = other.text().expose().replace(other.id(), key.id());
        let stolen_id = ServiceKey::parse(&stolen_id).unwrap();
        assert!(keys.find(&stolen_id, NOW).is_none());
        assert!(ServiceKeys::parse("").unwrap().find(&key, NOW).is_none());
    }

    #[test]
    fn a_key_ends_when_its_entry_says() {
        let key = ServiceKey::generate().unwrap();
        let mut entry = entry(&key);
        entry.expires = Some(NOW);
        let keys = ServiceKeys::parse(&entry.to_toml()).unwrap();
        let second = time::Duration::SECOND;
        assert!(keys.find(&key, NOW - second).is_some());
        assert!(keys.find(&key, NOW).is_none());
    }

    #[test]
    fn a_bad_file_names_the_place_and_repeats_no_value() {
        let key = ServiceKey::generate().unwrap();
        let good = entry(&key).to_toml();
        let secret = key.text();
        for (bad, words) in [
            (good.clone() + &good, "number 2: its id"),
            (good.replace("[\"send:any\"]", "[]"), "scopes is empty"),
            (good.replace("send:any", secret.expose()), "line 4"),
            (good.replace("sha256 = \"", "sha256 = \"x"), "sha256 is not"),
            (good.replace("mailer", " "), "name is empty"),
            (good.replace(key.id(), secret.expose()), "id is not"),
            (good.replace("name =", "nmae ="), "unknown field `nmae`"),
            (good.clone() + "expires = \"soon\"\n", "line 6"),
            (good.clone() + "limits = { requests_per_s = 0 }\n", "limits"),
            ("keys = [".to_owned() + secret.expose(), "line 1"),
        ] {
            let problem = ServiceKeys::parse(&bad).unwrap_err();
            assert!(problem.contains(words), "{problem}");
            assert!(!problem.contains(secret.expose()), "{problem}");
        }
    }
}
