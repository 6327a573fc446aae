//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use message_store::Month;
use schemas::{
    DeviceClass, DirectConversation, InboundPosition, Partition, TimestampMs, UserId,
    dead_letter::Reason, topics::Topic,
};
use service_runtime::ConfigArgs;

use crate::{credentials::Credentials, key_args::KeyCommand, up_to::UpTo};

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

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run every service in this process
    Up,
    /// Run the HTTP door for producers
    Ingest,
    /// Run the sequencer
    Sequencer,
    /// Run the projection into Redis
    ProjectorUnread,
    /// Run the projections into MySQL
    ProjectorMysql,
    /// Run the HTTP API for readers
    QueryApi,
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
    /// Send a message
    Send(SendArgs),
    /// Say that a user has read
    Ack(AckArgs),
    /// Show a user's unread counts; with --json a line for each device class
    Unread(UnreadArgs),
    /// Show a conversation
    History(HistoryArgs),
    /// Say what became of a record of chat.inbound
    Where {
        /// Its place, as a 202 says it: 17:42
        position: InboundPosition,
    },
    /// Show ports, processes, lag and the last audit
    Status,
    /// Show topics, decoded
    Tail(TailArgs),
    /// The dead letters: what could not be processed
    #[command(subcommand)]
    Dlq(DlqCommand),
    /// Load messages from a file through ingest
    Load(LoadArgs),
    /// Compare every projection with the log
    Audit(AuditArgs),
    /// Build what projections keep anew, from the log, beside the live data; then switch
    #[command(subcommand)]
    Rebuild(RebuildCommand),
    /// Measure the running stack: rates per stage and send→readable latencies
    Measure(MeasureArgs),
    /// The keys of services
    #[command(subcommand)]
    Key(KeyCommand),
    /// The configuration in force
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
    /// Install what is missing: servers, and Kafka's jars
    Install,
    /// Start what is not running, and wait until it is ready
    Up,
    /// Stop everything; data stay
    Down,
    /// Stop everything and drop its data
    Clean,
    /// Run a command with fresh servers of its own
    Exec {
        /// The command and its arguments
        #[arg(trailing_var_arg = true, required = true)]
        command: Vec<std::ffi::OsString>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApplyOrDiff {
    /// Make them agree with the declaration
    Apply,
    /// Say in what they differ; exit code 1 if they do
    Diff,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DbCommand {
    /// Create or bring up to date databases, tables and months
    Apply,
    /// Go on without records of chat.events that were deleted before they were stored: for when projector-mysql ends and
    /// says so. Without --yes it only shows them
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
    /// Drop old ones with all their messages, for good: a rebuild does not bring them back
    Drop {
        /// The first month that stays, as 2026-11
        #[arg(long)]
        before: Month,
        /// Do it; without this, only say what would go
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum EpochCommand {
    /// Go on with chat.inbound as it is now: for when a sequencer halts because it went back or lost records, and
    /// says so. Every sequencer must be stopped. Nothing that chat.events shows to be sequenced is sequenced again
    Raise {
        /// Where no retained record of a partition is known from chat.events, as in a topic created anew, sequence all of them.
        /// Those that were sequenced longer ago than the dedup window would be doubled
        #[arg(long)]
        from_the_beginning: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum DlqCommand {
    /// List them, each original once
    List(DlqFilter),
    /// Show one with everything that is known of it
    Show {
        /// Its place on chat.dead-letters, as the list says it: 17:42
        position: InboundPosition,
    },
    /// Post what can be processed now once more, through ingest. Nothing is sequenced twice
    Redrive(RedriveArgs),
}

/// Which dead letters; all that apply must hold.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct DlqFilter {
    /// Whose original was on this topic
    #[arg(long, value_enum)]
    pub(crate) topic: Option<TopicArg>,
    /// Whose original was in this partition
    #[arg(long, short)]
    pub(crate) partition: Option<i64>,
    /// Of this reason: malformed, wrong-partition, too-large, conflict, invalid-control; may be repeated
    #[arg(long)]
    pub(crate) reason: Vec<Reason>,
    /// Written at or after this time (RFC 3339)
    #[arg(long, value_parser = time)]
    pub(crate) since: Option<TimestampMs>,
    /// Written before this time (RFC 3339)
    #[arg(long, value_parser = time)]
    pub(crate) until: Option<TimestampMs>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RedriveArgs {
    #[command(flatten)]
    pub(crate) filter: DlqFilter,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

pub(crate) fn time(text: &str) -> Result<TimestampMs, String> {
    crate::times::parse(text).ok_or_else(|| "must be a time like 2026-11-21T08:00:00Z".to_owned())
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Read everything and say what is wrong
    Check,
    /// Print what is in force, secrets redacted
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
    /// The sender's id of this send; made up if absent
    #[arg(long)]
    pub(crate) client_msg_id: Option<String>,
    /// Wait until it is readable
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
    pub(crate) mid: UpTo,
}

#[derive(Debug, clap::Args)]
pub(crate) struct UnreadArgs {
    /// Whose counts
    pub(crate) uid: UserId,
    /// Only this device class
    #[arg(long)]
    pub(crate) device: Option<DeviceClass>,
    /// Reflect at least this record of chat.inbound
    #[arg(long)]
    pub(crate) after: Vec<InboundPosition>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct HistoryArgs {
    /// Who reads
    pub(crate) uid: UserId,
    /// The other side
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
    /// Reflect at least this record of chat.inbound
    #[arg(long)]
    pub(crate) after: Vec<InboundPosition>,
}

/// A topic by what it is for.
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
    #[arg(long, short)]
    pub(crate) partition: Option<i64>,
    /// From this offset, `earliest`, `latest`, or this time (RFC 3339)
    #[arg(long, default_value = "latest")]
    pub(crate) from: String,
    /// Up to, and without, this offset or this time; without it, what is there and then what comes
    #[arg(long)]
    pub(crate) to: Option<String>,
    /// Stop after this many records
    #[arg(long, short = 'n')]
    pub(crate) max: Option<u64>,
    /// Stop at what is there now
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
    /// Let every receiver read some of it, deterministically
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
    #[arg(long, default_value_t = 120)]
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

fn partition(text: &str) -> Result<Partition, String> {
    let number: Option<i64> = text.parse().ok();
    number
        .and_then(|number| number.try_into().ok())
        .ok_or_else(|| "must be a number from 0 to 63".to_owned())
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// The messages to load
    #[arg(long, default_value = "tests/data/college-msg.txt.gz")]
    pub(crate) data: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct MeasureArgs {
    /// How long each part takes, seconds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) seconds: u64,
    /// Messages a second in the latency part
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: u32,
    /// Leave out the parts that load the stack as far as it goes
    #[arg(long)]
    pub(crate) latency_only: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_service_would_take_is_wrong_usage() {
        for refused in [
            vec!["tidemark", "send", "1", "2", ""],
            vec!["tidemark", "history", "1", "2", "--limit", "0"],
            vec!["tidemark", "history", "1", "2", "--limit", "201"],
            vec!["tidemark", "ack", "1", "2", "pc", "all"],
        ] {
            let error = Args::try_parse_from(&refused).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{refused:?}");
        }
    }
}
