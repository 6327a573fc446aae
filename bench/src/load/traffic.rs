//! Generated messages: every run has ids of its own.

use std::{
    fmt,
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use anyhow::Result;
use prost::Message as _;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use schemas::{
    DirectConversation, Partition, Recipient, UserId,
    command::{Command, SendMessage},
    proto::{self, ingest_event},
};

use super::real;

/// The uids of measured messages begin here; no other users have such uids.
const FIRST_UID: i64 = 9_000_000_000;
/// How many users there are.
const USERS: u64 = 20_000;
/// To how many others each user writes.
const PEERS: u64 = 20;
/// With the ids around it, a text of this many bytes makes a record of about 200.
const TEXT_BYTES: usize = 144;
/// The bytes of words from which texts are cut.
const WORDS_BYTES: usize = 1 << 16;

/// Generates messages; clones continue the same numbering.
#[derive(Clone)]
pub(crate) struct Traffic {
    run: u64,
    next: Arc<AtomicU64>,
    words: Arc<str>,
    pairs: Pairs,
}

/// The senders and receivers.
#[derive(Clone)]
enum Pairs {
    /// 20,000 users to 20 others each, in the partitions below `partitions`.
    Many { partitions: u64 },
    /// Each of the senders to each of the receivers, in turn.
    Each { senders: u64, receivers: u64 },
    /// These pairs, over and over.
    Given(Arc<[(u64, u64)]>),
}

/// A message.
#[derive(Clone, Copy)]
pub(crate) struct NewMessage<'a> {
    pub(crate) srcid: i64,
    pub(crate) destid: i64,
    id: ClientMsgId,
    text: &'a str,
}

/// The run and the number of the message in it.
#[derive(Clone, Copy)]
struct ClientMsgId {
    run: u64,
    number: u64,
}

impl fmt::Display for ClientMsgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}-{}", self.run, self.number)
    }
}

impl Traffic {
    /// Traffic in all partitions.
    pub(crate) fn new() -> Self {
        Self::of_partitions(64)
    }

    /// Traffic in the partitions below `partitions`.
    pub(crate) fn of_partitions(partitions: u64) -> Self {
        Self::of_pairs(Pairs::Many { partitions })
    }

    /// Traffic from each of the first `senders` users to each of `receivers` others, in turn.
    pub(crate) fn each_to_each(senders: u64, receivers: u64) -> Self {
        Self::of_pairs(Pairs::Each { senders, receivers })
    }

    /// Traffic between users who write to each other in a real network, over and over.
    ///
    /// # Errors
    /// If the data file is damaged.
    pub(crate) fn real() -> Result<Self> {
        Ok(Self::of_pairs(Pairs::Given(real::pairs()?.into())))
    }

    fn of_pairs(pairs: Pairs) -> Self {
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self {
            run: since.as_millis() as u64,
            next: Arc::default(),
            words: words().into(),
            pairs,
        }
    }

    /// The next message.
    pub(crate) fn next_message(&self) -> NewMessage<'_> {
        self.nth(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// The message with this number.
    pub(crate) fn nth(&self, number: u64) -> NewMessage<'_> {
        let (from, to) = self.pairs.of(number);
        let at = (number.wrapping_mul(31) as usize) % (WORDS_BYTES - TEXT_BYTES);
        NewMessage {
            srcid: FIRST_UID + from.cast_signed(),
            destid: FIRST_UID + to.cast_signed(),
            id: ClientMsgId {
                run: self.run,
                number,
            },
            text: &self.words[at..at + TEXT_BYTES],
        }
    }
}

impl Pairs {
    /// The sender and the receiver of a message, counted from the first user.
    fn of(&self, number: u64) -> (u64, u64) {
        match self {
            Self::Given(pairs) => pairs[number as usize % pairs.len()],
            Self::Many { partitions } => {
                let from = number.wrapping_mul(7_919) % USERS;
                // Each user has written to one peer before the next peers come.
                let peer = number / USERS % PEERS;
                let near = from + 1 + peer * 64;
                // Makes (from + to) mod 64 less than `partitions`.
                (from, near + 64 - (from + near) % 64 + number % partitions)
            }
            Self::Each { senders, receivers } => {
                let pair = number % (senders * receivers);
                (pair % senders, senders + pair / senders)
            }
        }
    }
}

impl NewMessage<'_> {
    /// Writes the message as a line of an NDJSON batch.
    pub(crate) fn write_line(&self, line: &mut Vec<u8>) {
        line.extend_from_slice(b"{\"message\":");
        self.write_json(line);
        line.extend_from_slice(b"}\n");
    }

    /// Writes the message as the body of a single post.
    pub(crate) fn write_json(&self, body: &mut Vec<u8>) {
        let Self {
            srcid,
            destid,
            id: client_msg_id,
            text,
        } = self;
        // Writing to a vector does not fail, and the words need no escapes.
        let _ = write!(
            body,
            r#"{{"srcid":"{srcid}","destid":"{destid}","client_msg_id":"{client_msg_id}","msg":"{text}"}}"#
        );
    }

    /// Writes the message as an item of a protobuf batch.
    pub(crate) fn write_item(&self, items: &mut Vec<u8>) {
        let message = proto::SendMessage {
            gid: 0,
            by_user: false,
            srcid: self.srcid,
            destid: self.destid,
            client_msg_id: self.id.to_string(),
            msg: self.text.to_owned(),
        };
        let item = proto::IngestEvent {
            event: Some(ingest_event::Event::Message(message)),
            command_id: String::new(),
        };
        // Writing to a vector does not fail.
        let _ = item.encode_length_delimited(items);
    }

    /// Writes the message as a row of `chat_msg_<table>`, tab-separated.
    ///
    /// # Errors
    /// If the writer fails.
    pub(crate) fn write_row(
        &self,
        row: &mut impl Write,
        id: usize,
        mid: i64,
        ts: &str,
        table: usize,
    ) -> io::Result<()> {
        let Self {
            srcid,
            destid,
            id: client_msg_id,
            text,
        } = self;
        writeln!(
            row,
            "{id}\t{srcid}\t{destid}\t{mid}\t{text}\t{ts}\t{table}\t{client_msg_id}\t{mid}"
        )
    }

    /// The partition of the message's conversation, which is the number of its table.
    ///
    /// # Errors
    /// If the message is invalid.
    pub(crate) fn partition(&self) -> Result<Partition> {
        let conversation = DirectConversation::new(self.srcid.try_into()?, self.destid.try_into()?);
        Ok(conversation.partition())
    }

    /// The message's record, as ingest appends it.
    ///
    /// # Errors
    /// If the message is invalid.
    pub(crate) fn record(&self) -> Result<Record> {
        let send = SendMessage {
            by_user: false,
            srcid: UserId::try_from(self.srcid)?,
            to: Recipient::User(UserId::try_from(self.destid)?),
            client_msg_id: self.id.to_string().try_into()?,
            msg: self.text.to_owned(),
        };
        let conversation = send.conversation();
        Ok(Record {
            partition: conversation.partition(),
            key: conversation.to_string(),
            value: Command::Send(send).encode(),
        })
    }
}

/// A record of `chat.inbound`.
pub(crate) struct Record {
    pub(crate) partition: Partition,
    pub(crate) key: String,
    pub(crate) value: Vec<u8>,
}

/// 2,000 words, the first ones more frequent than the later ones: about as easy to compress as text by people.
fn words() -> String {
    let mut rng = StdRng::seed_from_u64(17);
    let vocabulary: Vec<String> = (0..2_000)
        .map(|_| {
            let letters = rng.random_range(2..10);
            (0..letters).map(|_| rng.random_range('a'..='z')).collect()
        })
        .collect();
    let mut text = String::with_capacity(WORDS_BYTES + 16);
    while text.len() < WORDS_BYTES {
        let rank = rng.random_range(0.0_f64..1.0).powi(3) * vocabulary.len() as f64;
        text.push_str(&vocabulary[rank as usize]);
        text.push(' ');
    }
    text.truncate(WORDS_BYTES);
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn messages_are_in_the_partitions_that_they_are_for() {
        let traffic = Traffic::of_partitions(16);
        let found: BTreeSet<u8> = (0..1_000)
            .map(|_| traffic.next_message().record().unwrap().partition.get())
            .collect();
        assert_eq!(found, (0..16).collect());
    }

    #[test]
    fn everybody_writes_to_many_others() {
        for partitions in [1, 16, 64] {
            let pairs = Pairs::Many { partitions };
            let direct = |number| {
                let (from, to) = pairs.of(number);
                (from.min(to), from.max(to))
            };
            let found: BTreeSet<(u64, u64)> = (0..USERS * PEERS).map(direct).collect();
            let most = USERS * PEERS;
            let count = found.len() as u64;
            assert!(
                (most * 9 / 10..=most).contains(&count),
                "{partitions}: {count}"
            );
        }
    }

    #[test]
    fn a_record_has_about_200_bytes() {
        let record = Traffic::new().next_message().record().unwrap();
        let bytes = record.key.len() + record.value.len();
        assert!((180..220).contains(&bytes), "{bytes}");
    }
}
