use std::collections::BTreeSet;

use futures::future::join_all;
use projection::{Coverage, EventBatch, LogEvent, Sink, SinkError};
use schemas::{LogPosition, Partition, PartitionMap};

use super::{
    MergedRow,
    buffer::Buffer,
    catch_up::CatchUp,
    database::{Database, Operation},
};
use crate::{
    destination::Destination,
    metrics::circuit_open,
    severity::{MostSevere, sink_error},
};

/// Keeps the newest value per row in memory, and writes it to one database or to several.
///
/// Each database is written separately, and its offset of every partition is updated, even if it has no row of the partition (PROTOCOL M1). If there
/// are several databases, one that keeps failing or is far behind is left out. Once it takes writes, the log is read for it alone, up to the
/// positions of the others. Only then does everything resume from the lowest offsets (M2).
pub struct CoalescingSink<R: MergedRow> {
    databases: Vec<Database<R>>,
    /// Present only if there are several databases.
    catch_up: Option<CatchUp>,
}

/// A database that lacks more records than this is caught up alone: to read this many again takes about a second.
const FAR_BEHIND: i64 = 100_000;

impl<R: MergedRow> CoalescingSink<R> {
    /// All destinations have the same store, sink and topic.
    pub fn new(destinations: impl IntoIterator<Item = Destination>) -> Self {
        let serving = |destination: Destination| {
            circuit_open(destination.shard, false);
            Database::new(destination)
        };
        Self {
            databases: destinations.into_iter().map(serving).collect(),
            catch_up: None,
        }
    }

    /// A sink that catches up one database. It leaves the metric of the database's circuit as it is.
    pub(super) fn for_catch_up(destination: Destination) -> Self {
        Self {
            databases: vec![Database::new(destination)],
            catch_up: None,
        }
    }

    /// Lets `catch_up` bring databases that were left out up to the positions of the others.
    #[must_use]
    pub fn with(self, catch_up: CatchUp) -> Self {
        Self {
            catch_up: Some(catch_up),
            ..self
        }
    }

    fn buffers(&self) -> impl Iterator<Item = &Buffer<R>> {
        self.databases.iter().filter_map(Database::buffer)
    }

    fn buffers_mut(&mut self) -> impl Iterator<Item = &mut Buffer<R>> {
        self.databases.iter_mut().filter_map(Database::buffer_mut)
    }

    /// The databases in use, by index.
    fn in_use(&self) -> impl Iterator<Item = (usize, &Destination, &Buffer<R>)> {
        let all = self.databases.iter().enumerate();
        all.filter_map(|(index, database)| {
            let buffer = database.buffer()?;
            Some((index, &database.destination, buffer))
        })
    }

    /// The lowest offset of all databases, at which reading resumes, with the watermark stored beside it.
    fn lowest(&self, partition: Partition) -> LogPosition {
        let lowest = self
            .buffers()
            .filter_map(|buffer| buffer.offsets.stored(partition))
            .min_by_key(|at| at.next);
        lowest.unwrap_or_default()
    }

    /// Counts a failure of a database. When its circuit opens, the others continue from the lowest of their own offsets, which may be far ahead.
    fn failed(&mut self, index: usize, operation: Operation, error: SinkError) -> SinkError {
        let others = self.buffers().count() > 1;
        let database = &mut self.databases[index];
        let transient = matches!(error, SinkError::Transient(_));
        if !(transient && database.record_failure(operation) && others) {
            return error;
        }
        database.open_circuit(&error);
        SinkError::Moved(format!("database {} is left out", database.number()))
    }

    /// Starts to catch up databases that have recovered. Adds an error if a database has caught up: everything is to be read again from that
    /// database's offsets. The error is repeated until [`Sink::resume`] closes the circuit.
    fn catch_up(&mut self, errors: &mut MostSevere) {
        let in_use = self.lowest_in_use();
        let Some(catch_up) = self.catch_up.as_mut().filter(|_| !in_use.is_empty()) else {
            return;
        };
        catch_up.set_ends(in_use.clone());
        match catch_up.ended() {
            None => {}
            Some((index, Ok(behind))) => self.databases[index].caught_up_but_for(behind),
            Some((index, Err(error))) => self.databases[index].catch_up_failed(&error),
        }
        let mut databases = self.databases.iter();
        if let Some(database) = databases.find(|one| one.has_caught_up(&in_use)) {
            let number = database.number();
            errors.note(SinkError::Moved(format!("database {number} has caught up")));
        } else if !catch_up.is_running() {
            let each = self.databases.iter().enumerate();
            let mut lacking = each.map(|(index, one)| (index, one.to_catch_up(&in_use)));
            if let Some((index, partitions)) = lacking.find(|(_, lacks)| !lacks.is_empty()) {
                let destination = self.databases[index].destination.clone();
                catch_up.start::<R>(index, destination, partitions);
            }
        }
    }

    /// The positions at which reading would resume now.
    fn lowest_in_use(&self) -> PartitionMap<LogPosition> {
        let partitions = self
            .buffers()
            .flat_map(|buffer| buffer.offsets.partitions());
        partitions
            .map(|partition| (partition, self.lowest(partition)))
            .collect()
    }

    /// Leaves out databases that are far behind another one, which would otherwise have to wait until everything in between has been read again.
    fn leave_out_far_behind(&mut self, resumed: &[Partition]) {
        if self.catch_up.is_none() {
            return;
        }
        let in_use = self.lowest_in_use();
        // A partition that stays behind does not count.
        let offsets = |buffer: &Buffer<R>| -> i64 {
            let stored = |p: &Partition| buffer.offsets.stored(*p).or(in_use.get(*p).copied());
            let stored = resumed.iter().filter_map(stored);
            stored.map(|at| at.next.get()).sum()
        };
        let furthest = self.buffers().map(offsets).max().unwrap_or_default();
        for database in &mut self.databases {
            let behind = database.buffer().map_or(0, |own| furthest - offsets(own));
            if behind > FAR_BEHIND {
                database.leave_behind(behind);
            }
        }
    }

    /// Leaves out of a database the partitions in which it could not be caught up, if another database has them.
    fn leave_what_is_behind(&mut self, resumed: &[Partition]) {
        for index in 0..self.databases.len() {
            for &partition in resumed {
                if self.databases[index].is_behind(partition) {
                    let stored = |b: &&Buffer<R>| b.offsets.stored(partition).is_some();
                    let others_have_it = self.buffers().filter(stored).count() > 1;
                    self.databases[index].leave(partition, others_have_it);
                }
            }
        }
    }

    /// Closes the circuits of databases that have recovered, if every partition in use is resumed now: the offsets of a database that comes back are
    /// known for these partitions only.
    fn close_circuits(&mut self, resumed: &[Partition]) {
        let all = self
            .buffers()
            .flat_map(|buffer| buffer.offsets.partitions())
            .all(|partition| resumed.contains(&partition));
        if all {
            self.abort_catch_up();
            let databases = self.databases.iter_mut();
            let recovered = databases.filter(|database| database.has_recovered());
            recovered.for_each(Database::close_circuit);
        }
    }

    /// Stops the catch-up. Rows that it has not written are read again when the database or its partitions are read next.
    fn abort_catch_up(&mut self) {
        if let Some(catch_up) = &mut self.catch_up {
            catch_up.abort();
        }
    }

    fn coverage(&self) -> Coverage {
        let databases = self.databases.iter();
        let left_out: Vec<String> = databases.filter_map(Database::left_out).collect();
        if left_out.is_empty() {
            Coverage::Whole
        } else {
            Coverage::Without(left_out.join(", "))
        }
    }

    pub(crate) fn absorb_event(&mut self, partition: Partition, event: &LogEvent) {
        let offset = event.offset;
        R::for_each(event, |row| {
            if let Some(buffer) = self.buffer_lacking(&row, partition, offset) {
                buffer.merge(row);
            }
        });
    }

    /// The buffer of a row's database, if that database has yet to take the record at this offset.
    fn buffer_lacking(
        &mut self,
        row: &R,
        partition: Partition,
        offset: i64,
    ) -> Option<&mut Buffer<R>> {
        let table = row.table();
        let mut databases = self.databases.iter_mut();
        let database = databases.find(|database| database.destination.has_table(table))?;
        let buffer = database.buffer_mut()?;
        buffer.lacks(partition, offset).then_some(buffer)
    }

    /// Writes every database in use; failures of some do not stop the others.
    async fn write_all(&mut self, errors: &mut MostSevere) {
        let writes = self
            .in_use()
            .map(async |(index, to, buffer)| (index, buffer.write(to).await));
        for (index, outcome) in join_all(writes).await {
            match outcome {
                Ok(()) => self.databases[index].write_succeeded(),
                Err(error) => {
                    errors.note(self.failed(index, Operation::Write, sink_error(error)));
                }
            }
        }
    }

    async fn verify_all(&mut self, errors: &mut MostSevere) {
        let checks = self
            .in_use()
            .map(async |(index, at, buffer)| (index, at.verify(&buffer.offsets).await));
        for (index, outcome) in join_all(checks).await {
            match outcome {
                Ok(()) => self.databases[index].read_succeeded(),
                Err(error) => errors.note(self.failed(index, Operation::Read, error)),
            }
        }
    }

    async fn read_all_offsets(&mut self, partitions: &[Partition], errors: &mut MostSevere) {
        let reads = self
            .in_use()
            .map(async |(index, at, _)| (index, at.read_offsets(partitions).await));
        for (index, outcome) in join_all(reads).await {
            match outcome {
                Ok(found) => self.reset(index, found),
                Err(error) => errors.note(self.failed(index, Operation::Read, error)),
            }
        }
    }

    pub(crate) fn reset(&mut self, index: usize, found: PartitionMap<LogPosition>) {
        let database = &mut self.databases[index];
        database.read_succeeded();
        if let Some(buffer) = database.buffer_mut() {
            buffer.reset(found);
        }
    }
}

impl<R: MergedRow> Sink for CoalescingSink<R> {
    async fn resume(
        &mut self,
        partitions: &[Partition],
    ) -> Result<PartitionMap<LogPosition>, SinkError> {
        self.close_circuits(partitions);
        let mut errors = MostSevere::default();
        self.read_all_offsets(partitions, &mut errors).await;
        errors.into_result()?;
        self.leave_what_is_behind(partitions);
        self.leave_out_far_behind(partitions);
        Ok(partitions
            .iter()
            .map(|partition| (*partition, self.lowest(*partition)))
            .collect())
    }

    fn positions(&self, partition: Partition) -> BTreeSet<LogPosition> {
        let of_each = self
            .buffers()
            .filter_map(|buffer| buffer.offsets.stored(partition));
        of_each.collect()
    }

    fn absorb(&mut self, batch: EventBatch) {
        for event in &batch.events {
            self.absorb_event(batch.partition, event);
        }
        for buffer in self.buffers_mut() {
            buffer.offsets.advance(batch.partition, batch.end);
        }
    }

    fn pending(&self) -> usize {
        self.buffers().map(Buffer::len).sum()
    }

    async fn flush(&mut self) -> Result<Coverage, SinkError> {
        let mut errors = MostSevere::default();
        self.write_all(&mut errors).await;
        self.catch_up(&mut errors);
        errors.into_result()?;
        Ok(self.coverage())
    }

    async fn verify(&mut self) -> Result<Coverage, SinkError> {
        let mut errors = MostSevere::default();
        self.verify_all(&mut errors).await;
        self.catch_up(&mut errors);
        errors.into_result()?;
        Ok(self.coverage())
    }

    fn release(&mut self, partitions: &[Partition]) {
        self.abort_catch_up();
        for database in &mut self.databases {
            database.forget(partitions);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use event_log::KafkaConfig;
    use message_store::{MessageStore, MySqlConfig, ServerConfig};
    use schemas::{NextOffset, event::SourceOffset};

    use super::*;
    use crate::coalesce::UserRow;

    /// Two databases of a server that does not exist. The first has offsets of partitions 1 and 2; the circuit of the second is open, and
    /// it has caught up.
    fn sink() -> CoalescingSink<UserRow> {
        let config = MySqlConfig {
            servers: vec![ServerConfig {
                port: 1,
                ..ServerConfig::default()
            }],
            databases: 2,
            connect_timeout_ms: 100,
            ..MySqlConfig::default()
        };
        let store = MessageStore::connect(&config);
        let destinations = Destination::all(&store, message_store::Sink::Contacts, "chat.events");
        let settings = projection::Settings {
            group: "contacts".to_owned(),
            max_pending: 1_000,
            interval: Duration::from_millis(500),
            verify_every: Duration::from_secs(5),
            max_queued_bytes: 1 << 20,
            if_deleted: "",
            if_truncated: |_partition| String::new(),
        };
        let catch_up = CatchUp::new(KafkaConfig::default(), settings);
        let mut sink = CoalescingSink::new(destinations).with(catch_up);
        let found = partitions().map(|partition| (partition, LogPosition::default()));
        sink.reset(0, found.into());
        sink.databases[1].open_and_catch_up();
        sink
    }

    fn at(next: i64, offset: i64) -> LogPosition {
        LogPosition {
            next: NextOffset::new(next),
            watermark: SourceOffset { epoch: 0, offset },
        }
    }

    fn partitions() -> [Partition; 2] {
        [1_i64, 2].map(|n| n.try_into().unwrap())
    }

    #[tokio::test]
    async fn a_database_that_caught_up_is_reported_until_everything_is_resumed() {
        let mut sink = sink();
        for _ in 0..2 {
            let outcome = sink.flush().await;
            assert!(matches!(outcome, Err(SinkError::Moved(_))), "{outcome:?}");
            let outcome = sink.verify().await;
            assert!(matches!(outcome, Err(SinkError::Moved(_))), "{outcome:?}");
        }
        // The database's offsets of the other partitions would stay unknown.
        assert!(sink.resume(&partitions()[..1]).await.is_err());
        assert!(sink.databases[1].has_recovered());
        assert!(sink.resume(&partitions()).await.is_err());
        assert!(sink.databases[1].buffer().is_some());
    }

    #[tokio::test]
    async fn reading_resumes_at_the_lowest_offset_with_the_watermark_stored_beside_it() {
        let mut sink = sink();
        sink.databases[1].close_circuit();
        let [partition, _] = partitions();
        sink.reset(0, [(partition, at(9, 90))].into());
        sink.reset(1, [(partition, at(4, 40))].into());
        assert_eq!(sink.lowest(partition), at(4, 40));
    }

    #[tokio::test]
    async fn reading_does_not_resume_at_offsets_that_are_far_behind() {
        let mut sink = sink();
        sink.databases[1].close_circuit();
        let [partition, _] = partitions();
        for behind in [FAR_BEHIND, FAR_BEHIND + 1] {
            sink.reset(0, [(partition, at(4 + behind, 40 + behind))].into());
            sink.reset(1, [(partition, at(4, 40))].into());
            sink.leave_out_far_behind(&partitions());
            let is_left_out = sink.databases[1].buffer().is_none();
            assert_eq!(is_left_out, behind > FAR_BEHIND);
        }
        assert_eq!(
            sink.lowest(partition),
            at(4 + FAR_BEHIND + 1, 40 + FAR_BEHIND + 1)
        );
    }

    #[tokio::test]
    async fn a_partition_stays_behind_where_another_database_has_it() {
        let mut sink = sink();
        sink.databases[1].close_circuit();
        let [behind, other] = partitions();
        sink.databases[1].caught_up_but_for([(behind, "why".to_owned())].into());
        sink.reset(0, partitions().map(|p| (p, at(9 + FAR_BEHIND, 90))).into());
        sink.reset(1, partitions().map(|p| (p, at(9, 40))).into());
        sink.leave_what_is_behind(&partitions());
        sink.leave_out_far_behind(&partitions());
        assert_eq!(sink.lowest(behind), at(9 + FAR_BEHIND, 90));
        assert_eq!(sink.lowest(other), at(9, 40));
        let left_out = "partition 1 of database 1 (why)".to_owned();
        assert_eq!(sink.coverage(), Coverage::Without(left_out));

        sink.databases[0].open_circuit(&"it is away");
        sink.reset(1, partitions().map(|p| (p, at(9, 40))).into());
        sink.leave_what_is_behind(&partitions());
        assert_eq!(sink.lowest(behind), at(9, 40));
    }

    #[tokio::test]
    async fn a_member_without_partitions_has_nothing_to_resume() {
        let mut sink = sink();
        sink.release(&partitions());
        assert!(matches!(sink.flush().await, Ok(Coverage::Without(_))));
    }
}
