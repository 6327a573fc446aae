//! Groups that begin and change: posted, and as it happens.

use std::borrow::Cow;

use schemas::{
    ChangeGroup, CreateGroup, GroupAction, GroupChange, GroupId, GroupMember, GroupRole, Mid,
    SetGroupOptions, UserId, command::Malformed,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::values::{Id, Object, is_zero};

/// A group that begins, with `owner` as its first member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupBody {
    /// Its id, which only services choose: from 1, and below 2^62 under rule version 4. A number is taken up to 2^53. Where it exists
    /// already, and is another group, this is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^[1-9][0-9]{0,18}$", example = "5000")]
    pub gid: Option<GroupId>,
    /// In place of gid: the owner's own id of this group, 1 to 64 bytes, best a UUIDv7. The gid is made of the two, so a repeat is the same
    /// group: 2^62 and the last 62 bits of the UUIDv5 of `<owner>/<client_id>` in the namespace 6f2b9c7e-54a1-4d0c-8a53-1e7dc0b9a2f4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub client_id: Option<String>,
    /// Who begins it.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1000")]
    pub owner: UserId,
    /// 1 to 100 characters without control characters.
    #[schema(min_length = 1, max_length = 100, example = "Lunch")]
    pub name: String,
    /// The first members besides the owner, at most 1,000; more are added afterwards.
    #[serde(default)]
    #[schema(value_type = Vec<String>, max_items = 1000, example = json!(["1001", "1002"]))]
    pub members: Vec<UserId>,
    /// Whether anybody may join.
    #[serde(default)]
    pub open: bool,
    /// Whether members see what was sent before they joined.
    #[serde(default)]
    pub whole_history: bool,
    /// The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither this field
    /// nor the header `Idempotency-Key` has one, it is generated and returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub command_id: Option<String>,
}

/// "by asks for this in the group": exactly one of the members after `by`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupChangeBody {
    /// In a batch; otherwise that of the path, or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^[1-9][0-9]{0,18}$", example = "5000")]
    pub gid: Option<GroupId>,
    /// Who asks.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1000")]
    pub by: UserId,
    /// An admin: who becomes a member, 1 to 1,000 users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>, max_items = 1000, example = json!(["1003"]))]
    pub add: Option<Vec<UserId>>,
    /// An admin: who is no member any more, 1 to 1,000 users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>, max_items = 1000)]
    pub remove: Option<Vec<UserId>>,
    /// `true`: to become a member of an open group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<bool>,
    /// `true`: to be no member any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leave: Option<bool>,
    /// The owner: a member's role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<RoleBody>)]
    pub role: Option<Object<RoleBody>>,
    /// An admin: the name from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100)]
    pub rename: Option<String>,
    /// An admin: who does not send any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<MuteBody>)]
    pub mute: Option<Object<MuteBody>>,
    /// An admin: who sends again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<MuteBody>)]
    pub unmute: Option<Object<MuteBody>>,
    /// An admin: settings; what is absent stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<OptionsBody>)]
    pub options: Option<Object<OptionsBody>>,
    /// `true`, the owner: the group ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dissolve: Option<bool>,
    /// The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither this field
    /// nor the header `Idempotency-Key` has one, it is generated and returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub command_id: Option<String>,
}

/// Whose role, and which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleBody {
    /// A member.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1001")]
    pub uid: UserId,
    /// `member`, `admin`, or `owner`, which gives the group away: `by` becomes an admin.
    #[schema(pattern = "^(member|admin|owner)$", example = "admin")]
    pub role: String,
}

/// Exactly one of the two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MuteBody {
    /// A member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^[1-9][0-9]{0,18}$", example = "1003")]
    pub uid: Option<UserId>,
    /// `true`: all but admins and the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
}

/// One of the two at least.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OptionsBody {
    /// Whether anybody may join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<bool>,
    /// Whether members see what was sent before they joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_history: Option<bool>,
}

impl GroupBody {
    /// The command.
    ///
    /// # Errors
    /// A field is wrong.
    pub fn into_command(self) -> Result<ChangeGroup, Malformed> {
        let (gid, client_id) = match (self.gid, self.client_id) {
            (Some(gid), None) => (gid, None),
            (None, Some(client_id)) if client_id.is_empty() => {
                return Err(wrong("client_id", "is empty; must be 1 to 64 bytes"));
            }
            (None, Some(client_id)) => (GroupId::of_owner(self.owner, &client_id), Some(client_id)),
            (None, None) => {
                let problem = "is missing; must be the group's id, or client_id in its place";
                return Err(wrong("gid", problem));
            }
            (Some(_), Some(_)) => {
                return Err(wrong("client_id", "is given beside gid; must be absent"));
            }
        };
        let create = CreateGroup {
            name: self.name,
            members: self.members,
            open: self.open,
            whole_history: self.whole_history,
            client_id,
        };
        command(gid, self.owner, GroupAction::Create(create))
    }
}

impl GroupChangeBody {
    /// The command.
    ///
    /// # Errors
    /// A field is wrong.
    pub fn into_command(self) -> Result<ChangeGroup, Malformed> {
        let gid = self.gid;
        let gid = gid.ok_or_else(|| wrong("gid", "is missing; must be present"))?;
        let actions = [
            self.add.map(GroupAction::Add),
            self.remove.map(GroupAction::Remove),
            only_true("join", self.join)?.then_some(GroupAction::Join),
            only_true("leave", self.leave)?.then_some(GroupAction::Leave),
            self.role.map(|Object(body)| body.action()).transpose()?,
            self.rename.map(GroupAction::Rename),
            self.mute
                .map(|Object(body)| body.of("mute", "mute.all").map(GroupAction::Mute))
                .transpose()?,
            self.unmute
                .map(|Object(body)| body.of("unmute", "unmute.all").map(GroupAction::Unmute))
                .transpose()?,
            self.options.map(|Object(body)| body.action()).transpose()?,
            only_true("dissolve", self.dissolve)?.then_some(GroupAction::Dissolve),
        ];
        let mut actions = actions.into_iter().flatten();
        let (Some(action), None) = (actions.next(), actions.next()) else {
            let problem = "asks for nothing, or for more than one thing; must be an object with by and one of add, remove, join, leave, role, rename, mute, unmute, options and dissolve";
            return Err(wrong("body", problem));
        };
        command(gid, self.by, action)
    }

    /// Asks for nothing yet.
    #[must_use]
    pub fn new(gid: GroupId, by: UserId) -> Self {
        Self {
            gid: Some(gid),
            by,
            add: None,
            remove: None,
            join: None,
            leave: None,
            role: None,
            rename: None,
            mute: None,
            unmute: None,
            options: None,
            dissolve: None,
            command_id: None,
        }
    }
}

/// The two calls of which one posts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupCall {
    /// A group that begins.
    Begin(GroupBody),
    /// A change of a group.
    Change(Box<GroupChangeBody>),
}

impl From<&ChangeGroup> for GroupCall {
    fn from(command: &ChangeGroup) -> Self {
        let mut body = GroupChangeBody::new(command.gid, command.by);
        match command.action.clone() {
            GroupAction::Create(create) => {
                return Self::Begin(GroupBody {
                    gid: create.client_id.is_none().then_some(command.gid),
                    client_id: create.client_id,
                    owner: command.by,
                    name: create.name,
                    members: create.members,
                    open: create.open,
                    whole_history: create.whole_history,
                    command_id: None,
                });
            }
            GroupAction::Add(users) => body.add = Some(users),
            GroupAction::Remove(users) => body.remove = Some(users),
            GroupAction::Join => body.join = Some(true),
            GroupAction::Leave => body.leave = Some(true),
            GroupAction::SetRole { uid, role } => {
                let role = role.as_str().to_owned();
                body.role = Some(Object(RoleBody { uid, role }));
            }
            GroupAction::Rename(name) => body.rename = Some(name),
            GroupAction::Mute(uid) => body.mute = Some(MuteBody::whom(uid)),
            GroupAction::Unmute(uid) => body.unmute = Some(MuteBody::whom(uid)),
            GroupAction::SetOptions(options) => {
                body.options = Some(Object(OptionsBody {
                    open: options.open,
                    whole_history: options.whole_history,
                }));
            }
            GroupAction::Dissolve => body.dissolve = Some(true),
        }
        Self::Change(Box::new(body))
    }
}

fn wrong(field: &'static str, problem: &str) -> Malformed {
    Malformed::new(field, problem)
}

fn command(gid: GroupId, by: UserId, action: GroupAction) -> Result<ChangeGroup, Malformed> {
    let change = ChangeGroup {
        gid,
        by,
        by_user: false,
        action,
    };
    change.checked()
}

impl RoleBody {
    fn action(self) -> Result<GroupAction, Malformed> {
        let role: Result<GroupRole, Malformed> = self.role.parse();
        Ok(GroupAction::SetRole {
            uid: self.uid,
            role: role.map_err(|error| wrong("role.role", &error.problem))?,
        })
    }
}

impl MuteBody {
    /// A member, or `None` for all.
    fn of(self, field: &'static str, all: &'static str) -> Result<Option<UserId>, Malformed> {
        match (self.uid, only_true(all, self.all)?) {
            (Some(uid), false) => Ok(Some(uid)),
            (None, true) => Ok(None),
            _ => {
                let problem = "has none of uid and all, or both; must be an object with a uid, or with \"all\": true";
                Err(wrong(field, problem))
            }
        }
    }

    fn whom(uid: Option<UserId>) -> Object<Self> {
        let all = uid.is_none().then_some(true);
        Object(Self { uid, all })
    }
}

impl OptionsBody {
    fn action(self) -> Result<GroupAction, Malformed> {
        if self.open.is_none() && self.whole_history.is_none() {
            let problem = "has nothing; must be an object with open, whole_history or both";
            return Err(wrong("options", problem));
        }
        Ok(GroupAction::SetOptions(SetGroupOptions {
            open: self.open,
            whole_history: self.whole_history,
        }))
    }
}

fn only_true(field: &'static str, value: Option<bool>) -> Result<bool, Malformed> {
    match value {
        Some(false) => Err(wrong(field, "is false; must be true or absent")),
        given => Ok(given.is_some()),
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = GroupChangeBody)]
pub struct GroupChangeEvent<'a> {
    #[schema(value_type = Id)]
    pub gid: GroupId,
    #[schema(value_type = Id)]
    pub by: UserId,
    pub kind: Cow<'static, str>,
    pub name: Cow<'a, str>,
    #[schema(value_type = Id)]
    pub owner: UserId,
    pub open: bool,
    pub whole_history: bool,
    pub muted: bool,
    pub dissolved: bool,
    pub member_count: i64,
    #[schema(value_type = i64)]
    pub last_mid: Mid,
    /// Of those whom the change names at most sixteen; the device's own user is among them where it names him.
    pub members: Vec<MemberEvent>,
    /// How many more it names; absent where it names no more.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schema(value_type = Option<u32>)]
    pub members_omitted: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = MemberBody)]
pub struct MemberEvent {
    #[schema(value_type = Id)]
    pub uid: UserId,
    /// `null` for who is no member any more.
    #[schema(value_type = Option<String>, required)]
    pub role: Option<GroupRole>,
    pub muted: bool,
    pub joined: bool,
}

/// So many of the members that a change of a group names are in its frame: each member gets the frame, and a change may name a thousand.
pub const MEMBERS_IN_FRAME: usize = 16;

impl<'a> GroupChangeEvent<'a> {
    pub(crate) fn new(change: &'a GroupChange, named: Option<UserId>) -> Self {
        let settings = &change.settings;
        let members = listed(change, named).map(|member| MemberEvent {
            uid: member.uid,
            role: member.role,
            muted: member.muted,
            joined: member.joined,
        });
        Self {
            gid: change.gid,
            by: change.by,
            kind: change.kind.as_str().into(),
            name: settings.name.as_str().into(),
            owner: settings.owner,
            open: settings.open,
            whole_history: settings.whole_history,
            muted: settings.muted,
            dissolved: settings.dissolved,
            member_count: change.member_count,
            last_mid: change.last_mid,
            members: members.collect(),
            members_omitted: change.members.len().saturating_sub(MEMBERS_IN_FRAME),
        }
    }
}

/// Of the members that a change names as many as a frame has, the one whose frame it is among them.
fn listed(change: &GroupChange, named: Option<UserId>) -> impl Iterator<Item = &GroupMember> {
    let first = &change.members[..change.members.len().min(MEMBERS_IN_FRAME)];
    let is_own = |member: &&GroupMember| Some(member.uid) == named;
    let mut further = change.members[first.len()..].iter();
    let own = further.find(is_own);
    first[..first.len() - usize::from(own.is_some())]
        .iter()
        .chain(own)
}
