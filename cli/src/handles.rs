//! What commands talk to, made from the configuration.

use event_log::KafkaConfig;
use ingest::IngestConfig;
use message_store::{MessageStore, MySqlConfig};
use query_api::QueryApiConfig;
use service_runtime::ConfigSource;
use unread_store::{Node, RedisConfig};

use crate::{
    client::Client,
    client_config::{self, ClientConfig},
};

/// The configuration, opened where a command needs it.
pub(crate) struct Handles {
    pub(crate) source: ConfigSource,
}

impl Handles {
    pub(crate) fn kafka(&self) -> anyhow::Result<KafkaConfig> {
        Ok(self.source.section("kafka")?)
    }

    pub(crate) fn messages(&self) -> anyhow::Result<MessageStore> {
        Ok(MessageStore::connect(
            &self.source.section::<MySqlConfig>("mysql")?,
        ))
    }

    pub(crate) fn unread(&self) -> anyhow::Result<Node> {
        Ok(Node::new(&self.source.section::<RedisConfig>("redis")?)?)
    }

    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let client: ClientConfig = self.source.section("client")?;
        let ingest: IngestConfig = self.source.section("ingest")?;
        let query: QueryApiConfig = self.source.section("query_api")?;
        let ingest = client_config::base(client.ingest_url.as_deref(), ingest.listen);
        let query = client_config::base(client.query_url.as_deref(), query.listen);
        Client::new(ingest, query)
    }
}
