//! Read positions, contacts and unread counts: values that change.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use message_store::{ContactRow, ReadTx, StoreError, StoredRead};
use schemas::{DirectConversation, TableNumber, UserId};
use unread_store::Connection;

use super::{
    judge::{Observed, Subject, Verdict, View, judge},
    keys::State,
    look,
};
use crate::{
    Area, AuditError, Check, Finding, Kind, Progress, Scope, Sources,
    fold::{Contact, Known},
};

const PAGE: u32 = 2_000;

/// How many users are asked for at a time.
const ASKED_AT_ONCE: usize = 32;

/// A value that did not look right, and what the log said before the look.
pub(crate) struct Suspect {
    pub(crate) subject: Subject,
    pub(crate) seen: Observed,
    pub(crate) low: View,
}

/// What the comparison of values has come to.
pub(crate) struct Values {
    pub(crate) reads: Check,
    pub(crate) contacts: Check,
    pub(crate) states: Check,
    pub(crate) views: Check,
    pub(crate) suspects: Vec<Suspect>,
    /// What was not looked at, and why.
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
            suspects: Vec::new(),
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
                unreachable!("these are no values that change")
            }
        }
    }

    pub(crate) fn first_look(&mut self, known: &Known, subject: Subject, seen: Observed) {
        let low = view(known, subject);
        self.count(subject, &seen);
        if !judge(subject, &seen, &low, &low).is_empty() {
            self.suspects.push(Suspect { subject, seen, low });
        }
    }

    /// A user whose state says nothing now was looked at and not compared.
    fn count(&mut self, subject: Subject, seen: &Observed) {
        match seen {
            Observed::Keys(keys) if matches!(keys.state, State::Complete(_)) => {
                self.states.compared += 1;
                self.views.compared += 2;
            }
            Observed::Keys(_) => {}
            _ => self.check(subject.area()).compared += 1,
        }
    }

    /// Lets go of those that are within what the log said before and after the look.
    pub(crate) fn acquit(&mut self, known: &Known) {
        self.suspects.retain(|Suspect { subject, seen, low }| {
            !judge(*subject, seen, low, &view(known, *subject)).is_empty()
        });
    }

    /// What is wrong at the second look is a difference.
    pub(crate) fn convict(&mut self, known: &Known, again: Vec<Suspect>) {
        for Suspect { subject, seen, low } in again {
            for verdict in judge(subject, &seen, &low, &view(known, subject)) {
                self.note(known, subject.uid(), verdict);
            }
        }
    }

    fn note(&mut self, known: &Known, uid: UserId, verdict: Verdict) {
        let Verdict {
            area,
            kind,
            what,
            peer,
        } = verdict;
        let mut finding = Finding::new(kind, what);
        if let Some(peer) = peer
            && let Some(offset) = known.newest_event(uid, peer)
        {
            let partition = DirectConversation::new(uid, peer).partition();
            finding = finding.at(&self.events_topic, partition, offset);
        }
        self.check(area).note(finding);
    }

    fn foreign(&mut self, area: Area, table: &str, cause: &StoreError) {
        let what = format!("{table} cannot be read: {cause}");
        self.check(area).note(Finding::new(Kind::Different, what));
    }
}

/// What the log says now, as far as it matters to the subject.
pub(crate) fn view(known: &Known, subject: Subject) -> View {
    match subject.peer() {
        None => known.contacts(subject.uid()),
        Some(peer) => known
            .contact(subject.uid(), peer)
            .map(|contact| (peer, contact))
            .into_iter()
            .collect(),
    }
}

/// The first look at everything in scope.
pub(crate) async fn compare_values(
    sources: &Sources,
    scope: Scope,
    known: &Known,
    values: &mut Values,
    progress: &(impl Fn(Progress) + Sync),
) -> Result<(), AuditError> {
    progress(Progress::Comparing {
        what: "read positions",
    });
    let mut expected = sides_by(known, |uid, peer| {
        DirectConversation::new(uid, peer).partition().into()
    });
    for table in scope.partitions().into_iter().map(TableNumber::from) {
        let sides = expected.remove(&table).unwrap_or_default();
        reads_of(sources, known, table, sides, values).await?;
    }
    progress(Progress::Comparing { what: "contacts" });
    let mut expected = sides_by(known, |uid, _| TableNumber::of_user(uid));
    for table in contact_tables(scope) {
        let sides = expected.remove(&table).unwrap_or_default();
        contacts_of(sources, known, table, sides, values).await?;
    }
    progress(Progress::Comparing {
        what: "unread counts",
    });
    unread(sources, scope, known, values).await
}

/// The same values once more. If the projections have passed the fold's end by now, that is what they may not be below.
pub(crate) async fn look_again(
    sources: &Sources,
    known: &Known,
    suspects: Vec<Suspect>,
    has_passed: bool,
) -> Result<Vec<Suspect>, AuditError> {
    let mut again = Vec::with_capacity(suspects.len());
    for Suspect { subject, low, .. } in suspects {
        let low = if has_passed {
            view(known, subject)
        } else {
            low
        };
        let seen = look::again(sources, known, subject).await?;
        again.push(Suspect { subject, seen, low });
    }
    Ok(again)
}

pub(crate) type Sides = HashSet<(UserId, UserId)>;

/// What the log knows, by the table that it is kept in.
pub(crate) fn sides_by(
    known: &Known,
    table: impl Fn(UserId, UserId) -> TableNumber,
) -> BTreeMap<TableNumber, Sides> {
    let mut tables: BTreeMap<TableNumber, Sides> = BTreeMap::new();
    for (uid, peer) in known.sides() {
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
    known: &Known,
    table: TableNumber,
    mut expected: Sides,
    values: &mut Values,
) -> Result<(), AuditError> {
    expected.retain(|(uid, peer)| {
        let contact = known.contact(*uid, *peer).unwrap_or_default();
        contact.reads.iter().any(|read| read.mid > 0)
    });
    let store = &sources.messages;
    let mut snapshot = store.snapshot(store.layout().shard_of(table)).await?;
    let mut after = 0;
    loop {
        let page: Vec<StoredRead> = match snapshot.scan_reads(table, after, PAGE).await {
            Err(error @ StoreError::Fatal(_)) => {
                values.foreign(
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
            if known.covers(uid, peer) {
                let seen = Observed::Reads([row.mids.pc.get(), row.mids.mobile.get()]);
                values.first_look(known, Subject::ReadPosition { uid, peer }, seen);
            }
        }
    }
    for (uid, peer) in expected {
        let seen = Observed::Reads([0, 0]);
        values.first_look(known, Subject::ReadPosition { uid, peer }, seen);
    }
    Ok(())
}

pub(crate) async fn contacts_of(
    sources: &Sources,
    known: &Known,
    table: TableNumber,
    mut expected: Sides,
    values: &mut Values,
) -> Result<(), AuditError> {
    let store = &sources.messages;
    let mut snapshot = store.snapshot(store.layout().shard_of(table)).await?;
    let mut after = None;
    loop {
        let page = match contact_page(&mut snapshot, table, after).await {
            Err(error @ StoreError::Fatal(_)) => {
                values.foreign(Area::Contacts, &format!("contact_{table}"), &error);
                return Ok(());
            }
            page => page?,
        };
        let Some(last) = page.last() else { break };
        after = Some((last.contact.uid, last.contact.peer));
        for row in &page {
            let (uid, peer) = (row.contact.uid, row.contact.peer);
            expected.remove(&(uid, peer));
            if known.covers(uid, peer) {
                let seen = Observed::Contact(Some(Contact::of_row(row)));
                values.first_look(known, Subject::Contact { uid, peer }, seen);
            }
        }
    }
    for (uid, peer) in expected {
        values.first_look(
            known,
            Subject::Contact { uid, peer },
            Observed::Contact(None),
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
    known: &Known,
    values: &mut Values,
) -> Result<(), AuditError> {
    let Some((connection, generation)) = look::connect(sources).await? else {
        let why =
            "unread counts: Redis has not all its watermarks, so what is in it means nothing yet";
        values.unchecked.push(why.to_owned());
        return Ok(());
    };
    let users = match scope.users() {
        Some(users) => users.into_iter().collect(),
        None => users_in_redis(&connection).await?,
    };
    let without = match scope.users() {
        None => known.users().filter(|uid| !users.contains(uid)).count(),
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
                let seen = look::keys(&connection, generation, uid, known).await?;
                Ok::<_, AuditError>((uid, seen))
            }
        })
        .buffer_unordered(ASKED_AT_ONCE);
    while let Some((uid, seen)) = looks.try_next().await? {
        values.first_look(known, Subject::Unread { uid }, seen);
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
