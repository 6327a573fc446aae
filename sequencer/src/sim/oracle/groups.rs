//! What is expected in groups. Everything is looked up in the list of events so far.

use std::collections::{BTreeMap, BTreeSet};

use schemas::{
    Change, ChangeGroup, ChangeMessage, Chg, ConversationId, CreateGroup, GroupAction, GroupChange,
    GroupChangeKind, GroupId, GroupMember, GroupRole, GroupSettings, MessageChange, Mid, Ordinal,
    UserId,
    command::{ReadAck, SendMessage},
    dead_letter::Reason,
    event::{Body, Event, Message, ReadPosition},
};

use super::Oracle;

/// Nothing where a command changes nothing.
type Answer = Result<Option<Body>, Reason>;
type Changed = Result<Option<GroupChange>, Reason>;
type Members = BTreeMap<UserId, (GroupRole, bool)>;

impl Oracle {
    pub(super) fn change_group(&self, ts: i64, command: ChangeGroup) -> Answer {
        let (gid, by) = (command.gid, command.by);
        self.belongs_here(ConversationId::Group(gid).partition())?;
        let change = match command.action {
            GroupAction::Create(create) => self.create(ts, gid, (by, command.by_user), &create),
            GroupAction::Join => self.join(gid, by),
            GroupAction::Leave => self.leave(gid, by),
            action => self.administer(gid, by, action),
        };
        Ok(change?.map(|change| Body::GroupChange(Box::new(change))))
    }

    pub(super) fn send_to_group(&self, gid: GroupId, send: SendMessage) -> Answer {
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

    /// Who sent each message.
    fn sent_in(&self, gid: GroupId) -> impl Iterator<Item = UserId> {
        self.in_group(gid).filter_map(|body| match body {
            Body::Message(message) => Some(message.srcid),
            _ => None,
        })
    }

    /// The settings of a group that there is.
    fn settings(&self, gid: GroupId) -> Result<GroupSettings, Reason> {
        let last = self.group_changes(gid).last();
        let settings = last.ok_or(Reason::UnknownGroup)?.settings.clone();
        if settings.dissolved {
            return Err(Reason::Dissolved);
        }
        Ok(settings)
    }

    fn members(&self, gid: GroupId) -> Members {
        let mut members = Members::new();
        for of_event in self.group_changes(gid).flat_map(|change| &change.members) {
            match of_event.role {
                Some(role) => members.insert(of_event.uid, (role, of_event.muted)),
                None => members.remove(&of_event.uid),
            };
        }
        members
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
        let ChangeMessage {
            by,
            to,
            mid: target,
            change,
        } = asked;
        let member = self.of_member(gid, by)?;
        let author = self.sent_in(gid).nth(target.get() as usize - 1);
        let author = author.ok_or(Reason::UnknownMessage)?;
        // Who wrote older messages is not remembered, nor whether they were recalled.
        let is_known = self.sent_in(gid).count() as i64 - target.get() < 4_096;
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
            change,
            chg: Chg::try_from(changes().count() as i64 + 1).unwrap(),
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
        if by_user && self.has_begun_enough(ts, settings.owner) {
            return Err(Reason::TooManyConversations);
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

    /// Those who were muted when they left.
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
        let settings = self.settings(gid)?;
        match self.members(gid).get(&by) {
            None => Ok(None),
            Some((GroupRole::Owner, _)) => Err(Reason::NoRight),
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
                    let muted = muted && role == GroupRole::Member;
                    concerned.push(with_role(uid, Some(role), muted));
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
        let mut all: BTreeSet<UserId> = self.members(gid).into_keys().collect();
        for member in &members {
            match member.role {
                Some(_) => all.insert(member.uid),
                None => all.remove(&member.uid),
            };
        }
        let grows = members.iter().any(|member| member.joined);
        let kept = self.muted_who_left(gid);
        if grows && all.union(&kept).count() as i64 > self.rules.max_group_members {
            return Err(Reason::GroupFull);
        }
        Ok(Some(GroupChange {
            gid,
            by,
            kind,
            member_count: if settings.dissolved {
                0
            } else {
                all.len() as i64
            },
            settings,
            last_mid: mid(self.sent_in(gid).count() as i64),
            members,
        }))
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
