//! What devices have, against what was acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::{CLASSES, Chat, Device, Had, System};

/// Sums over all devices of one system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub devices: u64,
    /// How often a device lost its connection, or gave it up.
    pub drops: u64,
    pub acknowledged: u64,
    /// Acknowledged messages that a device lacks that is connected and quiet, and opened its chats when it connected last.
    pub missed: u64,
    /// Those that it lacks after it has opened all chats once more.
    pub missed_when_opened: u64,
    /// Those that a device lacks that begins anew: they are gone.
    pub lost: u64,
    /// Messages that a device has with two numbers.
    pub twice: u64,
    /// Chats with another unread count than by the system's own rule.
    pub miscounted: u64,
    texts: BTreeSet<(Chat, String)>,
}

type Value = fn(&Tally) -> u64;

impl Tally {
    /// What a table shows.
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

    /// What one device has had acknowledged.
    pub(crate) fn of_sends(device: &impl Device, drops: u64) -> Self {
        let texts: BTreeSet<_> = device.acknowledged().iter().cloned().collect();
        Self {
            devices: 1,
            drops,
            acknowledged: texts.len() as u64,
            texts,
            ..Self::default()
        }
    }

    /// Adds what another has.
    pub(crate) fn add(&mut self, other: Self) {
        self.devices += other.devices;
        self.drops += other.drops;
        self.acknowledged += other.acknowledged;
        self.missed += other.missed;
        self.missed_when_opened += other.missed_when_opened;
        self.lost += other.lost;
        self.twice += other.twice;
        self.miscounted += other.miscounted;
        self.texts.extend(other.texts);
    }

    /// The acknowledged messages that a user's device lacks.
    pub(crate) fn lacking(&self, user: usize, device: &impl Device) -> u64 {
        let mut had: BTreeMap<Chat, BTreeSet<String>> = BTreeMap::new();
        let lacks = |(chat, text): &&(Chat, String)| {
            let texts = had.entry(*chat).or_insert_with(|| {
                let messages = device.messages(*chat);
                messages.into_iter().map(|message| message.text).collect()
            });
            !texts.contains(text)
        };
        let concerned = self.texts.iter().filter(|(chat, _)| chat.has(user));
        concerned.filter(lacks).count() as u64
    }

    /// Opens all chats of a device that has come to rest, and compares.
    ///
    /// # Errors
    /// The system does not answer.
    pub(crate) async fn judge<D: Device>(&mut self, user: usize, device: &mut D) -> Result<()> {
        device.open_all().await?;
        self.missed_when_opened += self.lacking(user, device);
        let chats: BTreeSet<Chat> = self.texts.iter().map(|(chat, _)| *chat).collect();
        for chat in chats.into_iter().filter(|chat| chat.has(user)) {
            let all = device.messages(chat);
            self.twice += twice(&all);
            if device.unread(chat).await? != Some(D::unread_of(chat, &all)) {
                self.miscounted += 1;
            }
        }
        Ok(())
    }

    /// What devices lack that begin anew.
    ///
    /// # Errors
    /// The system does not answer.
    pub(crate) async fn add_fresh<S: System>(&mut self, system: &S, users: usize) -> Result<()> {
        for user in 0..users {
            let mut device = system.device(user, CLASSES[0])?;
            device.open_all().await?;
            self.lost += self.lacking(user, &device);
        }
        Ok(())
    }
}

/// How many messages are more than once among these.
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
