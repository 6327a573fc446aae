//! A few users who write only to each other, driven by one task, which therefore knows what each of them must see.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use client::RawJson;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use schemas::{InboundPosition, PartitionMap, Profile};
use serde_json::Value;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use crate::{
    Client, DeviceClass, Difference, Model, Sent, Visible,
    group_traffic::GroupTraffic,
    load::{Control, Counters},
    model::some_change,
    new_users,
};

/// The senders and receivers of single messages, as indexes of users; one pair is a note to oneself.
const SINGLES: [(usize, usize); 6] = [(0, 1), (1, 0), (0, 2), (2, 0), (2, 1), (1, 1)];
/// The sender and receiver of batches: the receiver does not write back, since lines that are posted again may change places.
const BATCH: (usize, usize) = (3, 0);
const BATCH_LINES: usize = 20;
/// The blocked user, and the user who blocks.
const BLOCKED: (usize, usize) = (2, 3);

/// The shortest time between two steps of a group: a load that uses up the machine makes every fault take longer, and finds nothing more.
const PACE: Duration = Duration::from_millis(40);

const WORDS: [&str; 8] = [
    "tide",
    "Flut",
    "潮",
    "🌊🌊",
    "\"quoted\"",
    "back\\slash",
    "tab\there",
    "line\nbreak",
];

/// The users and their actions.
pub(crate) struct UserGroup {
    users: [i64; 4],
    model: Model,
    /// The traffic that needs rule version 3; `None` without it.
    chats: Option<GroupTraffic>,
    /// The newest accepted position of each partition.
    newest: PartitionMap<i64>,
    messages: usize,
    rng: StdRng,
    client: Client,
    counters: Arc<Counters>,
}

impl UserGroup {
    pub(crate) fn new(seed: u64, client: Client, counters: Arc<Counters>) -> Self {
        let users = new_users();
        Self {
            users,
            model: Model::default(),
            chats: Some(GroupTraffic::new(users, client.clone())),
            newest: PartitionMap::new(),
            messages: 0,
            rng: StdRng::seed_from_u64(seed),
            client,
            counters,
        }
    }

    /// Restricts the group to the features of rule version 2.
    pub(crate) fn of_version_2(self) -> Self {
        Self {
            chats: None,
            ..self
        }
    }

    pub(crate) fn users(&self) -> impl Iterator<Item = i64> {
        self.users.into_iter()
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    pub(crate) fn message_count(&self) -> usize {
        self.messages
    }

    pub(crate) fn group_message_count(&self) -> usize {
        let chats = self.chats.as_ref();
        chats.map_or(0, GroupTraffic::message_count)
    }

    pub(crate) async fn run(mut self, control: watch::Receiver<Control>) -> Result<Self> {
        let mut checks = 0;
        if let Some(chats) = &self.chats {
            for accepted in chats.begin().await? {
                self.note(accepted);
            }
        }
        let kinds = if self.chats.is_some() { 27 } else { 17 };
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            pace.tick().await;
            let Control {
                stop,
                checks: requested,
                of_groups,
            } = *control.borrow();
            if requested > checks {
                self.verify_unread(of_groups)
                    .await
                    .context("during the load")?;
                self.counters.checked.fetch_add(1, Ordering::Relaxed);
                checks = requested;
            }
            if stop {
                return Ok(self);
            }
            match self.rng.random_range(0..kinds) {
                0..=12 => self.send().await?,
                13..=15 => self.read().await?,
                16 => self.send_batch().await?,
                17..=18 => self.change().await?,
                19 => self.change_contact().await?,
                20 => self.set_profile().await?,
                _ => self.step_in_groups().await?,
            }
        }
    }

    async fn step_in_groups(&mut self) -> Result<()> {
        let chats = self.chats.as_mut().context("no groups were begun")?;
        for accepted in chats.step(&mut self.rng).await? {
            self.note(accepted);
        }
        Ok(())
    }

    async fn send(&mut self) -> Result<()> {
        let (from, to) = *SINGLES.choose(&mut self.rng).unwrap_or(&SINGLES[0]);
        let (destid, sent) = (self.users[to], self.next_message(from));
        let accepted = self
            .client
            .send(sent.srcid, destid, &sent.client_msg_id, &sent.msg)
            .await?;
        self.note(accepted);
        self.model.sent(destid, sent);
        Ok(())
    }

    /// A user reads a conversation up to some message, sometimes again below that, on either class.
    async fn read(&mut self) -> Result<()> {
        let (reader, peer) = *SINGLES.choose(&mut self.rng).unwrap_or(&SINGLES[0]);
        let (uid, peer) = (self.users[reader], self.users[peer]);
        let mid = self.model.messages(uid, peer).len() as i64;
        if mid == 0 {
            return Ok(());
        }
        let mid = self.rng.random_range(1..=mid);
        let device = *DeviceClass::ALL
            .choose(&mut self.rng)
            .unwrap_or(&DeviceClass::Pc);
        let accepted = self.client.ack(uid, peer, device, mid).await?;
        self.note(accepted);
        self.model.read(uid, peer, device, mid);
        Ok(())
    }

    /// A user recalls, edits, hides or clears. Each message is edited at most once: an edit whose response was lost may come after the next.
    async fn change(&mut self) -> Result<()> {
        let (by, peer) = *SINGLES.choose(&mut self.rng).unwrap_or(&SINGLES[0]);
        let (by, peer) = (self.users[by], self.users[peer]);
        let own = self.model.unchanged(by, peer);
        let last = self.model.messages(by, peer).len() as i64;
        // Mostly young enough to be recalled.
        let own = own
            .last_chunk::<8>()
            .and_then(|own| own.choose(&mut self.rng));
        let (Some(own), 1..) = (own.copied(), last) else {
            return Ok(());
        };
        let any = self.rng.random_range(1..=last);
        let text = words(&mut self.rng);
        let (mid, change) = some_change(&mut self.rng, own, any, text);
        let accepted = self
            .client
            .change_message(by, peer, mid, change.clone())
            .await?;
        self.note(accepted);
        self.model.changed(by, peer, mid, change);
        Ok(())
    }

    /// A user sets a flag for a contact, or blocks another user who writes nevertheless. Flags are never taken back: a change whose response was lost
    /// may come after the next.
    async fn change_contact(&mut self) -> Result<()> {
        let (uid, peer, flag) = match self.rng.random_range(0..4) {
            0 => (BLOCKED.1, BLOCKED.0, "blocked"),
            other => {
                let (uid, peer) = *SINGLES.choose(&mut self.rng).unwrap_or(&SINGLES[0]);
                (uid, peer, ["favourite", "pinned", "muted"][other - 1])
            }
        };
        let (uid, peer) = (self.users[uid], self.users[peer]);
        let accepted = self.client.flag_contact(uid, peer, flag).await?;
        self.note(accepted);
        self.model.flagged(uid, peer, flag);
        if flag == "blocked" {
            let refused = self.next_message(BLOCKED.0);
            self.messages -= 1;
            let id = format!("refused-{}", refused.client_msg_id);
            let accepted = self.client.send(peer, uid, &id, &refused.msg).await?;
            self.note(accepted);
        }
        Ok(())
    }

    /// A user takes another nick. The whole profile follows from the nick, so that a mixture of two profiles is noticed.
    async fn set_profile(&mut self) -> Result<()> {
        let uid = *self.users.choose(&mut self.rng).unwrap_or(&self.users[0]);
        let nick = format!("{uid}-{}", self.model.nicks(uid).len());
        let accepted = self.client.set_profile(&profile(uid, &nick)?).await?;
        self.note(accepted);
        self.model.named(uid, nick);
        Ok(())
    }

    /// Compares every user's profile with the model, read separately and with the list.
    async fn verify_profiles(&self) -> Result<()> {
        let after = self.newest();
        for uid in self.users {
            let nicks = self.model.nicks(uid);
            let beside = self.client.profiles_of_list(uid, &after).await?;
            for seen in [self.client.profile(uid, &after).await?, beside] {
                let is_right = match &seen {
                    Some(seen) => {
                        let whole = profile(uid, &seen.nick)?;
                        let extra = seen.extra.as_ref().map(RawJson::as_str);
                        nicks.contains(&seen.nick)
                            && (&seen.avatar, extra) == (&whole.avatar, whole.extra.as_deref())
                    }
                    None => nicks.is_empty(),
                };
                ensure!(
                    is_right,
                    Difference(format!(
                        "profile of {uid}: {seen:?}, expected one of {nicks:?}"
                    ))
                );
            }
        }
        Ok(())
    }

    async fn send_batch(&mut self) -> Result<()> {
        let destid = self.users[BATCH.1];
        let messages: Vec<Sent> = (0..BATCH_LINES)
            .map(|_| self.next_message(BATCH.0))
            .collect();
        for position in self.client.send_batch(destid, &messages).await? {
            self.note(position);
        }
        for sent in messages {
            self.model.sent(destid, sent);
        }
        Ok(())
    }

    fn next_message(&mut self, from: usize) -> Sent {
        let srcid = self.users[from];
        self.messages += 1;
        Sent {
            srcid,
            client_msg_id: format!("{srcid}-{}", self.messages),
            msg: words(&mut self.rng),
        }
    }

    fn note(&mut self, accepted: InboundPosition) {
        let newest = self.newest.get_or_insert_with(accepted.partition, || 0);
        *newest = accepted.offset.max(*newest);
        self.counters.accepted.fetch_add(1, Ordering::Relaxed);
    }

    fn newest(&self) -> Vec<InboundPosition> {
        let newest = self.newest.iter();
        newest
            .map(|(partition, offset)| InboundPosition {
                partition,
                offset: *offset,
            })
            .collect()
    }

    /// Compares the counts of every user on both classes with the model, and those of groups if `of_groups`.
    pub(crate) async fn verify_unread(&self, of_groups: bool) -> Result<()> {
        let after = self.newest();
        for uid in self.users {
            for device in DeviceClass::ALL {
                let seen = self.client.unread(uid, device, &after).await?;
                let expected = self.model.unread(uid, device);
                ensure!(
                    seen == expected,
                    Difference(format!(
                        "unread of {uid} on {device}: {seen:?}, expected {expected:?}, after {after:?}"
                    ))
                );
            }
        }
        match &self.chats {
            Some(chats) if of_groups => chats.verify_unread(&after).await,
            _ => Ok(()),
        }
    }

    /// Compares every conversation, message by message, with the model.
    pub(crate) async fn verify_history(&self) -> Result<()> {
        let after = self.newest();
        for (lo, hi) in self.model.pairs() {
            let is_of_batches = [lo, hi].contains(&self.users[BATCH.0]);
            for uid in self.model.viewers(lo, hi) {
                let peer = lo + hi - uid;
                let items = self.client.history(uid, peer, &after).await?;
                let expected = self.model.visible(uid, peer);
                let compared = if is_of_batches {
                    compare_unordered(&items, &expected)
                } else {
                    compare(&items, &expected)
                };
                compared.with_context(|| format!("{uid} with {peer}"))?;
            }
        }
        // Under rule version 2 there are no flags and no profiles, and an older program may answer.
        let Some(chats) = &self.chats else {
            return Ok(());
        };
        chats.verify_history(&after).await?;
        self.verify_contacts().await?;
        self.verify_profiles().await
    }

    /// Compares the flags of every contact in every user's list with the model.
    async fn verify_contacts(&self) -> Result<()> {
        let after = self.newest();
        for uid in self.users {
            for contact in self.client.conversations(uid, &after).await? {
                if contact.get("gid").is_some() {
                    continue;
                }
                let peer: i64 = contact["peer"].as_str().context("no peer")?.parse()?;
                let flags = ["favourite", "pinned", "muted", "blocked"];
                let seen = flags.into_iter().filter(|flag| contact[flag] == true);
                let seen: BTreeSet<&str> = seen.collect();
                let expected = self.model.flags(uid, peer);
                ensure!(
                    seen == expected,
                    Difference(format!("{uid}'s contact {contact}: expected {expected:?}"))
                );
            }
        }
        Ok(())
    }
}

/// A text that is hard to store unchanged.
pub(crate) fn words(rng: &mut StdRng) -> String {
    let words = (0..rng.random_range(1..12)).map(|_| *WORDS.choose(rng).unwrap_or(&WORDS[0]));
    let words: Vec<&str> = words.collect();
    words.join(" ")
}

/// The profile with this nick.
fn profile(uid: i64, nick: &str) -> Result<Profile> {
    let number = nick.rsplit('-').next().unwrap_or_default();
    Ok(Profile {
        uid: uid.try_into()?,
        nick: nick.to_owned(),
        avatar: (!number.ends_with('3')).then(|| format!("https://example.com/{nick}.png")),
        extra: (!number.ends_with('5')).then(|| format!("{{ \"nick\": \"{nick}\" }}")),
    })
}

/// Compares the items of a history, oldest first, with the expected ones.
pub(crate) fn compare(items: &[Value], expected: &[Visible]) -> Result<()> {
    for (item, expected) in items.iter().zip(expected) {
        ensure!(
            item["mid"] == expected.mid && expected.is_shown_as(item)?,
            Difference(format!("{item}, expected {expected:?}"))
        );
    }
    ensure!(
        items.len() == expected.len(),
        Difference(format!(
            "{} messages, expected {}",
            items.len(),
            expected.len()
        ))
    );
    Ok(())
}

/// As [`compare`], without a known order: all mids from 1 on, and all messages that were sent.
pub(crate) fn compare_unordered(items: &[Value], expected: &[Visible]) -> Result<()> {
    let mut seen = Vec::new();
    for (mid, item) in (1..).zip(items) {
        ensure!(
            item["mid"] == mid,
            Difference(format!("mid {mid} is missing before {item}"))
        );
        seen.push(Sent::of(item)?);
    }
    let mut expected: Vec<Sent> = expected.iter().map(|one| one.sent.clone()).collect();
    seen.sort();
    expected.sort();
    let differing = seen.iter().zip(&expected).find(|(seen, sent)| seen != sent);
    ensure!(
        differing.is_none() && seen.len() == expected.len(),
        Difference(format!(
            "{} messages, expected {}; the first that differ: {differing:?}",
            seen.len(),
            expected.len()
        ))
    );
    Ok(())
}
