//! Calls of query-api about groups.

use api::{ChangesPage, GroupAnswer, GroupMembersPage, GroupsPage, MessagesPage};
use schemas::{GroupId, UserId};

use crate::{ChangesQuery, Client, ClientError, MessagesQuery, Query, ReadOptions};

/// Which members of a group.
#[derive(Clone, Copy, Debug, Default)]
pub struct MembersQuery {
    /// How many at most, up to 200; 50 if absent.
    pub limit: Option<u8>,
    /// `next` of the page before.
    pub cursor: Option<UserId>,
}

/// Which groups of a user.
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupsQuery {
    /// How many at most, up to 500; 100 if absent.
    pub limit: Option<u16>,
    /// `next` of the page before.
    pub cursor: Option<GroupId>,
}

impl Client {
    /// Reads a group, as `user` sees it.
    ///
    /// # Errors
    /// The call was refused, or not answered in time. A user who is not a member gets the 404 of a group that does not exist; so in all calls of a group.
    pub async fn group(
        &self,
        gid: GroupId,
        user: UserId,
        options: &ReadOptions,
    ) -> Result<GroupAnswer, ClientError> {
        self.ask(of_group(gid, "", user), options).await
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
    ) -> Result<GroupMembersPage, ClientError> {
        let query = of_group(gid, "/members", user)
            .with("limit", which.limit)
            .with("cursor", which.cursor);
        self.ask(query, options).await
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
    ) -> Result<MessagesPage, ClientError> {
        let query = which.add_to(of_group(gid, "/messages", user));
        self.ask(query, options).await
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
    ) -> Result<ChangesPage, ClientError> {
        let query = which.add_to(of_group(gid, "/changes", user));
        self.ask(query, options).await
    }

    /// Lists a user's groups.
    ///
    /// # Errors
    /// The call was refused, or not answered in time.
    pub async fn groups(
        &self,
        user: UserId,
        which: &GroupsQuery,
        options: &ReadOptions,
    ) -> Result<GroupsPage, ClientError> {
        let query = Query::of(format!("/v1/users/{user}/groups"))
            .with("limit", which.limit)
            .with("cursor", which.cursor);
        self.ask(query, options).await
    }
}

fn of_group(gid: GroupId, call: &str, user: UserId) -> Query {
    Query::of(format!("/v1/groups/{gid}{call}")).with("uid", [user])
}
