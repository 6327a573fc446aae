//! What query-api answers about groups.

use schemas::{Chg, GroupId, GroupRole, InboundPosition, Mid, Partition, PerDevice, UserId};
use serde::{Deserialize, Deserializer, de::Error};

use crate::{
    Changes, ChangesQuery, Client, ClientError, Message, Messages, MessagesQuery, ReadOptions,
    queries::{Query, at, positions},
};

/// A group, as a member sees it.
#[derive(Clone, Debug, Deserialize)]
pub struct Group {
    /// The group.
    pub gid: GroupId,
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
    /// It has ended. Who was a member then reads it on.
    pub dissolved: bool,
    /// How many members there are; 0 once it is dissolved.
    pub member_count: i64,
    /// The number of the newest message; 0 where there is none.
    pub last_mid: Mid,
    /// The number of the last change of a message; 0 where there is none.
    pub chg: Chg,
    /// What the group has of the user who asks.
    pub member: Member,
    /// With `after`: how far the store had come.
    #[serde(default, deserialize_with = "positions")]
    pub as_of: Vec<InboundPosition>,
}

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Member {
    /// The user.
    pub uid: UserId,
    /// The user's role.
    #[serde(deserialize_with = "role")]
    pub role: GroupRole,
    /// Does not send.
    pub muted: bool,
    /// The number of the newest message when the user joined; 0 where there was none.
    pub join_mid: Mid,
}

/// Which members of a group.
#[derive(Clone, Copy, Debug, Default)]
pub struct MembersQuery {
    /// How many at most, up to 200; 50 where absent.
    pub limit: Option<u8>,
    /// `next` of the page before.
    pub cursor: Option<UserId>,
}

/// Members of a group.
#[derive(Clone, Debug, Deserialize)]
pub struct Members {
    /// By uid.
    pub items: Vec<Member>,
    /// `cursor` of the next page; `None` where nothing is left.
    pub next: Option<UserId>,
    /// With `after`: how far the store had come.
    #[serde(default, deserialize_with = "positions")]
    pub as_of: Vec<InboundPosition>,
}

/// Which groups of a user.
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupsQuery {
    /// How many at most, up to 500; 100 where absent.
    pub limit: Option<u16>,
    /// `next` of the page before.
    pub cursor: Option<GroupId>,
}

/// A part of a user's groups.
#[derive(Clone, Debug, Deserialize)]
pub struct Groups {
    /// By gid. Only `next` says whether this is the last page.
    pub items: Vec<ListedGroup>,
    /// `cursor` of the next page; `None` where nothing is left.
    pub next: Option<GroupId>,
    /// With `after`: how far the stores had come.
    #[serde(default, deserialize_with = "positions")]
    pub as_of: Vec<InboundPosition>,
}

/// A group in the list of a member.
#[derive(Clone, Debug, Deserialize)]
pub struct ListedGroup {
    /// The group.
    pub gid: GroupId,
    /// Its name.
    pub name: String,
    /// The user's role.
    #[serde(deserialize_with = "role")]
    pub role: GroupRole,
    /// The user is muted, and does not send.
    pub muted: bool,
    /// It has ended. Who was a member then reads it on.
    pub dissolved: bool,
    /// How many members there are; 0 once it is dissolved.
    pub member_count: i64,
    /// The user sees what was sent before joining.
    pub whole_history: bool,
    /// The number of the newest message when the user joined; 0 where there was none.
    pub join_mid: Mid,
    /// The newest message, with the first 200 characters of its text; `None` where the user does not see it, or there is none.
    pub last: Option<Message>,
    /// The number of the newest message; 0 where there is none.
    pub last_mid: Mid,
    /// The number of the last change of a message; 0 where there is none.
    pub chg: Chg,
    /// Where in `chat.events` the user has hidden or cleared something last that has no number; 0 where that never was.
    #[serde(default)]
    pub own_pos: i64,
    /// How many messages are unread.
    pub unread: PerDevice<i64>,
    /// Up to where nothing counts as unread.
    pub read_mid: PerDevice<Mid>,
    /// Its last event, in `chat.events`.
    #[serde(deserialize_with = "at")]
    pub at: (Partition, i64),
}

impl Client {
    /// Reads a group, as `user` sees it.
    ///
    /// # Errors
    /// It was refused, or not answered in time. Who is no member gets the 404 of a group that there is not; so in all calls of a group.
    pub async fn group(
        &self,
        gid: GroupId,
        user: UserId,
        options: &ReadOptions,
    ) -> Result<Group, ClientError> {
        let mut query = of_group(gid, "", user);
        options.add_to(&mut query);
        self.get_waiting(&query.path, options.wait()).await
    }

    /// Lists the members of a group.
    ///
    /// # Errors
    /// As [`Client::group`].
    pub async fn group_members(
        &self,
        gid: GroupId,
        user: UserId,
        which: &MembersQuery,
        options: &ReadOptions,
    ) -> Result<Members, ClientError> {
        let mut query = of_group(gid, "/members", user);
        if let Some(limit) = which.limit {
            query.add("limit", limit);
        }
        if let Some(cursor) = which.cursor {
            query.add("cursor", cursor);
        }
        options.add_to(&mut query);
        self.get_waiting(&query.path, options.wait()).await
    }

    /// Reads a page of a group's history, as `user` sees it. [`Order::Unread`](crate::Order::Unread) is refused.
    ///
    /// # Errors
    /// As [`Client::group`].
    pub async fn group_messages(
        &self,
        gid: GroupId,
        user: UserId,
        which: &MessagesQuery,
        options: &ReadOptions,
    ) -> Result<Messages, ClientError> {
        let mut query = of_group(gid, "/messages", user);
        which.add_to(&mut query);
        options.add_to(&mut query);
        self.get_waiting(&query.path, options.wait()).await
    }

    /// Lists what was changed in a group, as far as it concerns `user`.
    ///
    /// # Errors
    /// As [`Client::group`].
    pub async fn group_changes(
        &self,
        gid: GroupId,
        user: UserId,
        which: &ChangesQuery,
        options: &ReadOptions,
    ) -> Result<Changes, ClientError> {
        let mut query = of_group(gid, "/changes", user);
        which.add_to(&mut query);
        options.add_to(&mut query);
        self.get_waiting(&query.path, options.wait()).await
    }

    /// Lists a user's groups.
    ///
    /// # Errors
    /// It was refused, or not answered in time.
    pub async fn groups(
        &self,
        user: UserId,
        which: &GroupsQuery,
        options: &ReadOptions,
    ) -> Result<Groups, ClientError> {
        let mut query = Query::of(format!("/v1/users/{user}/groups"));
        if let Some(limit) = which.limit {
            query.add("limit", limit);
        }
        if let Some(cursor) = which.cursor {
            query.add("cursor", cursor);
        }
        options.add_to(&mut query);
        self.get_waiting(&query.path, options.wait()).await
    }
}

fn of_group(gid: GroupId, call: &str, user: UserId) -> Query {
    let mut query = Query::of(format!("/v1/groups/{gid}{call}"));
    query.add("uid", user);
    query
}

fn role<'de, D: Deserializer<'de>>(deserializer: D) -> Result<GroupRole, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(D::Error::custom)
}
