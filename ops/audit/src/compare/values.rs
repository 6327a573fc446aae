//! Compares read positions, contacts and unread counts. They change while they are compared: a value that looks wrong is a possible
//! mismatch, which a second read clears or confirms.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use message_store::{ContactRow, ReadTx, StoreError, StoredRead};
use schemas::{DirectConversation, Mid, PerDevice, TableNumber, UserId};
use unread_store::Connection;

use super::{
    mismatch::{ExpectedContacts, Mismatch, StoredValue, ValueKey, mismatches},
    redis_keys::StateHash,
    stored,
};
use crate::{
    Area, AuditError, Check, Finding, Kind, Progress, Scope, Sources,
    fold::{Contact, LogState},
};

const PAGE: u32 = 2_000;

/// How many users are read at a time.
const CONCURRENT_READS: usize = 32;

/// A value that looked wrong, and what the log said before it was read.
pub(crate) struct PossibleMismatch {
    pub(crate) key: ValueKey,
    pub(crate) stored: StoredValue,
    pub(crate) low: ExpectedContacts,
}

pub(crate) struct Values {
    pub(crate) reads: Check,
    pub(crate) contacts: Check,
    pub(crate) states: Check,
    pub(crate) views: Check,
    pub(crate) possible_mismatches: Vec<PossibleMismatch>,
    /// What was not compared, and why.
    pub(crate) unchecked: Vec<String>,
    events_topic: String,
}

impl Values {
    pub(crate) fn new(events_topic: String, examples: usize) -> Self {
        Self {
            reads: Check::new(Area::ReadPositions, examples),
            contacts: Check::new(Area::Contacts, examples),
            states: Check::new(Area::UnreadStates, examples),
            views: Check::new(Area::UnreadViews, examples),
            possible_mismatches: Vec::new(),
            unchecked: Vec::new(),
            events_topic,
        }
    }

    fn check(&mut self, area: Area) -> &mut Check {
        match area {
            Area::ReadPositions => &mut self.reads,
            Area::Contacts => &mut self.contacts,
            Area::UnreadStates => &mut self.states,
            Area::UnreadViews => &mut self.views,
            Area::Events | Area::Inbound | Area::Messages => {
                unreachable!("these do not change")
            }
        }
    }

    pub(crate) fn check_value(&mut self, log: &LogState, key: ValueKey, stored: StoredValue) {
        let low = expected(log, key);
        self.count(key, &stored);
        if !mismatches(key, &stored, &low, &low).is_empty() {
            self.possible_mismatches
                .push(PossibleMismatch { key, stored, low });
        }
    }

    /// A user whose state hash is absent or unusable is not compared.
    fn count(&mut self, key: ValueKey, stored: &StoredValue) {
        match stored {
            StoredValue::Keys(keys) if matches!(keys.state, StateHash::Complete(_)) => {
                self.states.compared += 1;
                self.views.compared += 2;
            }
            StoredValue::Keys(_) => {}
            _ => self.check(key.area()).compared += 1,
        }
    }

    /// Clears the mismatches whose value is within what the log said before and after it was read.
    pub(crate) fn clear(&mut self, log: &LogState) {
        self.possible_mismatches
            .retain(|PossibleMismatch { key, stored, low }| {
                !mismatches(*key, stored, low, &expected(log, *key)).is_empty()
            });
    }

    /// Reports the mismatches that the second read confirms.
    pub(crate) fn confirm(&mut self, log: &LogState, again: Vec<PossibleMismatch>) {
        for PossibleMismatch { key, stored, low } in again {
            for mismatch in mismatches(key, &stored, &low, &expected(log, key)) {
                self.add(log, key.uid(), mismatch);
            }
        }
    }

    fn add(&mut self, log: &LogState, uid: UserId, mismatch: Mismatch) {
        let Mismatch {
            area,
            kind,
            what,
            peer,
        } = mismatch;
        let mut finding = Finding::new(kind, what);
        if let Some(peer) = peer
            && let Some(offset) = log.newest_event(uid, peer)
        {
            let partition = DirectConversation::new(uid, peer).partition();
            finding = finding.at(&self.events_topic, partition, offset);
        }
        self.check(area).add(finding);
    }

    fn unreadable(&mut self, area: Area, table: &str, cause: &StoreError) {
        let what = format!("{table} cannot be read: {cause}");
        self.check(area).add(Finding::new(Kind::Different, what));
    }
}

/// What follows from the log for this key now.
pub(crate) fn expected(log: &LogState, key: ValueKey) -> ExpectedContacts {
    match key.peer() {
        None => log.contacts(key.uid()),
        Some(peer) => log
            .contact(key.uid(), peer)
            .map(|contact| (peer, contact))
            .into_iter()
            .collect(),
    }
}

/// Compares every value in scope for the first time.
pub(crate) async fn compare_values(
    sources: &Sources,
    scope: Scope,
    log: &LogState,
    values: &mut Values,
    progress: &(impl Fn(Progress) + Sync),
) -> Result<(), AuditError> {
    progress(Progress::Comparing {
        what: "read positions",
    });
    let mut expected = contact_keys_by(log, |uid, peer| {
        DirectConversation::new(uid, peer).partition().into()
    });
    for table in scope.partitions().into_iter().map(TableNumber::from) {
        let keys = expected.remove(&table).unwrap_or_default();
        reads_of(sources, log, table, keys, values).await?;
    }
    progress(Progress::Comparing { what: "contacts" });
    let mut expected = contact_keys_by(log, |uid, _| TableNumber::of_user(uid));
    for table in contact_tables(scope) {
        let keys = expected.remove(&table).unwrap_or_default();
        contacts_of(sources, log, table, keys, values).await?;
    }
    progress(Progress::Comparing {
        what: "unread counts",
    });
    unread(sources, scope, log, values).await
}

/// Reads the values a second time. If the projections have passed the log's folded end by now, a value must not be below it.
pub(crate) async fn read_again(
    sources: &Sources,
    log: &LogState,
    possible_mismatches: Vec<PossibleMismatch>,
    has_passed: bool,
) -> Result<Vec<PossibleMismatch>, AuditError> {
    let mut again = Vec::with_capacity(possible_mismatches.len());
    for PossibleMismatch { key, low, .. } in possible_mismatches {
        let low = if has_passed { expected(log, key) } else { low };
        let stored = stored::read_value(sources, log, key).await?;
        again.push(PossibleMismatch { key, stored, low });
    }
    Ok(again)
}

pub(crate) type ContactKeys = HashSet<(UserId, UserId)>;

/// The contacts that the log has, by the table that stores them.
pub(crate) fn contact_keys_by(
    log: &LogState,
    table: impl Fn(UserId, UserId) -> TableNumber,
) -> BTreeMap<TableNumber, ContactKeys> {
    let mut tables: BTreeMap<TableNumber, ContactKeys> = BTreeMap::new();
    for (uid, peer) in log.contact_keys() {
        tables
            .entry(table(uid, peer))
            .or_default()
            .insert((uid, peer));
    }
    tables
}

fn contact_tables(scope: Scope) -> BTreeSet<TableNumber> {
    match scope.users() {
        None => TableNumber::all().collect(),
        Some(users) => users.into_iter().map(TableNumber::of_user).collect(),
    }
}

pub(crate) async fn reads_of(
    sources: &Sources,
    log: &LogState,
    table: TableNumber,
    mut expected: ContactKeys,
    values: &mut Values,
) -> Result<(), AuditError> {
    expected.retain(|(uid, peer)| {
        let contact = log.contact(*uid, *peer).unwrap_or_default();
        contact.reads.iter().any(|(_, read)| read.mid > 0)
    });
    let store = &sources.messages;
    let mut snapshot = store.snapshot(store.layout().shard_of(table)).await?;
    let mut after = 0;
    loop {
        let page: Vec<StoredRead> = match snapshot.scan_reads(table, after, PAGE).await {
            Err(error @ StoreError::Fatal(_)) => {
                values.unreadable(
                    Area::ReadPositions,
                    &format!("read_chat_mid_{table}"),
                    &error,
                );
                return Ok(());
            }
            page => page?,
        };
        let Some(last) = page.last() else { break };
        after = last.id;
        for StoredRead { row, .. } in &page {
            let uid = row.uid;
            let peer = row.conversation.peer_of(uid);
            expected.remove(&(uid, peer));
            if log.covers(uid, peer) {
                let stored = StoredValue::Reads(row.mids.map(Mid::get));
                values.check_value(log, ValueKey::ReadPosition { uid, peer }, stored);
            }
        }
    }
    for (uid, peer) in expected {
        let stored = StoredValue::Reads(PerDevice::default());
        values.check_value(log, ValueKey::ReadPosition { uid, peer }, stored);
    }
    Ok(())
}

pub(crate) async fn contacts_of(
    sources: &Sources,
    log: &LogState,
    table: TableNumber,
    mut expected: ContactKeys,
    values: &mut Values,
) -> Result<(), AuditError> {
    let store = &sources.messages;
    let mut snapshot = store.snapshot(store.layout().shard_of(table)).await?;
    let mut after = None;
    loop {
        let page = match contact_page(&mut snapshot, table, after).await {
            Err(error @ StoreError::Fatal(_)) => {
                values.unreadable(Area::Contacts, &format!("contact_{table}"), &error);
                return Ok(());
            }
            page => page?,
        };
        let Some(last) = page.last() else { break };
        after = Some((last.contact.uid, last.contact.peer));
        for row in &page {
            let (uid, peer) = (row.contact.uid, row.contact.peer);
            expected.remove(&(uid, peer));
            if log.covers(uid, peer) {
                let stored = StoredValue::Contact(Some(Contact::of_row(row)));
                values.check_value(log, ValueKey::Contact { uid, peer }, stored);
            }
        }
    }
    for (uid, peer) in expected {
        values.check_value(
            log,
            ValueKey::Contact { uid, peer },
            StoredValue::Contact(None),
        );
    }
    Ok(())
}

async fn contact_page(
    snapshot: &mut ReadTx,
    table: TableNumber,
    after: Option<(UserId, UserId)>,
) -> Result<Vec<ContactRow>, StoreError> {
    snapshot.scan_contacts(table, after, PAGE).await
}

async fn unread(
    sources: &Sources,
    scope: Scope,
    log: &LogState,
    values: &mut Values,
) -> Result<(), AuditError> {
    let Some((connection, generation)) = stored::connect(sources).await? else {
        let why =
            "unread counts: Redis has not all its watermarks, so its contents are not valid yet";
        values.unchecked.push(why.to_owned());
        return Ok(());
    };
    let users = match scope.users() {
        Some(users) => users.into_iter().collect(),
        None => users_in_redis(&connection).await?,
    };
    let without = match scope.users() {
        None => log.users().filter(|uid| !users.contains(uid)).count(),
        Some(_) => 0,
    };
    if without > 0 {
        let why = format!("unread counts of {without} users of the log, who have no key in Redis");
        values.unchecked.push(why);
    }
    let mut looks = stream::iter(users)
        .map(|uid| {
            let connection = connection.clone();
            async move {
                let stored = stored::read_keys(&connection, generation, uid, log).await?;
                Ok::<_, AuditError>((uid, stored))
            }
        })
        .buffer_unordered(CONCURRENT_READS);
    while let Some((uid, stored)) = looks.try_next().await? {
        values.check_value(log, ValueKey::Unread { uid }, stored);
    }
    Ok(())
}

async fn users_in_redis(connection: &Connection) -> Result<BTreeSet<UserId>, AuditError> {
    let mut users = BTreeSet::new();
    let mut cursor = Some(0);
    while let Some(at) = cursor {
        let page = connection.scan_users(at).await?;
        users.extend(page.users);
        cursor = page.next;
    }
    Ok(users)
}
