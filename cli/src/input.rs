//! Reads the files of `tidemark load`: NDJSON as it is, or lines `sender receiver unix-time`, for which messages are generated.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::{Display, Write as _},
    fs,
    io::Read as _,
    path::Path,
};

use anyhow::Context as _;
use flate2::read::MultiGzDecoder;
use schemas::{
    DeviceClass, DirectConversation, Excerpt, GroupId, Mid, Partition, Recipient, UserId,
    command::{ReadAck, SendMessage},
};
use serde::Deserialize;
use service_runtime::without_mark;
use sha2::{Digest as _, Sha256};

use crate::failure::Failure;

pub(crate) struct Options {
    /// Added to every uid, if messages are generated.
    pub(crate) shift_uids: i64,
    /// Generate read-acks of the receivers.
    pub(crate) acks: bool,
    /// Read only the first lines.
    pub(crate) limit: Option<usize>,
}

/// One event as `POST /v1/events` takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Its number in the file, from 1; generated acks have the numbers after the last line's.
    pub(crate) number: usize,
    /// The partition of its conversation; `None` for a line that ingest will refuse.
    pub(crate) partition: Option<Partition>,
    pub(crate) text: String,
}

impl AsRef<str> for Line {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

/// The events to post: first `events`, in order; then, once all of them are accepted, `acks`.
#[derive(Debug, Default)]
pub(crate) struct Input {
    pub(crate) events: Vec<Line>,
    pub(crate) acks: Vec<Line>,
}

impl Input {
    pub(crate) fn len(&self) -> usize {
        self.events.len() + self.acks.len()
    }
}

/// Reads the file at `path`.
pub(crate) fn read(path: &Path, options: &Options) -> anyhow::Result<Input> {
    let refused =
        |what: &str, why: &dyn Display| Failure::Usage(format!("{what} {}: {why}", path.display()));
    let raw = fs::read(path).map_err(|error| refused("cannot read", &error))?;
    let text =
        unpacked(raw).map_err(|error| refused("there is no text in", &format!("{error:#}")))?;
    let lines = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty());
    let lines = lines.take(options.limit.unwrap_or(usize::MAX));
    if text.trim_start().starts_with('{') {
        if options.acks || options.shift_uids != 0 {
            let why = "it has events: --acks and --shift-uids are for `sender receiver unix-time`";
            return Err(refused("cannot load", &why).into());
        }
        let events = lines.map(|(number, line)| Line {
            number,
            partition: partition_of(line),
            text: line.to_owned(),
        });
        return Ok(Input {
            events: events.collect(),
            acks: Vec::new(),
        });
    }
    let mut generator = Generator::new(&text, options);
    for (number, line) in lines {
        generator
            .add(number, line)
            .with_context(|| format!("{} line {number}", path.display()))?;
    }
    Ok(generator.finish())
}

/// The fields that determine an event's partition: its group, or the two users of a direct conversation, or the user of a profile.
#[derive(Deserialize)]
struct PartitionFields {
    #[serde(default, alias = "srcid", alias = "by", alias = "owner")]
    uid: Option<UserId>,
    #[serde(default, alias = "destid")]
    peer: Option<UserId>,
    #[serde(default)]
    gid: Option<GroupId>,
    /// Of a group that begins, whose gid is derived from its owner and this.
    #[serde(default)]
    client_id: Option<String>,
}

fn partition_of(line: &str) -> Option<Partition> {
    let event: BTreeMap<String, PartitionFields> = serde_json::from_str(line).ok()?;
    match event.into_values().next()? {
        PartitionFields { gid: Some(gid), .. } => Some(gid.partition()),
        PartitionFields {
            uid: Some(owner),
            client_id: Some(client_id),
            ..
        } => Some(GroupId::of_owner(owner, &client_id).partition()),
        PartitionFields {
            uid: Some(uid),
            peer: Some(peer),
            ..
        } => Some(DirectConversation::new(uid, peer).partition()),
        PartitionFields { uid, .. } => uid.map(Partition::of_user),
    }
}

fn unpacked(raw: Vec<u8>) -> anyhow::Result<String> {
    let mut text = String::new();
    if raw.starts_with(&[0x1f, 0x8b]) {
        // Decodes all gzip members of the file: `cat a.gz b.gz`, and programs that pack in parallel, write several.
        MultiGzDecoder::new(raw.as_slice())
            .read_to_string(&mut text)
            .context("it is packed, and cannot be unpacked to its end")?;
    } else {
        text = String::from_utf8(raw)?;
    }
    Ok(without_mark(&text).to_owned())
}

/// Generates messages for lines that only name sender and receiver. Texts and ids follow from the file, so loading it again repeats the same
/// messages and adds nothing.
struct Generator<'a> {
    options: &'a Options,
    /// Distinguishes the messages of one file from those of another.
    file_id: String,
    /// The number of messages of each conversation so far: the newest mid, if no other messages are sent there.
    mids: HashMap<DirectConversation, i64>,
    input: Input,
}

const WORDS: [&str; 24] = [
    "tide", "lamp", "seven", "harbour", "again", "Tuesday", "notes", "lecture", "late", "coffee",
    "library", "bus", "exam", "beach", "guitar", "rain", "answer", "question", "tomorrow",
    "roommate", "pizza", "garden", "photo", "see you",
];

impl<'a> Generator<'a> {
    fn new(text: &str, options: &'a Options) -> Self {
        let digest = Sha256::digest(text.as_bytes());
        let file_id = digest[..4].iter().fold(String::new(), |mut id, byte| {
            write!(id, "{byte:02x}").expect("a String takes everything");
            id
        });
        Self {
            options,
            file_id,
            mids: HashMap::new(),
            input: Input::default(),
        }
    }

    fn add(&mut self, number: usize, line: &str) -> anyhow::Result<()> {
        let mut fields = line.split_ascii_whitespace();
        let mut uid = || -> anyhow::Result<UserId> {
            let field = fields.next();
            let uid: i64 = field.and_then(|field| field.parse().ok()).ok_or_else(|| {
                let wrong = match field {
                    Some(field) => format!("{:?} is no uid", Excerpt(field)),
                    None => "a uid is missing".to_owned(),
                };
                Failure::Usage(format!(
                    "{wrong}; `sender receiver unix-time` is right, or NDJSON from the first line on"
                ))
            })?;
            let shifted = uid.checked_add(self.options.shift_uids);
            let shifted = shifted.ok_or_else(|| {
                let by = self.options.shift_uids;
                Failure::Usage(format!("uid {uid} shifted by {by} is no uid any more"))
            })?;
            UserId::try_from(shifted)
                .map_err(|wrong| Failure::Usage(format!("the uid {wrong}")).into())
        };
        let (sender, receiver) = (uid()?, uid()?);
        let (time, more) = (fields.next(), fields.next());
        if more.is_some() || time.is_none_or(|time| time.parse::<u64>().is_err()) {
            let wrong = more.or(time).unwrap_or_default();
            return Err(Failure::Usage(format!(
                "{:?} is not a unix-time; `sender receiver unix-time` is right",
                Excerpt(wrong)
            ))
            .into());
        }
        let conversation = DirectConversation::new(sender, receiver);
        let line = |text: String| Line {
            number,
            partition: Some(conversation.partition()),
            text,
        };
        let id = format!("{}-{number}", self.file_id);
        let message = SendMessage {
            srcid: sender,
            to: Recipient::User(receiver),
            client_msg_id: id.try_into()?,
            msg: text_of(number as u64),
            by_user: false,
        };
        self.input.events.push(line(client::line(&message.into())));
        let mid = self.mids.entry(conversation).or_default();
        *mid += 1;
        if self.options.acks && sender != receiver {
            let ack = ack_of(number as u64, sender, receiver, *mid);
            self.input.acks.extend(ack.map(line));
        }
        Ok(())
    }

    fn finish(mut self) -> Input {
        let last = self.input.events.last().map_or(0, |line| line.number);
        for (number, ack) in (last + 1..).zip(&mut self.input.acks) {
            ack.number = number;
        }
        self.input
    }
}

fn text_of(number: u64) -> String {
    let mut random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut words = Vec::new();
    for _ in 0..3 + number % 9 {
        random = random.rotate_left(13).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        words.push(WORDS[(random % WORDS.len() as u64) as usize]);
    }
    words.join(" ")
}

/// Acks about every third message: mostly on mobile, sometimes on pc, and sometimes two messages late.
fn ack_of(number: u64, sender: UserId, receiver: UserId, mid: i64) -> Option<String> {
    let (device, lag) = match number % 12 {
        0 | 5 => (DeviceClass::Mobile, 0),
        3 => (DeviceClass::Pc, 0),
        8 => (DeviceClass::Mobile, 2),
        _ => return None,
    };
    let upto = Mid::try_from(mid - lag).ok();
    let mid = upto.filter(|mid| *mid > Mid::ZERO)?;
    let ack = ReadAck {
        uid: receiver,
        to: Recipient::User(sender),
        device,
        mid: Some(mid),
    };
    Some(client::line(&ack.into()))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn generate(text: &str, acks: bool) -> Vec<Line> {
        let options = Options {
            shift_uids: 1_000_000,
            acks,
            limit: None,
        };
        let mut generator = Generator::new(text, &options);
        for (number, line) in (1..).zip(text.lines()) {
            generator.add(number, line).unwrap();
        }
        let Input { mut events, acks } = generator.finish();
        events.extend(acks);
        events
    }

    #[test]
    fn a_file_tells_the_same_story_every_time() {
        let text = "1 2 1082040961\n3 4 1082155839\n2 1 1082155840\n";
        let lines = generate(text, true);
        assert_eq!(lines, generate(text, true));
        assert_eq!(lines.len(), 4);
        let (first, ack) = (&lines[0], &lines[3]);
        assert!(first.text.contains(r#""srcid":"1000001""#), "{first:?}");
        let read = r#""read_ack":{"uid":"1000001","peer":"1000002","device":"pc","mid":2}"#;
        assert!(ack.text.contains(read), "{ack:?}");
        assert_eq!(
            lines.iter().map(|line| line.number).collect::<Vec<_>>(),
            [1, 2, 3, 4]
        );
        assert_eq!(first.partition, ack.partition);
        assert_ne!(generate("1 2 3\n", false)[0], generate("1 2 4\n", false)[0]);
    }

    #[test]
    fn lines_are_numbered_as_in_the_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"\n{\"a\":1}\n\n{\"b\":2}\n{\"c\":3}\n")
            .unwrap();
        let options = Options {
            shift_uids: 0,
            acks: false,
            limit: Some(2),
        };
        let events = read(file.path(), &options).unwrap().events;
        let numbers: Vec<_> = events.iter().map(|line| line.number).collect();
        assert_eq!(numbers, [2, 4]);
    }

    fn read_file(content: &[u8]) -> anyhow::Result<Input> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        let options = Options {
            shift_uids: 0,
            acks: true,
            limit: None,
        };
        read(file.path(), &options)
    }

    #[test]
    fn blank_lines_are_left_out_of_pairs_as_well() {
        let numbers = |text: &str| -> Vec<usize> {
            let input = read_file(text.as_bytes()).unwrap();
            let lines = input.events.iter().chain(&input.acks);
            lines.map(|line| line.number).collect()
        };
        assert_eq!(numbers("1 2 3\n\n2 1 3\n3 4 5\n   \n"), [1, 3, 4, 5]);
        assert_eq!(numbers("\n\n1 2 3\n"), [3, 4]);
        assert!(numbers("").is_empty());
    }

    #[test]
    fn a_packed_file_is_read_to_its_end_or_refused() {
        use flate2::{Compression, write::GzEncoder};

        let packed = |text: &str| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.finish().unwrap()
        };
        let both = [packed("1 2 3\n2 1 3\n"), packed("3 4 5\n")].concat();
        assert_eq!(read_file(&both).unwrap().events.len(), 3);
        for cut in [
            both.len() - 1,
            both.len() - 12,
            packed("1 2 3\n2 1 3\n").len() + 5,
            12,
        ] {
            let refused = read_file(&both[..cut]).unwrap_err();
            assert!(refused.is::<Failure>(), "{cut}: {refused}");
            assert!(refused.to_string().contains("to its end"), "{refused}");
        }
    }

    #[test]
    fn events_of_one_conversation_have_one_partition() {
        let message = r#"{"message":{"srcid":"1001","destid":1000,"client_msg_id":"a","msg":"b"}}"#;
        let ack = r#"{"read_ack":{"uid":"1000","peer":"1001","device":"pc","mid":3}}"#;
        let partition = (2001 % 64).try_into().unwrap();
        assert_eq!(partition_of(message), Some(partition));
        assert_eq!(partition_of(ack), Some(partition));
        let recall = r#"{"message_change":{"by":1001,"peer":"1000","mid":1,"kind":"recall"}}"#;
        assert_eq!(partition_of(recall), Some(partition));
        let pin = r#"{"contact_change":{"uid":"1000","peer":"1001","pinned":true}}"#;
        assert_eq!(partition_of(pin), Some(partition));
        let profile = r#"{"profile":{"uid":"65","nick":"Ann"}}"#;
        assert_eq!(partition_of(profile), Some(1.try_into().unwrap()));
        for line in [
            r#"{"group":{"gid":"65","owner":"7","name":"a"}}"#,
            r#"{"group_change":{"gid":65,"by":"7","join":true}}"#,
            r#"{"message":{"srcid":"7","gid":"65","msg":"a"}}"#,
        ] {
            assert_eq!(partition_of(line), Some(1.try_into().unwrap()), "{line}");
        }
        let derived = GroupId::of_owner(7.try_into().unwrap(), "a").partition();
        let group = r#"{"group":{"owner":"7","client_id":"a","name":"a"}}"#;
        assert_eq!(partition_of(group), Some(derived));
        assert_eq!(partition_of("no JSON"), None);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_line() {
        for text in ["1 2 3\n2 1 4\n", "\u{feff}1 2 3\r\n2 1 4\r\n"] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let options = Options {
                shift_uids: 0,
                acks: false,
                limit: None,
            };
            assert_eq!(read(file.path(), &options).unwrap().len(), 2, "{text:?}");
        }
    }

    #[test]
    fn a_uid_that_is_shifted_too_far_is_refused() {
        let options = Options {
            shift_uids: 1,
            acks: false,
            limit: None,
        };
        let line = "9223372036854775807 2 3";
        let refused = Generator::new(line, &options).add(1, line);
        assert!(refused.unwrap_err().to_string().contains("shifted by 1"));
    }

    #[test]
    fn a_line_that_is_not_sender_receiver_time_is_refused() {
        let options = Options {
            shift_uids: 0,
            acks: false,
            limit: None,
        };
        for line in [
            "1", "a b 3", "0 1 2", "-5 1 2", "", "1 2", "1 2 x", "1 2 -3", "1 2 3 4",
        ] {
            let refused = Generator::new(line, &options).add(1, line).unwrap_err();
            assert!(refused.is::<Failure>(), "{line:?}: {refused}");
        }
    }
}
