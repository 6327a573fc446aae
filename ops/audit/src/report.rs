use std::{collections::BTreeMap, fmt};

use schemas::Partition;
use serde::Serialize;

use crate::Scope;

/// What an audit found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was compared.
    pub scope: Scope,
    /// Differences over all areas; 0 for a sound system.
    pub differences: u64,
    /// Each area that was compared.
    pub checks: Vec<Check>,
    /// The outcomes of the records of `chat.inbound`.
    pub inbound: InboundAccount,
    /// Records of `chat.events` that a former owner appended again; readers skip them.
    pub repeated_events: u64,
    /// Partitions with events of which some projection has passed none: nothing in them was compared.
    pub not_compared: Vec<Partition>,
    /// What could not be checked, and why.
    pub unchecked: Vec<String>,
}

impl Report {
    /// How many differences there are over all areas.
    #[must_use]
    pub fn differences(&self) -> u64 {
        self.differences
    }

    /// The check of `area`.
    #[must_use]
    pub fn check(&self, area: Area) -> Option<&Check> {
        self.checks.iter().find(|check| check.area == area)
    }
}

/// What is compared with the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Area {
    /// `chat.events` itself.
    Events,
    /// `chat.inbound`: every record has its answer.
    Inbound,
    /// `chat_msg_<n>`.
    Messages,
    /// `group_msg_<n>`.
    GroupMessages,
    /// `msg_change_<n>`.
    Changes,
    /// `group_<n>`.
    Groups,
    /// `group_member_<n>`.
    GroupMembers,
    /// `read_chat_mid_<n>`.
    ReadPositions,
    /// `contact_<n>`.
    Contacts,
    /// `membership_<n>`.
    Memberships,
    /// `hidden_<n>`, by contact and by group.
    Hidden,
    /// `user_<n>`.
    Profiles,
    /// The state hashes in Redis, by user.
    UnreadStates,
    /// `pc-<uid>` and `mobile-<uid>`, by user.
    UnreadViews,
    /// `user-<uid>` in Redis.
    CachedProfiles,
    /// `resume_offset`.
    ResumeOffsets,
    /// `retention`.
    Retention,
    /// `unresolved_read`.
    UnresolvedReads,
}

impl Area {
    const ALL: [Self; 18] = [
        Self::Events,
        Self::Inbound,
        Self::Messages,
        Self::GroupMessages,
        Self::Changes,
        Self::Groups,
        Self::GroupMembers,
        Self::ReadPositions,
        Self::Contacts,
        Self::Memberships,
        Self::Hidden,
        Self::Profiles,
        Self::UnreadStates,
        Self::UnreadViews,
        Self::CachedProfiles,
        Self::ResumeOffsets,
        Self::Retention,
        Self::UnresolvedReads,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Events => "chat.events",
            Self::Inbound => "chat.inbound",
            Self::Messages => "chat_msg",
            Self::GroupMessages => "group_msg",
            Self::Changes => "msg_change",
            Self::Groups => "group",
            Self::GroupMembers => "group_member",
            Self::ReadPositions => "read_chat_mid",
            Self::Contacts => "contact",
            Self::Memberships => "membership",
            Self::Hidden => "hidden",
            Self::Profiles => "user",
            Self::UnreadStates => "redis states",
            Self::UnreadViews => "redis views",
            Self::CachedProfiles => "redis profiles",
            Self::ResumeOffsets => "resume_offset",
            Self::Retention => "retention",
            Self::UnresolvedReads => "unresolved_read",
        }
    }
}

/// In what way a store differs from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The log has it, the store does not.
    Missing,
    /// The store has it, the log does not.
    Extra,
    /// The log has another value.
    Different,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Different => "different",
        }
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub kind: Kind,
    /// The location and the column; never a message's text.
    pub what: String,
    /// The topic of the record at fault.
    pub topic: Option<String>,
    pub partition: Option<Partition>,
    /// The offset of the record; for a value, of the newest event of its conversation.
    pub offset: Option<i64>,
}

impl Finding {
    pub(crate) fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            topic: None,
            partition: None,
            offset: None,
        }
    }

    pub(crate) fn at(self, topic: &str, partition: Partition, offset: i64) -> Self {
        Self {
            topic: Some(topic.to_owned()),
            partition: Some(partition),
            offset: Some(offset),
            ..self
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.what)?;
        if let (Some(topic), Some(partition), Some(offset)) =
            (&self.topic, self.partition, self.offset)
        {
            write!(f, " [{topic} {partition}:{offset}]")?;
        }
        Ok(())
    }
}

/// The comparison of one area.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    pub area: Area,
    /// How many records, rows or users were compared.
    pub compared: u64,
    /// How many the log has and the store does not, because their month was dropped.
    pub excused: u64,
    pub missing: u64,
    pub extra: u64,
    pub different: u64,
    /// Some of the differences.
    pub examples: Vec<Finding>,
    #[serde(skip)]
    limit: usize,
}

impl Check {
    pub(crate) fn new(area: Area, limit: usize) -> Self {
        Self {
            area,
            compared: 0,
            excused: 0,
            missing: 0,
            extra: 0,
            different: 0,
            examples: Vec::new(),
            limit,
        }
    }

    /// How many differences the area has.
    #[must_use]
    pub fn differences(&self) -> u64 {
        self.missing + self.extra + self.different
    }

    /// An empty check of the same area, for as many examples as are still needed.
    pub(crate) fn empty(&self) -> Self {
        Self::new(self.area, self.limit - self.examples.len().min(self.limit))
    }

    pub(crate) fn needs_examples(&self) -> bool {
        self.examples.len() < self.limit
    }

    pub(crate) fn add(&mut self, finding: Finding) {
        self.count(finding.kind);
        self.show(finding);
    }

    /// Counts a difference.
    pub(crate) fn count(&mut self, kind: Kind) {
        *match kind {
            Kind::Missing => &mut self.missing,
            Kind::Extra => &mut self.extra,
            Kind::Different => &mut self.different,
        } += 1;
    }

    /// Keeps a difference as an example, if more are needed.
    pub(crate) fn show(&mut self, finding: Finding) {
        if self.needs_examples() {
            self.examples.push(finding);
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        debug_assert_eq!(self.area, other.area);
        self.take(other);
    }

    /// Adds the check of another area to this one.
    pub(crate) fn take(&mut self, other: Self) {
        self.compared += other.compared;
        self.excused += other.excused;
        self.missing += other.missing;
        self.extra += other.extra;
        self.different += other.different;
        let needed = self.limit - self.examples.len().min(self.limit);
        self.examples
            .extend(other.examples.into_iter().take(needed));
    }
}

/// The checks of all areas.
pub(crate) struct Checks(BTreeMap<Area, Check>);

impl Checks {
    pub(crate) fn new(examples: usize) -> Self {
        Self(
            Area::ALL
                .map(|area| (area, Check::new(area, examples)))
                .into(),
        )
    }

    pub(crate) fn of(&mut self, area: Area) -> &mut Check {
        self.0.get_mut(&area).expect("every area has a check")
    }

    pub(crate) fn into_vec(self) -> Vec<Check> {
        self.0.into_values().collect()
    }
}

/// The outcomes of the retained records of `chat.inbound`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InboundAccount {
    /// They have an event with their content.
    pub sequenced: u64,
    /// Sends that repeat a sequenced one within the window.
    pub repeats: u64,
    /// Read-acks at or below the position before them, and changes that change nothing.
    pub without_effect: u64,
    /// They are in the dead letters.
    pub dead_letters: u64,
    /// They are above the last source in `chat.events`.
    pub pending: u64,
    /// Their event may have been deleted from the start of `chat.events`.
    pub unverifiable: u64,
}

impl InboundAccount {
    pub(crate) fn merge(&mut self, other: Self) {
        self.sequenced += other.sequenced;
        self.repeats += other.repeats;
        self.without_effect += other.without_effect;
        self.dead_letters += other.dead_letters;
        self.pending += other.pending;
        self.unverifiable += other.unverifiable;
    }
}

impl fmt::Display for InboundAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} sequenced, {} repeats, {} without effect, {} dead letters, {} pending",
            self.sequenced, self.repeats, self.without_effect, self.dead_letters, self.pending
        )?;
        if self.unverifiable > 0 {
            write!(f, ", {} not verifiable", self.unverifiable)?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [compared, missing, extra, different] = ["compared", "missing", "extra", "different"];
        writeln!(f, "audit of {}", self.scope)?;
        writeln!(
            f,
            "{:<15} {compared:>12} {missing:>9} {extra:>9} {different:>9}",
            ""
        )?;
        for check in &self.checks {
            writeln!(
                f,
                "{:<15} {:>12} {:>9} {:>9} {:>9}",
                check.area.name(),
                check.compared,
                check.missing,
                check.extra,
                check.different
            )?;
        }
        writeln!(f, "inbound: {}", self.inbound)?;
        writeln!(f, "repeats of a former owner: {}", self.repeated_events)?;
        for check in self.checks.iter().filter(|check| check.excused > 0) {
            let (excused, name) = (check.excused, check.area.name());
            writeln!(f, "excused: {excused} rows of {name}, which were dropped")?;
        }
        for unchecked in &self.unchecked {
            writeln!(f, "not checked: {unchecked}")?;
        }
        for check in &self.checks {
            for finding in &check.examples {
                writeln!(f, "  {:<15} {finding}", check.area.name())?;
            }
        }
        write!(f, "differences: {}", self.differences)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_limited_and_counts_are_not() {
        let mut check = Check::new(Area::Contacts, 2);
        for i in 0..3 {
            check.add(Finding::new(Kind::Missing, i.to_string()));
        }
        let mut other = Check::new(Area::Contacts, 2);
        other.add(Finding::new(Kind::Extra, "x"));
        check.merge(other);
        assert_eq!((check.missing, check.extra, check.differences()), (3, 1, 4));
        assert_eq!(check.examples.len(), 2);
    }

    #[test]
    fn a_finding_names_its_record() {
        let partition = Partition::try_from(17).unwrap();
        let finding = Finding::new(Kind::Different, "mid").at("chat.events", partition, 42);
        assert_eq!(finding.to_string(), "different: mid [chat.events 17:42]");
    }
}
