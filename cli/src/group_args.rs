//! The arguments of `tidemark group`.

use clap::Subcommand;
use schemas::{DeviceClass, GroupId, GroupRole, InboundPosition, UserId};

use crate::read_mid::ReadMid;

#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Create a group
    Create(CreateGroupArgs),
    /// Add users to a group
    Add(GroupUsersArgs),
    /// Remove members
    Remove(GroupUsersArgs),
    /// Join an open group
    Join(GroupUserArgs),
    /// Leave a group
    Leave(GroupUserArgs),
    /// Give a member a role; `owner` gives the group away
    Role {
        #[command(flatten)]
        who: GroupByArgs,
        /// The member
        uid: UserId,
        /// member, admin or owner
        role: GroupRole,
    },
    /// Rename a group
    Rename {
        #[command(flatten)]
        who: GroupByArgs,
        /// 1 to 100 characters
        name: String,
    },
    /// Mute a member, or everybody but admins and the owner
    Mute(MuteArgs),
    /// Unmute a member, or everybody
    Unmute(MuteArgs),
    /// Set options; what is not given stays
    Options {
        #[command(flatten)]
        who: GroupByArgs,
        #[command(flatten)]
        options: GroupOptionArgs,
    },
    /// Dissolve a group
    Dissolve(GroupByArgs),
    /// Send a message
    Send {
        /// The group
        gid: GroupId,
        /// The sender's uid
        from: UserId,
        /// The text
        #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
        msg: String,
        /// The sender's id of this message; generated if absent
        #[arg(long)]
        client_msg_id: Option<String>,
    },
    /// Post a read-ack: a member has read
    Ack {
        /// The group
        gid: GroupId,
        /// Who has read
        uid: UserId,
        /// On which device class: pc or mobile
        device: DeviceClass,
        /// Up to which message, or `latest`
        #[arg(default_value = "latest")]
        mid: ReadMid,
    },
    /// Show a user's groups, with unread counts
    List {
        /// The user
        uid: UserId,
        #[command(flatten)]
        page: GroupPageArgs,
    },
    /// Show a group's settings
    Show {
        #[command(flatten)]
        who: GroupUserArgs,
        /// Wait until this record of chat.inbound is reflected
        #[arg(long)]
        after: Vec<InboundPosition>,
    },
    /// Show its members
    Members {
        #[command(flatten)]
        who: GroupUserArgs,
        #[command(flatten)]
        page: GroupPageArgs,
    },
    /// Show its messages
    History {
        #[command(flatten)]
        who: GroupUserArgs,
        /// Older than this message, newest first
        #[arg(long, conflicts_with = "after_mid")]
        before_mid: Option<i64>,
        /// Newer than this message, oldest first
        #[arg(long)]
        after_mid: Option<i64>,
        /// How many
        #[arg(long)]
        limit: Option<u32>,
        /// Wait until this record of chat.inbound is reflected
        #[arg(long)]
        after: Vec<InboundPosition>,
    },
    /// Show what was changed in it
    Changes {
        #[command(flatten)]
        who: GroupUserArgs,
        /// Those after this change
        #[arg(long)]
        after_chg: Option<i64>,
        /// Of what the user has hidden and cleared without a number: those behind this offset
        #[arg(long)]
        after_own_pos: Option<i64>,
        /// How many
        #[arg(long)]
        limit: Option<u32>,
        /// Wait until this record of chat.inbound is reflected
        #[arg(long)]
        after: Vec<InboundPosition>,
    },
}

/// A group, and who asks for a change.
#[derive(Debug, clap::Args)]
pub(crate) struct GroupByArgs {
    /// The group
    pub(crate) gid: GroupId,
    /// Who asks for it
    #[arg(long)]
    pub(crate) by: UserId,
}

/// A group, and the user concerned.
#[derive(Debug, clap::Args)]
pub(crate) struct GroupUserArgs {
    /// The group
    pub(crate) gid: GroupId,
    /// The user
    pub(crate) uid: UserId,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GroupUsersArgs {
    #[command(flatten)]
    pub(crate) who: GroupByArgs,
    /// Whom, at most 1,000
    #[arg(required = true)]
    pub(crate) users: Vec<UserId>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct MuteArgs {
    #[command(flatten)]
    pub(crate) who: GroupByArgs,
    /// The member
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) uid: Option<UserId>,
    /// All but admins and the owner
    #[arg(long)]
    pub(crate) all: bool,
}

/// At least one.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
pub(crate) struct GroupOptionArgs {
    /// Whether anybody may join: true or false
    #[arg(long)]
    pub(crate) open: Option<bool>,
    /// Whether members see what was sent before they joined: true or false
    #[arg(long)]
    pub(crate) whole_history: Option<bool>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CreateGroupArgs {
    /// Who begins it
    pub(crate) owner: UserId,
    /// 1 to 100 characters
    pub(crate) name: String,
    /// The first members besides the owner, at most 1,000
    pub(crate) members: Vec<UserId>,
    /// Its number
    #[arg(
        long,
        required_unless_present = "client_id",
        conflicts_with = "client_id"
    )]
    pub(crate) gid: Option<GroupId>,
    /// In place of a number: the owner's own id of this group, from which one is made
    #[arg(long)]
    pub(crate) client_id: Option<String>,
    /// Anybody may join
    #[arg(long)]
    pub(crate) open: bool,
    /// Members see what was sent before they joined
    #[arg(long)]
    pub(crate) whole_history: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GroupPageArgs {
    /// `next` of the page before
    #[arg(long)]
    pub(crate) cursor: Option<String>,
    /// How many
    #[arg(long)]
    pub(crate) limit: Option<u32>,
    /// Wait until this record of chat.inbound is reflected
    #[arg(long)]
    pub(crate) after: Vec<InboundPosition>,
}
