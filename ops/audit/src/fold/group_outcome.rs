//! The expected outcome of a command in a group (PROTOCOL G).

use std::collections::BTreeSet;

use schemas::{
    Change, ChangeGroup, CreateGroup, GroupAction, GroupChange, GroupChangeKind, GroupId,
    GroupMember, GroupRole, GroupSettings, Mid, UserId,
    command::{Command, ReadAck},
    dead_letter::Reason,
    event::Body,
};

use super::{
    dedup::{Lookup, SendKey},
    expected::Expected,
    group::Group,
    recall::expected_by_window,
    routing::scope_of,
    state_before::StateBefore,
};

/// `None` if a command changes nothing.
type ExpectedChange = Result<Option<GroupChange>, Reason>;

pub(super) fn expected_in_group(command: &Command, before: &StateBefore<'_>) -> Expected {
    let expected = match command {
        Command::Send(send) => {
            match before
                .dedup
                .lookup(&SendKey::new(send), before.now, before.rules)
            {
                Lookup::SamePayload => Ok(Expected::Repeat),
                Lookup::OtherPayload => Err(Reason::Conflict),
                Lookup::Absent => expected_of_send(send.srcid, &send.msg, before),
            }
        }
        Command::ReadAck(ack) => member(ack.uid, before).map(|(group, _)| {
            let moves = expected_mid(ack, group) > group.read_mid(ack.uid, ack.device);
            if moves {
                Expected::Event
            } else {
                Expected::WithoutEffect
            }
        }),
        Command::ChangeMessage(asked) => {
            expected_of_message_change(asked.by, asked.mid.get(), &asked.change, before)
        }
        Command::ChangeGroup(asked) => expected_change(asked, before).map(|change| match change {
            Some(_) => Expected::Event,
            None => Expected::WithoutEffect,
        }),
        Command::ChangeContact(_) | Command::SetProfile(_) | Command::Control(_) => {
            unreachable!("it is of no group")
        }
    };
    let of_strangers = |reason| told_to(command, reason, before);
    expected.unwrap_or_else(|reason| Expected::Refused(of_strangers(reason)))
}

/// From rule version 4 on a user who is not a member gets one reason for everything (PROTOCOL G12).
fn told_to(command: &Command, reason: Reason, before: &StateBefore<'_>) -> Reason {
    let creates = matches!(command, Command::ChangeGroup(asked) if matches!(asked.action, GroupAction::Create(_)));
    let Some(by) = scope_of(command).author.filter(|_| !creates) else {
        return reason;
    };
    let tells = matches!(
        reason,
        Reason::UnknownGroup | Reason::Dissolved | Reason::NotAMember | Reason::NoRight
    );
    if before.rules.rule_version >= 4 && tells && before.member(by).is_none() {
        Reason::NotAMember
    } else {
        reason
    }
}

/// The field in which an event differs from what follows from its command and the log before it.
pub(super) fn mismatch_in_group(
    command: &Command,
    body: &Body,
    before: &StateBefore<'_>,
) -> Option<&'static str> {
    match (command, body) {
        (Command::ReadAck(ack), Body::ReadPosition(position)) => {
            let group = before.group?;
            (expected_mid(ack, group) != position.mid.get()).then_some("mid")
        }
        (Command::ChangeGroup(asked), Body::GroupChange(found)) => {
            let expected = expected_change(asked, before).ok().flatten()?;
            different_field(&expected, found)
        }
        _ => None,
    }
}

fn different_field(expected: &GroupChange, found: &GroupChange) -> Option<&'static str> {
    let (expected_settings, found_settings) = (&expected.settings, &found.settings);
    let fields = [
        ("the kind", expected.kind == found.kind),
        ("name", expected_settings.name == found_settings.name),
        ("owner", expected_settings.owner == found_settings.owner),
        ("open", expected_settings.open == found_settings.open),
        (
            "whole_history",
            expected_settings.whole_history == found_settings.whole_history,
        ),
        ("muted", expected_settings.muted == found_settings.muted),
        (
            "dissolved",
            expected_settings.dissolved == found_settings.dissolved,
        ),
        ("member_count", expected.member_count == found.member_count),
        ("last_mid", expected.last_mid == found.last_mid),
        (
            "members",
            sorted(&expected.members) == sorted(&found.members),
        ),
    ];
    let (name, _) = fields.into_iter().find(|(_, equal)| !equal)?;
    Some(name)
}

fn sorted(members: &[GroupMember]) -> Vec<GroupMember> {
    let mut members = members.to_vec();
    members.sort_by_key(|member| member.uid);
    members
}

/// The group, if it exists and is not dissolved, and its settings.
fn group<'a>(before: &StateBefore<'a>) -> Result<(&'a Group, &'a GroupSettings), Reason> {
    let group = before.group.ok_or(Reason::UnknownGroup)?;
    match &group.settings {
        None => Err(Reason::UnknownGroup),
        Some(settings) if settings.dissolved => Err(Reason::Dissolved),
        Some(settings) => Ok((group, settings)),
    }
}

fn member<'a>(uid: UserId, before: &StateBefore<'a>) -> Result<(&'a Group, GroupRole), Reason> {
    let (group, _) = group(before)?;
    let (role, _) = group.member(uid).ok_or(Reason::NotAMember)?;
    Ok((group, role))
}

fn check_speaks(uid: UserId, before: &StateBefore<'_>) -> Result<(), Reason> {
    let (group, settings) = group(before)?;
    match group.member(uid) {
        None => Err(Reason::NotAMember),
        Some((_, true)) => Err(Reason::Muted),
        Some((GroupRole::Member, false)) if settings.muted => Err(Reason::Muted),
        Some(_) => Ok(()),
    }
}

fn check_bytes(msg: &str, before: &StateBefore<'_>) -> Result<(), Reason> {
    if msg.len() as i128 > i128::from(before.rules.max_msg_bytes) {
        return Err(Reason::TooLarge);
    }
    Ok(())
}

fn expected_of_send(by: UserId, msg: &str, before: &StateBefore<'_>) -> Result<Expected, Reason> {
    check_bytes(msg, before)?;
    check_speaks(by, before)?;
    Ok(Expected::Event)
}

/// The message up to which a read-ack reads.
fn expected_mid(ack: &ReadAck, group: &Group) -> i64 {
    let last = group.last.mid;
    ack.mid.map_or(last, |mid| mid.get().min(last))
}

/// The group and the role of a user who may change messages. In a dissolved group, from rule version 4 on, members hide and clear; admins recall, and
/// so does the owner, even after leaving.
fn changer<'a>(
    by: UserId,
    change: &Change,
    before: &StateBefore<'a>,
) -> Result<(&'a Group, GroupRole), Reason> {
    let ended = before.group.filter(|group| group.is_dissolved());
    let Some(group) = ended.filter(|_| before.rules.rule_version >= 4) else {
        return member(by, before);
    };
    let role = before.member(by).map(|(role, _)| role);
    let found = match change {
        Change::Edit(_) | Change::React(_) => None,
        Change::Hide | Change::Clear => role,
        Change::Recall | Change::Delete if group.is_owned_by(by) => Some(GroupRole::Owner),
        Change::Recall | Change::Delete => role.filter(|role| *role > GroupRole::Member),
    };
    found.map(|role| (group, role)).ok_or(Reason::Dissolved)
}

fn expected_of_message_change(
    by: UserId,
    mid: i64,
    change: &Change,
    before: &StateBefore<'_>,
) -> Result<Expected, Reason> {
    let (group, role) = changer(by, change, before)?;
    if mid > group.last.mid {
        return Err(Reason::UnknownMessage);
    }
    let known_author = |mid| group.known_author(mid).filter(|_| !before.is_forgotten);
    let check_author = || match known_author(mid) {
        None => Err(Reason::TooOld),
        Some(author) if author == by => Ok(()),
        Some(_) => Err(Reason::NotTheAuthor),
    };
    match change {
        Change::Hide | Change::Clear => Ok(Expected::Event),
        Change::Edit(msg) => {
            check_author()?;
            if group.is_recalled(mid) {
                return Err(Reason::Recalled);
            }
            check_bytes(msg, before)?;
            check_speaks(by, before)?;
            Ok(Expected::Event)
        }
        Change::React(_) if known_author(mid).is_some() && group.is_recalled(mid) => {
            Err(Reason::Recalled)
        }
        Change::React(_) => check_speaks(by, before).map(|()| Expected::Event),
        Change::Delete if !before.rules.delete_for_all => Err(Reason::NotAllowed),
        // Admins recall everybody's messages, and at any time.
        Change::Recall | Change::Delete if role > GroupRole::Member => {
            Ok(if known_author(mid).is_some() && group.is_recalled(mid) {
                Expected::WithoutEffect
            } else {
                Expected::Event
            })
        }
        Change::Recall | Change::Delete => {
            check_author()?;
            if group.is_recalled(mid) {
                return Ok(Expected::WithoutEffect);
            }
            let message = (group.last_place, group.last.mid - mid);
            Ok(expected_by_window(message, before))
        }
    }
}

/// The change that a command leads to.
fn expected_change(command: &ChangeGroup, before: &StateBefore<'_>) -> ExpectedChange {
    let kind = command.action.change_kind();
    if let GroupAction::Create(asked) = &command.action {
        return expected_creation(command, asked, before);
    }
    let is_version_4 = before.rules.rule_version >= 4;
    let leaves = command.action == GroupAction::Leave;
    if is_version_4 && leaves && before.member(command.by).is_none() {
        return Ok(None);
    }
    let (group, settings) = match (before.group, group(before)) {
        (Some(ended), Err(Reason::Dissolved)) if is_version_4 && leaves => {
            (ended, ended.settings.as_ref().ok_or(Reason::UnknownGroup)?)
        }
        (_, found) => found?,
    };
    let mut after = Changed {
        settings: settings.clone(),
        members: Vec::new(),
        is_version_4,
    };
    match command.action {
        GroupAction::Join => after.join(command.by, group)?,
        GroupAction::Leave => after.leave(command.by, group)?,
        _ => after.administer(command, group)?,
    }
    let Changed {
        settings: set,
        members,
        ..
    } = after;
    if members.is_empty() && set == *settings {
        return Ok(None);
    }
    let joined = members.iter().filter(|one| one.joined).count() as i64;
    let from_kept_places = members.iter().filter(|one| one.joined && one.muted).count() as i64;
    let left = members.iter().filter(|one| one.role.is_none()).count() as i64;
    check_limits(command, &members, before)?;
    let count = group.now_members() + joined - left;
    let kept = group.muted_who_left() - from_kept_places;
    if joined > 0 && count + kept > before.rules.max_group_members {
        return Err(Reason::GroupFull);
    }
    Ok(Some(GroupChange {
        gid: command.gid,
        by: command.by,
        kind,
        member_count: if set.dissolved { 0 } else { count },
        settings: set,
        last_mid: Mid::try_from(group.last.mid).unwrap_or_default(),
        members,
    }))
}

/// Applies the limits on adding others, for users who post their commands, from rule version 4 on.
fn check_limits(
    command: &ChangeGroup,
    members: &[GroupMember],
    before: &StateBefore<'_>,
) -> Result<(), Reason> {
    let ChangeGroup {
        gid, by, by_user, ..
    } = *command;
    let is_creation = command.action.change_kind() == GroupChangeKind::Create;
    let new: Vec<UserId> = members
        .iter()
        .filter(|member| member.joined)
        .map(|member| member.uid)
        .filter(|uid| !is_creation || *uid != by)
        .collect();
    if !by_user || before.rules.rule_version < 4 || new.is_empty() && !is_creation {
        return Ok(());
    }
    let known = before.memberships;
    let others = || new.iter().filter(|uid| **uid != by);
    if others().any(|uid| known.has_left(gid, *uid)) {
        return Err(Reason::HasLeft);
    }
    let per_day = before.rules.new_memberships_per_day;
    let by_others = before.rules.max_memberships_by_others;
    let is_too_many = per_day > 0 && known.new_by(by, before.now) + new.len() as i64 > per_day;
    let has_too_many = |uid: &UserId| {
        let (all, own) = known.by_others(*uid, by, before.now);
        all >= by_others || own >= (by_others / 10).max(1)
    };
    if is_too_many || by_others > 0 && others().any(has_too_many) {
        return Err(Reason::TooManyMemberships);
    }
    Ok(())
}

/// From rule version 4 on gids of users are derived from the user and a client_id; those that services choose are below (PROTOCOL G9).
fn check_gid(
    command: &ChangeGroup,
    asked: &CreateGroup,
    before: &StateBefore<'_>,
) -> Result<(), Reason> {
    if before.rules.rule_version < 4 || before.is_of_event {
        return Ok(());
    }
    let gid = command.gid;
    let is_allowed = match &asked.client_id {
        Some(client_id) => gid == GroupId::of_owner(command.by, client_id),
        None if command.by_user => false,
        None => before.group.is_some() || gid.get() < 1 << 62,
    };
    is_allowed.then_some(()).ok_or(Reason::WrongGid)
}

fn expected_creation(
    command: &ChangeGroup,
    asked: &CreateGroup,
    before: &StateBefore<'_>,
) -> ExpectedChange {
    let owner = command.by;
    check_gid(command, asked, before)?;
    let settings = GroupSettings {
        name: asked.name.clone(),
        owner,
        open: asked.open,
        whole_history: asked.whole_history,
        muted: false,
        dissolved: false,
    };
    let everybody: BTreeSet<UserId> = asked.members.iter().copied().chain([owner]).collect();
    match before.group {
        Some(group) if group.was_created_as(&settings, &everybody) => return Ok(None),
        Some(_) => return Err(Reason::GroupExists),
        None => {}
    }
    if before.has_begun_enough(owner, command.by_user) {
        return Err(Reason::TooManyConversations);
    }
    let count = everybody.len() as i64;
    let members = everybody.into_iter().map(|uid| {
        let is_owner = uid == owner;
        new_member(
            uid,
            if is_owner {
                GroupRole::Owner
            } else {
                GroupRole::Member
            },
        )
    });
    let members: Vec<GroupMember> = members.collect();
    check_limits(command, &members, before)?;
    if count > before.rules.max_group_members {
        return Err(Reason::GroupFull);
    }
    Ok(Some(GroupChange {
        gid: command.gid,
        by: owner,
        kind: GroupChangeKind::Create,
        members,
        settings,
        member_count: count,
        last_mid: Mid::ZERO,
    }))
}

/// A group after a change, and the users whom the change concerns.
struct Changed {
    settings: GroupSettings,
    members: Vec<GroupMember>,
    is_version_4: bool,
}

impl Changed {
    fn join(&mut self, by: UserId, group: &Group) -> Result<(), Reason> {
        if group.member(by).is_some() {
            return Ok(());
        }
        if !self.settings.open {
            return Err(Reason::NoRight);
        }
        self.members.push(joined_again(by, group));
        Ok(())
    }

    fn leave(&mut self, by: UserId, group: &Group) -> Result<(), Reason> {
        match group.member(by) {
            None => Ok(()),
            Some((GroupRole::Owner, _)) if !self.settings.dissolved => Err(Reason::NoRight),
            Some((_, muted)) => {
                self.members.push(as_of_now(by, None, muted));
                Ok(())
            }
        }
    }

    /// The actions of admins and the owner.
    fn administer(&mut self, command: &ChangeGroup, group: &Group) -> Result<(), Reason> {
        let (own, _) = group.member(command.by).ok_or(Reason::NotAMember)?;
        let is_owners = matches!(
            command.action,
            GroupAction::SetRole { .. } | GroupAction::Dissolve
        );
        if own == GroupRole::Member || is_owners && own != GroupRole::Owner {
            return Err(Reason::NoRight);
        }
        match &command.action {
            GroupAction::Add(uids) => {
                let new = BTreeSet::from_iter(uids.iter().copied());
                let new = new.into_iter().filter(|uid| group.member(*uid).is_none());
                self.members = new.map(|uid| joined_again(uid, group)).collect();
            }
            GroupAction::Remove(uids) => {
                for uid in BTreeSet::from_iter(uids.iter().copied()) {
                    match group.member(uid) {
                        Some((role, _)) if role >= own => return Err(Reason::NoRight),
                        Some((_, muted)) => self.members.push(as_of_now(uid, None, muted)),
                        None => {}
                    }
                }
            }
            GroupAction::SetRole { uid, role } => {
                self.set_role(command.by, *uid, *role, group)?;
            }
            GroupAction::Rename(name) => self.settings.name.clone_from(name),
            GroupAction::Mute(None) => self.settings.muted = true,
            GroupAction::Unmute(None) => self.settings.muted = false,
            GroupAction::Mute(Some(uid)) => self.set_muted(*uid, true, own, group)?,
            GroupAction::Unmute(Some(uid)) => self.set_muted(*uid, false, own, group)?,
            GroupAction::SetOptions(asked) => {
                let set = &mut self.settings;
                set.open = asked.open.unwrap_or(set.open);
                set.whole_history = asked.whole_history.unwrap_or(set.whole_history);
            }
            GroupAction::Dissolve => self.settings.dissolved = true,
            // Handled elsewhere.
            _ => {}
        }
        Ok(())
    }

    fn set_role(
        &mut self,
        by: UserId,
        uid: UserId,
        role: GroupRole,
        group: &Group,
    ) -> Result<(), Reason> {
        let (before, muted) = group.member(uid).ok_or(Reason::NotAMember)?;
        if before == role {
            return Ok(());
        }
        if uid == by {
            return Err(Reason::NoRight);
        }
        // Under version 3 a role above member ends a mute; from version 4 on only the role of owner does.
        let stays = match role {
            GroupRole::Member => true,
            GroupRole::Admin => self.is_version_4,
            GroupRole::Owner => false,
        };
        let muted = muted && stays;
        self.members.push(as_of_now(uid, Some(role), muted));
        if role == GroupRole::Owner {
            self.settings.owner = uid;
            self.members
                .push(as_of_now(by, Some(GroupRole::Admin), false));
        }
        Ok(())
    }

    fn set_muted(
        &mut self,
        uid: UserId,
        muted: bool,
        own: GroupRole,
        group: &Group,
    ) -> Result<(), Reason> {
        let (role, before) = group.member(uid).ok_or(Reason::NotAMember)?;
        if role >= own {
            return Err(Reason::NoRight);
        }
        if before != muted {
            self.members.push(as_of_now(uid, Some(role), muted));
        }
        Ok(())
    }
}

fn new_member(uid: UserId, role: GroupRole) -> GroupMember {
    GroupMember {
        joined: true,
        ..as_of_now(uid, Some(role), false)
    }
}

/// A user who left muted is muted again after joining.
fn joined_again(uid: UserId, group: &Group) -> GroupMember {
    GroupMember {
        muted: group.has_left_muted(uid),
        ..new_member(uid, GroupRole::Member)
    }
}

/// A user who was a member before.
fn as_of_now(uid: UserId, role: Option<GroupRole>, muted: bool) -> GroupMember {
    GroupMember {
        uid,
        role,
        muted,
        joined: false,
    }
}
