//! Traffic of the users of one [`UserGroup`](crate::user_group::UserGroup) in two groups. In the calm one no member comes or goes, so it is known
//! what each member must see; in the busy one members come, go and are muted while they write.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use rand::{Rng as _, rngs::StdRng, seq::IndexedRandom as _};
use schemas::{
    Change, ChangeGroup, ChangeMessage, CreateGroup, DeviceClass, GroupAction, GroupRole,
    InboundPosition, Mid, Recipient, UserId,
    command::{Command, ReadAck, SendMessage},
};

use crate::{
    Client, Difference, Sent,
    model::{Conversation, some_change},
    user_group::{compare, words},
};

/// The groups, and the events that were accepted in them.
pub(crate) struct GroupTraffic {
    /// The users; the first is the owner of both groups.
    users: [i64; 4],
    calm: i64,
    calm_messages: Conversation,
    busy: i64,
    /// Texts by client_msg_id. All messages of the owner must be there, in order; of the other users' messages, those that they sent as members.
    busy_messages: BTreeMap<String, Sent>,
    owners: Vec<String>,
    client: Client,
}

impl GroupTraffic {
    /// The groups' gids are the uids of two of the users.
    pub(crate) fn new(users: [i64; 4], client: Client) -> Self {
        Self {
            users,
            calm: users[0],
            calm_messages: Conversation::default(),
            busy: users[1],
            busy_messages: BTreeMap::new(),
            owners: Vec::new(),
            client,
        }
    }

    /// How many messages there must be at least.
    pub(crate) fn message_count(&self) -> usize {
        self.calm_messages.len() as usize + self.owners.len()
    }

    /// Creates both groups: the first with all users as members, the second with only the owner.
    pub(crate) async fn begin(&self) -> Result<[InboundPosition; 2]> {
        let group = |members: &[i64]| -> Result<GroupAction> {
            let members = members.iter().map(|uid| Ok(UserId::try_from(*uid)?));
            Ok(GroupAction::Create(CreateGroup {
                name: "潮 group".to_owned(),
                members: members.collect::<Result<_>>()?,
                open: true,
                whole_history: false,
                client_id: None,
            }))
        };
        let owner = self.users[0];
        Ok([
            self.post(self.calm, owner, group(&self.users[1..])?)
                .await?,
            self.post(self.busy, owner, group(&[])?).await?,
        ])
    }

    /// One step of a user. Returns its positions on the log.
    pub(crate) async fn step(&mut self, rng: &mut StdRng) -> Result<Vec<InboundPosition>> {
        match rng.random_range(0..12) {
            0..=2 => self.send(rng).await.map(|at| vec![at]),
            3..=4 => self.read(rng).await,
            5..=6 => self.change(rng).await,
            7..=8 => self.send_to_busy(0, rng).await.map(|at| vec![at]),
            _ => self.come_or_go(rng).await,
        }
    }

    async fn send(&mut self, rng: &mut StdRng) -> Result<InboundPosition> {
        let uid = *self.users.choose(rng).unwrap_or(&self.users[0]);
        let sent = Sent {
            srcid: uid,
            client_msg_id: format!("{uid}-calm-{}", self.calm_messages.len()),
            msg: words(rng),
        };
        let at = self.client.post_event(&message(self.calm, &sent)?).await?;
        self.calm_messages.sent(sent);
        Ok(at)
    }

    async fn read(&mut self, rng: &mut StdRng) -> Result<Vec<InboundPosition>> {
        let uid = *self.users.choose(rng).unwrap_or(&self.users[0]);
        let device = *DeviceClass::ALL.choose(rng).unwrap_or(&DeviceClass::Pc);
        let last = self.calm_messages.len();
        if last == 0 {
            return Ok(vec![]);
        }
        let mid = rng.random_range(1..=last);
        let read = Command::ReadAck(ReadAck {
            uid: uid.try_into()?,
            to: Recipient::Group(self.calm.try_into()?),
            device,
            mid: Some(Mid::try_from(mid)?),
        });
        let at = self.client.post_event(&read).await?;
        self.calm_messages.read(uid, device, mid);
        Ok(vec![at])
    }

    /// An author edits or recalls, the owner recalls, or a member hides or clears. Each message is edited at most once.
    async fn change(&mut self, rng: &mut StdRng) -> Result<Vec<InboundPosition>> {
        let author = *self.users.choose(rng).unwrap_or(&self.users[0]);
        let own = self.calm_messages.unchanged(author);
        let own = own.last_chunk::<4>().and_then(|own| own.choose(rng));
        let Some(own) = own.copied() else {
            return Ok(vec![]);
        };
        let any = rng.random_range(1..=self.calm_messages.len());
        let text = words(rng);
        let (mid, change) = some_change(rng, own, any, text);
        let by = match change {
            Change::Recall if rng.random() => self.users[0],
            _ => author,
        };
        let event = Command::ChangeMessage(ChangeMessage {
            by: by.try_into()?,
            to: Recipient::Group(self.calm.try_into()?),
            mid: Mid::try_from(mid)?,
            change: change.clone(),
        });
        let at = self.client.post_event(&event).await?;
        self.calm_messages.changed(by, mid, change);
        Ok(vec![at])
    }

    /// A member comes, goes or is muted, and writes at the same time. The log shows which was first.
    async fn come_or_go(&mut self, rng: &mut StdRng) -> Result<Vec<InboundPosition>> {
        let guest = rng.random_range(1..self.users.len());
        let uid = UserId::try_from(self.users[guest])?;
        let by_owner = |action| (self.users[0], action);
        let (by, action) = match rng.random_range(0..8) {
            0..=1 => by_owner(GroupAction::Add(vec![uid])),
            2 => by_owner(GroupAction::Remove(vec![uid])),
            3 => by_owner(GroupAction::Mute(Some(uid))),
            4 => by_owner(GroupAction::Unmute(Some(uid))),
            5 => by_owner(GroupAction::SetRole {
                uid,
                role: GroupRole::Admin,
            }),
            6 => (self.users[guest], GroupAction::Join),
            _ => (self.users[guest], GroupAction::Leave),
        };
        let sent = self.next_of_busy(guest, rng);
        let message = message(self.busy, &sent)?;
        let (changed, sent) = tokio::join!(
            self.post(self.busy, by, action),
            self.client.post_event(&message),
        );
        Ok(vec![changed?, sent?])
    }

    async fn send_to_busy(&mut self, from: usize, rng: &mut StdRng) -> Result<InboundPosition> {
        let sent = self.next_of_busy(from, rng);
        let at = self.client.post_event(&message(self.busy, &sent)?).await?;
        self.owners.push(sent.client_msg_id);
        Ok(at)
    }

    fn next_of_busy(&mut self, from: usize, rng: &mut StdRng) -> Sent {
        let srcid = self.users[from];
        let sent = Sent {
            srcid,
            client_msg_id: format!("{srcid}-busy-{}", self.busy_messages.len()),
            msg: words(rng),
        };
        self.busy_messages
            .insert(sent.client_msg_id.clone(), sent.clone());
        sent
    }

    async fn post(&self, gid: i64, by: i64, action: GroupAction) -> Result<InboundPosition> {
        let change = ChangeGroup {
            gid: gid.try_into()?,
            by: by.try_into()?,
            by_user: false,
            action,
        };
        self.client.post_event(&Command::ChangeGroup(change)).await
    }

    /// Compares the unread counts of every member with the model.
    pub(crate) async fn verify_unread(&self, after: &[InboundPosition]) -> Result<()> {
        let gid = self.calm.to_string();
        for uid in self.users {
            let groups = self.client.groups(uid, after).await?;
            let calm = groups
                .iter()
                .find(|group| group["gid"].as_str() == Some(&gid))
                .with_context(|| format!("{uid} has no group {}", self.calm))?;
            for device in DeviceClass::ALL {
                let expected = self.calm_messages.unread_in_group(uid, device);
                ensure!(
                    calm["unread"][device.as_str()] == expected,
                    Difference(format!("{uid} on {device}: {calm}, expected {expected}"))
                );
            }
        }
        Ok(())
    }

    /// Compares every message, as every member sees it, with the model.
    pub(crate) async fn verify_history(&self, after: &[InboundPosition]) -> Result<()> {
        for uid in self.users {
            let items = self.client.group_history(self.calm, uid, after).await?;
            compare(&items, &self.calm_messages.visible(uid))
                .with_context(|| format!("{uid} in the group {}", self.calm))?;
        }
        self.verify_busy(after)
            .await
            .with_context(|| format!("in the group {}", self.busy))
    }

    async fn verify_busy(&self, after: &[InboundPosition]) -> Result<()> {
        let owner = self.users[0];
        let items = self.client.group_history(self.busy, owner, after).await?;
        let mut owners = Vec::new();
        let mut seen = BTreeMap::new();
        for (mid, item) in (1..).zip(&items) {
            let sent = Sent::of(item)?;
            ensure!(
                item["mid"] == mid && self.busy_messages.get(&sent.client_msg_id) == Some(&sent),
                Difference(format!(
                    "{item}, expected mid {mid} and a text that was sent"
                ))
            );
            if sent.srcid == owner {
                owners.push(sent.client_msg_id.clone());
            }
            let before = seen.insert(sent.client_msg_id, mid);
            ensure!(
                before.is_none(),
                Difference(format!("{item} is there twice"))
            );
        }
        ensure!(
            owners == self.owners,
            Difference(format!(
                "the owner's are {owners:?}, expected {:?}",
                self.owners
            ))
        );
        Ok(())
    }
}

fn message(gid: i64, sent: &Sent) -> Result<Command> {
    Ok(Command::Send(SendMessage {
        by_user: false,
        srcid: sent.srcid.try_into()?,
        to: Recipient::Group(gid.try_into()?),
        client_msg_id: sent.client_msg_id.clone().try_into()?,
        msg: sent.msg.clone(),
    }))
}
