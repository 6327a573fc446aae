//! Messages of some hundred conversations, the same at every run.

use schemas::{
    ChangeGroup, CreateGroup, GroupAction, GroupId, HashKey, MAX_NAMED_USERS, Recipient,
    TimestampMs, UserId,
    command::{Command, Control, SendMessage},
    event::{KNOWN_RULE_VERSION, Rules, Source, SourceOffset},
    proto::{self, ingest_event},
};
use sequencer::core::change;
use word_filter::{Checked, WordFilter};

/// When all messages were sent.
pub(crate) const TS: TimestampMs = TimestampMs(1_763_000_000_000);

const TEXT: &str = "The tide rises, the tide falls, the twilight darkens, the curlew calls; along the sea-sands \
    damp and brown the traveller hastens toward the town";

/// Sends of conversations of one partition.
pub(crate) fn sends(partition: i64, count: usize) -> Vec<SendMessage> {
    let send = |number: i64| {
        let srcid = 1 + number * 7 % 97;
        // (srcid + destid) mod 64 is the partition.
        let destid = 64 * (2 + number * 5 % 11) + (partition - srcid).rem_euclid(64);
        SendMessage {
            by_user: false,
            srcid: srcid.try_into().expect("a uid"),
            to: Recipient::User(destid.try_into().expect("a uid")),
            client_msg_id: format!("measured-{number}").try_into().expect("an id"),
            msg: TEXT.to_owned(),
        }
    };
    (0..count as i64).map(send).collect()
}

/// Sends of the first members of the group of a partition.
pub(crate) fn sends_to_group(partition: i64, count: usize) -> Vec<Command> {
    let send = |number: i64| {
        Command::Send(SendMessage {
            by_user: false,
            srcid: user(1 + number % 10),
            to: Recipient::Group(gid(partition)),
            client_msg_id: format!("measured-{number}").try_into().expect("an id"),
            msg: TEXT.to_owned(),
        })
    };
    (0..count as i64).map(send).collect()
}

/// The group of a partition: the users from 1 on, of whom the first is the owner.
pub(crate) fn group(partition: i64, members: i64) -> Vec<Command> {
    let create = GroupAction::Create(CreateGroup {
        name: "Lunch".to_owned(),
        members: Vec::new(),
        open: false,
        whole_history: false,
        client_id: None,
    });
    let others: Vec<UserId> = (2..=members).map(user).collect();
    let adds = others.chunks(MAX_NAMED_USERS);
    let adds = adds.map(|some| GroupAction::Add(some.to_vec()));
    let actions = [create].into_iter().chain(adds);
    actions
        .map(|action| in_group(partition, user(1), action))
        .collect()
}

fn in_group(partition: i64, by: UserId, action: GroupAction) -> Command {
    Command::ChangeGroup(ChangeGroup {
        gid: gid(partition),
        by,
        by_user: false,
        action,
    })
}

fn gid(partition: i64) -> GroupId {
    GroupId::try_from(6400 + partition).expect("a gid")
}

fn user(uid: i64) -> UserId {
    uid.try_into().expect("a uid")
}

/// 100,000 words of 4 to 9 letters, none of which the texts have.
pub(crate) fn word_filter() -> WordFilter {
    let mut random = 1_u64;
    let mut letter = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'a' + (random >> 33) as u8 % 26)
    };
    let mut word = |n: usize| {
        format!(
            "mask {}q\n",
            (0..3 + n % 6).map(|_| letter()).collect::<String>()
        )
    };
    let words: String = (0..100_000).map(&mut word).collect();
    WordFilter::parse(&words).expect("a dictionary")
}

/// How many of the texts have none of the words.
pub(crate) fn clean(filter: &WordFilter, texts: &[String]) -> usize {
    let checked = texts.iter().map(|text| filter.check(text));
    checked.filter(|checked| *checked == Checked::Clean).count()
}

/// The rules with which a new installation begins, but with large groups.
pub(crate) fn newest_rules() -> Rules {
    let control = Control {
        rule_version: Some(KNOWN_RULE_VERSION),
        hash_key: Some(vec![7; HashKey::BYTES]),
        max_group_members: Some(100_000),
        ..Control::default()
    };
    change(Rules::VERSION_1, &control).expect("the rules are right")
}

/// The body of a batch.
pub(crate) fn ndjson(sends: &[SendMessage]) -> Vec<u8> {
    let line = |send: &SendMessage| {
        let SendMessage {
            by_user: _,
            srcid,
            to,
            client_msg_id,
            msg,
        } = send;
        let Recipient::User(destid) = to else {
            unreachable!("the traffic is between users");
        };
        let id = client_msg_id.as_str();
        format!(
            "{{\"message\":{{\"srcid\":\"{srcid}\",\"destid\":\"{destid}\",\"client_msg_id\":\"{id}\",\"msg\":\"{msg}\"}}}}\n"
        )
    };
    sends.iter().map(line).collect::<String>().into_bytes()
}

/// The same batch, as length-delimited protobuf.
pub(crate) fn protobuf(sends: &[SendMessage]) -> Vec<u8> {
    let mut body = Vec::new();
    for send in sends {
        let event = ingest_event::Event::Message(proto::SendMessage::from(send.clone()));
        let item = proto::IngestEvent {
            event: Some(event),
            command_id: String::new(),
        };
        prost::Message::encode_length_delimited(&item, &mut body).expect("a Vec grows as needed");
    }
    body
}

pub(crate) fn source(offset: i64) -> Source {
    Source {
        offset: SourceOffset { epoch: 0, offset },
        leader_epoch: 0,
    }
}
