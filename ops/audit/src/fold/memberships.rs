use std::collections::{HashMap, HashSet};

use schemas::{GroupChange, GroupChangeKind, GroupId, UserId, event::Rules};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Who made users members of groups, and who left by himself, from rule version 4 on (PROTOCOL G10, G11).
#[derive(Debug, Default)]
pub(crate) struct Memberships {
    /// The last day on which users were made members, and how many by whom, while that is limited.
    day: i64,
    new: HashMap<UserId, i64>,
    /// Members because of others.
    made_by_others: HashSet<(GroupId, UserId)>,
    by_others: HashMap<UserId, i64>,
    /// In the order of leaving.
    left: HashMap<GroupId, Vec<UserId>>,
    /// Groups that were dissolved before: the sequencer has forgotten their members.
    forgotten: HashSet<GroupId>,
}

impl Memberships {
    /// Takes a change in. `is_member` is about before it.
    pub(super) fn add(
        &mut self,
        change: &GroupChange,
        is_member: impl Fn(UserId) -> bool,
        ts: i64,
        rules: &Rules,
    ) {
        let gid = change.gid;
        if rules.rule_version < 4 {
            if change.settings.dissolved {
                self.forgotten.insert(gid);
            }
            return;
        }
        for member in &change.members {
            let (uid, was_member) = (member.uid, is_member(member.uid));
            if member.role.is_none() {
                self.end(gid, uid);
                if change.kind == GroupChangeKind::Leave {
                    self.leave(gid, uid, rules);
                }
            } else if !was_member {
                self.forget_leaver(gid, uid);
                self.begin(change, uid, ts, rules);
            }
        }
        if change.settings.dissolved {
            self.left.remove(&gid);
        }
    }

    fn begin(&mut self, change: &GroupChange, uid: UserId, ts: i64, rules: &Rules) {
        if uid != change.by && self.made_by_others.insert((change.gid, uid)) {
            *self.by_others.entry(uid).or_insert(0) += 1;
        }
        let is_creation = change.kind == GroupChangeKind::Create && uid == change.by;
        if rules.new_memberships_per_day <= 0 || is_creation {
            return;
        }
        if self.day != ts.div_euclid(DAY_MS) {
            self.day = ts.div_euclid(DAY_MS);
            self.new.clear();
        }
        *self.new.entry(change.by).or_insert(0) += 1;
    }

    fn end(&mut self, gid: GroupId, uid: UserId) {
        if self.made_by_others.remove(&(gid, uid))
            && let Some(count) = self.by_others.get_mut(&uid)
        {
            *count -= 1;
        }
    }

    fn leave(&mut self, gid: GroupId, uid: UserId, rules: &Rules) {
        self.forget_leaver(gid, uid);
        let left = self.left.entry(gid).or_default();
        left.push(uid);
        let most = usize::try_from(rules.max_group_members).unwrap_or_default();
        let gone = left.len().saturating_sub(most);
        left.drain(..gone);
    }

    fn forget_leaver(&mut self, gid: GroupId, uid: UserId) {
        if let Some(left) = self.left.get_mut(&gid) {
            left.retain(|one| *one != uid);
        }
    }

    /// How many users somebody has made members on the day of `now`.
    pub(super) fn new_by(&self, user: UserId, now: i64) -> i64 {
        match self.new.get(&user) {
            Some(new) if self.day == now.div_euclid(DAY_MS) => *new,
            _ => 0,
        }
    }

    /// Of how many groups a user is a member because of others.
    pub(super) fn by_others(&self, user: UserId) -> i64 {
        self.by_others.get(&user).copied().unwrap_or_default()
    }

    /// Whether it is remembered that a user left a group by himself.
    pub(super) fn has_left(&self, gid: GroupId, uid: UserId) -> bool {
        self.left.get(&gid).is_some_and(|left| left.contains(&uid))
    }

    pub(super) fn has_forgotten(&self, gid: GroupId) -> bool {
        self.forgotten.contains(&gid)
    }
}
