//! Groups: changes that members ask for, and the events that answer them.

mod gid;
mod wire;

use crate::{
    Column, GroupId, Mid, Recipient, UserId,
    kind::{CommandKind, CommandScope, EventKind, Redrive, first_unequal},
    malformed::Malformed,
    proto,
};

/// The most users that one command names.
pub const MAX_NAMED_USERS: usize = 1_000;

/// The longest name of a group, characters.
const MAX_NAME_CHARS: usize = 100;
/// The longest client_id of a group, bytes.
const MAX_CLIENT_ID_BYTES: usize = 64;

/// What a member may do; each role may do more than the one before.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum GroupRole {
    /// Reads and sends.
    Member,
    /// Adds, removes and mutes members, renames the group, and recalls everybody's messages.
    Admin,
    /// Gives roles, and dissolves the group. There is exactly one.
    Owner,
}

impl GroupRole {
    /// All, ascending.
    pub const ALL: [Self; 3] = [Self::Member, Self::Admin, Self::Owner];

    /// `member`, `admin` or `owner`, as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Admin => "admin",
            Self::Owner => "owner",
        }
    }

    /// The role of a number in the `.proto` file; `None` if there is no such role.
    #[must_use]
    pub fn from_proto(role: i32) -> Option<Self> {
        match proto::GroupRole::try_from(role) {
            Ok(proto::GroupRole::Member) => Some(Self::Member),
            Ok(proto::GroupRole::Admin) => Some(Self::Admin),
            Ok(proto::GroupRole::Owner) => Some(Self::Owner),
            Ok(proto::GroupRole::Unspecified) | Err(_) => None,
        }
    }
}

impl From<GroupRole> for proto::GroupRole {
    fn from(role: GroupRole) -> Self {
        match role {
            GroupRole::Member => Self::Member,
            GroupRole::Admin => Self::Admin,
            GroupRole::Owner => Self::Owner,
        }
    }
}

impl std::str::FromStr for GroupRole {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let role = Self::ALL.into_iter().find(|role| role.as_str() == text);
        role.ok_or_else(|| {
            let wrong = format!(
                "is {:?}; must be member, admin or owner",
                crate::Excerpt(text)
            );
            Malformed::new("role", wrong)
        })
    }
}

/// The command: a user changes a group, or who its members are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeGroup {
    /// The group.
    pub gid: GroupId,
    /// The user who asks.
    pub by: UserId,
    /// The user posted the command, so the limits of users apply.
    pub by_user: bool,
    /// What the user asks for.
    pub action: GroupAction,
}

fn check_name(name: &str) -> Result<(), Malformed> {
    let chars = name.chars().count();
    if chars == 0 || chars > MAX_NAME_CHARS || name.chars().any(char::is_control) {
        let wrong = format!("must be 1 to {MAX_NAME_CHARS} characters without control characters");
        return Err(Malformed::new("name", wrong));
    }
    Ok(())
}

fn check_count(field: &'static str, users: &[UserId], least: usize) -> Result<(), Malformed> {
    if (least..=MAX_NAMED_USERS).contains(&users.len()) {
        return Ok(());
    }
    let count = users.len();
    let wrong = format!("has {count} users; must be {least} to {MAX_NAMED_USERS}");
    Err(Malformed::new(field, wrong))
}

impl CreateGroup {
    fn check(&self) -> Result<(), Malformed> {
        check_name(&self.name)?;
        check_count("members", &self.members, 0)?;
        let bytes = self.client_id.as_ref().map_or(0, String::len);
        if bytes > MAX_CLIENT_ID_BYTES {
            let wrong = format!("has {bytes} bytes; must be 1 to {MAX_CLIENT_ID_BYTES} bytes");
            return Err(Malformed::new("client_id", wrong));
        }
        Ok(())
    }
}

impl ChangeGroup {
    /// Checks what the field types cannot enforce.
    ///
    /// # Errors
    /// [`Malformed`] for a name or a client_id of the wrong length, for too few or too many users, and if no option is set.
    pub fn checked(self) -> Result<Self, Malformed> {
        match &self.action {
            GroupAction::Create(create) => create.check()?,
            GroupAction::Add(users) => check_count("add", users, 1)?,
            GroupAction::Remove(users) => check_count("remove", users, 1)?,
            GroupAction::Rename(name) => {
                check_name(name).map_err(|wrong| Malformed {
                    field: "rename",
                    ..wrong
                })?;
            }
            GroupAction::SetOptions(SetGroupOptions {
                open: None,
                whole_history: None,
            }) => {
                let wrong = "is absent, and so is whole_history; must be one or both of them";
                return Err(Malformed::new("open", wrong));
            }
            _ => {}
        }
        Ok(self)
    }

    /// The users whom the command makes members, and the field that names them.
    #[must_use]
    pub fn new_members(&self) -> Option<(&'static str, &[UserId])> {
        match &self.action {
            GroupAction::Create(create) => Some(("members", &create.members)),
            GroupAction::Add(users) => Some(("add", users)),
            _ => None,
        }
    }

    /// The users whom the command makes members or removes.
    #[must_use]
    pub fn named_users(&self) -> &[UserId] {
        match &self.action {
            GroupAction::Create(create) => &create.members,
            GroupAction::Add(users) | GroupAction::Remove(users) => users,
            _ => &[],
        }
    }

    /// The first field in which the event differs from the command. The event may concern fewer users than the command names: it leaves out those for
    /// whom nothing changes.
    pub(crate) fn mismatch(&self, change: &GroupChange) -> Option<&'static str> {
        let same = [
            ("gid", self.gid == change.gid),
            ("by", self.by == change.by),
            ("the kind", self.action.change_kind() == change.kind),
        ];
        if let Some(field) = first_unequal(same) {
            return Some(field);
        }
        let settings = &change.settings;
        let is_set = |asked: Option<bool>, set: bool| asked.is_none_or(|asked| asked == set);
        let only = |whom: &dyn Fn(UserId) -> bool| change.members.iter().all(|one| whom(one.uid));
        match &self.action {
            GroupAction::Create(create) => first_unequal([
                ("name", create.name == settings.name),
                ("owner", self.by == settings.owner),
                ("open", create.open == settings.open),
                (
                    "whole_history",
                    create.whole_history == settings.whole_history,
                ),
                (
                    "members",
                    only(&|one| one == self.by || create.members.contains(&one)),
                ),
            ]),
            GroupAction::Add(who) => first_unequal([("add", only(&|one| who.contains(&one)))]),
            GroupAction::Remove(who) => {
                first_unequal([("remove", only(&|one| who.contains(&one)))])
            }
            GroupAction::Join | GroupAction::Leave => {
                first_unequal([("members", only(&|one| one == self.by))])
            }
            GroupAction::SetRole { uid, role } => first_unequal([(
                "role",
                change
                    .members
                    .iter()
                    .any(|one| one.uid == *uid && one.role == Some(*role)),
            )]),
            GroupAction::Rename(name) => first_unequal([("name", *name == settings.name)]),
            GroupAction::Mute(None) => first_unequal([("muted", settings.muted)]),
            GroupAction::Unmute(None) => first_unequal([("muted", !settings.muted)]),
            GroupAction::Mute(Some(uid)) => first_unequal([("uid", only(&|one| one == *uid))]),
            GroupAction::Unmute(Some(uid)) => first_unequal([("uid", only(&|one| one == *uid))]),
            GroupAction::SetOptions(options) => first_unequal([
                ("open", is_set(options.open, settings.open)),
                (
                    "whole_history",
                    is_set(options.whole_history, settings.whole_history),
                ),
            ]),
            GroupAction::Dissolve => first_unequal([("dissolved", settings.dissolved)]),
        }
    }
}

/// What a user asks for in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupAction {
    /// To begin the group, as its owner.
    Create(CreateGroup),
    /// To make users members: 1 to [`MAX_NAMED_USERS`].
    Add(Vec<UserId>),
    /// To remove members: 1 to [`MAX_NAMED_USERS`].
    Remove(Vec<UserId>),
    /// To become a member of an open group.
    Join,
    /// To leave the group.
    Leave,
    /// To give a member a role. [`GroupRole::Owner`] transfers the ownership.
    SetRole {
        /// The member.
        uid: UserId,
        /// The role.
        role: GroupRole,
    },
    /// To give the group this name.
    Rename(String),
    /// To stop a member, or everybody but the admins and the owner, from sending.
    Mute(Option<UserId>),
    /// To end a mute.
    Unmute(Option<UserId>),
    /// To set options.
    SetOptions(SetGroupOptions),
    /// To end the group.
    Dissolve,
}

/// A group as it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateGroup {
    /// 1 to 100 characters without control characters.
    pub name: String,
    /// The first members besides the owner, at most [`MAX_NAMED_USERS`].
    pub members: Vec<UserId>,
    /// Anybody may join.
    pub open: bool,
    /// Members see what was sent before they joined.
    pub whole_history: bool,
    /// The owner's client_id for the group, 1 to 64 bytes; the gid is derived from the owner and this id. `None` if a service chose the gid.
    pub client_id: Option<String>,
}

/// Options of a group; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetGroupOptions {
    /// Anybody may join.
    pub open: Option<bool>,
    /// Members see what was sent before they joined.
    pub whole_history: Option<bool>,
}

/// The event: a group was changed, or who its members are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupChange {
    /// The group.
    pub gid: GroupId,
    /// The user who changed it.
    pub by: UserId,
    /// Which change it was.
    pub kind: GroupChangeKind,
    /// The settings from here on.
    pub settings: GroupSettings,
    /// How many members there are from here on; 0 once it is dissolved.
    pub member_count: i64,
    /// The newest message; users who join with this change have read up to it.
    pub last_mid: Mid,
    /// The users whom the change concerns, as they are from this event on. A dissolution names nobody.
    pub members: Vec<GroupMember>,
}

impl GroupChange {
    /// The columns of its table.
    pub const COLUMNS: &[Column<Self>] = crate::columns! {
        gid: Group(|c| Some(c.gid)), "the group";
        by: User(|c| Some(c.by)), "the user who changed it";
        kind: Word(|c| Some(c.kind.as_str())),
            "create, add, remove, join, leave, role, rename, mute, unmute, options or dissolve";
        name: Name(|c| Some(&c.settings.name)), "the name from here on";
        owner: User(|c| Some(c.settings.owner)), "the owner from here on";
        open: Flag(|c| c.settings.open), "anybody may join from here on";
        whole_history: Flag(|c| c.settings.whole_history), "members see what was sent before they joined";
        muted: Flag(|c| c.settings.muted), "only admins and the owner send from here on";
        dissolved: Flag(|c| c.settings.dissolved), "the group has ended";
        member_count: Number(|c| Some(c.member_count)), "how many members there are from here on";
        last_mid: Number(|c| Some(c.last_mid.get())), "the newest message; who joins has read up to it";
        members: Users(|c| c.members.iter().map(|one| one.uid).collect()), "the users whom the change concerns";
        roles: Words(|c| c.members.iter().map(|one| one.role.map_or("none", GroupRole::as_str)).collect()),
            "the roles of these users from here on, in the same order: member, admin, owner; none if one is no longer a member";
        joined: Users(|c| c.members.iter().filter(|one| one.joined).map(|one| one.uid).collect()),
            "those of them who were no members before";
        muted_members: Users(|c| c.members.iter().filter(|one| one.muted).map(|one| one.uid).collect()),
            "those of them who may not send from here on";
    };
}

/// The kinds of [`GroupChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the actions of the same names")]
pub enum GroupChangeKind {
    Create,
    Add,
    Remove,
    Join,
    Leave,
    SetRole,
    Rename,
    Mute,
    Unmute,
    SetOptions,
    Dissolve,
}

impl GroupChangeKind {
    const ALL: [(Self, proto::GroupChangeKind, &str); 11] = [
        (Self::Create, proto::GroupChangeKind::Create, "create"),
        (Self::Add, proto::GroupChangeKind::Add, "add"),
        (Self::Remove, proto::GroupChangeKind::Remove, "remove"),
        (Self::Join, proto::GroupChangeKind::Join, "join"),
        (Self::Leave, proto::GroupChangeKind::Leave, "leave"),
        (Self::SetRole, proto::GroupChangeKind::Role, "role"),
        (Self::Rename, proto::GroupChangeKind::Rename, "rename"),
        (Self::Mute, proto::GroupChangeKind::Mute, "mute"),
        (Self::Unmute, proto::GroupChangeKind::Unmute, "unmute"),
        (Self::SetOptions, proto::GroupChangeKind::Options, "options"),
        (Self::Dissolve, proto::GroupChangeKind::Dissolve, "dissolve"),
    ];

    /// `create`, `add`, `remove`, `join`, `leave`, `role`, `rename`, `mute`, `unmute`, `options` or `dissolve`, as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL[self as usize].2
    }

    fn from_proto(kind: i32) -> Result<Self, Malformed> {
        let known = proto::GroupChangeKind::try_from(kind).ok();
        let found = Self::ALL.into_iter().find(|row| Some(row.1) == known);
        found
            .map(|row| row.0)
            .ok_or_else(|| Malformed::new("kind", format!("is {kind}; must be from 1 to 11")))
    }
}

impl GroupAction {
    /// The kind of change that it asks for.
    #[must_use]
    pub fn change_kind(&self) -> GroupChangeKind {
        match self {
            Self::Create(_) => GroupChangeKind::Create,
            Self::Add(_) => GroupChangeKind::Add,
            Self::Remove(_) => GroupChangeKind::Remove,
            Self::Join => GroupChangeKind::Join,
            Self::Leave => GroupChangeKind::Leave,
            Self::SetRole { .. } => GroupChangeKind::SetRole,
            Self::Rename(_) => GroupChangeKind::Rename,
            Self::Mute(_) => GroupChangeKind::Mute,
            Self::Unmute(_) => GroupChangeKind::Unmute,
            Self::SetOptions(_) => GroupChangeKind::SetOptions,
            Self::Dissolve => GroupChangeKind::Dissolve,
        }
    }
}

/// The settings of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSettings {
    /// Its name.
    pub name: String,
    /// Its owner.
    pub owner: UserId,
    /// Anybody may join.
    pub open: bool,
    /// Members see what was sent before they joined.
    pub whole_history: bool,
    /// Only admins and the owner send.
    pub muted: bool,
    /// It has ended: nobody is a member any more.
    pub dissolved: bool,
}

/// A user whom a [`GroupChange`] concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// The user.
    pub uid: UserId,
    /// The role; `None` for a user who is no longer a member.
    pub role: Option<GroupRole>,
    /// The user may not send.
    pub muted: bool,
    /// The user was not a member before.
    pub joined: bool,
}

impl CommandKind for ChangeGroup {
    fn label(&self) -> &'static str {
        "group_change"
    }

    fn scope(&self) -> CommandScope {
        CommandScope::of_conversation(self.by, Recipient::Group(self.gid))
    }

    fn author_field(&self) -> &'static str {
        match self.action {
            GroupAction::Create(_) => "owner",
            _ => "by",
        }
    }

    fn rule_version(&self) -> u32 {
        3
    }

    fn set_by_user(&mut self, by_user: bool) {
        self.by_user = by_user;
    }

    fn redrive(&self) -> Redrive {
        Redrive::Never("what happened in the group since then is not looked at")
    }

    fn line_field(&self) -> &'static str {
        match self.action {
            GroupAction::Create(_) => "group",
            _ => self.label(),
        }
    }
}

impl EventKind for GroupChange {
    fn label(&self) -> &'static str {
        "group_change"
    }

    fn scope(&self) -> CommandScope {
        CommandScope::of_conversation(self.by, Recipient::Group(self.gid))
    }

    fn is_for_author(&self) -> bool {
        false
    }

    fn extra_bytes(&self) -> usize {
        self.settings.name.len() + size_of_val(self.members.as_slice())
    }
}
