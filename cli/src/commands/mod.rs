//! The commands, one per file.

mod ack;
mod at;
mod audit;
mod change;
mod changes;
mod config;
mod connect;
mod contact;
mod db;
mod demo;
mod demo_groups;
mod demo_stories;
mod diff;
mod dlq;
mod epoch;
mod export;
mod group;
mod history;
mod key;
mod load;
mod page;
mod partitions;
mod profile;
mod rebuild;
mod replay;
mod rules;
mod schema;
pub(crate) mod scratch;
mod send;
mod skip_deleted;
mod stack;
mod status;
mod sync;
mod tail;
mod topics;
mod unread;
mod up;
mod r#where;

use std::process::ExitCode;

use clap::CommandFactory as _;
use service_runtime::{ConfigSource, Process, RuntimeConfig, run_service};

use crate::{
    args::{Args, Command, DbCommand, EpochCommand},
    context::CommandContext,
};

const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "tidemark", &mut script);
            print!("{}", String::from_utf8_lossy(&script));
            return Ok(ExitCode::SUCCESS);
        }
        Command::Schema(command) => {
            schema::run(&command)?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Version => {
            if args.json {
                println!("{}", serde_json::json!({ "version": VERSION }));
            } else {
                println!("tidemark {VERSION}");
            }
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    let source = args.config.load()?;
    if let Command::Key(command) = args.command {
        key::run(&source, command, args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Command::Stack(command) = args.command {
        quiet_logs("error,dev_stack=info");
        return stack::run(&source, command, args.json);
    }
    if args.command.is_for_analysts() {
        // Threads have the policy of the thread that makes them, so this comes before the runtime.
        event_log::give_way();
    }
    let runtime = if args.command.is_service() {
        source.section::<RuntimeConfig>("runtime")?.build()?
    } else {
        tokio::runtime::Runtime::new()?
    };
    let context = CommandContext {
        source,
        credentials: args.credentials,
    };
    let result = runtime.block_on(dispatch(args.command, args.json, context));
    // A blocked thread of a stopped service must not keep the process running.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    result
}

async fn dispatch(
    command: Command,
    json: bool,
    context: CommandContext,
) -> anyhow::Result<ExitCode> {
    match command {
        // `config` needs no server, but its Kafka client would log at once that none answers.
        Command::Config(_) => quiet_logs("error,event_log::context=off"),
        _ if !command.is_service() => quiet_logs("error,dev_stack=info"),
        _ => {}
    }
    // Wrong arguments are reported whether or not a server answers.
    match &command {
        Command::Tail(args) => tail::check(args)?,
        Command::Export(args) => args.range.check()?,
        Command::Replay(args) => replay::check(args)?,
        Command::At(args) => at::check(args)?,
        _ => {}
    }
    if command.needs_kafka() {
        context.reach_kafka().await?;
        if !matches!(command, Command::Topics(_)) {
            context.find_topics().await?;
        }
    }
    if command.needs_mysql() {
        context.reach_mysql().await?;
    }
    match command {
        Command::Up => serve("tidemark", context.source, up::serve).await?,
        Command::Ingest => serve("tidemark-ingest", context.source, ingest::serve).await?,
        Command::Sequencer => serve("tidemark-sequencer", context.source, sequencer::serve).await?,
        Command::ProjectorUnread => {
            serve(
                "tidemark-projector-unread",
                context.source,
                projector_unread::serve,
            )
            .await?;
        }
        Command::ProjectorMysql => {
            serve(
                "tidemark-projector-mysql",
                context.source,
                projector_mysql::serve,
            )
            .await?;
        }
        Command::QueryApi => serve("tidemark-query-api", context.source, query_api::serve).await?,
        Command::Gateway => serve("tidemark-gateway", context.source, gateway::serve).await?,
        Command::Demo(args) => return demo::run(context, &args).await,
        Command::Topics(command) => return topics::run(&context, &command, json).await,
        Command::Db(DbCommand::Apply) => db::apply(&context, json).await?,
        Command::Db(DbCommand::SkipDeleted { yes }) => {
            skip_deleted::run(&context, yes, json).await?;
        }
        Command::Partitions(command) => partitions::run(&context, &command, json).await?,
        Command::Epoch(EpochCommand::Raise { from_the_beginning }) => {
            epoch::raise(&context, from_the_beginning, json).await?;
        }
        Command::Rules(command) => rules::run(&context, command, json).await?,
        Command::Send(args) => send::run(&context, args, json).await?,
        Command::Ack(args) => ack::run(&context, &args, json).await?,
        Command::Change(command) => change::run(&context, command, json).await?,
        Command::Contact(args) => contact::run(&context, &args, json).await?,
        Command::Profile(command) => profile::run(&context, &command, json).await?,
        Command::Group(command) => group::run(&context, command, json).await?,
        Command::Unread(args) => unread::run(&context, &args, json).await?,
        Command::Connect(args) => connect::run(&context, &args).await?,
        Command::Sync(args) => sync::sync(&context, &args).await?,
        Command::Devices { uid } => sync::devices(&context, uid, json).await?,
        Command::History(args) => history::run(&context, &args, json).await?,
        Command::Changes(args) => changes::run(&context, &args, json).await?,
        Command::Where { position } => r#where::run(&context, position, json).await?,
        Command::Status => return status::run(&context, json).await,
        Command::Tail(args) => tail::run(&context, args, json).await?,
        Command::Dlq(command) => return dlq::run(&context, command, json).await,
        Command::Load(args) => return load::run(&context, &args, json).await,
        Command::Audit(args) => return audit::run(&context, &args, json).await,
        Command::Rebuild(command) => rebuild::run(&context, &command, json).await?,
        Command::Export(args) => export::run(&context, &args, json).await?,
        Command::At(args) => at::run(&context, args, json).await?,
        Command::Replay(args) => return replay::run(&context, args, json).await,
        Command::Scratch(command) => scratch::run(&context, &command, json).await?,
        Command::Diff(args) => return diff::run(&context, &args, json).await,
        Command::Config(command) => config::run(&context.source, &command, json)?,
        Command::Stack(_)
        | Command::Key(_)
        | Command::Schema(_)
        | Command::Completions { .. }
        | Command::Version => {}
    }
    Ok(ExitCode::SUCCESS)
}

async fn serve(
    name: &str,
    source: ConfigSource,
    wire: impl AsyncFnOnce(&Process) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    run_service(name, VERSION, source, wire).await
}

impl Command {
    /// Whether the command needs Kafka itself.
    fn needs_kafka(&self) -> bool {
        let reads_log = matches!(
            self,
            Self::Tail(_)
                | Self::Dlq(_)
                | Self::Audit(_)
                | Self::Rebuild(_)
                | Self::Export(_)
                | Self::Replay(_)
                | Self::At(_)
                | Self::Scratch(_)
                | Self::Diff(_)
        );
        let skips = matches!(self, Self::Db(DbCommand::SkipDeleted { .. }));
        reads_log || skips || matches!(self, Self::Topics(_) | Self::Epoch(_) | Self::Rules(_))
    }

    fn needs_mysql(&self) -> bool {
        matches!(
            self,
            Self::Db(_)
                | Self::Partitions(_)
                | Self::Audit(_)
                | Self::Rebuild(_)
                | Self::Scratch(_)
                | Self::Diff(_)
        ) || matches!(self, Self::Replay(args) if args.command.is_none())
    }

    /// Whether the command is for analysts, who can wait: live traffic gets the processor first.
    fn is_for_analysts(&self) -> bool {
        matches!(
            self,
            Self::Export(_) | Self::Replay(_) | Self::At(_) | Self::Diff(_)
        )
    }

    fn is_service(&self) -> bool {
        matches!(
            self,
            Self::Up
                | Self::Ingest
                | Self::Sequencer
                | Self::ProjectorUnread
                | Self::ProjectorMysql
                | Self::QueryApi
                | Self::Gateway
        )
    }
}

/// Commands print their own results: of the libraries only errors are logged, unless RUST_LOG asks for more.
fn quiet_logs(filter: &str) {
    use service_runtime::telemetry::{self, TelemetryConfig};
    let quiet = TelemetryConfig {
        filter: filter.to_owned(),
        ..TelemetryConfig::default()
    };
    if let Err(error) = telemetry::init(&quiet) {
        eprintln!("tidemark: {error:#}");
    }
}
