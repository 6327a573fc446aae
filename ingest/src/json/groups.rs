//! The JSON bodies of groups.

use posting::{Post, invalid_field};
use problem::{Problem, json::Object};
use schemas::{ChangeGroup, CreateGroup, GroupAction, GroupId, GroupRole, SetGroupOptions, UserId};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{command, parse};

/// A group that begins, with `owner` as its first member.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupBody {
    /// Its id, which only services choose: from 1, and below 2^62 under rule version 4. A number is taken up to 2^53. Where it exists
    /// already, and is another group, this is refused.
    #[serde(default)]
    #[schema(value_type = Option<String>, pattern = "^[1-9][0-9]{0,18}$", example = "5000")]
    gid: Option<GroupId>,
    /// In place of gid: the owner's own id of this group, 1 to 64 bytes, best a UUIDv7. The gid is made of the two, so a repeat is the same
    /// group: 2^62 and the last 62 bits of the UUIDv5 of `<owner>/<client_id>` in the namespace 6f2b9c7e-54a1-4d0c-8a53-1e7dc0b9a2f4.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    client_id: Option<String>,
    /// Who begins it.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1000")]
    owner: UserId,
    /// 1 to 100 characters without control characters.
    #[schema(min_length = 1, max_length = 100, example = "Lunch")]
    name: String,
    /// The first members besides the owner, at most 1,000; more are added afterwards.
    #[serde(default)]
    #[schema(value_type = Vec<String>, max_items = 1000, example = json!(["1001", "1002"]))]
    members: Vec<UserId>,
    /// Whether anybody may join.
    #[serde(default)]
    open: bool,
    /// Whether members see what was sent before they joined.
    #[serde(default)]
    whole_history: bool,
    /// The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. Generated
    /// and returned where it is absent, here and in the header `Idempotency-Key`.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    command_id: Option<String>,
}

/// "by asks for this in the group": exactly one of the members after `by`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupChangeBody {
    /// In a batch; otherwise that of the path, or absent.
    #[serde(default)]
    #[schema(value_type = Option<String>, pattern = "^[1-9][0-9]{0,18}$", example = "5000")]
    gid: Option<GroupId>,
    /// Who asks.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1000")]
    by: UserId,
    /// An admin: who becomes a member, 1 to 1,000 users.
    #[serde(default)]
    #[schema(value_type = Option<Vec<String>>, max_items = 1000, example = json!(["1003"]))]
    add: Option<Vec<UserId>>,
    /// An admin: who is no member any more, 1 to 1,000 users.
    #[serde(default)]
    #[schema(value_type = Option<Vec<String>>, max_items = 1000)]
    remove: Option<Vec<UserId>>,
    /// `true`: to become a member of an open group.
    #[serde(default)]
    join: Option<bool>,
    /// `true`: to be no member any more.
    #[serde(default)]
    leave: Option<bool>,
    /// The owner: a member's role.
    #[serde(default)]
    #[schema(value_type = Option<RoleBody>)]
    role: Option<Object<RoleBody>>,
    /// An admin: the name from here on.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 100)]
    rename: Option<String>,
    /// An admin: who does not send any more.
    #[serde(default)]
    #[schema(value_type = Option<MuteBody>)]
    mute: Option<Object<MuteBody>>,
    /// An admin: who sends again.
    #[serde(default)]
    #[schema(value_type = Option<MuteBody>)]
    unmute: Option<Object<MuteBody>>,
    /// An admin: settings; what is absent stays as it is.
    #[serde(default)]
    #[schema(value_type = Option<OptionsBody>)]
    options: Option<Object<OptionsBody>>,
    /// `true`, the owner: the group ends.
    #[serde(default)]
    dissolve: Option<bool>,
    /// The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. Generated
    /// and returned where it is absent, here and in the header `Idempotency-Key`.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    command_id: Option<String>,
}

/// Whose role, and which.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoleBody {
    /// A member.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1001")]
    uid: UserId,
    /// `member`, `admin`, or `owner`, which gives the group away: `by` becomes an admin.
    #[schema(pattern = "^(member|admin|owner)$", example = "admin")]
    role: String,
}

/// Exactly one of the two.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MuteBody {
    /// A member.
    #[serde(default)]
    #[schema(value_type = Option<String>, pattern = "^[1-9][0-9]{0,18}$", example = "1003")]
    uid: Option<UserId>,
    /// `true`: all but admins and the owner.
    #[serde(default)]
    all: Option<bool>,
}

/// One of the two at least.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OptionsBody {
    /// Whether anybody may join.
    #[serde(default)]
    open: Option<bool>,
    /// Whether members see what was sent before they joined.
    #[serde(default)]
    whole_history: Option<bool>,
}

/// Reads the body of `POST /v1/groups`.
pub(crate) fn group(body: &[u8]) -> Result<Post, Problem> {
    let Object(body): Object<GroupBody> = parse(body)?;
    body.into_post()
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
    GroupChangeBody {
        gid: Some(gid),
        ..body
    }
    .into_post()
}

impl GroupBody {
    pub(super) fn into_post(self) -> Result<Post, Problem> {
        let (gid, client_id) = match (self.gid, self.client_id) {
            (Some(gid), None) => (gid, None),
            (None, Some(client_id)) if client_id.is_empty() => {
                let right = "1 to 64 bytes";
                return Err(Problem::invalid_field("client_id", "is empty", right));
            }
            (None, Some(client_id)) => (GroupId::of_owner(self.owner, &client_id), Some(client_id)),
            (None, None) => {
                let right = "the group's id, or client_id in its place";
                return Err(Problem::invalid_field("gid", "is missing", right));
            }
            (Some(_), Some(_)) => {
                let wrong = "is given beside gid";
                return Err(Problem::invalid_field("client_id", wrong, "absent"));
            }
        };
        let create = CreateGroup {
            name: self.name,
            members: self.members,
            open: self.open,
            whole_history: self.whole_history,
            client_id,
        };
        change(
            gid,
            self.owner,
            GroupAction::Create(create),
            self.command_id,
        )
    }
}

impl GroupChangeBody {
    pub(super) fn into_post(self) -> Result<Post, Problem> {
        let gid = self.gid;
        let gid = gid.ok_or_else(|| Problem::invalid_field("gid", "is missing", "present"))?;
        let actions = [
            self.add.map(GroupAction::Add),
            self.remove.map(GroupAction::Remove),
            only_true("join", self.join)?.then_some(GroupAction::Join),
            only_true("leave", self.leave)?.then_some(GroupAction::Leave),
            self.role.map(|Object(body)| body.action()).transpose()?,
            self.rename.map(GroupAction::Rename),
            self.mute
                .map(|Object(body)| body.of("mute").map(GroupAction::Mute))
                .transpose()?,
            self.unmute
                .map(|Object(body)| body.of("unmute").map(GroupAction::Unmute))
                .transpose()?,
            self.options.map(|Object(body)| body.action()).transpose()?,
            only_true("dissolve", self.dissolve)?.then_some(GroupAction::Dissolve),
        ];
        let mut actions = actions.into_iter().flatten();
        let (Some(action), None) = (actions.next(), actions.next()) else {
            return Err(Problem::invalid_field(
                "body",
                "asks for nothing, or for more than one thing",
                "an object with by and one of add, remove, join, leave, role, rename, mute, unmute, options and dissolve",
            ));
        };
        change(gid, self.by, action, self.command_id)
    }
}

fn change(
    gid: GroupId,
    by: UserId,
    action: GroupAction,
    command_id: Option<String>,
) -> Result<Post, Problem> {
    let change = ChangeGroup {
        gid,
        by,
        by_user: false,
        action,
    };
    command(change.checked().map_err(invalid_field)?, command_id)
}

impl RoleBody {
    fn action(self) -> Result<GroupAction, Problem> {
        let role: GroupRole = self
            .role
            .parse()
            .map_err(|error| invalid_field(error).within("role"))?;
        Ok(GroupAction::SetRole {
            uid: self.uid,
            role,
        })
    }
}

impl MuteBody {
    /// A member, or `None` for all.
    fn of(self, member: &str) -> Result<Option<UserId>, Problem> {
        let all = only_true("all", self.all).map_err(|problem| problem.within(member))?;
        match (self.uid, all) {
            (Some(uid), false) => Ok(Some(uid)),
            (None, true) => Ok(None),
            _ => {
                let wrong = "has none of uid and all, or both";
                let right = "an object with a uid, or with \"all\": true";
                Err(Problem::invalid_field(member, wrong, right))
            }
        }
    }
}

impl OptionsBody {
    fn action(self) -> Result<GroupAction, Problem> {
        if self.open.is_none() && self.whole_history.is_none() {
            let right = "an object with open, whole_history or both";
            return Err(Problem::invalid_field("options", "has nothing", right));
        }
        Ok(GroupAction::SetOptions(SetGroupOptions {
            open: self.open,
            whole_history: self.whole_history,
        }))
    }
}

fn only_true(field: &str, value: Option<bool>) -> Result<bool, Problem> {
    match value {
        Some(false) => Err(Problem::invalid_field(field, "is false", "true or absent")),
        given => Ok(given.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use schemas::command::Command;

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
            group(body.as_bytes()).map(command)
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
}
