use std::fmt;

use crate::InvalidValue;

/// The key of the sequencer's hashes (PROTOCOL S3). It comes from the log, so that all owners of a partition agree. It is never printed: anybody who
/// knows it could search for messages with equal hashes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey([u8; Self::BYTES]);

impl HashKey {
    /// Its length.
    pub const BYTES: usize = 16;

    /// The key itself.
    #[must_use]
    pub fn bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

impl From<[u8; Self::BYTES]> for HashKey {
    fn from(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }
}

impl TryFrom<&[u8]> for HashKey {
    type Error = InvalidValue;

    fn try_from(bytes: &[u8]) -> Result<Self, InvalidValue> {
        bytes.try_into().map(Self).map_err(|_| {
            let (given, right) = (bytes.len(), Self::BYTES);
            InvalidValue::new(format!("has {given} bytes; must be {right} random bytes"))
        })
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey")
    }
}
