//! The hashes of sends and of other commands. The hash of a send covers its fields; that of another command covers [`schemas::Command::content`], the
//! same bytes in every version of the program. It does not cover the record's bytes, whose encoding may differ for equal fields.

use std::{hash::Hasher as _, mem};

use schemas::{CommandScope, ConversationId, HashKey};
use siphasher::sip128::{Hasher128 as _, SipHasher13};

use super::{RepeatId, SendFields, number_of};

/// SipHash-1-3 with 128 bits over (srcid, destid or gid, client_msg_id), which name the conversation and the sender as well. All but the last have
/// a fixed length, so that different triples have different encodings.
pub(super) struct KeyedId(SipHasher13);

/// This bit in the author's number marks the id of a command that is not a send. No uid has it.
const IS_COMMAND: u64 = 1 << 63;

impl KeyedId {
    pub(super) fn new(key: &HashKey, send: SendFields<'_>) -> Self {
        let author = send.srcid.get().cast_unsigned();
        Self::of(key, author, number_of(send.to), send.client_msg_id.as_str())
    }

    /// The id of a command other than a send. 0, which is not a uid, stands for an absent author or recipient.
    pub(super) fn of_command(key: &HashKey, scope: CommandScope, id: RepeatId<'_>) -> Self {
        let author = scope.author.map_or(0, |uid| uid.get().cast_unsigned()) | IS_COMMAND;
        let to = scope.to.map_or(0, number_of);
        match id {
            RepeatId::Given(id) => Self::of(key, author, to, id.as_str()),
            // An id never contains NUL.
            RepeatId::Hide(mid) => Self::of(key, author, to, &format!("\0hide{mid}")),
            RepeatId::Clear(mid) => Self::of(key, author, to, &format!("\0clear{mid}")),
        }
    }

    fn of(key: &HashKey, author: u64, to: u64, id: &str) -> Self {
        let mut hasher = SipHasher13::new_with_key(key.bytes());
        let users = u128::from(to) << 64 | u128::from(author);
        hasher.write(&users.to_le_bytes());
        hasher.write(id.as_bytes());
        Self(hasher)
    }

    /// The first 96 bits.
    pub(super) fn key(&self) -> [u32; 3] {
        let hash = self.0.finish128();
        [hash.h1 as u32, (hash.h1 >> 32) as u32, hash.h2 as u32]
    }

    /// The first 32 bits of the hash of the id and, after it, the text.
    pub(super) fn payload_hash(mut self, msg: &str) -> u32 {
        self.0.write(msg.as_bytes());
        self.0.finish128().h1 as u32
    }

    /// The first 32 bits of the hash of the id and, after it, the command's content. A NUL, which no id has, separates the two.
    pub(super) fn content_hash(mut self, content: &[u8]) -> u32 {
        self.0.write(&[0]);
        self.0.write(content);
        self.0.finish128().h1 as u32
    }
}

/// BLAKE3 over (conversation, sender, client_msg_id), cut to 16 bytes: the key of rule version 1.
pub(super) fn unkeyed(send: SendFields<'_>) -> [u8; 16] {
    let [lo, hi] = match send.to.conversation_with(send.srcid) {
        ConversationId::Direct(direct) => [direct.lo().get(), direct.hi().get()],
        // 0 is not a uid.
        ConversationId::Group(gid) => [0, gid.get()],
    };
    let [lo, hi] = [lo, hi].map(i64::to_le_bytes);
    let sender = send.srcid.get().to_le_bytes();
    let id = send.client_msg_id.as_str().as_bytes();
    blake3_of(&[&lo, &hi, &sender, id])
}

/// BLAKE3 over (srcid, destid or gid, msg), cut to 8 bytes.
pub(super) fn unkeyed_payload(send: SendFields<'_>) -> u64 {
    let srcid = send.srcid.get().to_le_bytes();
    let destination = number_of(send.to).to_le_bytes();
    u64::from_le_bytes(blake3_of(&[&srcid, &destination, send.msg.as_bytes()]))
}

/// The first bytes, at most 32, of BLAKE3 over the pieces. Short pieces are copied together first: one call of the hash costs half as much as
/// one for each piece.
fn blake3_of<const N: usize>(pieces: &[&[u8]]) -> [u8; N] {
    const SHORT: usize = 512;
    let mut gathered = [0; SHORT];
    let mut rest = gathered.as_mut_slice();
    for piece in pieces {
        let Some((place, behind)) = mem::take(&mut rest).split_at_mut_checked(piece.len()) else {
            let mut hasher = blake3::Hasher::new();
            for piece in pieces {
                hasher.update(piece);
            }
            return cut(&hasher.finalize());
        };
        place.copy_from_slice(piece);
        rest = behind;
    }
    let length = SHORT - rest.len();
    cut(&blake3::hash(&gathered[..length]))
}

fn cut<const N: usize>(hash: &blake3::Hash) -> [u8; N] {
    std::array::from_fn(|i| hash.as_bytes()[i])
}

#[cfg(test)]
mod tests {
    use schemas::{ClientMsgId, CommandId, Mid, Recipient};

    use super::*;

    #[test]
    fn pieces_are_hashed_as_one() {
        let text = [7_u8; 2_000];
        for lengths in [[0, 0], [8, 100], [8, 504], [8, 505], [513, 0], [600, 900]] {
            let [first, second] = lengths.map(|length| &text[..length]);
            let whole = blake3::hash(&[first, second].concat());
            assert_eq!(
                &blake3_of::<32>(&[first, second]),
                whole.as_bytes(),
                "{lengths:?}"
            );
        }
    }

    /// Every owner of a partition must have the same hashes on any machine: these values came from another implementation.
    #[test]
    fn hashes_are_the_same_everywhere() {
        let client_msg_id: ClientMsgId = "measured-1".to_owned().try_into().unwrap();
        let send = SendFields {
            srcid: 1001.try_into().unwrap(),
            to: Recipient::User(i64::MAX.try_into().unwrap()),
            client_msg_id: &client_msg_id,
            msg: "Are you there? \u{1f30a}",
        };
        let key = HashKey::from(std::array::from_fn(|i| i as u8));
        let id = KeyedId::new(&key, send);
        assert_eq!(id.key(), [0xad44_8bb8, 0x94dc_a207, 0x940d_6d17]);
        assert_eq!(id.payload_hash(send.msg), 0xa9c1_3c56);
    }

    #[test]
    fn a_command_has_another_hash_than_a_send_with_the_same_id() {
        let client_msg_id: ClientMsgId = "same".to_owned().try_into().unwrap();
        let command_id = CommandId::try_from("same".to_owned()).unwrap();
        let send = SendFields {
            srcid: 1.try_into().unwrap(),
            to: Recipient::User(2.try_into().unwrap()),
            client_msg_id: &client_msg_id,
            msg: "a",
        };
        let key = HashKey::from([7; HashKey::BYTES]);
        let of = |author, to, id| {
            let scope = CommandScope { author, to };
            KeyedId::of_command(&key, scope, id).key()
        };
        let (author, to) = (Some(send.srcid), Some(send.to));
        let (given, mid) = (RepeatId::Given(&command_id), Mid::ZERO.next());
        let mut keys = vec![
            KeyedId::new(&key, send).key(),
            of(author, to, given),
            of(author, None, given),
            of(None, None, given),
            of(author, to, RepeatId::Hide(mid)),
            of(author, to, RepeatId::Clear(mid)),
        ];
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 6);
    }
}
