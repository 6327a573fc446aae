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
    group::{Group, Member, creation},
    step::{EventStamp, NoEvent, NoOp, begins_too_many, check_msg_bytes, refuse, step_repeat},
    step_changes::check_recall_window,
};

type Result<T> = std::result::Result<T, NoEvent>;

fn refused<T>(reason: Reason, detail: &str) -> Result<T> {
    Err(refuse(reason, detail.to_owned()))
}

fn known_group(state: &State, gid: GroupId) -> Result<&Group> {
    match state.groups.get(&gid) {
        None => refused(Reason::UnknownGroup, &format!("there is no group {gid}")),
        Some(group) if group.settings.dissolved => {
            refused(Reason::Dissolved, "the group was dissolved")
        }
        Some(group) => Ok(group),
    }
}

fn member(group: &Group, uid: UserId, field: &str) -> Result<Member> {
    let member = group.members.get(&uid).copied();
    member.ok_or_else(|| {
        let detail = format!("{field} is no member of the group");
        refuse(Reason::NotAMember, detail)
    })
}

pub(super) fn send(
    state: &State,
    stamp: EventStamp,
    gid: GroupId,
    send: SendMessage,
) -> Result<Body> {
    step_repeat(state, stamp, (&send).into())?;
    check_msg_bytes(state, &send.msg)?;
    let group = known_group(state, gid)?;
    if group.silences(&member(group, send.srcid, "the sender")?) {
        return refused(Reason::Muted, "the sender is muted in the group");
    }
    Ok(Body::Message(Message {
        srcid: send.srcid,
        to: send.to,
        client_msg_id: send.client_msg_id,
        msg: send.msg,
        mid: group.last_mid.next(),
        n: Ordinal::ZERO,
    }))
}

/// A read position is clamped to the last message and never goes back, also not behind what the member sent or joined after (PROTOCOL G4).
pub(super) fn read(state: &State, gid: GroupId, ack: &ReadAck) -> Result<Body> {
    let group = known_group(state, gid)?;
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
        n: None,
    }))
}

pub(super) fn change_message(
    state: &State,
    stamp: EventStamp,
    gid: GroupId,
    asked: ChangeMessage,
) -> Result<Body> {
    let group = known_group(state, gid)?;
    let (by, mid) = (asked.by, asked.mid);
    let of_member = member(group, by, "by")?;
    if mid > group.last_mid {
        let detail = format!("mid is {mid}: the group has {} messages", group.last_mid);
        return Err(refuse(Reason::UnknownMessage, detail));
    }
    match &asked.change {
        Change::Hide | Change::Clear => {}
        Change::Edit(msg) => {
            check_author(group, by, mid)?;
            if is_recalled(group, mid) {
                return refused(Reason::Recalled, "the message was recalled");
            }
            check_msg_bytes(state, msg)?;
            if group.silences(&of_member) {
                return refused(Reason::Muted, "by is muted in the group");
            }
        }
        Change::Delete if !state.rules.delete_for_all => {
            let detail = "the rules do not allow to delete a message for everybody";
            return refused(Reason::NotAllowed, detail);
        }
        Change::Recall | Change::Delete => {
            let is_admin = of_member.role >= GroupRole::Admin;
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
        change: asked.change,
        chg: group.chg.next(),
        n: None,
    }))
}

fn check_author(group: &Group, by: UserId, mid: Mid) -> Result<()> {
    match group.author(mid) {
        None => refused(
            Reason::TooOld,
            "mid is too far behind the newest message: who wrote it is remembered for the newest 4,096",
        ),
        Some(author) if author.is(by) => Ok(()),
        Some(_) => refused(Reason::NotTheAuthor, "by did not write the message"),
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
    let change = match action {
        GroupAction::Create(asked) => create(state, stamp, gid, (by, by_user), &asked),
        action => change_known(state, gid, by, action),
    };
    Ok(Body::GroupChange(Box::new(change?)))
}

fn create(
    state: &State,
    stamp: EventStamp,
    gid: GroupId,
    (owner, by_user): (UserId, bool),
    asked: &CreateGroup,
) -> Result<GroupChange> {
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
        let detail = "there is a group gid, created with other settings";
        return refused(Reason::GroupExists, detail);
    }
    if by_user && begins_too_many(state, stamp.ts, owner) {
        let most = state.rules.new_conversations_per_day;
        let detail = format!(
            "by has begun {most} conversations in this partition today, as many as a user may"
        );
        return Err(refuse(Reason::TooManyConversations, detail));
    }
    let members: BTreeSet<UserId> = members.filter(|one| *one != owner).collect();
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

fn joined(uid: UserId, role: GroupRole) -> GroupMember {
    GroupMember {
        uid,
        role: Some(role),
        muted: false,
        joined: true,
    }
}

/// A member who may have been one before. Who left muted is muted still.
fn joined_again(group: &Group, uid: UserId) -> GroupMember {
    GroupMember {
        muted: group.muted_who_left.contains(&uid),
        ..joined(uid, GroupRole::Member)
    }
}

/// Those who left muted keep their places (PROTOCOL G6).
fn check_size(state: &State, members: usize, left_muted: usize) -> Result<()> {
    let most = state.rules.max_group_members;
    if i64::try_from(members + left_muted).is_ok_and(|places| places <= most) {
        return Ok(());
    }
    let kept = match left_muted {
        0 => String::new(),
        _ => format!(", and keeps the places of {left_muted} who left muted"),
    };
    let detail = format!("the group would have {members} members{kept}: at most {most} are right");
    Err(refuse(Reason::GroupFull, detail))
}

/// What a change makes of a group.
struct Outcome {
    settings: GroupSettings,
    members: Vec<GroupMember>,
}

fn change_known(
    state: &State,
    gid: GroupId,
    by: UserId,
    action: GroupAction,
) -> Result<GroupChange> {
    let group = known_group(state, gid)?;
    let kind = action.change_kind();
    let outcome = match action {
        GroupAction::Join => join(group, by)?,
        GroupAction::Leave => leave(group, by)?,
        action => administer(group, by, action)?,
    };
    if outcome.members.is_empty() && outcome.settings == group.settings {
        return Err(NoOp::GroupUnchanged.into());
    }
    let joined = || outcome.members.iter().filter(|one| one.joined);
    let left = outcome.members.iter().filter(|one| one.role.is_none());
    let count = match outcome.settings.dissolved {
        true => 0,
        false => group.members.len() + joined().count() - left.count(),
    };
    if joined().next().is_some() {
        // Who is muted joins the place that was kept for him.
        let kept = group.muted_who_left.len() - joined().filter(|one| one.muted).count();
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

fn leave(group: &Group, by: UserId) -> Result<Outcome> {
    match group.members.get(&by) {
        None => Ok(unchanged(group)),
        Some(member) if member.role == GroupRole::Owner => refused(
            Reason::NoRight,
            "by is the owner, who gives the group to another member first, or dissolves it",
        ),
        Some(member) => Ok(Outcome {
            members: vec![left(by, member)],
            ..unchanged(group)
        }),
    }
}

fn left(uid: UserId, member: &Member) -> GroupMember {
    GroupMember {
        uid,
        role: None,
        muted: member.muted,
        joined: false,
    }
}

/// What admins and the owner do.
fn administer(group: &Group, by: UserId, action: GroupAction) -> Result<Outcome> {
    let own = member(group, by, "by")?.role;
    let needed = match action {
        GroupAction::SetRole { .. } | GroupAction::Dissolve => GroupRole::Owner,
        _ => GroupRole::Admin,
    };
    if own < needed {
        let detail = format!(
            "by is {} of the group: this takes {}",
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
        GroupAction::SetRole { uid, role } => set_role(group, (by, uid), role, &mut outcome)?,
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

/// Whoever is no member is left out.
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
    let detail = format!("{uid} is {role} of the group, not below by");
    Err(refuse(Reason::NoRight, detail))
}

fn muted(group: &Group, own: GroupRole, uid: UserId, muted: bool) -> Result<Vec<GroupMember>> {
    let of_member = member(group, uid, "uid")?;
    check_below(&of_member, own, uid)?;
    let changed = GroupMember {
        uid,
        role: Some(of_member.role),
        muted,
        joined: false,
    };
    Ok(Vec::from_iter(
        (of_member.muted != muted).then_some(changed),
    ))
}

/// The owner gives a role. To give the own one makes him an admin.
fn set_role(
    group: &Group,
    (by, uid): (UserId, UserId),
    role: GroupRole,
    outcome: &mut Outcome,
) -> Result<()> {
    let of_member = member(group, uid, "uid")?;
    if of_member.role == role {
        return Ok(());
    }
    if uid == by {
        let detail = "by is the owner, who gives the group to another member with the role owner";
        return refused(Reason::NoRight, detail);
    }
    let with_role = |uid, role, muted| GroupMember {
        uid,
        role: Some(role),
        muted,
        joined: false,
    };
    let is_muted = of_member.muted && role == GroupRole::Member;
    outcome.members.push(with_role(uid, role, is_muted));
    if role == GroupRole::Owner {
        outcome.settings.owner = uid;
        outcome.members.push(with_role(by, GroupRole::Admin, false));
    }
    Ok(())
}
