use std::iter::repeat_n;

use event_log::KafkaConfig;
use message_store::{ClearedCursors, Layout, MessageStore, ReadRow, Sink as StoreSink};
use mysql_sinks::{
    CatchUp, CoalescingSink, Destination, MessagesSink, UserRow, describe_metrics,
    keep_filling_unresolved_reads,
};
use projection::{Settings, Sink};
use schemas::{Partition, topics::Topic};
use service_runtime::{Health, Process, Supervisor, without_calls};

use crate::{
    Config, ProjectorMySqlConfig, Table,
    janitor::{self, Janitor},
    metrics,
};

/// Reads the configuration, starts the service and serves it on its own address, as a process of this service alone does.
///
/// # Errors
/// Configuration, the address, and those of [`start`].
pub async fn serve(process: &Process) -> anyhow::Result<()> {
    let listen = ("projector_mysql.listen", |config: &Config| {
        config.projector_mysql.listen
    });
    process.run(Config::load, listen, start).await
}

/// Starts the projections and the janitor; the API is empty beside the probes.
///
/// # Errors
/// None at present: if a server is away, a readiness check fails.
pub async fn start(
    config: Config,
    supervisor: &Supervisor,
    health: &Health,
) -> anyhow::Result<axum::Router> {
    metrics::describe();
    describe_metrics();
    let projections = Projections {
        store: MessageStore::connect(&config.mysql),
        kafka: &config.kafka,
        own: &config.projector_mysql,
        supervisor,
        health,
    };
    for table in &config.projector_mysql.projections {
        projections.spawn(*table);
    }
    projections.spawn_janitor();
    Ok(without_calls(
        "Tidemark projector-mysql",
        "Keeps messages, read positions and conversation lists in MySQL equal to the log.",
    ))
}

/// Each database has as many workers as writers, and each of those a share of the database's partitions.
fn worker_by_writer(
    layout: Layout,
    writers: usize,
) -> impl Fn(Partition) -> usize + Copy + Send + 'static {
    move |partition| {
        let database = usize::from(layout.shard_of(partition).get());
        database * writers + partition.index() % writers
    }
}

/// What projections are started with.
struct Projections<'a> {
    store: MessageStore,
    kafka: &'a KafkaConfig,
    own: &'a ProjectorMySqlConfig,
    supervisor: &'a Supervisor,
    health: &'a Health,
}

impl Projections<'_> {
    fn spawn(&self, table: Table) {
        let layout = self.store.layout();
        let destinations = |sink| {
            let topic = self.kafka.topic(Topic::Events);
            Destination::all(&self.store, sink, &topic).into_iter()
        };
        match table {
            Table::Messages => {
                let writers = usize::from(self.own.messages_writers);
                let sinks = destinations(StoreSink::Messages)
                    .flat_map(|to| repeat_n(to, writers).map(MessagesSink::new));
                let worker_of = worker_by_writer(layout, writers);
                self.spawn_named("messages", self.own.messages(), sinks.collect(), worker_of);
            }
            Table::Reads => {
                let sinks =
                    destinations(StoreSink::Reads).map(|to| CoalescingSink::<ReadRow>::new([to]));
                let worker_of = worker_by_writer(layout, 1);
                self.spawn_named("reads", self.own.reads(), sinks.collect(), worker_of);
            }
            Table::Contacts => {
                let settings = self.own.contacts();
                let catch_up = CatchUp::new(self.kafka.clone(), settings.clone());
                let sink = CoalescingSink::<UserRow>::new(destinations(StoreSink::Contacts));
                self.spawn_named("contacts", settings, vec![sink.with(catch_up)], |_| 0);
                self.spawn_unresolved_reads();
            }
        }
    }

    fn spawn_named<S: Sink>(
        &self,
        what: &str,
        settings: Settings,
        sinks: Vec<S>,
        worker_of: impl Fn(Partition) -> usize + Copy + Send + 'static,
    ) {
        let gate = self.health.check(format!("projector-mysql.{what}"));
        let soft = self.supervisor.shutdown().soft().clone();
        let kafka = self.kafka.clone();
        self.supervisor.spawn(settings.group.clone(), async move {
            Ok(projection::run(&kafka, settings, sinks, worker_of, gate, soft).await?)
        });
    }

    fn spawn_unresolved_reads(&self) {
        for shard in self.store.layout().shards() {
            let soft = self.supervisor.shutdown().soft().clone();
            let topic = self.kafka.topic(Topic::Events);
            let run = keep_filling_unresolved_reads(self.store.clone(), shard, topic, soft);
            self.supervisor
                .spawn("projector-mysql-unresolved-reads", run);
        }
    }

    fn spawn_janitor(&self) {
        let janitor = Janitor {
            cleared: ClearedCursors::default(),
            store: self.store.clone(),
            months_ahead: self.own.months_ahead,
            months_kept: self.own.months_kept,
            devices_kept_days: self.own.devices_kept_days,
            left_kept_days: self.own.left_kept_days,
            kafka: self.kafka.clone(),
            clock: janitor::wall_clock,
            interval: self.own.janitor_interval(),
            gate: self.health.check("projector-mysql.months"),
        };
        let soft = self.supervisor.shutdown().soft().clone();
        self.supervisor
            .spawn("projector-mysql-janitor", janitor.run(soft));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use message_store::MySqlConfig;

    use super::*;

    #[test]
    fn writers_share_the_tables_of_their_database() {
        let layout = Layout::new(&MySqlConfig::default());
        let databases = layout.shards().len();
        for writers in [1, 2, 3] {
            let worker_of = worker_by_writer(layout, writers);
            let mut tables: BTreeMap<usize, Vec<Partition>> = BTreeMap::new();
            for partition in Partition::all() {
                tables
                    .entry(worker_of(partition))
                    .or_default()
                    .push(partition);
            }
            assert!(tables.keys().copied().eq(0..databases * writers));
            for (worker, tables) in tables {
                let database = |table: &Partition| usize::from(layout.shard_of(*table).get());
                assert!(
                    tables
                        .iter()
                        .map(database)
                        .all(|found| found == worker / writers)
                );
                // 16 tables of a database.
                assert!(tables.len().abs_diff(16 / writers) <= 1, "{tables:?}");
            }
        }
    }
}
