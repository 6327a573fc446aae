//! Records that our services would not write.

use anyhow::Result;
use schemas::{DirectConversation, topics::Topic};

use super::victim::Victim;
use crate::{new_users, poison};

pub(super) async fn inject(victim: &mut Victim<'_>) -> Result<u64> {
    let [from, to] = new_users();
    let conversation = DirectConversation::new(from.try_into()?, to.try_into()?);
    let partition = conversation.partition();
    let events = &victim.env.events;
    let mut injected = 0;
    for (value, _) in poison::commands(from, to) {
        events.append_raw(Topic::Inbound, partition, &value).await?;
        injected += 1;
    }
    for (value, _) in poison::events(from, to)? {
        events.append_raw(Topic::Events, partition, &value).await?;
        injected += 1;
    }
    for value in poison::JUNK {
        for topic in [Topic::Snapshots, Topic::DeadLetters] {
            events.append_raw(topic, partition, value).await?;
            injected += 1;
        }
    }
    Ok(injected)
}
