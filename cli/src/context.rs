//! The connections that commands need, made from the configuration.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use client::{Client, Retry};
use event_log::{Admin, KafkaConfig, LogReader};
use message_store::{MessageStore, MySqlConfig};
use posting::IngestConfig;
use query_api::QueryApiConfig;
use schemas::topics::Topic;
use service_runtime::{ConfigSource, HttpConfig};
use tokio::{
    net::TcpStream,
    time::{Instant, sleep, timeout},
};
use unread_store::{RedisConfig, UnreadStore};

use crate::{
    client_config::{self, ClientConfig},
    credentials::Credentials,
    failure::Failure,
};

/// How long to wait for a server: enough for a restart.
pub(crate) const REACH_TIMEOUT: Duration = Duration::from_secs(8);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// The configuration and credentials of a command.
pub(crate) struct CommandContext {
    pub(crate) source: ConfigSource,
    pub(crate) credentials: Credentials,
}

impl CommandContext {
    pub(crate) fn kafka(&self) -> anyhow::Result<KafkaConfig> {
        Ok(self.source.section("kafka")?)
    }

    /// Fails early with a clear error if no broker accepts a connection: librdkafka would try for half a minute.
    pub(crate) async fn reach_kafka(&self) -> anyhow::Result<()> {
        let brokers = self.kafka()?.brokers;
        let addresses: Vec<String> = brokers
            .split(',')
            .map(|one| one.trim().to_owned())
            .collect();
        reach("Kafka", &addresses).await
    }

    /// Fails early if `chat.events` does not exist: librdkafka would look for it for half a minute.
    pub(crate) async fn find_topics(&self) -> anyhow::Result<()> {
        let kafka = self.kafka()?;
        if Admin::new(&kafka)?.exists(Topic::Events).await? {
            return Ok(());
        }
        let topic = kafka.topic(Topic::Events);
        let why = format!(
            "there is no topic {topic}; is kafka.prefix right? `tidemark topics apply` creates the topics"
        );
        Err(Failure::NotSetUp(why).into())
    }

    /// As [`Self::reach_kafka`], for MySQL, of which every server must accept a connection.
    pub(crate) async fn reach_mysql(&self) -> anyhow::Result<()> {
        for server in self.source.section::<MySqlConfig>("mysql")?.servers {
            reach("MySQL", &[format!("{}:{}", server.host, server.port)]).await?;
        }
        Ok(())
    }

    pub(crate) fn log_reader(&self) -> anyhow::Result<Arc<LogReader>> {
        Ok(Arc::new(LogReader::new(&self.kafka()?)?))
    }

    pub(crate) fn messages(&self) -> anyhow::Result<MessageStore> {
        Ok(MessageStore::connect(
            &self.source.section::<MySqlConfig>("mysql")?,
        ))
    }

    pub(crate) fn unread(&self) -> anyhow::Result<UnreadStore> {
        Ok(UnreadStore::new(
            &self.source.section::<RedisConfig>("redis")?,
        )?)
    }

    /// A client that calls once.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        self.client_with(Retry::NEVER)
    }

    pub(crate) fn client_with(&self, retry: Retry) -> anyhow::Result<Client> {
        let client: ClientConfig = self.source.section("client")?;
        let ingest: IngestConfig = self.source.section("ingest")?;
        let query: QueryApiConfig = self.source.section("query_api")?;
        let http: HttpConfig = self.source.section("http")?;
        let ingest = client_config::base(client.ingest_url.as_deref(), ingest.listen, &http);
        let query = client_config::base(client.query_url.as_deref(), query.listen, &http);
        let mut builder = Client::builder(&ingest, &query).retry(retry);
        if let Some(token) = self.credentials.token()? {
            builder = builder.token(token.expose());
        }
        if let Some(file) = &client.tls_ca {
            let pem = std::fs::read(file).context("client.tls_ca cannot be read")?;
            builder = builder.authorities(pem);
        }
        Ok(builder.build()?)
    }
}

/// Waits until one of the addresses accepts a connection.
async fn reach(server: &str, addresses: &[String]) -> anyhow::Result<()> {
    let deadline = Instant::now() + REACH_TIMEOUT;
    while Instant::now() < deadline {
        for address in addresses {
            if let Ok(Ok(_)) = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
                return Ok(());
            }
        }
        sleep(RETRY_INTERVAL).await;
    }
    let at = addresses.join(",");
    let why = format!("{server} does not answer at {at}; is it running? (`make up`)");
    Err(Failure::Unreachable(why).into())
}
