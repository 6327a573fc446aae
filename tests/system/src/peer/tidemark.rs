//! Tidemark: all services and servers of an environment, and the client that comes with it.

use std::collections::BTreeSet;

use anyhow::Result;
use rustix::process::Signal;
use schemas::{
    ChangeGroup, ConversationId, CreateGroup, DeviceClass, GroupAction, UserId, command::Command,
};

use super::{FIRST, Had, Options, PeerDevice, System, group, users};
use crate::{SERVICES, Settings, TestEnv, devices::TidemarkDevice};

const SERVERS: [&str; 3] = ["kafka", "redis", "mariadb"];

pub(super) struct Tidemark {
    env: TestEnv,
}

impl System for Tidemark {
    type Device = TidemarkDevice;

    async fn start(options: &Options) -> Result<Self> {
        let env = TestEnv::start(Settings::USUAL).await?;
        let users = users(options)?;
        let create = GroupAction::Create(CreateGroup {
            name: "all".to_owned(),
            members: users[1..].to_vec(),
            open: false,
            whole_history: true,
            client_id: None,
        });
        let create = Command::ChangeGroup(ChangeGroup {
            gid: group()?,
            by: users[0],
            by_user: false,
            action: create,
        });
        let at = env.client.post_event(&create).await?;
        let path = format!("/v1/groups/{FIRST}?uid={FIRST}&after={at}");
        let _: serde_json::Value = env.client.ask(&path).await?;
        Ok(Self { env })
    }

    fn device(&self, uid: UserId, class: DeviceClass) -> Result<TidemarkDevice> {
        TidemarkDevice::new(&self.env, uid, class, (class.to_string(), 0), false)
    }

    async fn kill(&self) -> Result<()> {
        for name in SERVICES.into_iter().chain(SERVERS) {
            self.env.end(name, Signal::KILL).await?;
        }
        self.env.start_servers().await?;
        self.env.start_services(&SERVICES).await
    }
}

impl PeerDevice for TidemarkDevice {
    fn uid(&self) -> UserId {
        self.state().uid()
    }

    fn acknowledged(&self) -> BTreeSet<(ConversationId, String)> {
        let acknowledged = self.answers().iter();
        acknowledged
            .map(|(chat, id, _)| (*chat, id.clone()))
            .collect()
    }

    fn messages(&self, chat: ConversationId) -> Vec<Had> {
        let messages = self.chat(chat).into_iter();
        let messages = messages.flat_map(|chat| chat.messages.values());
        messages
            .map(|message| Had {
                number: message.mid.get(),
                text: message.msg.clone(),
                is_own: message.srcid == self.uid(),
            })
            .collect()
    }

    async fn unread(&mut self, chat: ConversationId) -> Result<Option<i64>> {
        Ok(self.chat(chat).and_then(|chat| chat.unread[self.class()]))
    }

    /// The devices report no read positions; a user who sends to a group has read it up to there.
    fn unread_of(chat: ConversationId, all: &[Had]) -> i64 {
        let own_last = all.iter().filter(|message| message.is_own);
        let own_last = own_last.map(|message| message.number).max();
        let own_last = match chat {
            ConversationId::Group(_) => own_last.unwrap_or_default(),
            ConversationId::Direct(_) => 0,
        };
        let of_others = all.iter().filter(|message| !message.is_own);
        of_others
            .filter(|message| message.number > own_last)
            .count() as i64
    }
}
