//! The command line.

use std::path::PathBuf;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use export::Dataset;
use message_store::Month;
use schemas::{
    DeviceClass, DeviceId, DirectConversation, GroupId, InboundPosition, InvalidValue, Partition,
    Recipient, TimestampMs, UserId, dead_letter::Reason, topics::Topic,
};
use service_runtime::ConfigArgs;

use crate::{
    change_args::ChangeCommand,
    commands::scratch,
    credentials::Credentials,
    failure,
    group_args::GroupCommand,
    key_args::KeyCommand,
    log_point::{LogPoint, LogRange, LogStart},
    read_mid::ReadMid,
    times,
};

/// A message backend for instant messaging whose only source of truth is Kafka
#[derive(Debug, Parser)]
#[command(name = "tidemark", version, about, propagate_version = true)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Print JSON for programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) credentials: Credentials,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Args {
    pub(crate) fn of_this_process() -> Self {
        let matches = with_exit_codes(Self::command()).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

/// Adds the exit codes to the help of every command.
fn with_exit_codes(command: clap::Command) -> clap::Command {
    let command = command.after_help(failure::EXIT_CODES);
    command.mut_subcommands(with_exit_codes)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run every service in this process
    Up,
    /// Run the HTTP API for producers
    Ingest,
    /// Run the sequencer
    Sequencer,
    /// Run the projection into Redis
    ProjectorUnread,
    /// Run the projections into MySQL
    ProjectorMysql,
    /// Run the HTTP API for readers
    QueryApi,
    /// Run the gateway, which pushes events to devices over WebSocket
    Gateway,
    /// The local stack: Kafka, Redis, MariaDB and the services as processes
    #[command(subcommand)]
    Stack(StackCommand),
    /// Set up, start, load real messages, audit, and show the result
    Demo(DemoArgs),
    /// The topics, as declared in the schemas
    #[command(subcommand)]
    Topics(ApplyOrDiff),
    /// The databases and tables
    #[command(subcommand)]
    Db(DbCommand),
    /// The months of messages in MySQL
    #[command(subcommand)]
    Partitions(PartitionsCommand),
    /// The epoch of the inbound log
    #[command(subcommand)]
    Epoch(EpochCommand),
    /// The rules of the sequencer: deduplication and limits
    #[command(subcommand)]
    Rules(RulesCommand),
    /// Send a message
    Send(SendArgs),
    /// Post a read-ack: a user has read
    Ack(AckArgs),
    #[command(flatten)]
    Change(ChangeCommand),
    /// Set what a user says about a contact. What is not given stays
    Contact(ContactArgs),
    /// What others see of a user: nick, avatar, extra
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// Groups: begin and change them, send and read
    #[command(subcommand)]
    Group(GroupCommand),
    /// Show a user's unread counts; with --json a line for each device class
    Unread(UnreadArgs),
    /// Print what has changed for a user since a token, as JSON; everything without one
    Sync(SyncArgs),
    /// Show a user's devices; with --json a line for each
    Devices {
        /// The user
        uid: UserId,
    },
    /// Connect as a device: print what it learns as lines of JSON, and send the lines of standard input
    Connect(ConnectArgs),
    /// Show a conversation
    History(HistoryArgs),
    /// Show what was changed in a conversation: recalls, edits, and what the user has hidden and cleared
    Changes(ChangesArgs),
    /// Show the outcome of a record of chat.inbound
    Where {
        /// Its position, as in a 202 response: 17:42
        position: InboundPosition,
    },
    /// Show ports, processes, lag and the last audit
    Status,
    /// Show topics, decoded
    Tail(TailArgs),
    /// The dead letters: records that could not be processed
    #[command(subcommand)]
    Dlq(DlqCommand),
    /// Load messages from a file through ingest
    Load(LoadArgs),
    /// Compare every projection with the log
    Audit(AuditArgs),
    /// Rebuild a projection's data from the log in shadow tables, then swap them in
    #[command(subcommand)]
    Rebuild(RebuildCommand),
    /// Show what a reader would have been told at a time (RFC 3339), a date or `now`
    At(AtArgs),
    /// Replay the log, without touching anything live: as of a time into projections of their own, or its decisions
    Replay(ReplayArgs),
    /// The projections that `replay --as-of` has built
    #[command(subcommand)]
    Scratch(ScratchCommand),
    /// Compare a scratch with the log as of its time, or its tables with others; exit code 1 if they differ
    Diff(DiffArgs),
    /// Write the log as Parquet files into a folder or a bucket, for analysts. Repeated, it goes on where it ended
    Export(ExportArgs),
    /// The protobuf types of the topics, for other tools
    #[command(subcommand)]
    Schema(SchemaCommand),
    /// The keys of services
    #[command(subcommand)]
    Key(KeyCommand),
    /// The effective configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a completion script
    Completions {
        /// For which shell
        shell: Shell,
    },
    /// Print the version
    Version,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StackCommand {
    /// Install missing programs: servers, and Kafka's jars
    Install,
    /// Start every process that is not running, and wait until all are ready
    Up,
    /// Stop everything; the data stay
    Down,
    /// Stop everything and drop its data
    Clean,
    /// Run a command with new, empty servers of its own
    Exec {
        /// The command and its arguments
        #[arg(trailing_var_arg = true, required = true)]
        command: Vec<std::ffi::OsString>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApplyOrDiff {
    /// Change them to match the declaration
    Apply,
    /// Show how they differ from it; exit code 1 if they do
    Diff,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DbCommand {
    /// Create or bring up to date databases, tables and months
    Apply,
    /// Skip records of chat.events that were deleted before they were stored, where projector-mysql has halted a partition because of them.
    /// Without --yes it only shows them
    SkipDeleted {
        /// Do it
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum PartitionsCommand {
    /// List them, over all tables
    List,
    /// Drop old ones with all their messages, permanently: a rebuild does not restore them
    Drop {
        /// The first month to retain, as 2026-11
        #[arg(long)]
        before: Month,
        /// Do it; without this, only show what would be dropped
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum EpochCommand {
    /// Continue with chat.inbound as it is now, after a sequencer has halted because chat.inbound was truncated or lost records.
    /// Every sequencer must be stopped. What chat.events shows to be sequenced is not sequenced again
    Raise {
        /// In partitions where chat.events matches no retained record, as in a topic created again, sequence all of them.
        /// Those that were sequenced longer ago than the dedup window would be duplicated
        #[arg(long)]
        from_the_beginning: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// Show what is in force in each partition
    Show,
    /// Change them in every partition, through the log, and wait until that is done. What is not given stays
    #[command(mut_group("RuleArgs", |settings| settings.required(true)))]
    Set(SetRulesArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetRulesArgs {
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    /// How long to wait for the sequencers, seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub(crate) wait_s: u64,
}

#[derive(Debug, clap::Args)]
#[group(multiple = true)]
pub(crate) struct RuleArgs {
    /// The version of the rules, which cannot be taken back. Every sequencer and projection has to know it, or it stops
    #[arg(long)]
    pub(crate) rule_version: Option<u32>,
    /// For how long a client_msg_id is remembered, ms of log time; with 0 every retry is another message
    #[arg(long)]
    pub(crate) dedup_window_ms: Option<i64>,
    /// How many sends a partition remembers at most
    #[arg(long)]
    pub(crate) dedup_max_entries: Option<i64>,
    /// How many of them one sender takes at most, and again as many of the sender's own; needs rule version 2
    #[arg(long)]
    pub(crate) dedup_max_per_sender: Option<i64>,
    /// The largest text, bytes
    #[arg(long)]
    pub(crate) max_msg_bytes: Option<i64>,
    /// How many conversations a user begins in a partition in a day of log time at most, 0 for any number; needs rule version 2
    #[arg(long)]
    pub(crate) new_conversations_per_day: Option<i64>,
    /// For how long its author may recall a message, ms of log time; 0 for never, -1 for always; needs rule version 3
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) recall_window_ms: Option<i64>,
    /// Whether a message may be deleted for both sides: true or false; needs rule version 3
    #[arg(long)]
    pub(crate) delete_for_all: Option<bool>,
    /// How many members a group has at most; needs rule version 3
    #[arg(long)]
    pub(crate) max_group_members: Option<i64>,
    /// How many users, himself included, a user makes members of groups of a partition in a day of log time at most, 0 for any number; needs
    /// rule version 4
    #[arg(long)]
    pub(crate) new_memberships_per_day: Option<i64>,
    /// Of how many groups of a partition a user is a member at most because others made him one, 0 for any number; needs rule version 4
    #[arg(long)]
    pub(crate) max_memberships_by_others: Option<i64>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DlqCommand {
    /// List them, once per original record
    List(DlqFilter),
    /// Show one with its original record and what a redrive would do
    Show {
        /// Its position in chat.dead-letters, as listed: 17:42
        position: InboundPosition,
    },
    /// Post the originals that can be processed now again, through ingest. Nothing is sequenced twice
    Redrive(RedriveArgs),
}

/// Selects dead letters that match every given condition.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct DlqFilter {
    /// The original's topic
    #[arg(long, value_enum)]
    pub(crate) topic: Option<TopicArg>,
    /// The original's partition
    #[arg(long, short, value_parser = partition)]
    pub(crate) partition: Option<Partition>,
    /// The reason: malformed, wrong-partition, too-large, conflict, invalid-control, too-many-conversations, blocked, unknown-message,
    /// not-the-author, too-late, too-old, recalled, not-allowed, unknown-group, group-exists, not-a-member, no-right, muted, group-full,
    /// dissolved, wrong-gid, too-many-memberships, has-left; may be repeated
    #[arg(long)]
    pub(crate) reason: Vec<Reason>,
    /// Written at or after this time (RFC 3339)
    #[arg(long, value_parser = times::argument)]
    pub(crate) since: Option<TimestampMs>,
    /// Written before this time (RFC 3339)
    #[arg(long, value_parser = times::argument)]
    pub(crate) until: Option<TimestampMs>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RedriveArgs {
    #[command(flatten)]
    pub(crate) filter: DlqFilter,
    /// Only show what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Validate every section and file
    Check,
    /// Print the effective settings, secrets redacted
    Print,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SendArgs {
    /// The sender's uid
    pub(crate) from: UserId,
    /// The receiver's uid
    pub(crate) to: UserId,
    /// The text
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) msg: String,
    /// The sender's id of this message; generated if absent
    #[arg(long)]
    pub(crate) client_msg_id: Option<String>,
    /// Wait until it can be read
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AckArgs {
    /// Who has read
    pub(crate) uid: UserId,
    /// Whose messages
    pub(crate) peer: UserId,
    /// On which device class: pc or mobile
    pub(crate) device: DeviceClass,
    /// Up to which message, or `latest`
    #[arg(default_value = "latest")]
    pub(crate) mid: ReadMid,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ContactArgs {
    /// Whose contact it is
    #[arg(long)]
    pub(crate) uid: UserId,
    /// The other user
    #[arg(long)]
    pub(crate) peer: UserId,
    #[command(flatten)]
    pub(crate) change: ContactChangeArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// Set it, whole: what is not given is not kept
    Set(SetProfileArgs),
    /// Show those of some users; with --json a line for each
    Show {
        /// Whose
        #[arg(required = true)]
        uids: Vec<UserId>,
        /// Wait until the answer reflects this event, `<partition>:<offset>` of a 202; may be repeated
        #[arg(long)]
        after: Vec<InboundPosition>,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetProfileArgs {
    /// Whose it is
    pub(crate) uid: UserId,
    /// 1 to 64 characters
    pub(crate) nick: String,
    /// An http or https URL
    #[arg(long)]
    pub(crate) avatar: Option<String>,
    /// A JSON object of at most 4,096 bytes
    #[arg(long)]
    pub(crate) extra: Option<String>,
}

/// At least one.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
pub(crate) struct ContactChangeArgs {
    /// Mark it as a favourite
    #[arg(long, conflicts_with = "unfavourite")]
    pub(crate) favourite: bool,
    /// Not a favourite any more
    #[arg(long)]
    pub(crate) unfavourite: bool,
    /// Show it at the top of the list
    #[arg(long, conflicts_with = "unpin")]
    pub(crate) pin: bool,
    /// Not at the top any more
    #[arg(long)]
    pub(crate) unpin: bool,
    /// No notifications
    #[arg(long, conflicts_with = "unmute")]
    pub(crate) mute: bool,
    /// Notifications again
    #[arg(long)]
    pub(crate) unmute: bool,
    /// Refuse what the other user sends
    #[arg(long, conflicts_with = "unblock")]
    pub(crate) block: bool,
    /// Take what the other user sends again
    #[arg(long)]
    pub(crate) unblock: bool,
    /// Take it out of the list until its next message, and read everything in it
    #[arg(long)]
    pub(crate) delete: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct UnreadArgs {
    /// The user
    pub(crate) uid: UserId,
    /// Only this device class
    #[arg(long)]
    pub(crate) device: Option<DeviceClass>,
    /// Wait until this record of chat.inbound is reflected
    #[arg(long)]
    pub(crate) after: Vec<InboundPosition>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SyncArgs {
    /// The user
    pub(crate) uid: UserId,
    /// `next` of the answer before
    #[arg(long)]
    pub(crate) since: Option<String>,
    /// How many conversations and groups at most, up to 1000; 200 where absent
    #[arg(long)]
    pub(crate) limit: Option<u16>,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A line of standard input is a message, `1001 hello` to a user or `#5000 hello` into a group, or `read 1001`, `read #5000`: everything of it is read; `typing` in place of `read`: the user types; `focus`: he looks at it, and is told whether the user is there."
)]
pub(crate) struct ConnectArgs {
    /// The user
    pub(crate) uid: UserId,
    /// The device's own id: 1 to 64 of A-Z a-z 0-9 . _ -
    #[arg(long, default_value = "cli", value_parser = device_id)]
    pub(crate) device: DeviceId,
    /// Its class: pc or mobile
    #[arg(long, default_value = "pc")]
    pub(crate) class: DeviceClass,
    /// Go on after the end of standard input
    #[arg(long)]
    pub(crate) listen: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct HistoryArgs {
    /// The user
    pub(crate) uid: UserId,
    /// The other user of the conversation
    pub(crate) peer: UserId,
    /// Only what is unread on this device class
    #[arg(long, conflicts_with_all = ["before_mid", "after_mid"])]
    pub(crate) device: Option<DeviceClass>,
    /// Older than this message, newest first
    #[arg(long, conflicts_with = "after_mid")]
    pub(crate) before_mid: Option<i64>,
    /// Newer than this message, oldest first
    #[arg(long)]
    pub(crate) after_mid: Option<i64>,
    /// How many
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=200))]
    pub(crate) limit: Option<u16>,
    /// Wait until this record of chat.inbound is reflected
    #[arg(long)]
    pub(crate) after: Vec<InboundPosition>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ChangesArgs {
    /// The user
    pub(crate) uid: UserId,
    /// The other user of the conversation
    pub(crate) peer: UserId,
    /// Newer than this change
    #[arg(long)]
    pub(crate) after_chg: Option<i64>,
    /// Of what the user has hidden and cleared without a number: behind this offset
    #[arg(long)]
    pub(crate) after_own_pos: Option<i64>,
    /// How many
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=200))]
    pub(crate) limit: Option<u16>,
    /// Wait until this record of chat.inbound is reflected
    #[arg(long)]
    pub(crate) after: Vec<InboundPosition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopicArg {
    Inbound,
    Events,
    Snapshots,
    DeadLetters,
}

impl From<TopicArg> for Topic {
    fn from(topic: TopicArg) -> Self {
        match topic {
            TopicArg::Inbound => Self::Inbound,
            TopicArg::Events => Self::Events,
            TopicArg::Snapshots => Self::Snapshots,
            TopicArg::DeadLetters => Self::DeadLetters,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct TailArgs {
    /// Which topics; the events if absent
    #[arg(value_enum)]
    pub(crate) topics: Vec<TopicArg>,
    /// Only this partition
    #[arg(long, short, value_parser = partition)]
    pub(crate) partition: Option<Partition>,
    /// From this offset, this partition and offset (17:42), `earliest`, `latest`, or this time (RFC 3339)
    #[arg(long, default_value = "latest", value_parser = LogStart::argument)]
    pub(crate) from: LogStart,
    /// Up to and excluding this offset or time; without it, follow the log
    #[arg(long, value_parser = LogPoint::argument)]
    pub(crate) to: Option<LogPoint>,
    /// Stop after this many records
    #[arg(long, short = 'n')]
    pub(crate) max: Option<u64>,
    /// Stop at the log's present end
    #[arg(long)]
    pub(crate) no_follow: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("must be a whole number, 1 or more".to_owned()),
        Ok(number) => Ok(number),
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct LoadArgs {
    /// Lines `sender receiver unix-time`, or NDJSON as POST /v1/events takes it; .gz is unpacked
    pub(crate) file: PathBuf,
    /// Added to every uid of a file of `sender receiver unix-time` lines
    #[arg(long, default_value_t = 0)]
    pub(crate) shift_uids: i64,
    /// Add read-acks of the receivers, the same each time
    #[arg(long)]
    pub(crate) acks: bool,
    /// Lines in one request
    #[arg(long, default_value_t = 2000, value_parser = at_least_one)]
    pub(crate) batch: usize,
    /// Only the first lines
    #[arg(long)]
    pub(crate) limit: Option<usize>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AuditArgs {
    /// Only this conversation, as 1000,1001
    #[arg(long, conflicts_with = "user")]
    pub(crate) conversation: Option<DirectConversation>,
    /// Only this user
    #[arg(long)]
    pub(crate) user: Option<UserId>,
    /// Do not wait for the projections to pass the log's present end
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// How long to wait for the projections, seconds
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub(crate) wait_s: u64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RebuildCommand {
    /// The counts in Redis, of all users who have contacts
    Unread(RebuildArgs),
    /// Read positions, by conversation
    Reads(RebuildArgs),
    /// Messages, by conversation
    Messages(RebuildArgs),
    /// Conversation lists, by user
    Contacts(RebuildArgs),
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RebuildArgs {
    /// Only the table with this number; of Redis, users with uid mod 64 = this
    #[arg(long, short, value_parser = partition)]
    pub(crate) partition: Option<Partition>,
}

fn device_id(text: &str) -> Result<DeviceId, InvalidValue> {
    text.to_owned().try_into()
}

pub(crate) fn partition(text: &str) -> Result<Partition, String> {
    let number: Option<i64> = text.parse().ok();
    number
        .and_then(|number| number.try_into().ok())
        .ok_or_else(|| "must be a number from 0 to 63".to_owned())
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// messages, changes, read-positions, groups, contacts, profiles or events
    pub(crate) dataset: Dataset,
    /// The folder, or s3://bucket/prefix with credentials from AWS_ACCESS_KEY_ID and the like
    #[arg(long)]
    pub(crate) to_dir: String,
    #[command(flatten)]
    pub(crate) range: LogRange,
    /// With the texts of recalled and deleted messages
    #[arg(long, conflicts_with = "without_texts")]
    pub(crate) with_recalled: bool,
    /// Without texts of messages, names and profiles
    #[arg(long)]
    pub(crate) without_texts: bool,
    /// Replace ids by a hash under the key in this file, and leave names and profiles out
    #[arg(long, value_name = "KEYFILE")]
    pub(crate) pseudonyms: Option<PathBuf>,
    /// Only say about how many rows and bytes it would write, and how long that would take
    #[arg(long, conflicts_with = "follow")]
    pub(crate) dry_run: bool,
    /// Go on: export what is appended, sharing the partitions with other processes that do the same
    #[arg(long, conflicts_with_all = ["from", "to", "partition"])]
    pub(crate) follow: bool,
    /// With --follow: how often files are written, seconds
    #[arg(long, requires = "follow", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) every_s: u64,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AtArgs {
    /// The time (RFC 3339), a date, or `now`
    #[arg(value_parser = LogPoint::argument)]
    pub(crate) point: LogPoint,
    #[command(subcommand)]
    pub(crate) question: AtQuestion,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AtQuestion {
    /// A user's unread counts
    Unread {
        /// The user
        uid: UserId,
    },
    /// A user's conversations and groups
    Conversations {
        /// The user
        uid: UserId,
    },
    /// The newest messages of a conversation, as a user saw them
    History(AtHistoryArgs),
    /// The members of a group
    Members {
        /// The group
        gid: GroupId,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct AtHistoryArgs {
    /// The user
    pub(crate) uid: UserId,
    /// The other user of the conversation
    #[arg(required_unless_present = "gid", conflicts_with = "gid")]
    pub(crate) peer: Option<UserId>,
    /// The group
    #[arg(long)]
    pub(crate) gid: Option<GroupId>,
    /// How many
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u16,
}

impl AtHistoryArgs {
    /// The other side of the conversation.
    pub(crate) fn with(&self) -> Recipient {
        let gid = self.gid.map(Recipient::Group);
        let peer = self.peer.map(Recipient::User);
        gid.or(peer).expect("clap requires one of them")
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum SchemaCommand {
    /// Print them as one encoded google.protobuf.FileDescriptorSet
    Descriptor,
    /// Write the .proto files into a folder; without one, print them
    Proto {
        /// The folder, which is created if it does not exist
        folder: Option<PathBuf>,
    },
}

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ReplayArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ReplayCommand>,
    /// Build the projections as they were at this time (RFC 3339), on this date, or `now`. A range instead has its rows of messages only
    #[arg(long, value_parser = LogPoint::argument, conflicts_with = "LogRange")]
    pub(crate) as_of: Option<LogPoint>,
    #[command(flatten)]
    pub(crate) range: Option<LogRange>,
    /// The name for them: 1 to 16 lowercase letters and digits
    #[arg(long, required = true, value_parser = scratch::name)]
    pub(crate) into: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DiffArgs {
    /// The name of the scratch
    #[arg(value_parser = scratch::name)]
    pub(crate) name: String,
    /// `live`, or the name of another scratch; if absent, the log
    #[arg(value_parser = scratch::other_name)]
    pub(crate) other: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScratchCommand {
    /// List them
    List,
    /// Drop one, with its databases and keys
    Drop {
        /// Its name
        #[arg(value_parser = scratch::name)]
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReplayCommand {
    /// Decide about the records of chat.inbound again, with this program and these settings, and say which are decided otherwise than they were; exit
    /// code 1 if any is
    Decisions(ReplayDecisionsArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReplayDecisionsArgs {
    #[command(flatten)]
    pub(crate) range: LogRange,
    /// A dictionary of words; see ingest.word_dictionary
    #[arg(long)]
    pub(crate) words: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// The messages to load
    #[arg(long, default_value = "tests/data/college-msg.txt.gz")]
    pub(crate) data: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ack_is_up_to_a_mid_or_the_latest_message() {
        assert_eq!("latest".parse(), Ok(ReadMid::Latest));
        assert_eq!("42".parse(), Ok(ReadMid::Mid(42.try_into().unwrap())));
        let mut line = vec!["tidemark", "ack", "1", "2", "pc"];
        assert!(Args::try_parse_from(&line).is_ok());
        line.push("latest");
        assert!(Args::try_parse_from(&line).is_ok());
    }

    #[test]
    fn a_recall_window_may_be_below_zero() {
        let line = ["tidemark", "rules", "set", "--recall-window-ms", "-1"];
        let Command::Rules(RulesCommand::Set(set)) = Args::try_parse_from(line).unwrap().command
        else {
            panic!("it sets rules");
        };
        assert_eq!(set.rules.recall_window_ms, Some(-1));
    }

    #[test]
    fn the_help_of_every_command_has_the_exit_codes() {
        fn check(mut command: clap::Command) {
            // Checked before clap adds its own arguments.
            command.get_subcommands().cloned().for_each(check);
            let help = command.render_help().to_string();
            assert!(help.contains("Exit codes: 0 "), "{help}");
        }
        let tidemark = with_exit_codes(Args::command());
        check(tidemark);
    }

    #[test]
    fn a_configuration_file_without_a_name_is_refused() {
        let refused = Args::try_parse_from(["tidemark", "--config", "", "version"]).unwrap_err();
        assert!(refused.to_string().contains("TIDEMARK_CONFIG"), "{refused}");
    }

    #[test]
    fn arguments_that_every_service_refuses_are_wrong_usage() {
        for refused in [
            vec!["tidemark", "send", "1", "2", ""],
            vec!["tidemark", "history", "1", "2", "--limit", "0"],
            vec!["tidemark", "history", "1", "2", "--limit", "201"],
            vec!["tidemark", "changes", "1", "2", "--limit", "0"],
            vec!["tidemark", "ack", "1", "2", "pc", "all"],
            vec!["tidemark", "rules", "set"],
            vec!["tidemark", "rules", "set", "--wait-s", "5"],
            vec!["tidemark", "rules", "set", "--delete-for-all", "yes"],
            vec!["tidemark", "recall", "--by", "1", "--peer", "2"],
            vec![
                "tidemark", "edit", "--by", "1", "--peer", "2", "--mid", "3", "",
            ],
            vec!["tidemark", "contact", "--uid", "1", "--peer", "2"],
            vec![
                "tidemark", "contact", "--uid", "1", "--peer", "2", "--pin", "--unpin",
            ],
        ] {
            let error = Args::try_parse_from(&refused).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{refused:?}");
        }
    }
}
