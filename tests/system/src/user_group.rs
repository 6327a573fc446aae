//! A few users who write only to each other, driven by one task, which therefore knows what each of them must see.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use schemas::{InboundPosition, PartitionMap};
use serde_json::Value;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use crate::{
    Client, DeviceClass, Difference, Model, Sent,
    load::{Control, Counters},
    new_users,
};

/// Who writes to whom, one message at a time, as indexes of users; the note to oneself is one of them.
const SINGLES: [(usize, usize); 6] = [(0, 1), (1, 0), (0, 2), (2, 0), (2, 1), (1, 1)];
/// Who writes in batches: to nobody who answers, since lines that are posted again may change places.
const BATCH: (usize, usize) = (3, 0);
const BATCH_LINES: usize = 20;

/// No group takes more than one step in this time: a load that uses up the machine makes every fault take longer, and
/// finds nothing more.
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

/// The users and what they did.
pub(crate) struct UserGroup {
    users: [i64; 4],
    model: Model,
    /// The newest accepted position of each partition.
    newest: PartitionMap<i64>,
    messages: usize,
    rng: StdRng,
    client: Client,
    counters: Arc<Counters>,
}

impl UserGroup {
    pub(crate) fn new(seed: u64, client: Client, counters: Arc<Counters>) -> Self {
        Self {
            users: new_users(),
            model: Model::default(),
            newest: PartitionMap::new(),
            messages: 0,
            rng: StdRng::seed_from_u64(seed),
            client,
            counters,
        }
    }

    pub(crate) fn users(&self) -> impl Iterator<Item = i64> {
        self.users.into_iter()
    }

    pub(crate) fn message_count(&self) -> usize {
        self.messages
    }

    pub(crate) async fn run(mut self, control: watch::Receiver<Control>) -> Result<Self> {
        let mut checks = 0;
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            pace.tick().await;
            let Control {
                stop,
                checks: requested,
            } = *control.borrow();
            if requested > checks {
                self.verify_unread().await.context("during the load")?;
                self.counters.checked.fetch_add(1, Ordering::Relaxed);
                checks = requested;
            }
            if stop {
                return Ok(self);
            }
            match self.rng.random_range(0..10) {
                0..=6 => self.send().await?,
                7..=8 => self.read().await?,
                _ => self.send_batch().await?,
            }
        }
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

    /// Somebody reads a conversation up to somewhere; again below that, too, and on either class.
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
        let words = (0..self.rng.random_range(1..12))
            .map(|_| *WORDS.choose(&mut self.rng).unwrap_or(&WORDS[0]));
        let msg: Vec<&str> = words.collect();
        Sent {
            srcid,
            client_msg_id: format!("{srcid}-{}", self.messages),
            msg: msg.join(" "),
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

    /// Compares the counts of every user on both classes with the model.
    pub(crate) async fn verify_unread(&self) -> Result<()> {
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
        Ok(())
    }

    /// Compares every conversation, message by message, with the model.
    pub(crate) async fn verify_history(&self) -> Result<()> {
        let after = self.newest();
        for (uid, peer) in self.model.pairs() {
            let items = self.client.history(uid, peer, &after).await?;
            let mut seen = (1..)
                .zip(&items)
                .map(|(mid, item)| as_sent(mid, item))
                .collect::<Result<Vec<Sent>>>()?;
            let mut expected = self.model.messages(uid, peer).to_vec();
            if [uid, peer].contains(&self.users[BATCH.0]) {
                seen.sort();
                expected.sort();
            }
            compare(&seen, &expected).with_context(|| format!("between {uid} and {peer}"))?;
        }
        Ok(())
    }
}

/// An item of a page, which must have this mid.
fn as_sent(mid: i64, item: &Value) -> Result<Sent> {
    ensure!(
        item["mid"] == mid,
        Difference(format!("mid {mid} is missing before {item}"))
    );
    let text = |name: &str| item[name].as_str().with_context(|| format!("{item}"));
    Ok(Sent {
        srcid: text("srcid")?.parse()?,
        client_msg_id: text("client_msg_id")?.to_owned(),
        msg: text("msg")?.to_owned(),
    })
}

fn compare(seen: &[Sent], expected: &[Sent]) -> Result<()> {
    let differing = seen.iter().zip(expected).position(|(s, e)| s != e);
    let difference = match differing {
        Some(at) => format!(
            "message {}: {:?}, expected {:?}",
            at + 1,
            seen[at],
            expected[at]
        ),
        None if seen.len() == expected.len() => return Ok(()),
        None => format!("{} messages, expected {}", seen.len(), expected.len()),
    };
    Err(Difference(difference).into())
}
