//! The expected results in groups. Everything is looked up in the list of events so far.

use std::collections::{BTreeMap, BTreeSet};

use schemas::{
    Change, ChangeGroup, ChangeMessage, ConversationId, CreateGroup, GroupAction, GroupChange,
    GroupChangeKind, GroupId, GroupMember, GroupRole, GroupSettings, MessageChange, Mid, Ordinal,
    UserId,
    command::{ReadAck, SendMessage},
    dead_letter::Reason,
    event::{Body, Event, Message, ReadPosition},
};

use super::{DAY_MS, Oracle};

/// `None` if a command changes nothing.
type Answer = Result<Option<Body>, Reason>;
type Changed = Result<Option<GroupChange>, Reason>;
type Members = BTreeMap<UserId, (GroupRole, bool)>;

impl Oracle {
    pub(super) fn change_group(&self, ts: i64, command: ChangeGroup) -> Answer {
        let (gid, by, by_user) = (command.gid, command.by, command.by_user);
        self.belongs_here(ConversationId::Group(gid).partition())?;
        let change = match command.action {
            GroupAction::Create(create) => self.create(ts, gid, (by, by_user), &create)?,
            GroupAction::Leave if self.is_version_4() && !self.members(gid).contains_key(&by) => {
                None
            }
            action => {
                let changed = match action {
                    GroupAction::Join => self.join(gid, by),
                    GroupAction::Leave => self.leave(gid, by),
                    action => self.administer(gid, by, action),
                };
                let changed = changed.and_then(|change| self.limited(ts, by_user, change));
                self.for_strangers(gid, by, changed)?
            }
        };
        Ok(change.map(|change| Body::GroupChange(Box::new(change))))
    }

    pub(super) fn is_version_4(&self) -> bool {
        self.rules.rule_version >= 4
    }

    /// From version 4 on strangers get one reason for everything.
    fn for_strangers<T>(
        &self,
        gid: GroupId,
        by: UserId,
        answer: Result<T, Reason>,
    ) -> Result<T, Reason> {
        let of_strangers = [
            Reason::UnknownGroup,
            Reason::Dissolved,
            Reason::NotAMember,
            Reason::NoRight,
        ];
        let is_stranger = self.is_version_4() && !self.members(gid).contains_key(&by);
        answer.map_err(|reason| {
            if is_stranger && of_strangers.contains(&reason) {
                Reason::NotAMember
            } else {
                reason
            }
        })
    }

    /// Applies the limits on adding others, from version 4 on.
    fn limited(&self, ts: i64, by_user: bool, change: Option<GroupChange>) -> Changed {
        let Some(change) = change else {
            return Ok(None);
        };
        let new = change.members.iter().filter(|member| member.joined);
        let new: Vec<UserId> = new.map(|member| member.uid).collect();
        if by_user && self.is_version_4() && !new.is_empty() {
            let leavers = self.leavers(change.gid);
            let is_put_back = |uid: &&UserId| **uid != change.by && leavers.contains(uid);
            if new.iter().any(|uid| is_put_back(&uid)) {
                return Err(Reason::HasLeft);
            }
            self.may_make_members(ts, change.by, &new)?;
        }
        self.fits(change).map(Some)
    }

    fn may_make_members(&self, ts: i64, by: UserId, new: &[UserId]) -> Result<(), Reason> {
        let today = self.made_members.iter();
        let today = today.filter(|made| **made == (ts / DAY_MS, by)).count();
        let per_day = self.rules.new_memberships_per_day;
        let too_many = per_day > 0 && (today + new.len()) as i64 > per_day;
        let by_others = self.rules.max_memberships_by_others;
        let has_too_many = |uid: &UserId| {
            let all = self.groups_by_others(*uid, ts);
            let own = all.iter().filter(|adder| **adder == by).count() as i64;
            *uid != by && (all.len() as i64 >= by_others || own >= (by_others / 10).max(1))
        };
        if too_many || by_others > 0 && new.iter().any(has_too_many) {
            return Err(Reason::TooManyMemberships);
        }
        Ok(())
    }

    fn all_group_changes(&self) -> impl Iterator<Item = (usize, &GroupChange)> {
        let all = self.events.iter().enumerate();
        all.filter_map(|(index, event)| match &event.body {
            Body::GroupChange(change) => Some((index, &**change)),
            _ => None,
        })
    }

    /// The users who added `uid` to groups since version 4: one for each such group that `uid` is still in, or from which others removed
    /// `uid` today.
    fn groups_by_others(&self, uid: UserId, ts: i64) -> Vec<UserId> {
        let mut last: BTreeMap<GroupId, UserId> = BTreeMap::new();
        let mut removed = Vec::new();
        for (index, change) in self.all_group_changes() {
            let is_new = self.before_version_4.is_some_and(|before| index > before);
            if let Some(member) = change.members.iter().find(|member| member.uid == uid) {
                if member.joined && is_new && change.by != uid {
                    last.insert(change.gid, change.by);
                } else if member.joined || member.role.is_none() {
                    let ended = last.remove(&change.gid);
                    let day = self.events[index].ts.0 / DAY_MS;
                    if change.kind == GroupChangeKind::Remove && day == ts / DAY_MS {
                        removed.extend(ended);
                    }
                }
            }
        }
        last.into_values().chain(removed).collect()
    }

    /// The users who left voluntarily since version 4 and did not join again; only the last ones that are remembered.
    fn leavers(&self, gid: GroupId) -> Vec<UserId> {
        let (mut leavers, mut most) = (Vec::new(), 0);
        for (index, event) in self.events.iter().enumerate() {
            let is_new = self.before_version_4.is_some_and(|before| index > before);
            match &event.body {
                Body::Control(rules) => most = rules.max_group_members as usize,
                Body::GroupChange(change) if change.gid == gid => {
                    for member in &change.members {
                        leavers.retain(|uid| *uid != member.uid);
                        if is_new && change.kind == GroupChangeKind::Leave {
                            leavers.push(member.uid);
                            leavers.drain(..leavers.len().saturating_sub(most));
                        }
                    }
                }
                _ => {}
            }
        }
        leavers
    }

    pub(super) fn send_to_group(&self, gid: GroupId, send: SendMessage) -> Answer {
        let by = send.srcid;
        self.for_strangers(gid, by, self.send_as_member(gid, send))
    }

    fn send_as_member(&self, gid: GroupId, send: SendMessage) -> Answer {
        let member = self.of_member(gid, send.srcid)?;
        self.may_speak(gid, member)?;
        Ok(Some(Body::Message(Message {
            srcid: send.srcid,
            to: send.to,
            client_msg_id: send.client_msg_id,
            msg: send.msg,
            mid: mid(self.sent_in(gid).count() as i64 + 1),
            n: Ordinal::ZERO,
        })))
    }

    fn in_group(&self, gid: GroupId) -> impl Iterator<Item = &Body> {
        let of_group = move |event: &&Event| event.conversation() == Some(gid.into());
        self.events.iter().filter(of_group).map(|event| &event.body)
    }

    fn group_changes(&self, gid: GroupId) -> impl Iterator<Item = &GroupChange> {
        self.in_group(gid).filter_map(|body| match body {
            Body::GroupChange(change) => Some(&**change),
            _ => None,
        })
    }

    /// The sender of each message.
    fn sent_in(&self, gid: GroupId) -> impl Iterator<Item = UserId> {
        self.in_group(gid).filter_map(|body| match body {
            Body::Message(message) => Some(message.srcid),
            _ => None,
        })
    }

    /// The settings of a group, if it exists and was not dissolved.
    fn settings(&self, gid: GroupId) -> Result<GroupSettings, Reason> {
        let last = self.group_changes(gid).last();
        let settings = last.ok_or(Reason::UnknownGroup)?.settings.clone();
        if settings.dissolved {
            return Err(Reason::Dissolved);
        }
        Ok(settings)
    }

    /// The members. Those of a group that was dissolved before version 4 are forgotten.
    fn members(&self, gid: GroupId) -> Members {
        let mut members = Members::new();
        if self.is_forgotten(gid) {
            return members;
        }
        for of_event in self.group_changes(gid).flat_map(|change| &change.members) {
            match of_event.role {
                Some(role) => members.insert(of_event.uid, (role, of_event.muted)),
                None => members.remove(&of_event.uid),
            };
        }
        members
    }

    fn is_forgotten(&self, gid: GroupId) -> bool {
        let mut of_group = self.all_group_changes().filter(|(_, one)| one.gid == gid);
        let ended = of_group.find(|(_, change)| change.settings.dissolved);
        ended.is_some_and(|(index, _)| self.before_version_4.is_none_or(|before| index < before))
    }

    fn of_member(&self, gid: GroupId, uid: UserId) -> Result<(GroupRole, bool), Reason> {
        self.settings(gid)?;
        self.members(gid)
            .get(&uid)
            .copied()
            .ok_or(Reason::NotAMember)
    }

    fn may_speak(&self, gid: GroupId, (role, muted): (GroupRole, bool)) -> Result<(), Reason> {
        let all_muted = self.settings(gid)?.muted && role == GroupRole::Member;
        if muted || all_muted {
            return Err(Reason::Muted);
        }
        Ok(())
    }

    pub(super) fn read_group(&self, gid: GroupId, ack: &ReadAck) -> Answer {
        self.for_strangers(gid, ack.uid, self.read_as_member(gid, ack))
    }

    fn read_as_member(&self, gid: GroupId, ack: &ReadAck) -> Answer {
        let (by, device) = (ack.uid, ack.device);
        self.of_member(gid, by)?;
        let last = mid(self.sent_in(gid).count() as i64);
        let asked = ack.mid.map_or(last, |asked| asked.min(last));
        let (mut position, mut sent) = (Mid::ZERO, 0);
        for body in self.in_group(gid) {
            let reached = match body {
                Body::Message(message) => {
                    sent = message.mid.get();
                    (message.srcid == by).then_some(message.mid)
                }
                Body::ReadPosition(read) => {
                    (read.uid == by && read.device == device).then_some(read.mid)
                }
                Body::MessageChange(change) if change.change == Change::Clear => {
                    (change.by == by).then_some(change.mid)
                }
                Body::GroupChange(change) => {
                    let joined = change.members.iter().any(|one| one.uid == by && one.joined);
                    joined.then(|| mid(sent))
                }
                _ => None,
            };
            position = position.max(reached.unwrap_or_default());
        }
        let moved = Body::ReadPosition(ReadPosition {
            uid: by,
            to: ack.to,
            device,
            mid: asked,
            n: None,
        });
        Ok((asked > position).then_some(moved))
    }

    pub(super) fn change_group_message(
        &self,
        ts: i64,
        gid: GroupId,
        asked: ChangeMessage,
    ) -> Answer {
        let by = asked.by;
        self.for_strangers(gid, by, self.change_as_member(ts, gid, asked))
    }

    /// The role of a user who may still change messages in a dissolved group, from version 4 on.
    fn in_dissolved_group(
        &self,
        gid: GroupId,
        by: UserId,
        change: &Change,
    ) -> Result<(GroupRole, bool), Reason> {
        let owner = self
            .group_changes(gid)
            .last()
            .map(|last| last.settings.owner);
        let member = self.members(gid).get(&by).copied();
        let found = match change {
            Change::Edit(_) | Change::React(_) => None,
            Change::Hide | Change::Clear => member,
            Change::Recall | Change::Delete if owner == Some(by) => Some((GroupRole::Owner, false)),
            Change::Recall | Change::Delete => member.filter(|one| one.0 > GroupRole::Member),
        };
        found
            .filter(|_| self.is_version_4())
            .ok_or(Reason::Dissolved)
    }

    fn change_as_member(&self, ts: i64, gid: GroupId, asked: ChangeMessage) -> Answer {
        let ChangeMessage {
            by,
            to,
            mid: target,
            change,
        } = asked;
        let member = match self.settings(gid) {
            Err(Reason::Dissolved) => self.in_dissolved_group(gid, by, &change)?,
            _ => self.of_member(gid, by)?,
        };
        let author = self.sent_in(gid).nth(target.get() as usize - 1);
        let author = author.ok_or(Reason::UnknownMessage)?;
        // The authors of older messages are not remembered, nor whether the messages were recalled.
        let is_known =
            self.sent_in(gid).count() as i64 - target.get() < 4_096 && !self.is_forgotten(gid);
        let changes = || {
            self.message_changes()
                .filter(|change| change.conversation() == gid.into())
        };
        let is_recalled = is_known
            && changes().any(|made| {
                made.mid == target && matches!(made.change, Change::Recall | Change::Delete)
            });
        let is_admin = member.0 > GroupRole::Member;
        match &change {
            Change::Hide | Change::Clear => {}
            Change::Delete if !self.rules.delete_for_all => return Err(Reason::NotAllowed),
            Change::Edit(msg) => {
                if !is_known {
                    return Err(Reason::TooOld);
                }
                if author != by {
                    return Err(Reason::NotTheAuthor);
                }
                if is_recalled {
                    return Err(Reason::Recalled);
                }
                if msg.len() as i64 > self.rules.max_msg_bytes {
                    return Err(Reason::TooLarge);
                }
                self.may_speak(gid, member)?;
            }
            Change::React(_) if is_recalled => return Err(Reason::Recalled),
            Change::React(_) => self.may_speak(gid, member)?,
            Change::Recall | Change::Delete => {
                if !is_admin && !is_known {
                    return Err(Reason::TooOld);
                }
                if !is_admin && author != by {
                    return Err(Reason::NotTheAuthor);
                }
                if is_recalled {
                    return Ok(None);
                }
                if !is_admin {
                    self.is_recallable(ts, ConversationId::Group(gid), target)?;
                }
            }
        }
        Ok(Some(Body::MessageChange(MessageChange {
            by,
            to,
            mid: target,
            chg: self.next_chg(gid.into(), &change),
            change,
            n: None,
        })))
    }

    fn create(
        &self,
        ts: i64,
        gid: GroupId,
        (owner, by_user): (UserId, bool),
        asked: &CreateGroup,
    ) -> Changed {
        let derived = asked.client_id.as_deref();
        let derived = derived.map(|client_id| GroupId::of_owner(owner, client_id));
        let may_choose = derived.is_none() && !by_user || derived == Some(gid);
        if self.is_version_4() && !may_choose {
            return Err(Reason::WrongGid);
        }
        let others = asked.members.iter().copied().filter(|one| *one != owner);
        let others: BTreeSet<UserId> = others.collect();
        let settings = GroupSettings {
            name: asked.name.clone(),
            owner,
            open: asked.open,
            whole_history: asked.whole_history,
            muted: false,
            dissolved: false,
        };
        let owner = [joined(owner, GroupRole::Owner)].into_iter();
        let others = others.into_iter().map(|one| joined(one, GroupRole::Member));
        let members: Vec<GroupMember> = owner.chain(others).collect();
        if let Some(first) = self.group_changes(gid).next() {
            let same = first.settings == settings && first.members == members;
            return if same {
                Ok(None)
            } else {
                Err(Reason::GroupExists)
            };
        }
        if self.is_version_4() && derived.is_none() && gid.get() >= 1 << 62 {
            return Err(Reason::WrongGid);
        }
        if by_user && self.has_begun_enough(ts, settings.owner) {
            return Err(Reason::TooManyConversations);
        }
        if by_user && self.is_version_4() {
            let others = members[1..].iter().map(|member| member.uid);
            self.may_make_members(ts, settings.owner, &others.collect::<Vec<_>>())?;
        }
        if members.len() as i64 > self.rules.max_group_members {
            return Err(Reason::GroupFull);
        }
        Ok(Some(GroupChange {
            gid,
            by: settings.owner,
            kind: GroupChangeKind::Create,
            settings,
            member_count: members.len() as i64,
            last_mid: Mid::ZERO,
            members,
        }))
    }

    fn join(&self, gid: GroupId, by: UserId) -> Changed {
        let settings = self.settings(gid)?;
        if self.members(gid).contains_key(&by) {
            return Ok(None);
        }
        if !settings.open {
            return Err(Reason::NoRight);
        }
        let members = vec![self.joined_again(gid, by)];
        self.changed((gid, by), GroupChangeKind::Join, settings, members)
    }

    /// The users who were muted when they left.
    fn muted_who_left(&self, gid: GroupId) -> BTreeSet<UserId> {
        let all = self.group_changes(gid).flat_map(|change| &change.members);
        let last: BTreeMap<UserId, &GroupMember> = all.map(|one| (one.uid, one)).collect();
        let gone = last.values().filter(|one| one.role.is_none() && one.muted);
        gone.map(|one| one.uid).collect()
    }

    fn joined_again(&self, gid: GroupId, uid: UserId) -> GroupMember {
        GroupMember {
            muted: self.muted_who_left(gid).contains(&uid),
            ..joined(uid, GroupRole::Member)
        }
    }

    fn leave(&self, gid: GroupId, by: UserId) -> Changed {
        let settings = match self.settings(gid) {
            Err(Reason::Dissolved) if self.is_version_4() => {
                self.group_changes(gid).last().unwrap().settings.clone()
            }
            found => found?,
        };
        match self.members(gid).get(&by) {
            None => Ok(None),
            Some((GroupRole::Owner, _)) if !settings.dissolved => Err(Reason::NoRight),
            Some((_, muted)) => {
                let members = vec![with_role(by, None, *muted)];
                self.changed((gid, by), GroupChangeKind::Leave, settings, members)
            }
        }
    }

    fn administer(&self, gid: GroupId, by: UserId, action: GroupAction) -> Changed {
        let mut settings = self.settings(gid)?;
        let kind = action.change_kind();
        let own = self.of_member(gid, by)?.0;
        let members = self.members(gid);
        let is_owner = own == GroupRole::Owner;
        let least = match kind {
            GroupChangeKind::SetRole | GroupChangeKind::Dissolve => GroupRole::Owner,
            _ => GroupRole::Admin,
        };
        if own < least {
            return Err(Reason::NoRight);
        }
        let mut concerned = Vec::new();
        match action {
            GroupAction::Add(who) => {
                let new = BTreeSet::from_iter(who);
                let new = new.into_iter().filter(|one| !members.contains_key(one));
                concerned.extend(new.map(|one| self.joined_again(gid, one)));
            }
            GroupAction::Remove(who) => {
                for one in BTreeSet::from_iter(who) {
                    if let Some((role, muted)) = members.get(&one) {
                        if *role >= own {
                            return Err(Reason::NoRight);
                        }
                        concerned.push(with_role(one, None, *muted));
                    }
                }
            }
            GroupAction::SetRole { uid, role } => {
                let (before, muted) = *members.get(&uid).ok_or(Reason::NotAMember)?;
                if before != role {
                    if !is_owner || uid == by {
                        return Err(Reason::NoRight);
                    }
                    let kept = if self.is_version_4() {
                        role != GroupRole::Owner
                    } else {
                        role == GroupRole::Member
                    };
                    concerned.push(with_role(uid, Some(role), muted && kept));
                    if role == GroupRole::Owner {
                        settings.owner = uid;
                        concerned.push(with_role(by, Some(GroupRole::Admin), false));
                    }
                }
            }
            GroupAction::Rename(name) => settings.name = name,
            GroupAction::Mute(None) => settings.muted = true,
            GroupAction::Unmute(None) => settings.muted = false,
            GroupAction::Mute(Some(uid)) => {
                concerned.extend(muted(&members, own, uid, true)?);
            }
            GroupAction::Unmute(Some(uid)) => {
                concerned.extend(muted(&members, own, uid, false)?);
            }
            GroupAction::SetOptions(options) => {
                settings.open = options.open.unwrap_or(settings.open);
                settings.whole_history = options.whole_history.unwrap_or(settings.whole_history);
            }
            GroupAction::Dissolve => settings.dissolved = true,
            _ => unreachable!("decided elsewhere"),
        }
        self.changed((gid, by), kind, settings, concerned)
    }

    fn changed(
        &self,
        (gid, by): (GroupId, UserId),
        kind: GroupChangeKind,
        settings: GroupSettings,
        members: Vec<GroupMember>,
    ) -> Changed {
        if members.is_empty() && settings == self.settings(gid)? {
            return Ok(None);
        }
        let all = self.members_after(gid, &members).len() as i64;
        Ok(Some(GroupChange {
            gid,
            by,
            kind,
            member_count: if settings.dissolved { 0 } else { all },
            settings,
            last_mid: mid(self.sent_in(gid).count() as i64),
            members,
        }))
    }

    fn members_after(&self, gid: GroupId, members: &[GroupMember]) -> BTreeSet<UserId> {
        let mut all: BTreeSet<UserId> = self.members(gid).into_keys().collect();
        for member in members {
            match member.role {
                Some(_) => all.insert(member.uid),
                None => all.remove(&member.uid),
            };
        }
        all
    }

    fn fits(&self, change: GroupChange) -> Result<GroupChange, Reason> {
        let all = self.members_after(change.gid, &change.members);
        let grows = change.members.iter().any(|member| member.joined);
        let kept = self.muted_who_left(change.gid);
        if grows && all.union(&kept).count() as i64 > self.rules.max_group_members {
            return Err(Reason::GroupFull);
        }
        Ok(change)
    }
}

fn mid(mid: i64) -> Mid {
    Mid::try_from(mid).unwrap()
}

fn joined(uid: UserId, role: GroupRole) -> GroupMember {
    GroupMember {
        joined: true,
        ..with_role(uid, Some(role), false)
    }
}

fn with_role(uid: UserId, role: Option<GroupRole>, muted: bool) -> GroupMember {
    GroupMember {
        uid,
        role,
        muted,
        joined: false,
    }
}

fn muted(
    members: &Members,
    own: GroupRole,
    uid: UserId,
    muted: bool,
) -> Result<Option<GroupMember>, Reason> {
    let (role, before) = *members.get(&uid).ok_or(Reason::NotAMember)?;
    if role >= own {
        return Err(Reason::NoRight);
    }
    Ok((before != muted).then(|| with_role(uid, Some(role), muted)))
}
