//! The JSON bodies, as producers write them.

#[cfg(test)]
mod group_tests;

use api::{
    ContactChangeBody, EventBody, GroupBody, GroupChangeBody, MessageBody, MessageChangeBody,
    Object, ProfileBody, ReactionBody, ReadAckBody, UserProfileBody,
};
use posting::{Post, check_length, invalid_field};
use problem::{Problem, json::BYTE_ORDER_MARK};
use schemas::{
    GroupId, UserId,
    command::{Command, Malformed},
};
use serde::de;

/// Reads the body of a call that posts one event; `post` makes a post of it.
pub(crate) fn single<T: de::DeserializeOwned>(
    body: &[u8],
    post: impl FnOnce(T) -> Result<Post, Problem>,
) -> Result<Post, Problem> {
    let Object(body) = parse(body)?;
    post(body)
}

/// Reads the body of `PUT /v1/users/{uid}/profile`.
pub(crate) fn profile(uid: UserId, body: &[u8]) -> Result<Post, Problem> {
    let Object(body): Object<ProfileBody> = parse(body)?;
    set_profile(body.of(uid))
}

/// Reads the body of `POST /v1/groups/{gid}/changes`.
pub(crate) fn group_change(gid: GroupId, body: &[u8]) -> Result<Post, Problem> {
    let Object(body): Object<GroupChangeBody> = parse(body)?;
    if let Some(given) = body.gid.filter(|given| *given != gid) {
        return Err(Problem::invalid_field(
            "gid",
            format_args!("is {given}"),
            format_args!("{gid}, as in the path, or absent"),
        ));
    }
    change_group(GroupChangeBody {
        gid: Some(gid),
        ..body
    })
}

/// Reads the member of a line; the list names each. `Err` has how many members are given, and the names of all.
macro_rules! read_member {
    ($body:ident, $($member:ident: $read:expr,)+) => {{
        let given = [$($body.$member.is_some()),+];
        let count = given.into_iter().filter(|given| *given).count();
        $(if let (1, Some(body)) = (count, $body.$member) {
            Ok((stringify!($member), $read(body.0)))
        } else)+ {
            Err((count, [$(stringify!($member)),+].join(", ")))
        }
    }};
}

/// Reads one line of `POST /v1/events`.
pub(crate) fn event(line: &[u8], max_msg_bytes: usize) -> Result<Post, Problem> {
    let Object(body): Object<EventBody> = parse(line)?;
    let read = read_member!(body,
        message: |body| message(body, max_msg_bytes),
        read_ack: read_ack,
        message_change: |body| message_change(body, max_msg_bytes),
        reaction: reaction,
        contact_change: contact_change,
        profile: set_profile,
        group: group,
        group_change: change_group,
    );
    let (member, post) = read.map_err(|(count, members)| {
        let wrong = if count == 0 {
            "has none"
        } else {
            "has several"
        };
        let right = format_args!("an object with one of {members}");
        Problem::invalid_field("body", wrong, right)
    })?;
    let mut post = post.map_err(|problem| problem.within(member))?;
    post.identify(None)?;
    Ok(post)
}

/// The post of a command that is not a message.
fn command<C: Into<Command>>(
    command: Result<C, Malformed>,
    id: Option<String>,
) -> Result<Post, Problem> {
    let command = command.map_err(invalid_field)?.into();
    command.kind().check_posted().map_err(invalid_field)?;
    Post::from(command).with_command_id(id)
}

/// UTF-8 is checked once for the whole text: that is cheaper than for each string, and the parser would report a syntax error. Tracking the
/// path to a field costs time, so only a text that was refused is parsed again with it.
fn parse<T: de::DeserializeOwned>(text: &[u8]) -> Result<T, Problem> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let utf8 = str::from_utf8(text).map_err(|error| {
        let byte = error.valid_up_to() + 1;
        Problem::invalid_json(format_args!("byte {byte} is not UTF-8"))
    })?;
    serde_json::from_str(utf8).map_err(|_| match problem::json::from_slice::<T>(text) {
        Err(problem) => problem,
        Ok(_) => Problem::invalid_json("it is not valid"),
    })
}

pub(crate) fn message(body: MessageBody, max_msg_bytes: usize) -> Result<Post, Problem> {
    check_length(&body.msg, max_msg_bytes)?;
    let (send, generated) = body.into_command().map_err(invalid_field)?;
    Ok(Post::message(send, generated))
}

pub(crate) fn read_ack(mut body: ReadAckBody) -> Result<Post, Problem> {
    let id = body.command_id.take();
    command(body.into_command(), id)
}

pub(crate) fn message_change(
    mut body: MessageChangeBody,
    max_msg_bytes: usize,
) -> Result<Post, Problem> {
    let id = body.command_id.take();
    let change = body.into_command().map_err(invalid_field)?;
    check_length(change.change.msg().unwrap_or_default(), max_msg_bytes)?;
    command(Ok(change), id)
}

pub(crate) fn reaction(mut body: ReactionBody) -> Result<Post, Problem> {
    let id = body.command_id.take();
    command(body.into_command(), id)
}

pub(crate) fn contact_change(mut body: ContactChangeBody) -> Result<Post, Problem> {
    if body.deleted == Some(false) {
        return Err(Problem::unprocessable_field(
            "deleted",
            "is false, and a deleted contact comes back with its next message",
            "true or absent",
        ));
    }
    let id = body.command_id.take();
    command(body.into_command(), id)
}

fn set_profile(mut body: UserProfileBody) -> Result<Post, Problem> {
    let id = body.command_id.take();
    Post::profile(body.into_command())?.with_command_id(id)
}

pub(crate) fn group(mut body: GroupBody) -> Result<Post, Problem> {
    let id = body.command_id.take();
    command(body.into_command(), id)
}

fn change_group(mut body: GroupChangeBody) -> Result<Post, Problem> {
    let id = body.command_id.take();
    command(body.into_command(), id)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use schemas::{
        Change, ChangeContact, ChangeMessage, ConversationId, Mid, Recipient, command::Command,
    };
    use serde_json::json;

    use super::*;

    const MAX: usize = 16;

    fn field_at_fault(line: &str) -> (String, String) {
        let problem = event(line.as_bytes(), MAX).unwrap_err();
        assert_eq!(problem.errors.len(), 1, "{line}: {problem:?}");
        let error = problem.errors[0].clone();
        (error.field, error.message)
    }

    #[test]
    fn a_text_has_a_limit_that_counts_bytes_and_is_exact() {
        let posted = |line: serde_json::Value| event(line.to_string().as_bytes(), 4);
        let edit = json!({ "by": "1", "peer": "2", "mid": 1, "kind": "edit" });
        for (member, mut body) in [
            ("message", json!({ "srcid": "1", "destid": "2" })),
            ("message_change", edit),
        ] {
            let mut post = |msg: &str| {
                body["msg"] = msg.into();
                posted(json!({ member: body }))
            };
            assert!(post("üü").is_ok());
            for (msg, wrong) in [
                ("üüa", "has 5 bytes; must be 1 to 4 bytes of UTF-8"),
                ("", "is empty; must be at least one byte"),
                ("\0", "has a NUL character; must be UTF-8 without NUL"),
            ] {
                assert_eq!(post(msg).unwrap_err().errors[0].message, wrong);
            }
        }
    }

    #[test]
    fn a_missing_id_is_generated_and_a_given_one_is_kept() {
        let body = |id: &str| format!(r#"{{"srcid":"1","destid":"2",{id}"msg":"a"}}"#);
        let post = single(body("").as_bytes(), |body| message(body, MAX)).unwrap();
        let generated = post.generated_id.unwrap();
        assert_eq!(generated.get_version_num(), 7);
        assert_eq!(post.retry_id().client_msg_id, Some(generated.to_string()));
        let given = body(r#""client_msg_id":"mine","#);
        let post = single(given.as_bytes(), |body| message(body, MAX)).unwrap();
        assert_eq!(post.generated_id, None);
        assert_eq!(post.retry_id().client_msg_id.as_deref(), Some("mine"));
    }

    #[test]
    fn the_field_at_fault_is_named() {
        let message = |fields: &str| {
            format!(r#"{{"message":{{"srcid":"1","destid":"2","msg":"a",{fields}}}}}"#)
        };
        let ack = |fields: &str| format!(r#"{{"read_ack":{{"uid":"1","peer":"2",{fields}}}}}"#);
        let change =
            |fields: &str| format!(r#"{{"message_change":{{"by":"1","peer":"2",{fields}}}}}"#);
        let reaction =
            |fields: &str| format!(r#"{{"reaction":{{"by":"1","peer":"2","mid":3{fields}}}}}"#);
        let contact =
            |fields: &str| format!(r#"{{"contact_change":{{"uid":"1","peer":"1",{fields}}}}}"#);
        let profile = |fields: &str| format!(r#"{{"profile":{{"uid":"1",{fields}}}}}"#);
        let cases = [
            (message(r#""extra":1"#), "message.extra"),
            (message(r#""client_msg_id":5"#), "message.client_msg_id"),
            (message(r#""client_msg_id":"""#), "message.client_msg_id"),
            (
                r#"{"message":{"destid":"2","msg":"a"}}"#.into(),
                "message.srcid",
            ),
            (
                r#"{"message":{"srcid":0,"destid":"2","msg":"a"}}"#.into(),
                "message.srcid",
            ),
            (
                r#"{"message":{"srcid":9007199254740993,"destid":"2","msg":"a"}}"#.into(),
                "message.srcid",
            ),
            (
                r#"{"message":{"srcid":"9223372036854775808","destid":"2","msg":"a"}}"#.into(),
                "message.srcid",
            ),
            (
                r#"{"message":{"srcid":"1","destid":1.5,"msg":"a"}}"#.into(),
                "message.destid",
            ),
            (
                r#"{"message":{"srcid":"1","destid":"2","msg":["a"]}}"#.into(),
                "message.msg",
            ),
            (
                r#"{"message":{"srcid":"1","destid":"2","msg":"12345678901234567"}}"#.into(),
                "message.msg",
            ),
            (
                r#"{"message":{"srcid":"1","destid":"2","msg":"a\u0000b"}}"#.into(),
                "message.msg",
            ),
            (ack(r#""device":"tv""#), "read_ack.device"),
            (ack(r#""device":1"#), "read_ack.device"),
            (ack(r#""mid":1"#), "read_ack.device"),
            (ack(r#""device":"pc","mid":0"#), "read_ack.mid"),
            (ack(r#""device":"pc","mid":-1"#), "read_ack.mid"),
            (ack(r#""device":"pc","mid":1.5"#), "read_ack.mid"),
            (ack(r#""device":"pc","mid":"newest""#), "read_ack.mid"),
            (ack(r#""device":"pc","mid":"01""#), "read_ack.mid"),
            (
                ack(r#""device":"pc","mid":9223372036854775808"#),
                "read_ack.mid",
            ),
            (reaction(""), "reaction.emoji"),
            (reaction(r#","emoji":null"#), "reaction.emoji"),
            (reaction(r#","emoji":"yes""#), "reaction.emoji"),
            (reaction(r#","emoji":"👍","kind":"react""#), "reaction.kind"),
            (change(r#""mid":3"#), "message_change.kind"),
            (change(r#""mid":3,"kind":"react""#), "message_change.kind"),
            (change(r#""kind":"recall""#), "message_change.mid"),
            (change(r#""mid":3,"kind":"undo""#), "message_change.kind"),
            (change(r#""mid":3,"kind":1"#), "message_change.kind"),
            (change(r#""mid":0,"kind":"recall""#), "message_change.mid"),
            (change(r#""mid":-1,"kind":"recall""#), "message_change.mid"),
            (
                change(r#""mid":"latest","kind":"clear""#),
                "message_change.mid",
            ),
            (change(r#""mid":null,"kind":"clear""#), "message_change.mid"),
            (change(r#""mid":3,"kind":"edit""#), "message_change.msg"),
            (
                change(r#""mid":3,"kind":"edit","msg":"""#),
                "message_change.msg",
            ),
            (
                change(r#""mid":3,"kind":"edit","msg":"a\u0000b""#),
                "message_change.msg",
            ),
            (
                change(r#""mid":3,"kind":"edit","msg":"12345678901234567""#),
                "message_change.msg",
            ),
            (
                change(r#""mid":3,"kind":"hide","msg":"a""#),
                "message_change.msg",
            ),
            (
                change(r#""mid":3,"kind":"hide","chg":1"#),
                "message_change.chg",
            ),
            (
                r#"{"message_change":{"by":"0","peer":"2","mid":3,"kind":"hide"}}"#.into(),
                "message_change.by",
            ),
            (contact(r#""favourite":null"#), "contact_change.favourite"),
            (contact(r#""pinned":1"#), "contact_change.pinned"),
            (contact(r#""muted":"true""#), "contact_change.muted"),
            (contact(r#""blocked":true"#), "contact_change.blocked"),
            (contact(r#""deleted":false"#), "contact_change.deleted"),
            (
                contact(r#""pinned":true,"by_user":true"#),
                "contact_change.by_user",
            ),
            (profile(r#""nick":"""#), "profile.nick"),
            (profile(r#""nick":"a\nb""#), "profile.nick"),
            (profile(r#""avatar":"https://a""#), "profile.nick"),
            (profile(r#""nick":"a","avatar":"a.png""#), "profile.avatar"),
            (profile(r#""nick":"a","extra":[]"#), "profile.extra"),
            (profile(r#""nick":"a","extra":"{}""#), "profile.extra"),
            (
                profile(r#""nick":"a","extra":{"a":"\ud800"}"#),
                "profile.extra",
            ),
            (profile(r#""nick":"a","by_user":true"#), "profile.by_user"),
            (
                r#"{"message":{"srcid":"1","msg":"a"}}"#.into(),
                "message.destid",
            ),
            (message(r#""gid":"5""#), "message.gid"),
            (
                r#"{"message":{"srcid":"1","gid":0,"msg":"a"}}"#.into(),
                "message.gid",
            ),
            (ack(r#""device":"pc","gid":5"#), "read_ack.gid"),
            (
                change(r#""gid":"5","mid":3,"kind":"hide""#),
                "message_change.gid",
            ),
            (r#"{"group":{"owner":"1","name":"a"}}"#.into(), "group.gid"),
            (
                r#"{"group":{"gid":"5","owner":"1","name":""}}"#.into(),
                "group.name",
            ),
            (
                r#"{"group_change":{"by":"1","join":true}}"#.into(),
                "group_change.gid",
            ),
            (
                r#"{"group_change":{"gid":"5","by":"1","rename":""}}"#.into(),
                "group_change.rename",
            ),
            (r#"{"typing":{}}"#.into(), "typing"),
            ("{}".into(), "body"),
            ("[]".into(), "body"),
            (r#"{"message":["1","2",null,"a"]}"#.into(), "message"),
            (r#"{"read_ack":["1","2","pc",1]}"#.into(), "read_ack"),
            (message(r#""srcid":"1""#), "message.srcid"),
        ];
        for (line, field) in cases {
            assert_eq!(field_at_fault(&line).0, field, "{line}");
        }
    }

    #[test]
    fn wrong_and_right_are_both_said() {
        let (_, words) = field_at_fault(r#"{"read_ack":{"uid":"1","peer":"2","device":"tv"}}"#);
        assert_eq!(words, "is string \"tv\"; must be \"pc\" or \"mobile\"");
        let both = r#"{"message":{"srcid":"1","destid":"2","msg":"a"},"read_ack":{"uid":"1","peer":"2","device":"pc"}}"#;
        assert_eq!(
            field_at_fault(both).1,
            "has several; must be an object with one of message, read_ack, message_change, reaction, contact_change, profile, group, group_change"
        );
        let back = r#"{"uid":"1","peer":"2","deleted":false}"#;
        let refused = single(back.as_bytes(), contact_change).unwrap_err();
        assert_eq!(refused.status, 422);
        assert_eq!(
            refused.detail,
            "deleted is false, and a deleted contact comes back with its next message; must be true or absent"
        );
    }

    #[test]
    fn bytes_that_are_not_utf8_are_pointed_at() {
        let problem = event(b"{\"message\":\xff}", MAX).unwrap_err();
        assert_eq!(
            problem.detail,
            "the body is not valid JSON: byte 12 is not UTF-8"
        );
    }

    #[test]
    fn a_mid_is_a_number_a_string_or_everything() {
        for (mid, expected) in [
            ("3", Some(3)),
            ("\"3\"", Some(3)),
            ("9223372036854775807", Some(i64::MAX)),
            ("\"latest\"", None),
            ("null", None),
        ] {
            let body = format!(r#"{{"uid":"1","peer":"2","device":"mobile","mid":{mid}}}"#);
            let post = single(body.as_bytes(), read_ack).unwrap();
            let Command::ReadAck(ack) = post.command else {
                panic!("a read-ack was posted");
            };
            assert_eq!(ack.mid.map(Mid::get), expected, "{mid}");
        }
    }

    #[test]
    fn an_extra_is_kept_as_it_was_written() {
        let extra = r#"{ "b": 1.50, "a": 123456789012345678901234567890, "b":"\u00fc" }"#;
        let uid = UserId::try_from(65).unwrap();
        let body = format!(r#"{{"extra":{extra},"nick":"\u00fc","avatar":null}}"#);
        let line = format!(r#"{{"profile":{{"uid":65,"nick":"ü","extra":{extra}}}}}"#);
        for post in [profile(uid, body.as_bytes()), event(line.as_bytes(), MAX)] {
            let Command::SetProfile(profile) = post.unwrap().command else {
                panic!("a profile was posted");
            };
            assert_eq!((profile.uid, profile.nick.as_str()), (uid, "ü"));
            assert_eq!(
                (profile.avatar, profile.extra.as_deref()),
                (None, Some(extra))
            );
        }
    }

    #[test]
    fn an_extra_that_a_library_would_take_for_something_else_is_refused() {
        let uid = UserId::try_from(65).unwrap();
        for extra in [
            r#"{"$serde_json::private::RawValue":"{}"}"#,
            r#"{"a":{"\u0024serde_json::private::RawValue":"[1]"}}"#,
        ] {
            let body = format!(r#"{{"nick":"a","extra":{extra}}}"#);
            let refused = profile(uid, body.as_bytes()).unwrap_err();
            assert_eq!(refused.errors[0].field, "extra", "{extra}");
            assert!(refused.detail.contains("private"), "{refused}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_a_line() {
        let line = "\u{feff}{\"message\":{\"srcid\":1,\"destid\":2,\"msg\":\"a\"}}";
        assert!(event(line.as_bytes(), 16).is_ok());
    }

    #[test]
    fn an_extra_of_5_kib_is_refused_by_its_name() {
        let uid = UserId::try_from(65).unwrap();
        let body = |length: usize| {
            let extra = "x".repeat(length - 8);
            format!(r#"{{"nick":"a","extra":{{"a":"{extra}"}}}}"#)
        };
        assert!(profile(uid, body(4_096).as_bytes()).is_ok());
        for length in [4_097, 5 * 1_024] {
            let refused = profile(uid, body(length).as_bytes()).unwrap_err();
            assert_eq!(
                (refused.status, refused.errors[0].field.as_str()),
                (422, "extra")
            );
        }
    }

    #[test]
    fn a_change_is_what_was_posted() {
        let command = |line: &str| event(line.as_bytes(), MAX).unwrap().command;
        let line = |kind: &str| {
            format!(r#"{{"message_change":{{"by":"1","peer":2,"mid":"3","kind":{kind}}}}}"#)
        };
        for (kind, change) in [
            (r#""recall""#, Change::Recall),
            (r#""delete","msg":null"#, Change::Delete),
            (
                r#""edit","msg":"1234567890123456""#,
                Change::Edit("1234567890123456".to_owned()),
            ),
            (r#""hide""#, Change::Hide),
            (r#""clear""#, Change::Clear),
        ] {
            let expected = ChangeMessage {
                by: 1.try_into().unwrap(),
                to: Recipient::User(2.try_into().unwrap()),
                mid: 3.try_into().unwrap(),
                change,
            };
            assert_eq!(command(&line(kind)), Command::ChangeMessage(expected));
        }
        let contact = command(
            r#"{"contact_change":{"uid":"1","peer":"2","pinned":false,"muted":null,"blocked":true,"deleted":true}}"#,
        );
        let expected = ChangeContact {
            uid: 1.try_into().unwrap(),
            peer: 2.try_into().unwrap(),
            favourite: None,
            pinned: Some(false),
            muted: None,
            blocked: Some(true),
            deleted: true,
            by_user: false,
        };
        assert_eq!(contact, Command::ChangeContact(expected));
    }

    #[test]
    fn what_names_a_group_is_of_the_group() {
        for line in [
            r#"{"message":{"srcid":"1","gid":"5","msg":"a"}}"#,
            r#"{"read_ack":{"uid":"1","gid":5,"device":"pc"}}"#,
            r#"{"message_change":{"by":"1","gid":"5","mid":3,"kind":"edit","msg":"b"}}"#,
            r#"{"group":{"gid":"5","owner":"1","name":"a"}}"#,
            r#"{"group_change":{"gid":"5","by":"1","leave":true}}"#,
        ] {
            let command = event(line.as_bytes(), MAX).unwrap().command;
            let group = ConversationId::Group(5.try_into().unwrap());
            assert_eq!(command.conversation(), Some(group), "{line}");
        }
    }

    proptest! {
        #[test]
        fn what_was_posted_is_what_is_appended(
            srcid in 1..=i64::MAX,
            destid in 1..=i64::MAX,
            id in "[^\\p{Cc}]{1,16}",
            msg in "[^\0]{1,200}",
        ) {
            let body = json!({
                "srcid": srcid.to_string(), "destid": destid.to_string(), "client_msg_id": id, "msg": msg,
            });
            let post = single(body.to_string().as_bytes(), |body| message(body, 1_000)).unwrap();
            let value = post.command.encode();
            let Command::Send(send) = Command::parse(&value).unwrap() else {
                panic!("a message was posted");
            };
            prop_assert_eq!(send.srcid.get(), srcid);
            prop_assert_eq!(send.to, Recipient::User(destid.try_into().unwrap()));
            prop_assert_eq!(send.client_msg_id.as_str(), id);
            prop_assert_eq!(send.msg, msg);
        }

        #[test]
        fn no_bytes_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = event(&line, MAX);
        }
    }
}
