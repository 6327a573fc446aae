//! Groups, from rule version 3 on.

mod version_4;

use schemas::{
    Change, ChangeGroup, ChangeMessage, ChangeSeq, ClientMsgId, CreateGroup, GroupAction,
    GroupChange, GroupId, GroupMember, GroupRole, GroupSettings, MessageChange, Ordinal, PerDevice,
    Recipient, SetGroupOptions, UserId,
};

use super::{
    changes::{Log, edit, user},
    *,
};

/// A gid in partition 3.
const GID: i64 = 3;

/// The log of a group with owner 1 and members 2 and 3, in which everything is right unless a test says otherwise.
#[derive(Clone)]
struct GroupLog {
    log: Log,
    settings: GroupSettings,
    members: i64,
    sent: i64,
    change_seq: ChangeSeq,
}

impl GroupLog {
    fn begin() -> Self {
        let mut log = Log::begin();
        log.begin_version_3(|_| {});
        let mut group = Self {
            log,
            settings: settings(),
            members: 0,
            sent: 0,
            change_seq: ChangeSeq::ZERO,
        };
        group.change(1, created(), |_| {}, &first_members());
        group
    }

    fn after(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut after = self.clone();
        change(&mut after);
        after
    }

    fn send(&mut self, by: i64) {
        let asked = self.next_send();
        let body = self.body_of(by, &asked);
        self.sent += 1;
        self.log.sequence(command(by, asked), body);
    }

    fn next_send(&self) -> Asked {
        send_of(self.log.events.len() as i64)
    }

    fn read(&mut self, by: i64, upto: i64) {
        let asked = Asked::Read(Some(mid(upto)));
        let body = position(by, upto.min(self.sent));
        self.log.sequence(command(by, asked), body);
    }

    fn change_message(&mut self, by: i64, of: i64, change: Change) {
        let asked = changing(of, change);
        let body = self.body_of(by, &asked);
        if let Body::MessageChange(change) = &body {
            self.change_seq = self.change_seq.max(change.change_seq);
        }
        self.log.sequence(command(by, asked), body);
    }

    /// The next event for what is asked for.
    fn body_of(&self, by: i64, asked: &Asked) -> Body {
        match asked {
            Asked::Send(client_msg_id) => Body::Message(Message {
                srcid: user(by),
                to: to(),
                client_msg_id: client_msg_id.clone(),
                msg: "hello".to_owned(),
                mid: mid(self.sent + 1),
                ordinal: Ordinal::ZERO,
            }),
            Asked::Read(_) => position(by, self.sent),
            Asked::Message(mid, change) => Body::MessageChange(MessageChange {
                by: user(by),
                to: to(),
                mid: *mid,
                change: change.clone(),
                change_seq: self.log.next_chg(self.change_seq, change),
                ordinal: None,
            }),
            Asked::Group(action) => {
                let members = named_by(by, action);
                let mut change = self.next_change(by, action, &members);
                if let GroupAction::Rename(name) = action {
                    change.settings.name.clone_from(name);
                }
                change.settings.muted |= matches!(action, GroupAction::Mute(None));
                change.settings.dissolved |= *action == GroupAction::Dissolve;
                if let GroupAction::Create(_) = action {
                    change.settings.owner = user(by);
                }
                Body::GroupChange(Box::new(change))
            }
        }
    }

    fn change(
        &mut self,
        by: i64,
        action: GroupAction,
        set: impl FnOnce(&mut GroupSettings),
        members: &[GroupMember],
    ) {
        set(&mut self.settings);
        let change = self.next_change(by, &action, members);
        self.members = change.member_count;
        let body = Body::GroupChange(Box::new(change));
        self.log.sequence(command(by, action), body);
    }

    fn next_change(&self, by: i64, action: &GroupAction, members: &[GroupMember]) -> GroupChange {
        let joined = members.iter().filter(|one| one.joined).count() as i64;
        let left = members.iter().filter(|one| one.role.is_none()).count() as i64;
        let count = self.members + joined - left;
        GroupChange {
            gid: GID.try_into().unwrap(),
            by: user(by),
            kind: action.change_kind(),
            settings: self.settings.clone(),
            member_count: if self.settings.dissolved { 0 } else { count },
            last_mid: self.sent.try_into().unwrap(),
            members: members.to_vec(),
        }
    }

    fn dissolve(&mut self) {
        self.change(1, GroupAction::Dissolve, |s| s.dissolved = true, &[]);
    }

    fn make_admin(&mut self, uid: i64) {
        let role = GroupRole::Admin;
        let uid_of = user(uid);
        self.change(
            1,
            GroupAction::SetRole { uid: uid_of, role },
            |_| {},
            &[now(uid, Some(role), false)],
        );
    }

    fn mute(&mut self, uid: i64) {
        let member = now(uid, Some(GroupRole::Member), true);
        self.change(1, GroupAction::Mute(Some(user(uid))), |_| {}, &[member]);
    }
}

fn settings() -> GroupSettings {
    GroupSettings {
        name: "Lunch".to_owned(),
        owner: user(1),
        open: false,
        whole_history: false,
        muted: false,
        dissolved: false,
    }
}

fn created() -> GroupAction {
    GroupAction::Create(CreateGroup {
        name: "Lunch".to_owned(),
        members: vec![user(3), user(2), user(1)],
        open: false,
        whole_history: false,
        client_id: None,
    })
}

fn first_members() -> [GroupMember; 3] {
    let owner = new(1, GroupRole::Owner);
    [owner, new(2, GroupRole::Member), new(3, GroupRole::Member)]
}

/// What a user asks for in the group; reads are on pc.
#[derive(Clone)]
enum Asked {
    Send(ClientMsgId),
    Read(Option<Mid>),
    Message(Mid, Change),
    Group(GroupAction),
}

impl From<GroupAction> for Asked {
    fn from(action: GroupAction) -> Self {
        Self::Group(action)
    }
}

fn to() -> Recipient {
    Recipient::Group(GID.try_into().unwrap())
}

fn command(by: i64, asked: impl Into<Asked>) -> Command {
    match asked.into() {
        Asked::Send(client_msg_id) => Command::Send(SendMessage {
            srcid: user(by),
            to: to(),
            client_msg_id,
            msg: "hello".to_owned(),
            by_user: false,
        }),
        Asked::Read(mid) => Command::ReadAck(ReadAck {
            uid: user(by),
            to: to(),
            device: DeviceClass::Pc,
            mid,
        }),
        Asked::Message(mid, change) => Command::ChangeMessage(ChangeMessage {
            by: user(by),
            to: to(),
            mid,
            change,
        }),
        Asked::Group(action) => Command::ChangeGroup(ChangeGroup {
            gid: GID.try_into().unwrap(),
            by: user(by),
            by_user: false,
            action,
        }),
    }
}

fn position(by: i64, upto: i64) -> Body {
    Body::ReadPosition(ReadPosition {
        uid: user(by),
        to: to(),
        device: DeviceClass::Pc,
        mid: mid(upto),
        ordinal: None,
    })
}

fn send_of(id: i64) -> Asked {
    Asked::Send(id_of(id))
}

fn id_of(id: i64) -> ClientMsgId {
    id.to_string().try_into().unwrap()
}

fn changing(of: i64, change: Change) -> Asked {
    Asked::Message(mid(of), change)
}

fn now(uid: i64, role: Option<GroupRole>, muted: bool) -> GroupMember {
    GroupMember {
        uid: user(uid),
        role,
        muted,
        joined: false,
    }
}

fn new(uid: i64, role: GroupRole) -> GroupMember {
    GroupMember {
        joined: true,
        ..now(uid, Some(role), false)
    }
}

fn users(uids: &[i64]) -> Vec<UserId> {
    uids.iter().map(|uid| user(*uid)).collect()
}

fn role(uid: i64, role: GroupRole) -> GroupAction {
    let uid = user(uid);
    GroupAction::SetRole { uid, role }
}

fn open(open: bool) -> GroupAction {
    let open = Some(open);
    GroupAction::SetOptions(SetGroupOptions {
        open,
        whole_history: None,
    })
}

#[test]
fn what_happens_in_a_group_is_right() {
    let mut group = GroupLog::begin();
    group.send(1);
    group.send(2);
    group.read(3, 9);
    group.change_message(2, 2, edit("edited"));
    group.change_message(1, 2, Change::Recall);
    group.change_message(3, 1, Change::Hide);
    group.change_message(3, 2, Change::Clear);
    let left = [now(2, None, false)];
    group.change(1, GroupAction::Remove(users(&[2, 9])), |_| {}, &left);
    group.send(3);
    group.change(1, open(true), |s| s.open = true, &[]);
    group.change(2, GroupAction::Join, |_| {}, &[new(2, GroupRole::Member)]);
    group.mute(3);
    group.make_admin(3);
    let given = [
        now(3, Some(GroupRole::Owner), false),
        now(1, Some(GroupRole::Admin), false),
    ];
    let own = user(3);
    group.change(1, role(3, GroupRole::Owner), |s| s.owner = own, &given);
    group.change(
        1,
        GroupAction::Rename("Dinner".to_owned()),
        |s| s.name = "Dinner".to_owned(),
        &[],
    );
    group.change(3, GroupAction::Mute(None), |s| s.muted = true, &[]);
    group.send(1);
    group.change(1, GroupAction::Leave, |_| {}, &[now(1, None, false)]);
    group.read(2, 4);
    // None of these has an effect.
    for (by, action) in [
        (1, created().into()),
        (1, GroupAction::Leave.into()),
        (2, GroupAction::Join.into()),
        (2, Asked::Read(Some(mid(3)))),
        (3, GroupAction::Add(users(&[2, 3])).into()),
        (3, GroupAction::Remove(users(&[1])).into()),
        (3, GroupAction::Mute(None).into()),
        (3, open(true).into()),
        (3, changing(2, Change::Recall)),
        (3, GroupAction::Rename("Dinner".to_owned()).into()),
        (3, role(2, GroupRole::Member).into()),
        (3, GroupAction::Unmute(Some(user(2))).into()),
    ] {
        group.log.post(command(by, action));
    }
    let folded = group.log.assert_sound();
    assert_eq!(folded.account.without_effect, 12);
    assert_eq!(folded.messages.changes.len(), 4);
    assert_eq!(folded.messages.group_digests.len(), 4);

    let gid = GroupId::try_from(GID).unwrap();
    let state = &folded.groups[&gid];
    assert_eq!(
        (state.last.mid, state.change_seq, state.member_count),
        (4, 4, 2)
    );
    assert_eq!(state.settings, Some(group.settings));
    let [one, two, three] = [1, 2, 3].map(|uid| state.of_user(user(uid)).unwrap().clone());
    assert_eq!(
        (one.role, one.left_at, one.own_last_mid),
        (None, one.event_offset, 4)
    );
    assert_eq!((two.role, two.join_mid), (Some(GroupRole::Member), 3));
    assert!(two.joined_at > two.left_at && two.left_at > 0);
    assert_eq!((two.changed_at, two.own_last_mid), (two.joined_at, 2));
    assert_eq!(two.reads, PerDevice { pc: 4, mobile: 0 });
    assert_eq!((three.role, three.muted), (Some(GroupRole::Owner), false));
    assert_eq!((three.clear_mid, three.hidden), (2, vec![1]));
    assert!(
        one.event_offset > two.changed_at
            && two.event_offset > one.event_offset
            && one.event_offset == one.changed_at
    );
}

/// Commands that are refused, and why.
fn refusals() -> Vec<(GroupLog, i64, Asked, Reason)> {
    use GroupAction::{Add, Dissolve, Join, Leave, Mute, Remove, Rename};

    let group = GroupLog::begin().after(|group| {
        group.send(2);
        group.send(1);
    });
    let admin = group.after(|group| group.make_admin(2));
    let two_admins = admin.after(|group| group.make_admin(3));
    let muted = group.after(|group| group.mute(2));
    let all_muted = group.after(|group| {
        group.change(1, Mute(None), |s| s.muted = true, &[]);
    });
    let recalled = group.after(|group| group.change_message(1, 1, Change::Recall));
    let late = group.after(|group| group.log.now += 120_001);
    let ended = group.after(GroupLog::dissolve);
    let full = group.after(|group| {
        group
            .log
            .set_rules(|control| control.max_group_members = Some(3));
    });
    let open_and_full = full.after(|group| {
        group.change(1, open(true), |s| s.open = true, &[]);
    });
    let kept = open_and_full.after(|group| {
        group.mute(2);
        group.change(2, Leave, |_| {}, &[now(2, None, true)]);
    });
    let five_bytes = group.after(|group| {
        group
            .log
            .set_rules(|control| control.max_msg_bytes = Some(4));
    });
    let many = group.after(|group| (0..4_095).for_each(|_| group.send(2)));
    let other = CreateGroup {
        name: "Lunch".to_owned(),
        members: users(&[2]),
        open: false,
        whole_history: false,
        client_id: None,
    };
    let read = Asked::Read(None);
    let send = || send_of(-1);
    let rename = || Rename("x".to_owned());
    let recall = |of| changing(of, Change::Recall);
    let (to_admin, to_owner) = (GroupRole::Admin, GroupRole::Owner);
    fn of(
        group: &GroupLog,
        by: i64,
        asked: impl Into<Asked>,
        reason: Reason,
    ) -> (GroupLog, i64, Asked, Reason) {
        (group.clone(), by, asked.into(), reason)
    }
    vec![
        of(&group, 9, send(), Reason::NotAMember),
        of(&group, 9, read, Reason::NotAMember),
        of(&group, 9, changing(1, Change::Hide), Reason::NotAMember),
        of(&group, 9, rename(), Reason::NotAMember),
        of(&group, 1, role(9, to_admin), Reason::NotAMember),
        of(&group, 1, Mute(Some(user(9))), Reason::NotAMember),
        of(&group, 9, Join, Reason::NoRight),
        of(&group, 1, Leave, Reason::NoRight),
        of(&group, 2, rename(), Reason::NoRight),
        of(&group, 2, Remove(users(&[3])), Reason::NoRight),
        of(&admin, 2, Remove(users(&[3, 1])), Reason::NoRight),
        of(&admin, 2, Remove(users(&[2])), Reason::NoRight),
        of(&admin, 2, Mute(Some(user(1))), Reason::NoRight),
        of(&two_admins, 2, Mute(Some(user(3))), Reason::NoRight),
        of(&admin, 2, role(3, to_admin), Reason::NoRight),
        of(&admin, 2, role(3, to_owner), Reason::NoRight),
        of(&admin, 2, Dissolve, Reason::NoRight),
        of(&group, 1, role(1, to_admin), Reason::NoRight),
        of(&muted, 2, send(), Reason::Muted),
        of(&muted, 2, changing(1, edit("x")), Reason::Muted),
        of(&all_muted, 3, send(), Reason::Muted),
        of(&group, 2, GroupAction::Create(other), Reason::GroupExists),
        of(&ended, 2, created(), Reason::GroupExists),
        of(&ended, 1, send(), Reason::Dissolved),
        of(&ended, 9, Join, Reason::Dissolved),
        of(&full, 1, Add(users(&[4])), Reason::GroupFull),
        of(&open_and_full, 4, Join, Reason::GroupFull),
        of(&kept, 4, Join, Reason::GroupFull),
        of(&five_bytes, 9, send(), Reason::TooLarge),
        of(&five_bytes, 2, changing(1, edit("hello")), Reason::TooLarge),
        of(&group, 2, recall(3), Reason::UnknownMessage),
        of(&group, 2, recall(2), Reason::NotTheAuthor),
        of(&group, 1, changing(1, edit("x")), Reason::NotTheAuthor),
        of(&recalled, 2, changing(1, edit("x")), Reason::Recalled),
        of(&late, 2, recall(1), Reason::TooLate),
        of(&group, 1, changing(1, Change::Delete), Reason::NotAllowed),
        of(&many, 2, recall(1), Reason::TooOld),
    ]
}

#[test]
fn what_is_refused_in_a_group_has_a_dead_letter_with_the_right_reason() {
    for (group, by, action, reason) in refusals() {
        let command = command(by, action);
        let mut right = group.log.clone();
        right.refuse(command.clone(), reason);
        right.assert_sound();
        let mut wrong = group.log.clone();
        wrong.refuse(command.clone(), Reason::Conflict);
        wrong.assert_finds(&format!("refused (conflict), {reason} is right"));
        let mut unanswered = group.log;
        unanswered.post(command);
        unanswered.assert_finds(&format!("it is to be refused ({reason})"));
    }
}

#[test]
fn what_is_to_be_refused_in_a_group_is_not_sequenced() {
    for (mut group, by, action, reason) in refusals() {
        let body = group.body_of(by, &action);
        group.log.sequence(command(by, action), body);
        group.log.assert_finds(&format!(
            "an event in a group that is to be refused ({reason})"
        ));
    }
}

fn named_by(by: i64, action: &GroupAction) -> Vec<GroupMember> {
    let left = |uid: &UserId| now(uid.get(), None, false);
    match action {
        GroupAction::Create(asked) => {
            let members = asked
                .members
                .iter()
                .map(|uid| new(uid.get(), GroupRole::Member));
            members.collect()
        }
        GroupAction::Add(uids) => uids
            .iter()
            .map(|uid| new(uid.get(), GroupRole::Member))
            .collect(),
        GroupAction::Remove(uids) => uids.iter().map(left).collect(),
        GroupAction::Join => vec![new(by, GroupRole::Member)],
        GroupAction::Leave => vec![left(&user(by))],
        GroupAction::SetRole { uid, role } => vec![now(uid.get(), Some(*role), false)],
        GroupAction::Mute(Some(uid)) => vec![now(uid.get(), Some(GroupRole::Member), true)],
        _ => Vec::new(),
    }
}

#[test]
fn an_admin_recalls_everything_at_any_time() {
    let mut group = GroupLog::begin();
    group.send(2);
    group.log.now += 120_001;
    (0..4_096).for_each(|_| group.send(3));
    group.change_message(1, 1, Change::Recall);
    // The sequencer does not remember that the message was recalled.
    group.change_message(1, 1, Change::Recall);
    group.log.assert_sound();
}

#[test]
fn a_muted_group_is_muted_for_members_only() {
    let mut group = GroupLog::begin();
    group.mute(2);
    group.change(1, GroupAction::Mute(None), |s| s.muted = true, &[]);
    group.send(1);
    let admin = now(2, Some(GroupRole::Admin), false);
    group.change(1, role(2, GroupRole::Admin), |_| {}, &[admin]);
    group.send(2);
    group.log.assert_sound();
}

#[test]
fn who_leaves_muted_comes_back_muted_to_a_kept_place() {
    let join = |muted| GroupMember {
        muted,
        ..new(2, GroupRole::Member)
    };
    let begin = || {
        let mut group = GroupLog::begin();
        group.change(1, open(true), |s| s.open = true, &[]);
        group
            .log
            .set_rules(|rules| rules.max_group_members = Some(3));
        group.mute(2);
        group.change(2, GroupAction::Leave, |_| {}, &[now(2, None, true)]);
        group
    };
    let mut group = begin();
    group.change(2, GroupAction::Join, |_| {}, &[join(true)]);
    let removed = GroupAction::Remove(users(&[2]));
    group.change(1, removed, |_| {}, &[now(2, None, true)]);
    group.change(1, GroupAction::Add(users(&[2])), |_| {}, &[join(true)]);
    let shown = now(2, Some(GroupRole::Member), false);
    group.change(1, GroupAction::Unmute(Some(user(2))), |_| {}, &[shown]);
    group.change(2, GroupAction::Leave, |_| {}, &[now(2, None, false)]);
    group.change(2, GroupAction::Join, |_| {}, &[join(false)]);
    group.log.assert_sound();

    let mut group = begin();
    group.change(2, GroupAction::Join, |_| {}, &[join(false)]);
    group.log.assert_finds("members");
}

#[test]
fn a_send_that_was_sequenced_stays_a_repeat_for_who_was_removed() {
    let mut group = GroupLog::begin();
    let sent = command(2, group.next_send());
    group.send(2);
    group.change(2, GroupAction::Leave, |_| {}, &[now(2, None, false)]);
    group.log.post(sent.clone());
    group.dissolve();
    group.log.post(sent);
    let folded = group.log.assert_sound();
    assert_eq!(folded.account.repeats, 2);
    // A send between users with the same id is a different send.
    group.log.send(1);
    group.log.assert_sound();
}

#[test]
fn who_joins_or_sends_has_read() {
    let read = |by| command(by, Asked::Read(None));
    let mut group = GroupLog::begin();
    group.send(2);
    group.log.post(read(2));
    let added = [new(4, GroupRole::Member)];
    group.change(1, GroupAction::Add(users(&[4, 1])), |_| {}, &added);
    group.log.post(read(4));
    group.log.assert_sound();
    group.change_message(1, 1, Change::Clear);
    group.log.post(read(1));
    group.log.assert_sound();
    let unmoved = group.after(|group| group.read(4, 1));
    unmoved.log.assert_finds("a change that changes nothing");
    group.send(1);
    group.read(4, 2);
    group.log.assert_sound();
    group.log.post(read(3));
    group.log.assert_finds("unanswered: no event");
}

#[test]
fn a_group_may_have_more_members_than_the_rules_allow_now() {
    let mut group = GroupLog::begin();
    let limit = |log: &mut Log, most| log.set_rules(|c| c.max_group_members = Some(most));
    limit(&mut group.log, 1);
    let name = || "Dinner".to_owned();
    group.change(1, GroupAction::Rename(name()), |s| s.name = name(), &[]);
    group.change(2, GroupAction::Leave, |_| {}, &[now(2, None, false)]);
    for most in [0, 1_000_001] {
        let control = Control {
            max_group_members: Some(most),
            ..Control::default()
        };
        group
            .log
            .refuse(Command::Control(control), Reason::InvalidControl);
    }
    limit(&mut group.log, 1_000_000);
    group.log.assert_sound();
}

/// Each wrong field of a change is found.
#[test]
fn a_change_of_a_group_has_everything_as_it_is() {
    let group = GroupLog::begin().after(|group| group.send(1));
    let adds = || GroupAction::Add(users(&[4, 5, 3]));
    let members = [new(4, GroupRole::Member), new(5, GroupRole::Member)];
    let mut right = group.clone();
    right.change(1, adds(), |_| {}, &members);
    right.log.assert_sound();
    type Wrong = fn(&mut GroupChange);
    let wrongs: [(&str, Wrong); 10] = [
        ("name", |c| c.settings.name = "x".to_owned()),
        ("owner", |c| c.settings.owner = user(2)),
        ("open", |c| c.settings.open = true),
        ("whole_history", |c| c.settings.whole_history = true),
        ("muted", |c| c.settings.muted = true),
        ("member_count", |c| c.member_count += 1),
        ("last_mid", |c| c.last_mid = c.last_mid.next()),
        ("members", |c| c.members[0].muted = true),
        ("members", |c| c.members[0].joined = false),
        ("members", |c| c.members[0].role = Some(GroupRole::Admin)),
    ];
    for (field, wrong) in wrongs {
        let mut group = group.clone();
        let mut change = group.next_change(1, &adds(), &members);
        wrong(&mut change);
        let body = Body::GroupChange(Box::new(change));
        group.log.sequence(command(1, adds()), body);
        group
            .log
            .assert_finds(&format!("{field} of an event in a group"));
    }
    // Which users are left out follows from the command only.
    let mut short = group.clone();
    let change = short.next_change(1, &adds(), &members[..1]);
    let body = Body::GroupChange(Box::new(change));
    short.log.sequence(command(1, adds()), body);
    short
        .log
        .assert_finds("member_count is not that of its event");
    let mut dissolved = group;
    let mut change = dissolved.next_change(1, &GroupAction::Dissolve, &[]);
    change.settings.dissolved = true;
    let body = Body::GroupChange(Box::new(change));
    let asked = command(1, GroupAction::Dissolve);
    dissolved.log.sequence(asked, body);
    dissolved
        .log
        .assert_finds("member_count of an event in a group");
}

#[test]
fn mids_and_chgs_of_a_group_have_no_gap() {
    let mut group = GroupLog::begin();
    group.sent = 1;
    group.send(1);
    group.log.assert_finds("mid 2 of g:3 follows 0");
    let mut group = GroupLog::begin();
    group.send(1);
    group.change_seq = group.change_seq.next();
    group.change_message(1, 1, Change::Hide);
    group.log.assert_finds("chg 2 of g:3 follows 0");
}

#[test]
fn a_read_position_in_a_group_is_clamped() {
    let mut group = GroupLog::begin();
    group.send(1);
    let asked = || command(2, Asked::Read(None));
    let wrong = group.after(|group| group.log.sequence(asked(), position(2, 2)));
    wrong.log.assert_finds("mid of an event in a group");
    group.send(1);
    group.log.sequence(asked(), position(2, 1));
    group.log.assert_finds("mid is not that of its event");
}

#[test]
fn groups_begin_with_rule_version_3_and_in_their_partition() {
    let mut log = Log::begin();
    log.refuse(command(1, created()), Reason::Malformed);
    log.assert_sound();
    let mut group = GroupLog::begin();
    let elsewhere = Command::ChangeGroup(ChangeGroup {
        gid: 4.try_into().unwrap(),
        by: user(1),
        by_user: false,
        action: created(),
    });
    group.log.refuse(elsewhere, Reason::WrongPartition);
    group.log.assert_sound();
    let unknown = Command::ChangeGroup(ChangeGroup {
        gid: (GID + 64).try_into().unwrap(),
        by: user(1),
        by_user: false,
        action: GroupAction::Join,
    });
    group.log.refuse(unknown, Reason::UnknownGroup);
    group.log.assert_sound();
}

#[test]
fn who_creates_a_group_begins_a_conversation() {
    let mut group = GroupLog::begin();
    group
        .log
        .set_rules(|control| control.new_conversations_per_day = Some(1));
    let GroupAction::Create(asked) = created() else {
        unreachable!();
    };
    let create = |by_user| {
        Command::ChangeGroup(ChangeGroup {
            gid: (GID + 64).try_into().unwrap(),
            by: user(1),
            by_user,
            action: GroupAction::Create(asked.clone()),
        })
    };
    group.log.refuse(create(true), Reason::TooManyConversations);
    group.log.assert_sound();
    // A service is not limited.
    group.log.post(create(false));
    group.log.assert_finds("unanswered: no event");
}

#[test]
fn settings_of_a_group_that_is_gone_are_not_guessed() {
    let mut group = GroupLog::begin();
    group.send(2);
    group.mute(2);
    let (events, inbound) = (&group.log.events, group.log.inbound());
    let input = PartitionInput {
        events_start: 2,
        inbound: 2..i64::try_from(inbound.len()).unwrap(),
        ..input(inbound.len())
    };
    let folded = in_memory::fold(&input, &inbound[2..], &events[2..]).unwrap();
    assert_eq!(folded.events.differences(), 0, "{:?}", folded.events);
    assert_eq!(folded.inbound.differences(), 0, "{:?}", folded.inbound);
}
