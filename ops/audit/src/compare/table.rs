//! Compares a whole table with the log.

use std::{collections::HashSet, fmt::Display};

use message_store::{ReadTx, Sink, StoreError};
use schemas::{Mid, TableNumber};

use super::{
    comparison::Comparison,
    key::Rows,
    left::Forgotten,
    messages::check_misfits,
    value::{Row, Value},
};
use crate::{
    AuditError, Finding, Kind, Scope, Sources,
    fold::{LogState, Subject},
};

const PAGE: u32 = 2_000;
/// Profiles are larger than other rows.
const PROFILES_PAGE: u32 = 500;

/// Compares a whole table with the log; `expected` are the subjects that may have a row in it.
pub(crate) async fn compare_table(
    sources: &Sources,
    log: &LogState,
    (rows, number): (Rows, TableNumber),
    expected: HashSet<Subject>,
    comparison: &mut Comparison,
) -> Result<(), AuditError> {
    let store = &sources.messages;
    let mut snapshot = store.snapshot(store.layout().shard_of(number)).await?;
    let mut table = Table {
        forgotten: Forgotten::read(sources, &mut snapshot, rows).await?,
        log,
        rows,
        number,
        expected,
        comparison,
    };
    match table.scan(&mut snapshot).await {
        // A row that cannot be decoded was not written by a projection.
        Err(StoreError::Fatal(cause)) => {
            table.add(Kind::Different, format_args!(" cannot be read: {cause}"));
            return Ok(());
        }
        scanned => scanned?,
    }
    table.finish_absent();
    let sink = match rows {
        Rows::ReadPositions => Sink::Reads,
        // Invalid rows of hidden messages are counted with those of contacts.
        Rows::Contacts => Sink::Contacts,
        _ => return Ok(()),
    };
    if log.scope() == Scope::All {
        let check = comparison.checks.of(rows.area());
        check_misfits(&mut snapshot, sink, number, check).await?;
    }
    Ok(())
}

struct Table<'a> {
    forgotten: Forgotten,
    log: &'a LogState,
    rows: Rows,
    number: TableNumber,
    /// The subjects whose rows have not been read yet.
    expected: HashSet<Subject>,
    comparison: &'a mut Comparison,
}

impl Table<'_> {
    async fn scan(&mut self, snapshot: &mut ReadTx) -> Result<(), StoreError> {
        match self.rows {
            Rows::ReadPositions => return self.scan_reads(snapshot).await,
            Rows::Hidden | Rows::HiddenInGroups => return self.scan_hidden(snapshot).await,
            _ => {}
        }
        let (number, mut after) = (self.number, (None, None, None));
        loop {
            let (uid, peer, gid) = after;
            let page: Vec<Row> = match self.rows {
                Rows::Contacts => {
                    let rows = snapshot.scan_contacts(number, uid.zip(peer), PAGE);
                    rows.await?.iter().map(Value::contact).collect()
                }
                Rows::Groups => {
                    let rows = snapshot.scan_groups(number, gid, PAGE);
                    rows.await?.iter().map(Value::group).collect()
                }
                Rows::Members => {
                    let rows = snapshot.scan_group_members(number, gid.zip(uid), PAGE);
                    rows.await?.iter().map(Value::member).collect()
                }
                Rows::Memberships => {
                    let rows = snapshot.scan_memberships(number, uid.zip(gid), PAGE);
                    rows.await?.iter().map(Value::membership).collect()
                }
                _ => {
                    let rows = snapshot.scan_profiles(number, uid, PROFILES_PAGE);
                    rows.await?.iter().map(Value::profile).collect()
                }
            };
            let Some((last, _)) = page.last() else {
                return Ok(());
            };
            after = last.ids();
            for (subject, value) in page {
                self.row(subject, value);
            }
        }
    }

    async fn scan_reads(&mut self, snapshot: &mut ReadTx) -> Result<(), StoreError> {
        let mut after = 0;
        loop {
            let page = snapshot.scan_reads(self.number, after, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = last.id;
            for row in page.into_iter().map(|stored| stored.row) {
                let (uid, conversation) = (row.uid, row.conversation);
                if conversation.has(uid) {
                    let subject = Subject::Contact(uid, conversation.peer_of(uid));
                    self.row(subject, Value::reads(row.mids));
                } else if self.log.scope() == Scope::All {
                    self.add(
                        Kind::Extra,
                        format_args!(": the row of {uid} in {conversation}"),
                    );
                }
            }
        }
    }

    /// All rows of a user in a conversation are one value.
    async fn scan_hidden(&mut self, snapshot: &mut ReadTx) -> Result<(), StoreError> {
        let (mut after, mut after_in_group) = (None, None);
        let mut hidden: Option<(Subject, Vec<i64>)> = None;
        loop {
            let page: Vec<(Subject, Mid)> = if self.rows == Rows::Hidden {
                let page = snapshot.scan_hidden(self.number, after, PAGE).await?;
                after = page.last().copied();
                let subject = |(uid, peer, mid)| (Subject::Contact(uid, peer), mid);
                page.into_iter().map(subject).collect()
            } else {
                let page = snapshot.scan_hidden_in_groups(self.number, after_in_group, PAGE);
                let page = page.await?;
                after_in_group = page.last().copied();
                let subject = |(uid, gid, mid)| (Subject::Member(gid, uid), mid);
                page.into_iter().map(subject).collect()
            };
            let ends = page.is_empty();
            for (subject, mid) in page {
                match &mut hidden {
                    Some((of, mids)) if *of == subject => mids.push(mid.get()),
                    _ => self.hidden(hidden.replace((subject, vec![mid.get()]))),
                }
            }
            if ends {
                self.hidden(hidden);
                return Ok(());
            }
        }
    }

    fn hidden(&mut self, hidden: Option<(Subject, Vec<i64>)>) {
        if let Some((subject, mids)) = hidden {
            let clear_mid = 0;
            self.row(subject, Value::Hidden { mids, clear_mid });
        }
    }

    fn row(&mut self, subject: Subject, value: Value) {
        let key = self.rows.of(subject);
        if key.number() != Some(self.number) {
            self.misplaced(subject);
        } else if self.log.covers(subject) {
            self.expected.remove(&subject);
            let expected = || key.expected(self.log);
            let value = self.forgotten.restore(key, Some(value), expected);
            self.comparison.check(self.log, key, Ok(value));
        }
    }

    /// Reports a row that no projection writes into this table. The scan for one user or conversation ignores other rows.
    fn misplaced(&mut self, subject: Subject) {
        match subject {
            Subject::User(_) => {}
            _ if self.log.scope() != Scope::All => return,
            Subject::Contact(..) => {}
            Subject::Group(_) | Subject::Member(..) => {
                let key = self.rows.of(subject);
                let mismatch = key.mismatch(Kind::Extra, "in another table");
                return self.comparison.add(self.log, mismatch);
            }
        }
        self.add(Kind::Extra, format_args!(": the row of {subject}"));
    }

    fn add(&mut self, kind: Kind, what: impl Display) {
        let area = self.rows.area();
        let what = format!("{}_{}{what}", area.name(), self.number);
        let check = self.comparison.checks.of(area);
        check.add(Finding::new(kind, what));
    }

    /// Compares the rows that are absent.
    fn finish_absent(self) {
        for subject in self.expected {
            let key = self.rows.of(subject);
            let Some(expected) = key.expected(self.log) else {
                continue;
            };
            let found = self.forgotten.restore(key, None, || Some(expected));
            self.comparison.forgotten += usize::from(found.is_some());
            self.comparison.check(self.log, key, Ok(found));
        }
    }
}
