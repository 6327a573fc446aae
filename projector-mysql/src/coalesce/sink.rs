use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use message_store::Resume;
use projection::{Coverage, LogEvent, Sink, SinkError, Slice};
use schemas::{LogPosition, Partition};

use super::{
    MergedRow,
    database::{Database, Deed},
    open_read,
    open_read::OpenRead,
    target::{Target, Told, told},
};
use crate::{
    ledger::{Place, position_of, resume_of},
    outcome::{Gravest, sink_error},
};

/// Keeps the newest value per row in memory, and writes it to one database or to several.
///
/// Every database is written by itself and moves every partition, also where it has no row of it (PROTOCOL M1). Where
/// there are several, one that cannot be used is set aside; once it takes writes again, everything resumes from the lowest.
pub(crate) struct CoalescingSink<R: MergedRow> {
    databases: Vec<Database<R>>,
}

impl<R: MergedRow> CoalescingSink<R> {
    /// One or more places of the same store, sink and topic.
    pub(crate) fn new(places: Vec<Place>) -> Self {
        Self {
            databases: places.into_iter().map(Database::new).collect(),
        }
    }

    fn targets(&self) -> impl Iterator<Item = &Target<R>> {
        self.databases.iter().filter_map(Database::target)
    }

    fn targets_mut(&mut self) -> impl Iterator<Item = &mut Target<R>> {
        self.databases.iter_mut().filter_map(Database::target_mut)
    }

    /// The databases in use, by index, with what is held for them.
    fn in_use(&self) -> impl Iterator<Item = (usize, &Place, &Target<R>)> {
        let all = self.databases.iter().enumerate();
        all.filter_map(|(index, database)| {
            let target = database.target()?;
            Some((index, &database.place, target))
        })
    }

    /// Reading goes on where the database that is furthest behind stands, with the watermark that it has itself.
    fn lowest(&self, partition: Partition) -> LogPosition {
        let lowest = self
            .targets()
            .filter_map(|target| target.ledger.stands_at(partition))
            .min_by_key(|at| at.next_offset);
        position_of(lowest.unwrap_or_default())
    }

    /// What to make of a database that could not be used. After a while the others go on without it, and from where the
    /// lowest of them stands: that may be far ahead.
    fn judge(&mut self, index: usize, deed: Deed, error: SinkError) -> SinkError {
        let others = self.targets().count() > 1;
        let database = &mut self.databases[index];
        let transient = matches!(error, SinkError::Transient(_));
        if !(transient && database.has_failed(deed) && others) {
            return error;
        }
        database.set_aside(&error);
        SinkError::Moved(format!("database {} is set aside", database.number()))
    }

    /// Says so when a database that was set aside is back: everything is to be read from where that one stands. It is said
    /// again until [`Sink::resume`] readmits it.
    fn note_returns(&self, gravest: &mut Gravest) {
        let is_used = self.targets().any(|target| !target.ledger.is_empty());
        let back = self.databases.iter().find(|database| database.is_back());
        if let Some(database) = back.filter(|_| is_used) {
            let number = database.number();
            gravest.note(SinkError::Moved(format!("database {number} is back")));
        }
    }

    /// Readmits whoever is back, provided that nothing is held or read on but what is to be resumed now: a database that
    /// came back knows nothing of other partitions.
    fn readmit(&mut self, resumed: &[Partition]) {
        let all = self
            .targets()
            .flat_map(|target| target.ledger.partitions())
            .all(|partition| resumed.contains(&partition));
        if all {
            let back = self
                .databases
                .iter_mut()
                .filter(|database| database.is_back());
            back.for_each(Database::readmit);
        }
    }

    fn coverage(&self) -> Coverage {
        let left_out: Vec<String> = self
            .databases
            .iter()
            .filter_map(Database::left_out)
            .collect();
        if left_out.is_empty() {
            Coverage::Whole
        } else {
            Coverage::Without(left_out.join(", "))
        }
    }

    pub(crate) fn absorb_event(&mut self, partition: Partition, event: &LogEvent) {
        let offset = event.offset;
        match told::<R>(event) {
            Told::Rows(rows) => {
                for row in rows.into_iter().flatten() {
                    if let Some(target) = self.target_lacking(&row, partition, offset) {
                        target.take(row);
                    }
                }
            }
            Told::Open(row, position) => {
                if let Some(target) = self.target_lacking(&row, partition, offset) {
                    target.take_open(OpenRead { position, offset });
                }
            }
        }
    }

    /// The database of a row, if it has yet to take in what this record says.
    fn target_lacking(
        &mut self,
        row: &R,
        partition: Partition,
        offset: i64,
    ) -> Option<&mut Target<R>> {
        let has_row = |database: &&mut Database<R>| database.place.holds(row.table());
        let target = self.databases.iter_mut().find(has_row)?.target_mut()?;
        target.lacks(partition, offset).then_some(target)
    }

    /// Looks up the ordinals of open read positions; why some stay open, where some do.
    async fn settle_open(&mut self) -> Option<String> {
        let Place { store, topic, .. } = &self.databases.first()?.place;
        let open = self.targets().flat_map(Target::open);
        let answers = open_read::settle(store, topic, open).await;
        for target in self.targets_mut() {
            target.close(&answers.settled);
        }
        answers.waiting
    }

    /// Writes every database in use; the failures of some do not keep the others.
    async fn write_all(&mut self, gravest: &mut Gravest) {
        let writes = self
            .in_use()
            .map(async |(index, place, target)| (index, target.write(place).await));
        for (index, outcome) in join_all(writes).await {
            match outcome {
                Ok(()) => self.databases[index].has_written(),
                Err(error) => gravest.note(self.judge(index, Deed::Write, sink_error(error))),
            }
        }
    }

    async fn compare_all(&mut self, gravest: &mut Gravest) {
        let looks = self
            .in_use()
            .map(async |(index, place, target)| (index, place.compare(&target.ledger).await));
        for (index, outcome) in join_all(looks).await {
            match outcome {
                Ok(()) => self.databases[index].has_read(),
                Err(error) => gravest.note(self.judge(index, Deed::Read, error)),
            }
        }
    }

    /// Takes over where every database in use stands.
    async fn resume_all(&mut self, partitions: &[Partition], gravest: &mut Gravest) {
        let reads = self
            .in_use()
            .map(async |(index, place, _)| (index, place.read(partitions).await));
        for (index, outcome) in join_all(reads).await {
            match outcome {
                Ok(found) => self.take_over(index, found),
                Err(error) => gravest.note(self.judge(index, Deed::Read, error)),
            }
        }
    }

    pub(crate) fn take_over(&mut self, index: usize, found: BTreeMap<Partition, Resume>) {
        let database = &mut self.databases[index];
        database.has_read();
        if let Some(target) = database.target_mut() {
            target.resume(found);
        }
    }
}

impl<R: MergedRow> Sink for CoalescingSink<R> {
    async fn resume(
        &mut self,
        partitions: &[Partition],
    ) -> Result<BTreeMap<Partition, LogPosition>, SinkError> {
        self.readmit(partitions);
        let mut gravest = Gravest::default();
        self.resume_all(partitions, &mut gravest).await;
        gravest.into_result()?;
        Ok(partitions
            .iter()
            .map(|partition| (*partition, self.lowest(*partition)))
            .collect())
    }

    fn positions(&self, partition: Partition) -> BTreeSet<LogPosition> {
        let of_each = self
            .targets()
            .filter_map(|target| target.ledger.stands_at(partition));
        of_each.map(position_of).collect()
    }

    fn absorb(&mut self, slice: Slice) {
        for event in &slice.events {
            self.absorb_event(slice.partition, event);
        }
        let behind = resume_of(slice.behind);
        for target in self.targets_mut() {
            target.reach(slice.partition, behind);
        }
    }

    fn pending(&self) -> usize {
        self.targets().map(Target::held).sum()
    }

    async fn flush(&mut self) -> Result<Coverage, SinkError> {
        let waiting = self.settle_open().await;
        let mut gravest = Gravest::default();
        self.write_all(&mut gravest).await;
        if let Some(why) = waiting {
            gravest.note(SinkError::Transient(why));
        }
        self.note_returns(&mut gravest);
        gravest.into_result()?;
        Ok(self.coverage())
    }

    async fn verify(&mut self) -> Result<Coverage, SinkError> {
        let mut gravest = Gravest::default();
        self.compare_all(&mut gravest).await;
        self.note_returns(&mut gravest);
        gravest.into_result()?;
        Ok(self.coverage())
    }

    fn release(&mut self, partitions: &[Partition]) {
        for database in &mut self.databases {
            database.forget(partitions);
        }
    }
}

#[cfg(test)]
mod tests {
    use message_store::{MessageStore, MySqlConfig, ServerConfig, Sink as StoreSink};
    use schemas::event::SourceOffset;

    use super::*;
    use crate::coalesce::Contact;

    /// Two databases of a server that is not there; the first stands in partitions 1 and 2, the second is aside and back.
    async fn sink() -> CoalescingSink<Contact> {
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
        let place = |shard| Place {
            store: store.clone(),
            shard,
            sink: StoreSink::Contacts,
            topic: "chat.events".to_owned(),
            tables: None,
        };
        let places = store.layout().shards().map(place).collect();
        let mut sink = CoalescingSink::new(places);
        let found = BTreeMap::from(partitions().map(|p| (p, Resume::START)));
        sink.take_over(0, found);
        sink.databases[1].set_aside_and_back();
        while !sink.databases[1].is_back() {
            tokio::task::yield_now().await;
        }
        sink
    }

    fn partitions() -> [Partition; 2] {
        [1_i64, 2].map(|n| n.try_into().unwrap())
    }

    #[tokio::test]
    async fn that_a_database_is_back_is_said_until_everything_is_resumed() {
        let mut sink = sink().await;
        for _ in 0..2 {
            let said = sink.flush().await;
            assert!(matches!(said, Err(SinkError::Moved(_))), "{said:?}");
            let said = sink.verify().await;
            assert!(matches!(said, Err(SinkError::Moved(_))), "{said:?}");
        }
        // A part of what is read would leave the rest unknown to it.
        assert!(sink.resume(&partitions()[..1]).await.is_err());
        assert!(sink.databases[1].is_back());
        assert!(sink.resume(&partitions()).await.is_err());
        assert!(sink.databases[1].target().is_some());
    }

    #[tokio::test]
    async fn reading_goes_on_where_the_lowest_stands_with_the_mark_that_it_has_itself() {
        let mut sink = sink().await;
        sink.databases[1].readmit();
        let [partition, _] = partitions();
        let at = |next_offset, offset| Resume {
            next_offset,
            watermark: SourceOffset { epoch: 0, offset },
        };
        sink.take_over(0, BTreeMap::from([(partition, at(9, 90))]));
        sink.take_over(1, BTreeMap::from([(partition, at(4, 40))]));
        assert_eq!(resume_of(sink.lowest(partition)), at(4, 40));
    }

    #[tokio::test]
    async fn a_member_without_partitions_has_nothing_to_resume() {
        let mut sink = sink().await;
        sink.release(&partitions());
        assert!(matches!(sink.flush().await, Ok(Coverage::Without(_))));
    }
}
