//! Groups in a snapshot, split into pieces so that none needs a large piece of memory.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use schemas::{ChangeSeq, GroupId, GroupRole, Mid, PerDevice, UserId, proto};

use super::{InvalidSnapshot, mid, write_read_mids};
use crate::core::{
    group::{Author, Group, Member},
    memberships::Memberships,
};

const PIECE: usize = 1_000;

/// The pieces of a group.
pub(super) fn write_group(gid: GroupId, group: &Group) -> Vec<proto::GroupState> {
    let mut members: Vec<(&UserId, &Member)> = group.members.iter().collect();
    members.sort_unstable_by_key(|(uid, _)| **uid);
    let authors: Vec<i64> = group.authors.iter().map(|author| author.0).collect();
    let muted_who_left: Vec<i64> = group.muted_who_left.iter().map(|uid| uid.get()).collect();
    let leavers: Vec<i64> = group.leavers.iter().map(UserId::get).collect();
    let most = members.len().max(authors.len());
    let most = most.max(muted_who_left.len()).max(leavers.len());
    let pieces = most.div_ceil(PIECE).max(1);
    let of_piece = |index: usize| proto::GroupState {
        gid: gid.get(),
        settings: Some(group.settings.clone().into()),
        last_mid: group.last_mid.get(),
        chg: group.change_seq.get(),
        last_place: group.last_place,
        creation: group.creation,
        authors: part(&authors, index).to_vec(),
        members: part(&members, index).iter().map(write_member).collect(),
        muted_who_left: part(&muted_who_left, index).to_vec(),
        left_by_themselves: part(&leavers, index).to_vec(),
    };
    (0..pieces).map(of_piece).collect()
}

fn part<T>(all: &[T], index: usize) -> &[T] {
    all.chunks(PIECE).nth(index).unwrap_or_default()
}

fn write_member((uid, member): &(&UserId, &Member)) -> proto::GroupMemberState {
    proto::GroupMemberState {
        uid: uid.get(),
        role: proto::GroupRole::from(member.role).into(),
        muted: member.muted,
        read: Some(write_read_mids(member.read)),
        added_by: member.added_by.map_or(0, UserId::get),
    }
}

/// Adds the next piece of a group.
pub(super) fn read_group(
    groups: &mut HashMap<GroupId, Box<Group>>,
    memberships: &mut Memberships,
    piece: proto::GroupState,
) -> Result<(), InvalidSnapshot> {
    let invalid = InvalidSnapshot::Field("groups");
    let gid = GroupId::try_from(piece.gid).map_err(|_| invalid.clone())?;
    let settings = piece.settings.ok_or_else(|| invalid.clone())?;
    let settings = settings.try_into().map_err(|_| invalid.clone())?;
    let group = groups
        .entry(gid)
        .or_insert_with(|| Box::new(Group::new(settings)));
    group.last_mid = mid(piece.last_mid)?;
    group.change_seq = ChangeSeq::try_from(piece.chg).map_err(|_| invalid.clone())?;
    group.last_place = piece.last_place;
    group.creation = piece.creation;
    group.authors.extend(piece.authors.into_iter().map(Author));
    if group.authors.len() as i64 > group.last_mid.get() {
        return Err(invalid);
    }
    for uid in piece.muted_who_left {
        let uid = UserId::try_from(uid).map_err(|_| invalid.clone())?;
        group.muted_who_left.insert(uid);
    }
    for uid in piece.left_by_themselves {
        let uid = UserId::try_from(uid).map_err(|_| invalid.clone())?;
        group.leavers.push(uid, usize::MAX);
    }
    for member in &piece.members {
        let uid = UserId::try_from(member.uid).map_err(|_| invalid.clone())?;
        let member = read_member(member, group.last_mid)?;
        memberships.begin(uid, member.added_by);
        group.members.insert(uid, member);
    }
    Ok(())
}

/// The memberships of a user that others have ended today.
pub(super) fn write_removed(
    (uid, of_user): (&UserId, &BTreeMap<UserId, u32>),
) -> Vec<proto::RemovedMember> {
    let all = of_user
        .iter()
        .map(|(added_by, count)| proto::RemovedMember {
            uid: uid.get(),
            added_by: added_by.get(),
            count: *count,
        });
    all.collect()
}

pub(super) fn read_removed(
    memberships: &mut Memberships,
    removed: &proto::RemovedMember,
) -> Result<(), InvalidSnapshot> {
    let [uid, added_by] = [removed.uid, removed.added_by].map(UserId::try_from);
    let (Ok(uid), Ok(added_by)) = (uid, added_by) else {
        return Err(InvalidSnapshot::Field("removed_members"));
    };
    for _ in 0..removed.count {
        memberships.begin(uid, Some(added_by));
        memberships.end_by_others(uid, Some(added_by));
    }
    Ok(())
}

fn read_member(member: &proto::GroupMemberState, last: Mid) -> Result<Member, InvalidSnapshot> {
    let invalid = InvalidSnapshot::Field("groups.members");
    let read = member.read.as_ref().ok_or_else(|| invalid.clone())?;
    let read = PerDevice {
        pc: mid(read.pc)?,
        mobile: mid(read.mobile)?,
    };
    if read.pc > last || read.mobile > last {
        return Err(invalid);
    }
    let added_by = match member.added_by {
        0 => None,
        by => Some(UserId::try_from(by).map_err(|_| invalid.clone())?),
    };
    Ok(Member {
        role: GroupRole::from_proto(member.role).ok_or(invalid)?,
        muted: member.muted,
        added_by,
        read,
    })
}

#[cfg(test)]
mod tests {
    use schemas::GroupSettings;

    use super::*;

    #[test]
    fn a_large_group_comes_back_from_its_pieces() {
        let user = |uid: i64| UserId::try_from(uid).unwrap();
        let mut group = Group::new(GroupSettings {
            name: "Lunch".to_owned(),
            owner: user(1),
            open: true,
            whole_history: true,
            muted: false,
            dissolved: false,
        });
        for uid in 1..=4_500 {
            group.push(user(uid));
            if uid <= 2_500 {
                let member = Member {
                    role: GroupRole::Member,
                    muted: uid % 2 == 0,
                    added_by: (uid % 3 == 0).then_some(user(1)),
                    read: PerDevice {
                        pc: group.last_mid,
                        mobile: Mid::ZERO,
                    },
                };
                group.members.insert(user(uid), member);
            } else {
                group.muted_who_left.insert(user(uid));
                group.leavers.push(user(7_000 - uid), usize::MAX);
            }
        }
        let gid = GroupId::try_from(5000).unwrap();
        let pieces = write_group(gid, &group);
        let sizes = |piece: &proto::GroupState| piece.members.len().max(piece.authors.len());
        assert_eq!(pieces.iter().map(sizes).max(), Some(PIECE));
        let (mut read, mut memberships) = (HashMap::new(), Memberships::default());
        for piece in pieces {
            read_group(&mut read, &mut memberships, piece).unwrap();
        }
        let removed = proto::RemovedMember {
            uid: 3,
            added_by: 1,
            count: 2,
        };
        read_removed(&mut memberships, &removed).unwrap();
        let counts = |uid, is_today| {
            let added = memberships.by_others(user(uid), user(1), is_today);
            (added.by_all_others, added.by_actor)
        };
        assert_eq!([counts(2, true), counts(3, true)], [(0, 0), (3, 3)]);
        assert_eq!(counts(3, false), (1, 1));
        let written = memberships.removed.iter().flat_map(write_removed);
        assert_eq!(written.collect::<Vec<_>>(), [removed]);
        assert_eq!(read.remove(&gid), Some(Box::new(group)));
        assert!(read.is_empty());
    }
}
