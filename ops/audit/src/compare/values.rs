//! Compares read positions, contacts and unread counts. They change while they are compared: a value that looks wrong is a possible
//! mismatch, which a second read clears or confirms.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use message_store::{ReadTx, StoreError, StoredRead};
use schemas::{Mid, PerDevice, TableNumber, UserId};
use unread_store::{Connection, Generation, Slot, StoredPositions, UnreadError};

use super::{
    GroupTable, check_misfits, compare_group_table, compare_profiles, group_keys_by,
    groups::PossibleInGroup,
    mismatch::{ExpectedContacts, Mismatch, Rows, StoredValue, ValueKey, mismatches},
    profiles::PossibleProfile,
    redis_keys::StateHash,
    stored,
};
use crate::{
    Area, AuditError, Finding, Kind, Options, Progress, Scope, Sources,
    fold::{Contact, LogState},
    report::Checks,
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
    pub(crate) checks: Checks,
    pub(crate) possible_mismatches: Vec<PossibleMismatch>,
    pub(crate) possible_in_groups: Vec<PossibleInGroup>,
    pub(crate) possible_profiles: Vec<PossibleProfile>,
    /// What was not compared, and why.
    unchecked: Vec<String>,
    /// Users whose states are being rebuilt.
    rebuilding: BTreeSet<UserId>,
    /// Users of the log without a state: those who have another key, and the number of the others.
    without_state: BTreeSet<UserId>,
    without_keys: usize,
    examples: usize,
    events_topic: String,
}

impl Values {
    pub(crate) fn new(events_topic: String, examples: usize) -> Self {
        Self {
            checks: Checks::new(examples),
            possible_mismatches: Vec::new(),
            possible_in_groups: Vec::new(),
            possible_profiles: Vec::new(),
            unchecked: Vec::new(),
            rebuilding: BTreeSet::new(),
            without_state: BTreeSet::new(),
            without_keys: 0,
            examples,
            events_topic,
        }
    }

    /// What was not compared, and why.
    pub(crate) fn unchecked(&self) -> Vec<String> {
        let mut unchecked = self.unchecked.clone();
        let without = self.without_keys + self.without_state.len();
        if without > 0 {
            unchecked.push(format!(
                "unread counts of {without} users of the log, who have no state in Redis"
            ));
        }
        let users: Vec<String> = self.rebuilding.iter().map(UserId::to_string).collect();
        if !users.is_empty() {
            let (named, others) = users.split_at(users.len().min(self.examples));
            let others = if others.is_empty() { "" } else { ", …" };
            unchecked.push(format!(
                "unread counts of {} users, whose states are being rebuilt: {}{others}",
                users.len(),
                named.join(", ")
            ));
        }
        unchecked
    }

    pub(crate) fn check_value(&mut self, log: &LogState, key: ValueKey, stored: StoredValue) {
        let low = expected(log, key);
        self.count(log, key, &stored);
        if !mismatches(key, &stored, &low, &low).is_empty() {
            self.possible_mismatches
                .push(PossibleMismatch { key, stored, low });
        }
    }

    fn count(&mut self, log: &LogState, key: ValueKey, stored: &StoredValue) {
        match stored {
            StoredValue::Keys(keys) if matches!(keys.state, StateHash::Complete(_)) => {
                self.checks.of(Area::UnreadStates).compared += 1;
                self.checks.of(Area::UnreadViews).compared += 2;
            }
            StoredValue::Keys(_) => self.note_without_counts(log, key.uid(), stored),
            _ => self.checks.of(key.area()).compared += 1,
        }
    }

    /// A user whose state is absent or being rebuilt is not compared.
    fn note_without_counts(&mut self, log: &LogState, uid: UserId, stored: &StoredValue) {
        let StoredValue::Keys(keys) = stored else {
            return;
        };
        match keys.state {
            StateHash::Complete(_) => {}
            StateHash::Rebuilding => drop(self.rebuilding.insert(uid)),
            StateHash::Absent if log.contacts(uid).is_empty() => {}
            StateHash::Absent => drop(self.without_state.insert(uid)),
        }
    }

    /// Clears the mismatches whose value is within what the log said before and after it was read.
    pub(crate) fn clear(&mut self, log: &LogState) {
        self.possible_mismatches
            .retain(|PossibleMismatch { key, stored, low }| {
                !mismatches(*key, stored, low, &expected(log, *key)).is_empty()
            });
        self.clear_in_groups(log);
        self.clear_profiles(log);
    }

    /// Whether no value looks wrong.
    pub(crate) fn are_clear(&self) -> bool {
        self.possible_mismatches.is_empty()
            && self.possible_in_groups.is_empty()
            && self.possible_profiles.is_empty()
    }

    /// Reports the mismatches that the second read confirms.
    pub(crate) fn confirm(&mut self, log: &LogState, again: Vec<PossibleMismatch>) {
        for PossibleMismatch { key, stored, low } in again {
            self.note_without_counts(log, key.uid(), &stored);
            for mismatch in mismatches(key, &stored, &low, &expected(log, key)) {
                self.add(log, mismatch);
            }
        }
    }

    pub(super) fn events_topic(&self) -> &str {
        &self.events_topic
    }

    pub(super) fn add(&mut self, log: &LogState, mismatch: Mismatch) {
        let Mismatch {
            area,
            kind,
            what,
            conversation,
        } = mismatch;
        let mut finding = Finding::new(kind, what);
        if let Some(conversation) = conversation
            && let Some(offset) = log.newest_event(conversation)
        {
            let partition = conversation.partition();
            finding = finding.at(&self.events_topic, partition, offset);
        }
        self.checks.of(area).add(finding);
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
    options: &Options,
    log: &LogState,
    values: &mut Values,
    progress: &(impl Fn(Progress) + Sync),
) -> Result<(), AuditError> {
    let scope = options.scope;
    let of_conversations = scope.partitions().into_iter().map(TableNumber::from);
    for (rows, what, tables) in [
        (
            Rows::ReadPositions,
            "read positions",
            of_conversations.collect(),
        ),
        (Rows::Contacts, "contacts", contact_tables(scope)),
        (Rows::Hidden, "hidden messages", contact_tables(scope)),
    ] {
        progress(Progress::Comparing { what });
        let mut expected = contact_keys_by(log, rows);
        for table in tables {
            let expected = expected.remove(&table).unwrap_or_default();
            compare_table(sources, log, rows, table, expected, values).await?;
        }
    }
    compare_groups(sources, scope, log, values, progress).await?;
    progress(Progress::Comparing { what: "profiles" });
    compare_profiles(sources, scope, log, values).await?;
    progress(Progress::Comparing {
        what: "unread counts",
    });
    unread(sources, options, log, values).await
}

async fn compare_groups(
    sources: &Sources,
    scope: Scope,
    log: &LogState,
    values: &mut Values,
    progress: &(impl Fn(Progress) + Sync),
) -> Result<(), AuditError> {
    progress(Progress::Comparing { what: "groups" });
    for table in GroupTable::ALL {
        let mut expected = group_keys_by(log, table);
        for number in group_tables(scope, table) {
            let expected = expected.remove(&number).unwrap_or_default();
            compare_group_table(sources, log, table, number, expected, values).await?;
        }
    }
    Ok(())
}

/// The tables that have something in scope.
fn group_tables(scope: Scope, table: GroupTable) -> BTreeSet<TableNumber> {
    let is_of_users = matches!(table, GroupTable::Memberships | GroupTable::Hidden);
    match scope {
        Scope::Conversation(_) => BTreeSet::new(),
        Scope::User(uid) if is_of_users => BTreeSet::from([TableNumber::of_user(uid)]),
        Scope::User(_) if table == GroupTable::Groups => BTreeSet::new(),
        Scope::All | Scope::User(_) => TableNumber::all().collect(),
    }
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

/// The contacts that the log has, by the number of the table that stores them.
pub(crate) fn contact_keys_by(log: &LogState, rows: Rows) -> BTreeMap<TableNumber, ContactKeys> {
    let mut tables: BTreeMap<TableNumber, ContactKeys> = BTreeMap::new();
    for (uid, peer) in log.contact_keys() {
        tables
            .entry(rows.table_of(uid, peer))
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

/// Compares a whole table with the log; `expected` are the contacts that belong into it.
pub(crate) async fn compare_table(
    sources: &Sources,
    log: &LogState,
    rows: Rows,
    table: TableNumber,
    expected: ContactKeys,
    values: &mut Values,
) -> Result<(), AuditError> {
    let store = &sources.messages;
    let mut snapshot = store.snapshot(store.layout().shard_of(table)).await?;
    let mut comparison = TableComparison {
        log,
        rows,
        table,
        expected,
        values,
    };
    let scanned = match rows {
        Rows::ReadPositions => comparison.scan_reads(&mut snapshot).await,
        Rows::Contacts => comparison.scan_contacts(&mut snapshot).await,
        Rows::Hidden => comparison.scan_hidden(&mut snapshot).await,
    };
    if let Err(cause @ StoreError::Fatal(_)) = scanned {
        let what = format!("{}_{table} cannot be read: {cause}", rows.area().name());
        let check = values.checks.of(rows.area());
        check.add(Finding::new(Kind::Different, what));
        return Ok(());
    }
    scanned?;
    comparison.finish_absent();
    // Those of hidden messages are counted with the contacts'.
    if log.scope() == Scope::All && rows != Rows::Hidden {
        let check = values.checks.of(rows.area());
        check_misfits(&mut snapshot, rows.sink(), table, check).await?;
    }
    Ok(())
}

struct TableComparison<'a> {
    log: &'a LogState,
    rows: Rows,
    table: TableNumber,
    /// The contacts whose rows were not read yet.
    expected: ContactKeys,
    values: &'a mut Values,
}

impl TableComparison<'_> {
    async fn scan_reads(&mut self, snapshot: &mut ReadTx) -> Result<(), StoreError> {
        let mut after = 0;
        loop {
            let page = snapshot.scan_reads(self.table, after, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = last.id;
            for StoredRead { row, .. } in &page {
                let stored = StoredValue::Reads(row.mids.map(Mid::get));
                if row.conversation.has(row.uid) {
                    self.row(row.uid, row.conversation.peer_of(row.uid), stored);
                } else {
                    self.misplaced(&format!("{} in {}", row.uid, row.conversation));
                }
            }
        }
    }

    async fn scan_contacts(&mut self, snapshot: &mut ReadTx) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let page = snapshot.scan_contacts(self.table, after, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some((last.contact.uid, last.contact.peer));
            for row in &page {
                let stored = StoredValue::Contact(Some(Contact::of_row(row)));
                self.row(row.contact.uid, row.contact.peer, stored);
            }
        }
    }

    async fn scan_hidden(&mut self, snapshot: &mut ReadTx) -> Result<(), StoreError> {
        let mut after = None;
        // Of one contact.
        let mut of: Option<(UserId, UserId)> = None;
        let mut mids = Vec::new();
        loop {
            let page = snapshot.scan_hidden(self.table, after, PAGE).await?;
            after = page.last().copied();
            for (uid, peer, mid) in &page {
                if of != Some((*uid, *peer)) {
                    self.hidden_of(of, std::mem::take(&mut mids));
                    of = Some((*uid, *peer));
                }
                mids.push(mid.get());
            }
            if after.is_none() {
                self.hidden_of(of, mids);
                return Ok(());
            }
        }
    }

    fn hidden_of(&mut self, contact: Option<(UserId, UserId)>, mids: Vec<i64>) {
        if let Some((uid, peer)) = contact {
            self.row(uid, peer, StoredValue::Hidden(mids));
        }
    }

    fn row(&mut self, uid: UserId, peer: UserId, stored: StoredValue) {
        if self.rows.table_of(uid, peer) != self.table {
            return self.misplaced(&format!("{uid} with {peer}"));
        }
        self.expected.remove(&(uid, peer));
        if self.log.covers(uid, peer) {
            let of = self.rows;
            self.values
                .check_value(self.log, ValueKey::Row { of, uid, peer }, stored);
        }
    }

    /// A row that no projection writes into this table. The scan of one user or conversation is about other rows.
    fn misplaced(&mut self, whose: &str) {
        if self.log.scope() == Scope::All {
            let area = self.rows.area();
            let what = format!("{}_{}: the row of {whose}", area.name(), self.table);
            self.values
                .checks
                .of(area)
                .add(Finding::new(Kind::Extra, what));
        }
    }

    /// Compares the rows that are absent. Without a read-ack there need not be a read position.
    fn finish_absent(self) {
        let Self { log, rows: of, .. } = self;
        for (uid, peer) in self.expected {
            let contact = log.contact(uid, peer).unwrap_or_default();
            let stored = match of {
                Rows::Contacts => StoredValue::Contact(None),
                Rows::Hidden if contact.hidden.is_empty() => continue,
                Rows::Hidden => StoredValue::Hidden(Vec::new()),
                Rows::ReadPositions if contact.reads.iter().all(|(_, read)| read.mid == 0) => {
                    continue;
                }
                Rows::ReadPositions => StoredValue::Reads(PerDevice::default()),
            };
            self.values
                .check_value(log, ValueKey::Row { of, uid, peer }, stored);
        }
    }
}

async fn unread(
    sources: &Sources,
    options: &Options,
    log: &LogState,
    values: &mut Values,
) -> Result<(), AuditError> {
    let mut has_paused = false;
    for (index, slot) in sources.unread.slots().iter().enumerate() {
        let is_in_slot = |uid: &UserId| sources.unread.index_of(*uid) == index;
        let connection = slot.connect().await?;
        let mut positions = connection.read_positions().await?;
        if positions.generation().is_none() && !has_paused {
            // A projector that is running writes them again.
            tokio::time::sleep(options.pause).await;
            has_paused = true;
            positions = connection.read_positions().await?;
        }
        let users = match options.scope.users() {
            Some(users) => users.into_iter().filter(is_in_slot).collect(),
            None => users_in_slot(&connection).await?,
        };
        let Some(generation) = positions.generation() else {
            without_watermarks(slot, &connection, &positions, &users, values).await?;
            continue;
        };
        if options.scope.users().is_none() {
            let all = log.users().filter(is_in_slot);
            values.without_keys += all.filter(|uid| !users.contains(uid)).count();
        }
        compare_users(&connection, generation, users, log, values).await?;
    }
    Ok(())
}

async fn compare_users(
    connection: &Connection,
    generation: Generation,
    users: BTreeSet<UserId>,
    log: &LogState,
    values: &mut Values,
) -> Result<(), AuditError> {
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

/// Without all watermarks of one generation, what Redis has cannot be compared. Where users have keys, those are shown to somebody.
async fn without_watermarks(
    slot: &Slot,
    connection: &Connection,
    positions: &StoredPositions,
    users: &BTreeSet<UserId>,
    values: &mut Values,
) -> Result<(), AuditError> {
    let missing: Vec<String> = positions.missing().map(|p| p.to_string()).collect();
    let why = match &missing[..] {
        [] => format!("{slot} has watermarks of several generations"),
        [one] => format!("{slot} is without the watermark of partition {one}"),
        many => format!(
            "{slot} is without the watermarks of partitions {}",
            many.join(", ")
        ),
    };
    for uid in users {
        let has_keys = match connection.read_state(*uid).await {
            Ok(user) => user.state.is_some() || user.views.iter().any(|(_, view)| view.is_some()),
            Err(UnreadError::Malformed { .. }) => true,
            Err(error) => return Err(error.into()),
        };
        if has_keys {
            let what = format!("unread counts are shown that cannot be compared: {why}");
            let check = values.checks.of(Area::UnreadViews);
            check.add(Finding::new(Kind::Missing, what));
            return Ok(());
        }
    }
    values.unchecked.push(format!("unread counts: {why}"));
    Ok(())
}

async fn users_in_slot(connection: &Connection) -> Result<BTreeSet<UserId>, AuditError> {
    let mut users = BTreeSet::new();
    let mut cursor = Some(0);
    while let Some(at) = cursor {
        let page = connection.scan_users(at).await?;
        users.extend(page.users);
        cursor = page.next;
    }
    Ok(users)
}
