//! A service key: `tmk_<id>_<secret>`.

use std::fmt;

use rand::{TryRngCore as _, rngs::OsRng};
use service_runtime::Secret;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

const PREFIX: &str = "tmk_";
const ID_BYTES: usize = 6;
const SECRET_BYTES: usize = 32;

/// The credential of a service. Its id names it in files and logs; its secret is in neither.
pub struct ServiceKey {
    id: String,
    secret: Secret,
}

/// The hash of a secret. The secret has 256 random bits, so there is nothing to guess, and nothing that a slow hash would protect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SecretHash([u8; 32]);

impl ServiceKey {
    /// A new one.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate() -> anyhow::Result<Self> {
        let (mut id, mut secret) = ([0; ID_BYTES], [0; SECRET_BYTES]);
        OsRng.try_fill_bytes(&mut id)?;
        OsRng.try_fill_bytes(&mut secret)?;
        Ok(Self {
            id: hex(&id),
            secret: Secret::from(hex(&secret).as_str()),
        })
    }

    /// Whether a text is meant to be a service key: no JWT begins like that.
    pub(crate) fn has_prefix(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// Reads one as [`ServiceKey::text`] writes it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        (is_id(id) && is_hex(secret, SECRET_BYTES)).then(|| Self {
            id: id.to_owned(),
            secret: Secret::from(secret),
        })
    }

    /// The whole key, for its holder.
    #[must_use]
    pub fn text(&self) -> Secret {
        Secret::from(format!("{PREFIX}{}_{}", self.id, self.secret.expose()).as_str())
    }

    /// Names it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn hash(&self) -> SecretHash {
        SecretHash(Sha256::digest(self.secret.expose()).into())
    }
}

impl fmt::Debug for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}_{:?}", self.id, self.secret)
    }
}

impl SecretHash {
    /// Reads what [`fmt::Display`] writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if !is_hex(text, 32) {
            return None;
        }
        let mut hash = [0; 32];
        for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = str::from_utf8(digits).ok()?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(Self(hash))
    }

    /// Compares in a time that does not tell how much of the hash is right.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash")
    }
}

/// Whether a text can name a key.
pub(crate) fn is_id(text: &str) -> bool {
    is_hex(text, ID_BYTES)
}

fn is_hex(text: &str, bytes: usize) -> bool {
    let is_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    text.len() == 2 * bytes && text.bytes().all(is_digit)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_reads_back_and_shows_its_id_only() {
        let key = ServiceKey::generate().unwrap();
        let text = key.text();
        let read = ServiceKey::parse(text.expose()).unwrap();
        assert_eq!((read.id(), read.hash()), (key.id(), key.hash()));
        assert!(!format!("{key:?} {text:?}").contains(key.secret.expose()));
        assert_ne!(ServiceKey::generate().unwrap().hash(), key.hash());
    }

    #[test]
    fn the_hash_is_that_of_the_secret_as_it_is_written() {
        let key = ServiceKey::parse(&format!("tmk_00112233aabb_{}", "0f".repeat(32))).unwrap();
        let expected = Sha256::digest("0f".repeat(32));
        assert_eq!(key.hash().to_string(), hex(&expected));
        assert_eq!(SecretHash::parse(&hex(&expected)), Some(key.hash()));
    }

    proptest! {
        #[test]
        fn one_changed_character_is_another_key_or_none(at in 0..81_usize, to in "[ -~]") {
            let text = format!("tmk_00112233aabb_{}", "0f".repeat(32));
            prop_assume!(!text[at..].starts_with(&to));
            let mut changed = text.clone();
            changed.replace_range(at..=at, &to);
            let key = ServiceKey::parse(&text).unwrap();
            if let Some(other) = ServiceKey::parse(&changed) {
                prop_assert!(other.id() != key.id() || !other.hash().is(&key.hash()));
            }
        }

        #[test]
        fn anything_may_be_meant_as_a_key(text in "(tmk_)?.{0,100}") {
            let _ = ServiceKey::parse(&text);
            let _ = SecretHash::parse(&text);
        }
    }
}
