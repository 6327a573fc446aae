//! What commands talk to, made from the configuration.

use std::time::Duration;

use event_log::KafkaConfig;
use ingest::IngestConfig;
use message_store::{MessageStore, MySqlConfig};
use query_api::QueryApiConfig;
use service_runtime::{ConfigSource, HttpConfig};
use tokio::{
    net::TcpStream,
    time::{Instant, sleep, timeout},
};
use unread_store::{Node, RedisConfig};

use crate::{
    client::Client,
    client_config::{self, ClientConfig},
    credentials::Credentials,
    failure::Failure,
};

/// How long a server may be away: as long as a restart of it takes.
const REACH_PATIENCE: Duration = Duration::from_secs(8);
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);
const CONNECT_AGAIN: Duration = Duration::from_millis(250);

/// The configuration, opened where a command needs it.
pub(crate) struct Handles {
    pub(crate) source: ConfigSource,
    pub(crate) credentials: Credentials,
}

impl Handles {
    pub(crate) fn kafka(&self) -> anyhow::Result<KafkaConfig> {
        Ok(self.source.section("kafka")?)
    }

    /// Fails soon and clearly where no broker takes a connection: librdkafka would try for half a minute.
    pub(crate) async fn reach_kafka(&self) -> anyhow::Result<()> {
        let brokers = self.kafka()?.brokers;
        let addresses: Vec<String> = brokers
            .split(',')
            .map(|one| one.trim().to_owned())
            .collect();
        reach("Kafka", &addresses).await
    }

    /// The same of the databases, each of which must be there.
    pub(crate) async fn reach_mysql(&self) -> anyhow::Result<()> {
        for server in self.source.section::<MySqlConfig>("mysql")?.servers {
            reach("MySQL", &[format!("{}:{}", server.host, server.port)]).await?;
        }
        Ok(())
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
        let http: HttpConfig = self.source.section("http")?;
        let ingest = client_config::base(client.ingest_url.as_deref(), ingest.listen, &http);
        let query = client_config::base(client.query_url.as_deref(), query.listen, &http);
        let token = self.credentials.token()?;
        Client::new(ingest, query, token.as_ref(), client.tls_ca.as_deref())
    }
}

/// Waits until one of the addresses takes a connection.
async fn reach(server: &str, addresses: &[String]) -> anyhow::Result<()> {
    let deadline = Instant::now() + REACH_PATIENCE;
    while Instant::now() < deadline {
        for address in addresses {
            if let Ok(Ok(_)) = timeout(CONNECT_PATIENCE, TcpStream::connect(address)).await {
                return Ok(());
            }
        }
        sleep(CONNECT_AGAIN).await;
    }
    let at = addresses.join(",");
    let why = format!("{server} does not answer at {at}; is it running? (`make up`)");
    Err(Failure::Unreachable(why).into())
}
