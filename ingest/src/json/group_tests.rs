use schemas::{ChangeGroup, GroupAction, GroupRole, SetGroupOptions};

use super::*;

const GID: &str = "5000";

fn changed(fields: &str) -> Result<ChangeGroup, Problem> {
    let body = format!(r#"{{"by":"1000",{fields}}}"#);
    group_change(GID.parse().unwrap(), body.as_bytes()).map(command)
}

fn command(post: Post) -> ChangeGroup {
    match post.command {
        Command::ChangeGroup(change) => change,
        other => panic!("{other:?} is of no group"),
    }
}

fn user(uid: i64) -> UserId {
    uid.try_into().unwrap()
}

#[test]
fn every_change_is_what_was_posted() {
    let role = GroupRole::Admin;
    let closed = SetGroupOptions {
        open: Some(false),
        whole_history: None,
    };
    for (fields, action) in [
        (r#""add":["7",8]"#, GroupAction::Add(vec![user(7), user(8)])),
        (r#""remove":["7"]"#, GroupAction::Remove(vec![user(7)])),
        (r#""join":true"#, GroupAction::Join),
        (r#""leave":true,"add":null"#, GroupAction::Leave),
        (
            r#""role":{"uid":"7","role":"admin"}"#,
            GroupAction::SetRole { uid: user(7), role },
        ),
        (r#""rename":"Tea""#, GroupAction::Rename("Tea".to_owned())),
        (r#""mute":{"uid":"7"}"#, GroupAction::Mute(Some(user(7)))),
        (r#""unmute":{"all":true}"#, GroupAction::Unmute(None)),
        (
            r#""options":{"open":false}"#,
            GroupAction::SetOptions(closed),
        ),
        (r#""gid":5000,"dissolve":true"#, GroupAction::Dissolve),
    ] {
        let found = changed(fields).unwrap();
        assert_eq!((found.gid.get(), found.by), (5000, user(1000)), "{fields}");
        assert_eq!(found.action, action, "{fields}");
    }
}

#[test]
fn a_change_is_refused_by_its_field() {
    let crowd = format!(r#""add":[{}]"#, vec!["\"7\""; 1_001].join(","));
    let long = format!(r#""rename":"{}""#, "x".repeat(101));
    for (fields, field) in [
        (r#""gid":"5001","join":true"#, "gid"),
        (r#""gid":"0","join":true"#, "gid"),
        (r#""join":false"#, "join"),
        (r#""join":true,"leave":true"#, "body"),
        (r#""add":null"#, "body"),
        (r#""add":[]"#, "add"),
        (&crowd, "add"),
        (r#""add":["x"]"#, "add[0]"),
        (r#""role":{"uid":"7","role":"king"}"#, "role.role"),
        (r#""role":{"role":"admin"}"#, "role.uid"),
        (r#""role":{"uid":"7"}"#, "role.role"),
        (r#""rename":"""#, "rename"),
        (&long, "rename"),
        (r#""mute":{}"#, "mute"),
        (r#""mute":{"uid":"7","all":true}"#, "mute"),
        (r#""unmute":{"all":false}"#, "unmute.all"),
        (r#""options":{}"#, "options"),
        (r#""by_user":true,"join":true"#, "by_user"),
    ] {
        let refused = changed(fields).unwrap_err();
        assert_eq!(refused.errors[0].field, field, "{fields}");
    }
}

#[test]
fn a_group_has_a_gid_or_gets_one_from_its_owners_id() {
    let body = |fields: &str, owner: i64| {
        let body = format!(r#"{{{fields}"owner":{owner},"name":"Lunch","members":["1001"]}}"#);
        single(body.as_bytes(), group).map(command)
    };
    let given = body(r#""gid":"5000","#, 1000).unwrap();
    assert_eq!(given.gid.get(), 5000);
    let GroupAction::Create(create) = given.action else {
        panic!("it begins");
    };
    assert_eq!(create.members, [user(1001)]);
    assert!(!create.open && !create.whole_history);
    let made = |owner| body(r#""client_id":"a","#, owner).unwrap().gid.get();
    // By Python's uuid: uuid5(UUID("6f2b9c7e-54a1-4d0c-8a53-1e7dc0b9a2f4"), "1000/a").
    assert_eq!(made(1000), 8_036_488_198_483_334_796);
    assert_ne!(made(1001), made(1000));
    for (fields, field) in [
        ("", "gid"),
        (r#""gid":"5000","client_id":"a","#, "client_id"),
        (r#""client_id":"","#, "client_id"),
        (r#""gid":-1,"#, "gid"),
    ] {
        assert_eq!(body(fields, 1000).unwrap_err().errors[0].field, field);
    }
}
