use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    mem,
};

use schemas::{GroupChange, GroupChangeKind, GroupId, UserId, event::Rules};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Which users made others members of groups, and which users left voluntarily, from rule version 4 on (PROTOCOL G10, G11).
#[derive(Debug, Default)]
pub(crate) struct Memberships {
    /// The day of the last change of a group.
    day: i64,
    /// How many users each user made members on that day, while that is limited.
    new: HashMap<UserId, i64>,
    /// The user who added a member, if another user did.
    made_by: HashMap<(GroupId, UserId), UserId>,
    /// The number of memberships by others of each user, by the user who began them.
    by_others: HashMap<UserId, HashMap<UserId, i64>>,
    /// The memberships that others ended on that day: of whom, and begun by whom. They count until the day is over.
    removed: Vec<(UserId, UserId)>,
    /// The users who left, in order.
    left: HashMap<GroupId, Vec<UserId>>,
    /// Groups that were dissolved below rule version 4: the sequencer has forgotten their members.
    forgotten: HashSet<GroupId>,
}

impl Memberships {
    /// Adds a change. `is_member` is about the state before it.
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
        let day = ts.div_euclid(DAY_MS);
        if mem::replace(&mut self.day, day) != day {
            self.begin_day();
        }
        for member in &change.members {
            let (uid, was_member) = (member.uid, is_member(member.uid));
            if member.role.is_none() {
                let ended = self.made_by.remove(&(gid, uid)).map(|by| (uid, by));
                if change.kind == GroupChangeKind::Remove {
                    self.removed.extend(ended);
                } else if let Some((uid, by)) = ended {
                    self.count_down(uid, by);
                }
                if change.kind == GroupChangeKind::Leave {
                    self.leave(gid, uid, rules);
                }
            } else if !was_member {
                self.forget_leaver(gid, uid);
                self.begin(change, uid, rules);
            }
        }
        if change.settings.dissolved {
            self.left.remove(&gid);
        }
    }

    fn begin_day(&mut self) {
        self.new.clear();
        for (uid, by) in mem::take(&mut self.removed) {
            self.count_down(uid, by);
        }
    }

    fn begin(&mut self, change: &GroupChange, uid: UserId, rules: &Rules) {
        if uid != change.by
            && let Entry::Vacant(made_by) = self.made_by.entry((change.gid, uid))
        {
            made_by.insert(change.by);
            let of_user = self.by_others.entry(uid).or_default();
            *of_user.entry(change.by).or_insert(0) += 1;
        }
        let is_creation = change.kind == GroupChangeKind::Create && uid == change.by;
        if rules.new_memberships_per_day > 0 && !is_creation {
            *self.new.entry(change.by).or_insert(0) += 1;
        }
    }

    fn count_down(&mut self, uid: UserId, by: UserId) {
        if let Some(of_user) = self.by_others.get_mut(&uid)
            && let Some(count) = of_user.get_mut(&by)
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

    /// How many users a user has made members on the day of `now`.
    pub(super) fn new_by(&self, user: UserId, now: i64) -> i64 {
        match self.new.get(&user) {
            Some(new) if self.day == now.div_euclid(DAY_MS) => *new,
            _ => 0,
        }
    }

    /// The number of memberships by others that a user has at `now`, and of those that `by` began.
    pub(super) fn by_others(&self, user: UserId, by: UserId, now: i64) -> (i64, i64) {
        let of_user = self.by_others.get(&user);
        let all: i64 = of_user.into_iter().flat_map(HashMap::values).sum();
        let own = of_user.and_then(|of_user| of_user.get(&by)).copied();
        let is_over = self.day != now.div_euclid(DAY_MS);
        let over = self
            .removed
            .iter()
            .filter(|(uid, _)| is_over && *uid == user);
        let own_over = over.clone().filter(|(_, maker)| *maker == by).count() as i64;
        (
            all - over.count() as i64,
            own.unwrap_or_default() - own_over,
        )
    }

    /// Whether it is remembered that a user left a group voluntarily.
    pub(super) fn has_left(&self, gid: GroupId, uid: UserId) -> bool {
        self.left.get(&gid).is_some_and(|left| left.contains(&uid))
    }

    pub(super) fn has_forgotten(&self, gid: GroupId) -> bool {
        self.forgotten.contains(&gid)
    }
}
