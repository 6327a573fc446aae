//! Compares the messages of devices with the acknowledged ones.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use futures::future::try_join_all;
use schemas::{ConversationId, DeviceClass, UserId};
use tokio::time::Instant;

use super::{Had, PeerDevice, System};
use crate::devices::{Device as _, QUIET, Rested};

/// Sums over all devices of one system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub devices: u64,
    /// How often a device lost or dropped its connection.
    pub drops: u64,
    pub acknowledged: u64,
    /// Acknowledged messages missing on a device that is connected and quiet, and opened its chats when it last connected.
    pub missed: u64,
    /// Acknowledged messages still missing after the device has opened all chats once more.
    pub missed_when_opened: u64,
    /// Acknowledged messages missing on a new device: they are lost.
    pub lost: u64,
    /// Messages that a device has with two numbers.
    pub twice: u64,
    /// Chats whose unread count differs from that of the system's own rule.
    pub miscounted: u64,
    texts: BTreeSet<(ConversationId, String)>,
}

type Value = fn(&Tally) -> u64;

impl Tally {
    /// The rows of the table.
    pub const ROWS: [(&'static str, Value); 8] = [
        ("devices", |tally| tally.devices),
        ("connections dropped", |tally| tally.drops),
        ("messages acknowledged", |tally| tally.acknowledged),
        ("missing on a connected device", |tally| tally.missed),
        ("missing after its chats were opened again", |tally| {
            tally.missed_when_opened
        }),
        ("gone: missing on a new device, too", |tally| tally.lost),
        ("twice on a device, with two numbers", |tally| tally.twice),
        ("unread counts that are wrong", |tally| tally.miscounted),
    ];

    /// Compares the messages of all devices that have come to rest with those acknowledged to any of them.
    ///
    /// # Errors
    /// If the system does not answer.
    pub(super) async fn of<D: PeerDevice>(mut rested: Vec<Rested<D>>) -> Result<Self> {
        // Takes what came while other devices came to rest.
        let until = Instant::now() + QUIET;
        try_join_all(rested.iter_mut().map(|one| one.device.listen(until))).await?;
        let mut tally = Self::default();
        for one in &rested {
            let texts = one.device.acknowledged();
            tally.devices += 1;
            tally.drops += one.drops;
            tally.acknowledged += texts.len() as u64;
            tally.texts.extend(texts);
        }
        let missed = rested.iter().map(|one| tally.lacking(&one.device));
        tally.missed = missed.sum();
        for one in &mut rested {
            tally.judge(&mut one.device).await?;
        }
        Ok(tally)
    }

    /// The number of acknowledged messages that a device lacks.
    fn lacking(&self, device: &impl PeerDevice) -> u64 {
        let mut had: BTreeMap<ConversationId, BTreeSet<String>> = BTreeMap::new();
        let lacks = |(chat, text): &&(ConversationId, String)| {
            let texts = had.entry(*chat).or_insert_with(|| {
                let messages = device.messages(*chat);
                messages.into_iter().map(|message| message.text).collect()
            });
            !texts.contains(text)
        };
        let uid = device.uid();
        let concerned = self.texts.iter().filter(|(chat, _)| has(*chat, uid));
        concerned.filter(lacks).count() as u64
    }

    /// Opens all chats of a device that has come to rest, and compares.
    async fn judge<D: PeerDevice>(&mut self, device: &mut D) -> Result<()> {
        device.open_all().await?;
        self.missed_when_opened += self.lacking(device);
        let chats: BTreeSet<ConversationId> = self.texts.iter().map(|(chat, _)| *chat).collect();
        let uid = device.uid();
        for chat in chats.into_iter().filter(|chat| has(*chat, uid)) {
            let all = device.messages(chat);
            self.twice += twice(&all);
            if device.unread(chat).await? != Some(D::unread_of(chat, &all)) {
                self.miscounted += 1;
            }
        }
        Ok(())
    }

    /// Adds the messages that new devices lack.
    ///
    /// # Errors
    /// If the system does not answer.
    pub(super) async fn add_fresh<S: System>(
        &mut self,
        system: &S,
        users: &[UserId],
    ) -> Result<()> {
        for uid in users {
            let mut device = system.device(*uid, DeviceClass::Mobile)?;
            device.open_all().await?;
            self.lost += self.lacking(&device);
        }
        Ok(())
    }
}

/// All users are in the group.
fn has(chat: ConversationId, uid: UserId) -> bool {
    match chat {
        ConversationId::Direct(direct) => direct.has(uid),
        ConversationId::Group(_) => true,
    }
}

/// How many of these messages are there more than once.
fn twice(all: &[Had]) -> u64 {
    let texts: BTreeSet<&str> = all.iter().map(|message| message.text.as_str()).collect();
    (all.len() - texts.len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_two_numbers_is_there_twice() {
        let had = |number, text: &str| Had {
            number,
            text: text.to_owned(),
            is_own: false,
        };
        assert_eq!(twice(&[had(1, "a"), had(2, "b"), had(3, "a")]), 1);
        assert_eq!(twice(&[had(1, "a"), had(2, "b")]), 0);
    }
}
