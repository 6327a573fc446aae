//! Compares `unresolved_read` with `contact_<n>`: a projection writes a row together with the read position that it stands for, and a user with a row
//! is shown no unread counts.

use message_store::{
    MessageStore, ReadTx, Shard, Sink, StoreError, StoredUnresolvedRead, UnresolvedRead,
};
use schemas::{LogPosition, Partition, PartitionMap, topics::Topic};

use crate::{Scope, Sources};

const PAGE: usize = 1_000;

/// The rows of one database.
#[derive(Default)]
pub(crate) struct UnresolvedReads {
    /// The rows whose read position lacks its ordinal.
    pub(crate) waiting: Vec<UnresolvedRead>,
    /// The rows that no projection wrote, and what is wrong with each.
    pub(crate) strays: Vec<(StoredUnresolvedRead, String)>,
}

impl UnresolvedReads {
    pub(crate) async fn read(sources: &Sources, shard: Shard) -> Result<Self, StoreError> {
        let store = &sources.messages;
        let topic = sources.kafka.topic(Topic::Events);
        let all: Vec<Partition> = Partition::all().collect();
        let mut snapshot = store.snapshot(shard).await?;
        let written = snapshot
            .resume_offsets(Sink::Contacts, &topic, &all)
            .await?;
        let (mut reads, mut read) = (Self::default(), 0);
        loop {
            let page = snapshot.scan_unresolved_reads(read, PAGE).await?;
            read += page.len();
            if page.is_empty() {
                return Ok(reads);
            }
            for row in page.into_iter().filter(|row| !row.is_shadow()) {
                match check(store, &mut snapshot, &written, &row).await {
                    Ok(read) => reads.waiting.push(read),
                    Err(StoreError::Fatal(cause)) => reads.strays.push((row, cause.to_string())),
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Leaves out the strays of other users and conversations.
    pub(crate) fn limit_to(&mut self, scope: Scope) {
        self.strays.retain(|(row, _)| match scope {
            Scope::All => true,
            Scope::User(uid) => row.uid == uid.get(),
            Scope::Conversation(_) => {
                let users = [row.uid, row.peer].map(|uid| uid.try_into().ok());
                matches!(users, [Some(uid), Some(peer)] if scope.has_contact(uid, peer))
            }
        });
    }
}

/// The read that a row stands for, if a read position waits for it; otherwise a fatal error that says what is wrong.
async fn check(
    store: &MessageStore,
    snapshot: &mut ReadTx,
    written: &PartitionMap<LogPosition>,
    row: &StoredUnresolvedRead,
) -> Result<UnresolvedRead, StoreError> {
    let read = row.read()?;
    let wrong = |what: String| Err(StoreError::Fatal(what.into()));
    if store.layout().shard_of_user(read.uid) != snapshot.shard() {
        return wrong("the user is in another database".to_owned());
    }
    let contact = snapshot.contact(read.uid, read.peer).await?;
    let position = contact.map(|row| row.contact.read[read.device]);
    if position.is_none_or(|position| position.mid != read.mid || position.ordinal.is_some()) {
        return wrong("no read position waits for it".to_owned());
    }
    let partition = read.conversation().partition();
    let next = written[partition].next;
    if read.messages_offset > next {
        let what = format!(
            "messages_offset is {}, and contacts have partition {partition} up to {next} only",
            read.messages_offset
        );
        return wrong(what);
    }
    Ok(read)
}
