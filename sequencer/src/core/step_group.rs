//! The decisions about groups (PROTOCOL G).

use std::collections::BTreeSet;

use schemas::{
    Change, ChangeGroup, ChangeMessage, CreateGroup, GroupAction, GroupChange, GroupChangeKind,
    GroupId, GroupMember, GroupRole, GroupSettings, MessageChange, Mid, Ordinal, UserId,
    command::{ReadAck, SendMessage},
    dead_letter::Reason,
    event::{Body, Message, ReadPosition},
};

use super::{
    State,
    checks::{begins_too_many, check_msg_bytes, check_send_id},
    decision::{EventStamp, NoEvent, NoOp, Refusal, refuse},
    group::{Group, Member, creation},
    step_changes::{check_recall_window, number, recalled},
};

type Result<T> = std::result::Result<T, NoEvent>;

fn refused<T>(reason: Reason, detail: &str) -> Result<T> {
    Err(refuse(reason, detail.to_owned()))
}

/// From rule version 4 on a user who is not a member gets the same answer whether the group exists, was dissolved, or never existed (PROTOCOL G12).
pub(super) fn for_strangers(
    state: &State,
    (gid, by): (GroupId, UserId),
    no_event: NoEvent,
) -> NoEvent {
    let is_stranger = || {
        let group = state.groups.get(&gid);
        group.is_none_or(|group| !group.members.contains_key(&by))
    };
    let tells = |reason| {
        use Reason::{Dissolved, NoRight, NotAMember, UnknownGroup};
        matches!(reason, UnknownGroup | Dissolved | NotAMember | NoRight)
    };
    match no_event {
        NoEvent::DeadLetter(Refusal { reason, .. })
            if state.rules.rule_version >= 4 && tells(reason) && is_stranger() =>
        {
            let detail = format!("there is no group {gid}, or {by} is no member of it");
            refuse(Reason::NotAMember, detail)
        }
        no_event => no_event,
    }
}

fn any_group(state: &State, gid: GroupId) -> Result<&Group> {
    match state.groups.get(&gid) {
        None => refused(Reason::UnknownGroup, &format!("there is no group {gid}")),
        Some(group) => Ok(group),
    }
}

/// A group that was not dissolved.
fn active_group(state: &State, gid: GroupId) -> Result<&Group> {
    let group = any_group(state, gid)?;
    if group.settings.dissolved {
        return refused(Reason::Dissolved, "the group was dissolved");
    }
    Ok(group)
}

fn member(group: &Group, uid: UserId, field: &str) -> Result<Member> {
    let member = group.members.get(&uid).copied();
    member.ok_or_else(|| {
        let detail = format!("`{field}` is not a member of the group");
        refuse(Reason::NotAMember, detail)
    })
}

pub(super) fn send(
    state: &State,
    stamp: EventStamp,
    gid: GroupId,
    send: SendMessage,
) -> Result<Body> {
    check_send_id(state, stamp, (&send).into())?;
    check_msg_bytes(state, &send.msg)?;
    let group = active_group(state, gid)?;
    if group.silences(&member(group, send.srcid, "srcid")?) {
        return refused(Reason::Muted, "`srcid` is muted in the group");
    }
    Ok(Body::Message(Message {
        srcid: send.srcid,
        to: send.to,
        client_msg_id: send.client_msg_id,
        msg: send.msg,
        mid: group.last_mid.next(),
        ordinal: Ordinal::ZERO,
    }))
}

/// A read position is clamped to the last message. `Member::read` is at least the mid at joining and that of the newest own message (PROTOCOL G4), so a
/// position at or below it changes nothing.
pub(super) fn read(state: &State, gid: GroupId, ack: &ReadAck) -> Result<Body> {
    let group = active_group(state, gid)?;
    let position = member(group, ack.uid, "uid")?.read[ack.device];
    let mid = ack.mid.unwrap_or(group.last_mid).min(group.last_mid);
    if mid <= position {
        return Err(NoOp::PositionNotAdvanced { position }.into());
    }
    Ok(Body::ReadPosition(ReadPosition {
        uid: ack.uid,
        to: ack.to,
        device: ack.device,
        mid,
        ordinal: None,
    }))
}

pub(super) fn change_message(
    state: &State,
    stamp: EventStamp,
    gid: GroupId,
    asked: ChangeMessage,
) -> Result<Body> {
    let group = any_group(state, gid)?;
    let (by, mid) = (asked.by, asked.mid);
    let author = match group.settings.dissolved {
        false => member(group, by, "by")?,
        true => in_dissolved_group(state, group, by, &asked.change)?,
    };
    if mid > group.last_mid {
        let detail = format!("mid is {mid}: the group has {} messages", group.last_mid);
        return Err(refuse(Reason::UnknownMessage, detail));
    }
    match &asked.change {
        Change::Hide | Change::Clear => {}
        Change::Edit(msg) => {
            check_author(group, by, mid)?;
            check_not_recalled(group, mid)?;
            check_msg_bytes(state, msg)?;
            check_speaks(group, &author)?;
        }
        Change::React(_) => {
            check_not_recalled(group, mid)?;
            check_speaks(group, &author)?;
        }
        Change::Delete if !state.rules.delete_for_all => {
            let detail = "the rules do not allow to delete a message for everybody";
            return refused(Reason::NotAllowed, detail);
        }
        Change::Recall | Change::Delete => {
            let is_admin = author.role >= GroupRole::Admin;
            if !is_admin {
                check_author(group, by, mid)?;
            }
            if is_recalled(group, mid) {
                return Err(NoOp::AlreadyRecalled.into());
            }
            if !is_admin {
                let steps = group.last_mid.get() - mid.get();
                check_recall_window(state, stamp.ts, group.last_place, steps)?;
            }
        }
    }
    Ok(Body::MessageChange(MessageChange {
        by,
        to: asked.to,
        mid,
        change_seq: number(state, &asked.change, group.change_seq),
        change: asked.change,
        ordinal: None,
    }))
}

/// Who may still change messages in a dissolved group: from rule version 4 on members hide and clear; admins recall and delete, and so does the
/// owner, even after leaving the group.
fn in_dissolved_group(state: &State, group: &Group, by: UserId, change: &Change) -> Result<Member> {
    let refused = || refused(Reason::Dissolved, "the group was dissolved");
    if state.rules.rule_version < 4 {
        return refused();
    }
    let present = group.members.get(&by).copied();
    let owner = (by == group.settings.owner).then(Member::owner);
    let found = match change {
        Change::Hide | Change::Clear => present,
        Change::Recall | Change::Delete => {
            let admin = present.filter(|member| member.role >= GroupRole::Admin);
            admin.or(owner)
        }
        Change::Edit(_) | Change::React(_) => None,
    };
    found.map_or_else(refused, Ok)
}

fn check_author(group: &Group, by: UserId, mid: Mid) -> Result<()> {
    match group.author(mid) {
        None => refused(
            Reason::TooOld,
            "mid is too far behind the newest message: who wrote it is remembered for the newest 4,096",
        ),
        Some(author) if author.is(by) => Ok(()),
        Some(_) => refused(Reason::NotTheAuthor, "`by` did not write the message"),
    }
}

fn check_not_recalled(group: &Group, mid: Mid) -> Result<()> {
    match is_recalled(group, mid) {
        true => Err(recalled()),
        false => Ok(()),
    }
}

fn check_speaks(group: &Group, member: &Member) -> Result<()> {
    match group.silences(member) {
        true => refused(Reason::Muted, "`by` is muted in the group"),
        false => Ok(()),
    }
}

fn is_recalled(group: &Group, mid: Mid) -> bool {
    group.author(mid).is_some_and(|author| author.is_recalled())
}

pub(super) fn change(state: &State, stamp: EventStamp, command: ChangeGroup) -> Result<Body> {
    let ChangeGroup {
        gid,
        by,
        by_user,
        action,
    } = command;
    let actor = Actor { by, by_user };
    let change = match action {
        GroupAction::Create(asked) => create(state, stamp, gid, actor, &asked),
        action => change_existing(state, stamp, gid, actor, action),
    };
    Ok(Body::GroupChange(Box::new(change?)))
}

/// The user who gives the command.
#[derive(Clone, Copy)]
struct Actor {
    by: UserId,
    /// The user posted the command, so the limits of users apply.
    by_user: bool,
}

fn create(
    state: &State,
    stamp: EventStamp,
    gid: GroupId,
    actor: Actor,
    asked: &CreateGroup,
) -> Result<GroupChange> {
    let owner = actor.by;
    check_derived(state, gid, actor, asked)?;
    let settings = GroupSettings {
        name: asked.name.clone(),
        owner,
        open: asked.open,
        whole_history: asked.whole_history,
        muted: false,
        dissolved: false,
    };
    let members = asked.members.iter().copied();
    if let Some(group) = state.groups.get(&gid) {
        if group.creation == creation(state.rules.hash_key.as_ref(), &settings, members) {
            return Err(NoOp::Repeat.into());
        }
        let detail = "the group `gid` exists already, and was created with other settings";
        return refused(Reason::GroupExists, detail);
    }
    if state.rules.rule_version >= 4 && asked.client_id.is_none() && gid.is_of_owner() {
        let detail =
            "`gid` is 2^62 or above: such a gid has to be derived from `by` and a `client_id`";
        return refused(Reason::WrongGid, detail);
    }
    if actor.by_user && begins_too_many(state, stamp.ts, owner) {
        let most = state.rules.new_conversations_per_day;
        let detail = format!(
            "`by` has begun {most} conversations in this partition today, as many as a user may"
        );
        return Err(refuse(Reason::TooManyConversations, detail));
    }
    let members: BTreeSet<UserId> = members.filter(|one| *one != owner).collect();
    check_new_members(state, stamp, actor, members.iter().copied())?;
    check_size(state, members.len() + 1, 0)?;
    let owner = joined(owner, GroupRole::Owner);
    let members = members
        .into_iter()
        .map(|one| joined(one, GroupRole::Member));
    let members: Vec<GroupMember> = [owner].into_iter().chain(members).collect();
    Ok(GroupChange {
        gid,
        by: settings.owner,
        kind: GroupChangeKind::Create,
        settings,
        member_count: members.len() as i64,
        last_mid: Mid::ZERO,
        members,
    })
}

/// From rule version 4 on the gid of a user's group is derived from the user and a client_id, so that nobody else can take it first (PROTOCOL G9).
fn check_derived(
    state: &State,
    gid: GroupId,
    Actor { by, by_user }: Actor,
    asked: &CreateGroup,
) -> Result<()> {
    match &asked.client_id {
        _ if state.rules.rule_version < 4 => Ok(()),
        Some(client_id) if GroupId::of_owner(by, client_id) == gid => Ok(()),
        Some(_) => refused(
            Reason::WrongGid,
            "`gid` is not the one that is derived from `by` and `client_id`",
        ),
        None if by_user => refused(
            Reason::WrongGid,
            "`client_id` is absent: a user's gid is derived from `by` and `client_id`, and only services choose one",
        ),
        None => Ok(()),
    }
}

/// One user may add another user to at most `max_memberships_by_others` divided by this number of groups, but always to one.
const SHARES_OF_OTHERS: i64 = 10;

/// Limits how many users a user makes members in a day, and to how many groups of a partition others may add a user (PROTOCOL G10).
fn check_new_members(
    state: &State,
    stamp: EventStamp,
    Actor { by, by_user }: Actor,
    new: impl Iterator<Item = UserId> + Clone,
) -> Result<()> {
    if !by_user || state.rules.rule_version < 4 {
        return Ok(());
    }
    let (per_day, by_others) = (
        state.rules.new_memberships_per_day,
        state.rules.max_memberships_by_others,
    );
    let today = i64::from(state.new_memberships(by, stamp.ts));
    let asked = new.clone().count() as i64;
    if per_day > 0 && today + asked > per_day {
        let detail = format!(
            "`by` would make {asked} users members, after {today} in this partition today: at most {per_day} are allowed"
        );
        return Err(refuse(Reason::TooManyMemberships, detail));
    }
    // One user may use only a share of what all others may, so that nobody uses it all.
    let share = (by_others / SHARES_OF_OTHERS).max(1);
    let added = || new.clone().filter(|uid| by_others > 0 && *uid != by);
    let is_today = state.is_today(stamp.ts);
    let counts = |uid: &UserId| state.memberships.by_others(*uid, by, is_today);
    let is_full = |uid: &UserId| counts(uid).by_all_others >= by_others;
    let share_is_used = |uid: &UserId| counts(uid).by_actor >= share;
    let full = first_named(added().filter(is_full));
    if !full.is_empty() {
        let detail = format!(
            "others have made {full} a member of {by_others} groups in this partition, as many as they may"
        );
        return Err(refuse(Reason::TooManyMemberships, detail));
    }
    let used_up = first_named(added().filter(share_is_used));
    if !used_up.is_empty() {
        let detail = format!(
            "`by` has added {used_up} to {share} groups in this partition: one user may add another to at most {share}"
        );
        return Err(refuse(Reason::TooManyMemberships, detail));
    }
    Ok(())
}

/// A user who left voluntarily returns by joining, or is added by a service (PROTOCOL G11).
fn check_leavers(
    group: &Group,
    Actor { by, by_user }: Actor,
    new: impl Iterator<Item = UserId>,
) -> Result<()> {
    let has_left = |uid: &UserId| *uid != by && group.leavers.contains(*uid);
    let left = first_named(new.filter(has_left));
    if by_user && !left.is_empty() {
        let detail = format!(
            "{left} left the group: users who left have to join again themselves before another user can add them"
        );
        return Err(refuse(Reason::HasLeft, detail));
    }
    Ok(())
}

/// The first 10 of these users, for people.
fn first_named(users: impl Iterator<Item = UserId>) -> String {
    const MOST: usize = 10;
    let first: Vec<String> = users.take(MOST).map(|uid| uid.to_string()).collect();
    first.join(", ")
}

fn joined(uid: UserId, role: GroupRole) -> GroupMember {
    GroupMember {
        uid,
        role: Some(role),
        muted: false,
        joined: true,
    }
}

/// A user who joins and may have been a member before. A user who left muted stays muted.
fn joined_again(group: &Group, uid: UserId) -> GroupMember {
    GroupMember {
        muted: group.muted_who_left.contains(&uid),
        ..joined(uid, GroupRole::Member)
    }
}

/// Users who left muted keep their places (PROTOCOL G6).
fn check_size(state: &State, members: usize, left_muted: usize) -> Result<()> {
    let most = state.rules.max_group_members;
    if i64::try_from(members + left_muted).is_ok_and(|places| places <= most) {
        return Ok(());
    }
    let kept = match left_muted {
        0 => String::new(),
        _ => format!(", and keeps the places of {left_muted} who left muted"),
    };
    let detail =
        format!("the group would have {members} members{kept}: at most {most} are allowed");
    Err(refuse(Reason::GroupFull, detail))
}

/// The group after a change, and the members that the change concerns.
struct Outcome {
    settings: GroupSettings,
    members: Vec<GroupMember>,
}

fn change_existing(
    state: &State,
    stamp: EventStamp,
    gid: GroupId,
    actor: Actor,
    action: GroupAction,
) -> Result<GroupChange> {
    let by = actor.by;
    let kind = action.change_kind();
    let (group, outcome) = match action {
        GroupAction::Leave => leave(state, gid, by)?,
        action => {
            let group = active_group(state, gid)?;
            let outcome = match action {
                GroupAction::Join => join(group, by)?,
                action => administer(state, group, by, action)?,
            };
            (group, outcome)
        }
    };
    if outcome.members.is_empty() && outcome.settings == group.settings {
        return Err(NoOp::GroupUnchanged.into());
    }
    let joining = || outcome.members.iter().filter(|one| one.joined);
    let leaving = outcome.members.iter().filter(|one| one.role.is_none());
    let count = match outcome.settings.dissolved {
        true => 0,
        false => group.members.len() + joining().count() - leaving.count(),
    };
    if joining().next().is_some() {
        let new = joining().map(|one| one.uid);
        check_leavers(group, actor, new.clone())?;
        check_new_members(state, stamp, actor, new)?;
        // Of the users who join, only those who left muted are muted. They take the places that were kept for them.
        let kept = group.muted_who_left.len() - joining().filter(|one| one.muted).count();
        check_size(state, count, kept)?;
    }
    Ok(GroupChange {
        gid,
        by,
        kind,
        settings: outcome.settings,
        member_count: count as i64,
        last_mid: group.last_mid,
        members: outcome.members,
    })
}

fn unchanged(group: &Group) -> Outcome {
    Outcome {
        settings: group.settings.clone(),
        members: Vec::new(),
    }
}

fn join(group: &Group, by: UserId) -> Result<Outcome> {
    if group.members.contains_key(&by) {
        return Ok(unchanged(group));
    }
    if !group.settings.open {
        return refused(
            Reason::NoRight,
            "the group is not open: an admin adds members",
        );
    }
    Ok(Outcome {
        members: vec![joined_again(group, by)],
        ..unchanged(group)
    })
}

/// Anybody but the owner may leave; from rule version 4 on anybody may leave a dissolved group. A leave by a user who is not a member changes
/// nothing; from rule version 4 on also if the group does not exist.
fn leave(state: &State, gid: GroupId, by: UserId) -> Result<(&Group, Outcome)> {
    let group = match state.rules.rule_version {
        ..4 => active_group(state, gid)?,
        _ => any_group(state, gid).map_err(|_| NoOp::GroupUnchanged)?,
    };
    let outcome = match group.members.get(&by) {
        None => return Err(NoOp::GroupUnchanged.into()),
        Some(member) if member.role == GroupRole::Owner && !group.settings.dissolved => {
            let detail = "`by` is the owner, and has to give the group to another member, or dissolve it, before leaving";
            return refused(Reason::NoRight, detail);
        }
        Some(member) => Outcome {
            members: vec![left(by, member)],
            ..unchanged(group)
        },
    };
    Ok((group, outcome))
}

fn left(uid: UserId, member: &Member) -> GroupMember {
    GroupMember {
        uid,
        role: None,
        muted: member.muted,
        joined: false,
    }
}

/// The actions of admins and the owner.
fn administer(state: &State, group: &Group, by: UserId, action: GroupAction) -> Result<Outcome> {
    let own = member(group, by, "by")?.role;
    let needed = match action {
        GroupAction::SetRole { .. } | GroupAction::Dissolve => GroupRole::Owner,
        _ => GroupRole::Admin,
    };
    if own < needed {
        let detail = format!(
            "`by` is {} of the group: this takes {}",
            own.as_str(),
            needed.as_str()
        );
        return Err(refuse(Reason::NoRight, detail));
    }
    let mut outcome = unchanged(group);
    match action {
        GroupAction::Add(who) => {
            let who: BTreeSet<UserId> = who.into_iter().collect();
            let new = who
                .into_iter()
                .filter(|one| !group.members.contains_key(one));
            outcome.members = new.map(|one| joined_again(group, one)).collect();
        }
        GroupAction::Remove(who) => outcome.members = removed(group, own, who)?,
        GroupAction::SetRole { uid, role } => {
            set_role(state, group, (by, uid), role, &mut outcome)?;
        }
        GroupAction::Rename(name) => outcome.settings.name = name,
        GroupAction::Mute(None) => outcome.settings.muted = true,
        GroupAction::Unmute(None) => outcome.settings.muted = false,
        GroupAction::Mute(Some(uid)) => outcome.members = muted(group, own, uid, true)?,
        GroupAction::Unmute(Some(uid)) => outcome.members = muted(group, own, uid, false)?,
        GroupAction::SetOptions(options) => {
            let settings = &mut outcome.settings;
            settings.open = options.open.unwrap_or(settings.open);
            settings.whole_history = options.whole_history.unwrap_or(settings.whole_history);
        }
        GroupAction::Dissolve => outcome.settings.dissolved = true,
        GroupAction::Create(_) | GroupAction::Join | GroupAction::Leave => {
            unreachable!("decided elsewhere")
        }
    }
    Ok(outcome)
}

/// Users who are not members are left out.
fn removed(group: &Group, own: GroupRole, who: Vec<UserId>) -> Result<Vec<GroupMember>> {
    let who: BTreeSet<UserId> = who.into_iter().collect();
    let members = who
        .iter()
        .filter_map(|one| Some((*one, group.members.get(one)?)));
    let one_by_one = members.map(|(uid, member)| {
        check_below(member, own, uid)?;
        Ok(left(uid, member))
    });
    one_by_one.collect()
}

fn check_below(member: &Member, own: GroupRole, uid: UserId) -> Result<()> {
    if member.role < own {
        return Ok(());
    }
    let role = member.role.as_str();
    let detail =
        format!("{uid} is {role} of the group: `by` may do this only to members with a lower role");
    Err(refuse(Reason::NoRight, detail))
}

fn muted(group: &Group, own: GroupRole, uid: UserId, muted: bool) -> Result<Vec<GroupMember>> {
    let target = member(group, uid, "uid")?;
    check_below(&target, own, uid)?;
    let changed = GroupMember {
        uid,
        role: Some(target.role),
        muted,
        joined: false,
    };
    Ok(Vec::from_iter((target.muted != muted).then_some(changed)))
}

/// The owner gives a role. An owner who gives away the ownership becomes an admin.
fn set_role(
    state: &State,
    group: &Group,
    (by, uid): (UserId, UserId),
    role: GroupRole,
    outcome: &mut Outcome,
) -> Result<()> {
    let target = member(group, uid, "uid")?;
    if target.role == role {
        return Ok(());
    }
    if uid == by {
        let detail =
            "`by` is the owner: to give the group away, give the role owner to another member";
        return refused(Reason::NoRight, detail);
    }
    let with_role = |uid, role, muted| GroupMember {
        uid,
        role: Some(role),
        muted,
        joined: false,
    };
    // A new owner is unmuted, since no role above owner could do it later. Below rule version 4 a new admin is unmuted, too (PROTOCOL G2).
    let stays_muted = match state.rules.rule_version {
        ..4 => role == GroupRole::Member,
        _ => role != GroupRole::Owner,
    };
    let is_muted = target.muted && stays_muted;
    outcome.members.push(with_role(uid, role, is_muted));
    if role == GroupRole::Owner {
        outcome.settings.owner = uid;
        outcome.members.push(with_role(by, GroupRole::Admin, false));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
