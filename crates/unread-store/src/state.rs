use std::collections::BTreeMap;

use schemas::{DeviceClass, UserId};

use crate::{Generation, PeerOrdinals, UnreadError};

/// A user's state hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserState {
    /// The slot's generation when the state was written; a state of another generation counts as absent.
    pub generation: Generation,
    /// The lease of the rebuild that is under way, `<nonce>:<end, ms>`; `None` for a complete state.
    pub rebuilding: Option<String>,
    /// All peers, including those without unread messages.
    pub peers: BTreeMap<UserId, PeerOrdinals>,
}

impl UserState {
    /// Unread messages by peer on one class, none at zero: the contents of the view.
    #[must_use]
    pub fn counts(&self, device: DeviceClass) -> BTreeMap<UserId, i64> {
        self.peers
            .iter()
            .filter_map(|(peer, ordinals)| Some((*peer, ordinals.unread(device)?)))
            .filter(|(_, unread)| *unread > 0)
            .collect()
    }

    /// Peers whose unread messages on one class cannot be counted.
    #[must_use]
    pub fn unknown(&self, device: DeviceClass) -> Vec<UserId> {
        self.peers
            .iter()
            .filter(|(_, ordinals)| ordinals.unread(device).is_none())
            .map(|(peer, _)| *peer)
            .collect()
    }

    /// Parses the fields of the hash; `None` if there is no hash.
    pub(crate) fn parse(
        key: &str,
        mut fields: BTreeMap<String, String>,
    ) -> Result<Option<Self>, UnreadError> {
        if fields.is_empty() {
            return Ok(None);
        }
        let generation = fields
            .remove("gen")
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| UnreadError::malformed(key, "no generation"))?;
        let rebuilding = fields.remove("rebuilding");
        let peers = fields
            .iter()
            .map(|(peer, ordinals)| parse_peer(key, peer, ordinals));
        Ok(Some(Self {
            generation,
            rebuilding,
            peers: peers.collect::<Result<_, _>>()?,
        }))
    }
}

/// Parses a field of the hash.
pub(crate) fn parse_peer(
    key: &str,
    peer: &str,
    ordinals: &str,
) -> Result<(UserId, PeerOrdinals), UnreadError> {
    let peer = peer.parse().map_err(|e| UnreadError::malformed(key, e))?;
    let ordinals = ordinals
        .parse()
        .map_err(|e: crate::ordinals::InvalidOrdinals| UnreadError::malformed(key, e))?;
    Ok((peer, ordinals))
}
