//! What an export may tell about people.

use std::fmt;

use schemas::{GroupId, UserId};
use serde::{Deserialize, Serialize};

/// Separates the key of pseudonyms from other uses of the same secret.
const KEY_CONTEXT: &str = "tidemark 2026-11-28 pseudonyms of exports";

/// The fewest bytes of a secret: a shorter one can be guessed, and uids are few enough to try them all.
const FEWEST_BYTES: usize = 16;

/// What an export leaves out or replaces.
#[derive(Clone, Debug, Default)]
pub struct Privacy {
    /// Texts of recalled and deleted messages are exported, too.
    pub with_recalled: bool,
    /// No texts and no names at all.
    pub without_texts: bool,
    /// Ids are replaced by pseudonyms, and names are left out.
    pub pseudonyms: Option<Pseudonyms>,
}

/// [`Privacy`] as a lake states it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatedPrivacy {
    /// See [`Privacy::with_recalled`].
    pub with_recalled: bool,
    /// See [`Privacy::without_texts`].
    pub without_texts: bool,
    /// The fingerprint of the key of the pseudonyms, 16 hexadecimal digits.
    pub pseudonyms: Option<String>,
}

impl Privacy {
    pub(crate) fn stated(&self) -> StatedPrivacy {
        StatedPrivacy {
            with_recalled: self.with_recalled,
            without_texts: self.without_texts,
            pseudonyms: self.pseudonyms.as_ref().map(Pseudonyms::fingerprint),
        }
    }
}

/// Replaces ids by a keyed hash: the same in every file and run under the same key, so joins hold.
#[derive(Clone)]
pub struct Pseudonyms {
    key: [u8; blake3::KEY_LEN],
}

impl fmt::Debug for Pseudonyms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pseudonyms")
    }
}

/// A secret is too short for pseudonyms.
#[derive(Debug, thiserror::Error)]
#[error(
    "has {0} bytes; must have at least {FEWEST_BYTES}, such as the output of `openssl rand -hex 32`"
)]
pub struct ShortSecret(usize);

impl Pseudonyms {
    /// The pseudonyms under the secret of a key file. Space at its end, which an editor may add, does not count.
    ///
    /// # Errors
    /// [`ShortSecret`].
    pub fn new(secret: &[u8]) -> Result<Self, ShortSecret> {
        let secret = secret.trim_ascii_end();
        if secret.len() < FEWEST_BYTES {
            return Err(ShortSecret(secret.len()));
        }
        let key = blake3::derive_key(KEY_CONTEXT, secret);
        Ok(Self { key })
    }

    /// Tells keys apart without telling the key.
    fn fingerprint(&self) -> String {
        self.hash("fingerprint", b"").to_hex()[..16].to_owned()
    }

    pub(crate) fn user(&self, uid: UserId) -> i64 {
        self.number("user", uid.get())
    }

    pub(crate) fn group(&self, gid: GroupId) -> i64 {
        self.number("group", gid.get())
    }

    /// 32 hexadecimal digits.
    pub(crate) fn chosen_id(&self, id: &str) -> String {
        self.hash("id", id.as_bytes()).to_hex()[..32].to_owned()
    }

    /// From 0 to 2^63 − 1.
    fn number(&self, what: &str, id: i64) -> i64 {
        let hash = self.hash(what, &id.to_le_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&hash.as_bytes()[..8]);
        i64::from_le_bytes(first) & i64::MAX
    }

    fn hash(&self, what: &str, bytes: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(what.as_bytes()).update(&[0]).update(bytes);
        hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pseudonym_depends_on_the_key_and_the_kind_of_id_alone() {
        let [one, same, other] = [
            "0123456789abcdef",
            "0123456789abcdef\r\n",
            "fedcba9876543210",
        ]
        .map(|secret| Pseudonyms::new(secret.as_bytes()).unwrap());
        let uid = UserId::try_from(1001).unwrap();
        assert_eq!(one.user(uid), same.user(uid));
        assert_eq!(one.fingerprint(), same.fingerprint());
        assert_ne!(one.user(uid), other.user(uid));
        assert_ne!(one.fingerprint(), other.fingerprint());
        assert_ne!(one.user(uid), one.group(GroupId::try_from(1001).unwrap()));
        assert_eq!(one.chosen_id("a").len(), 32);
        assert!(one.user(uid) >= 0);
    }

    #[test]
    fn a_secret_that_can_be_guessed_is_refused() {
        let refused = Pseudonyms::new(b"0123456789abcde\n").unwrap_err();
        assert!(refused.to_string().starts_with("has 15 bytes"), "{refused}");
    }
}
