//! A device of an installation before this one.

use anyhow::ensure;
use client::{
    SyncAnswer,
    device::{Device, DeviceSettings, DeviceState, MAX_MSG_BYTES, Outbox, Update},
};
use schemas::{DeviceClass, DeviceId, NextOffset, PartitionMap, Recipient, SyncToken};
use system_tests::{Servers, TIMEOUT, new_users, run};
use tokio::time::timeout;

#[test]
fn a_device_whose_token_is_ahead_of_the_log_begins_anew_and_receives() {
    run(Servers::Shared, async |env| {
        let [me, peer] = new_users();
        let before = env.client.send(peer, me, "1", "before").await?;
        env.client.history(peer, me, &[before]).await?;
        let ahead = PartitionMap::full(|_| NextOffset::new(1 << 40));
        let mut state = DeviceState::new(me.try_into()?);
        state.take_sync(SyncAnswer {
            conversations: Vec::new(),
            groups: Vec::new(),
            left: Vec::new(),
            profile: None,
            profiles: None,
            next: SyncToken::new(0, &ahead),
            more: false,
            full: true,
        });
        let settings = DeviceSettings {
            gateways: env.gateway_urls()?,
            device: DeviceId::try_from("phone".to_owned())?,
            class: DeviceClass::Mobile,
            name: String::new(),
            token: None,
            max_msg_bytes: MAX_MSG_BYTES,
        };
        let mut device = Device::new(env.client.api().clone(), settings, state, Outbox::default())?;
        timeout(TIMEOUT, async {
            while device.next().await? != Update::Connected {}
            anyhow::Ok(())
        })
        .await??;
        ensure!(device.state().full_syncs() == 2, "no full sync");
        let key = Recipient::User(peer.try_into()?);
        // Of what the sync does not have yet the stream tells.
        has_unread(&mut device, key, 1).await?;
        env.client.send(peer, me, "2", "after").await?;
        has_unread(&mut device, key, 2).await
    });
}

async fn has_unread(device: &mut Device, key: Recipient, count: i64) -> anyhow::Result<()> {
    let unread = |device: &Device| device.state().chats().get(&key)?.unread.mobile;
    timeout(TIMEOUT, async {
        while unread(device) != Some(count) {
            device.next().await?;
        }
        Ok(())
    })
    .await?
}
