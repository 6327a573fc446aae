use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use rdkafka::{
    Offset, TopicPartitionList,
    admin::{
        AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication,
    },
    error::{KafkaError, RDKafkaErrorCode},
    types::RDKafkaRespErr,
};
use schemas::{
    Partition,
    topics::{MIN_INSYNC_REPLICAS, NO_UNCLEAN_ELECTION, Topic},
};

use crate::{
    EventLogError, KafkaConfig, client_log::drain_log, context::NamedContext,
    reconnect::ReconnectingClient,
};

const TIMEOUT: Duration = Duration::from_secs(30);
/// How long a new topic may take to be known to every broker: seconds on a busy machine.
const PROPAGATION_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a broker that is busy with other topics may take to give a new one its leaders.
const LEADERS_TIMEOUT: Duration = Duration::from_secs(90);
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// The copies of a topic if `kafka.replication` is absent and there are enough brokers.
const DEFAULT_COPIES: usize = 3;

/// A difference between a cluster's topic and its declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicDifference {
    /// The topic does not exist.
    Missing {
        /// The topic's full name.
        topic: String,
    },
    /// The number of partitions, which cannot be changed: the partition of every conversation depends on it.
    Partitions {
        /// The topic's full name.
        topic: String,
        /// The cluster's number.
        found: usize,
        /// The declared number.
        declared: usize,
    },
    /// A partition has fewer copies than it should.
    Copies {
        /// The topic's full name.
        topic: String,
        /// The cluster's number.
        found: usize,
        /// The declared number.
        declared: usize,
    },
    /// A setting differs.
    Setting {
        /// The topic's full name.
        topic: String,
        /// Kafka's name of the setting.
        name: String,
        /// The cluster's value.
        found: String,
        /// The declared value.
        declared: String,
    },
}

impl TopicDifference {
    /// Whether [`Admin::apply`] removes the difference.
    #[must_use]
    pub fn can_be_changed(&self) -> bool {
        !matches!(self, Self::Partitions { .. } | Self::Copies { .. })
    }

    /// Whether acknowledged records are on fewer disks than declared, or may be lost to a replica that does not have them.
    #[must_use]
    pub fn weakens(&self) -> bool {
        match self {
            Self::Copies { .. } => true,
            Self::Setting { name, .. } => {
                name == MIN_INSYNC_REPLICAS || name == NO_UNCLEAN_ELECTION.0
            }
            Self::Missing { .. } | Self::Partitions { .. } => false,
        }
    }
}

impl fmt::Display for TopicDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { topic } => write!(f, "{topic}: missing"),
            Self::Partitions {
                topic,
                found,
                declared,
            } => {
                write!(
                    f,
                    "{topic}: {found} partitions, declared {declared}; cannot be changed"
                )
            }
            Self::Copies {
                topic,
                found,
                declared,
            } => {
                write!(
                    f,
                    "{topic}: {found} copies, declared {declared}; kafka-reassign-partitions.sh adds copies"
                )
            }
            Self::Setting {
                topic,
                name,
                found,
                declared,
            } => {
                write!(f, "{topic}: {name} = {found}, declared {declared}")
            }
        }
    }
}

/// Makes a cluster's topics agree with `schemas::topics`.
pub struct Admin {
    config: KafkaConfig,
    client: Arc<ReconnectingClient<AdminClient<NamedContext>>>,
}

/// A topic as the cluster has it.
pub(crate) struct FoundTopic {
    /// Whether the cluster says that the topic does not exist.
    is_unknown: bool,
    /// Partitions with a leader; 0 if the topic does not exist.
    pub(crate) partitions: usize,
    /// The fewest copies of a partition.
    copies: usize,
    /// How many brokers there are.
    brokers: usize,
}

impl Admin {
    /// Connects lazily.
    ///
    /// # Errors
    /// [`EventLogError`] if librdkafka refuses a setting.
    pub fn new(config: &KafkaConfig) -> Result<Self, EventLogError> {
        let client: AdminClient<NamedContext> = config
            .client()
            // If brokers create topics by themselves, asking for a topic would create it.
            .set("allow.auto.create.topics", "false")
            .create_with_context(NamedContext("admin"))
            .map_err(|e| EventLogError::new("creating an admin client", e))?;
        Ok(Self {
            config: config.clone(),
            client: Arc::new(ReconnectingClient::new(client, &config.brokers)),
        })
    }

    /// The differences between the cluster and the declaration.
    ///
    /// # Errors
    /// [`EventLogError`] if the cluster does not answer.
    pub async fn diff(&self) -> Result<Vec<TopicDifference>, EventLogError> {
        let mut differences = Vec::new();
        for topic in Topic::ALL {
            differences.extend(self.diff_of(topic).await?);
        }
        Ok(differences)
    }

    /// Whether the topic exists; also true if this user may not know.
    ///
    /// # Errors
    /// [`EventLogError`] if the cluster does not answer.
    pub async fn exists(&self, topic: Topic) -> Result<bool, EventLogError> {
        let found = self.find(&self.config.topic(topic)).await?;
        Ok(!found.is_unknown)
    }

    /// The differences of one topic.
    ///
    /// # Errors
    /// [`EventLogError`] if the cluster does not answer.
    pub async fn diff_of(&self, topic: Topic) -> Result<Vec<TopicDifference>, EventLogError> {
        let name = self.config.topic(topic);
        let found = self.find(&name).await?;
        if found.partitions == 0 {
            return Ok(vec![TopicDifference::Missing { topic: name }]);
        }
        let mut differences = Vec::new();
        let declared = usize::from(topic.partitions());
        if found.partitions != declared {
            differences.push(TopicDifference::Partitions {
                topic: name.clone(),
                found: found.partitions,
                declared,
            });
        }
        let declared = self.copies(found.brokers);
        if found.copies < declared {
            differences.push(TopicDifference::Copies {
                topic: name.clone(),
                found: found.copies,
                declared,
            });
        }
        differences.extend(self.settings_differing(topic, &name, found.copies).await?);
        Ok(differences)
    }

    /// A setting of a topic by Kafka's name; `None` if no setting has this name.
    ///
    /// # Errors
    /// [`EventLogError`] if the cluster does not answer, or this user may not know.
    pub async fn setting(&self, topic: Topic, name: &str) -> Result<Option<String>, EventLogError> {
        let settings = self.fetch_settings(&self.config.topic(topic)).await?;
        Ok(settings.get(name).cloned())
    }

    /// Creates missing topics and changes settings; returns the differences found, once every partition has a leader. Differences that [cannot be
    /// changed](TopicDifference::can_be_changed) are left as they are.
    ///
    /// # Errors
    /// [`EventLogError`] if the cluster does not answer or refuses.
    pub async fn apply(&self) -> Result<Vec<TopicDifference>, EventLogError> {
        let differences = self.diff().await?;
        for topic in Topic::ALL {
            let name = self.config.topic(topic);
            let of_topic = |d: &&TopicDifference| match d {
                TopicDifference::Missing { topic } => *topic == name,
                TopicDifference::Setting { topic, .. } => *topic == name,
                TopicDifference::Partitions { .. } | TopicDifference::Copies { .. } => false,
            };
            match differences.iter().find(of_topic) {
                Some(TopicDifference::Missing { .. }) => self.create(topic, &name).await?,
                Some(_) => self.set(topic, &name).await?,
                None => {}
            }
        }
        self.await_applied().await?;
        Ok(differences)
    }

    /// A topic counts as created before every broker knows it and before each partition has a leader.
    async fn await_applied(&self) -> Result<(), EventLogError> {
        let deadline = Instant::now() + LEADERS_TIMEOUT;
        let pending = |d: &TopicDifference| match d {
            // Partitions without a leader do not count: there will be more.
            TopicDifference::Partitions {
                found, declared, ..
            } => found < declared,
            TopicDifference::Missing { .. } | TopicDifference::Setting { .. } => true,
            TopicDifference::Copies { .. } => false,
        };
        while let Some(difference) = self.diff().await?.into_iter().find(pending) {
            if Instant::now() > deadline {
                let error = KafkaError::AdminOp(RDKafkaErrorCode::OperationTimedOut);
                return Err(EventLogError::new(
                    format!("waiting for {difference}"),
                    error,
                ));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Drops the records of a partition below `before`.
    ///
    /// # Errors
    /// [`EventLogError`] if the cluster does not answer or refuses.
    pub async fn delete_before(
        &self,
        topic: Topic,
        partition: Partition,
        before: i64,
    ) -> Result<(), EventLogError> {
        let name = self.config.topic(topic);
        let what = || format!("deleting records of {name}");
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition_offset(&name, partition.get().into(), Offset::Offset(before))
            .map_err(|e| EventLogError::new(what(), e))?;
        self.client
            .delete_records(&list, &options())
            .await
            .map_err(|e| EventLogError::new(what(), e))?;
        Ok(())
    }

    #[cfg(feature = "test-topics")]
    pub(crate) async fn delete_topics(&self, names: &[String]) -> Result<(), EventLogError> {
        let fault = |e| EventLogError::new(format!("deleting {}", names.join(", ")), e);
        let topics: Vec<_> = names.iter().map(String::as_str).collect();
        let answers = self
            .client
            .delete_topics(&topics, &options())
            .await
            .map_err(fault)?;
        for answer in answers {
            answer.map_err(|(_, code)| fault(KafkaError::AdminOp(code)))?;
        }
        Ok(())
    }

    pub(crate) async fn find(&self, name: &str) -> Result<FoundTopic, EventLogError> {
        let (client, name) = (Arc::clone(&self.client), name.to_owned());
        tokio::task::spawn_blocking(move || {
            let metadata = client.inner().fetch_metadata(Some(&name), TIMEOUT);
            let metadata = metadata.map_err(|e| {
                // SAFETY: the client lives as long as `client`.
                unsafe { drain_log(client.inner().native_ptr(), "admin") };
                EventLogError::new("asking for the topics", e)
            })?;
            let topics = || {
                metadata
                    .topics()
                    .iter()
                    .filter(|topic| topic.name() == name)
            };
            let unknown = RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
            let partitions: Vec<_> = topics()
                .filter(|topic| topic.error().is_none())
                .flat_map(|topic| topic.partitions())
                .filter(|partition| partition.leader() >= 0)
                .collect();
            let copies = partitions.iter().map(|p| p.replicas().len()).min();
            Ok(FoundTopic {
                is_unknown: topics().any(|topic| topic.error() == Some(unknown)),
                partitions: partitions.len(),
                copies: copies.unwrap_or(0),
                brokers: metadata.brokers().len(),
            })
        })
        .await
        .expect("asking for a topic does not panic")
    }

    /// The declared number of copies of a topic.
    fn copies(&self, brokers: usize) -> usize {
        let copies = self.config.replication.map(usize::from);
        copies.unwrap_or_else(|| brokers.clamp(1, DEFAULT_COPIES))
    }

    /// The settings of a topic. A broker that does not know a new topic yet returns none: then the query is repeated for a while.
    async fn fetch_settings(&self, name: &str) -> Result<BTreeMap<String, String>, EventLogError> {
        let fault = |e| EventLogError::new(format!("asking for the settings of {name}"), e);
        let deadline = Instant::now() + PROPAGATION_TIMEOUT;
        loop {
            let answers = self
                .client
                .describe_configs([&ResourceSpecifier::Topic(name)], &options())
                .await
                .map_err(fault)?;
            let mut found = BTreeMap::new();
            for answer in answers {
                let resource = answer.map_err(|code| fault(KafkaError::AdminOp(code)))?;
                let entries = resource.entries.into_iter();
                found.extend(entries.map(|e| (e.name, e.value.unwrap_or_default())));
            }
            if !found.is_empty() {
                return Ok(found);
            }
            if Instant::now() >= deadline {
                // Every topic has settings. If rdkafka returns none, it has dropped the reason.
                let code = RDKafkaErrorCode::TopicAuthorizationFailed;
                return Err(fault(KafkaError::AdminOp(code)));
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    async fn settings_differing(
        &self,
        topic: Topic,
        name: &str,
        copies: usize,
    ) -> Result<Vec<TopicDifference>, EventLogError> {
        let found = self.fetch_settings(name).await?;
        let found = |setting: &str| found.get(setting).cloned().unwrap_or_default();
        let declared = declared_settings(topic, copies, &found(MIN_INSYNC_REPLICAS));
        let differing = declared
            .into_iter()
            .filter(|(setting, declared)| found(setting) != *declared);
        Ok(differing
            .map(|(setting, declared)| TopicDifference::Setting {
                topic: name.to_owned(),
                name: setting.to_owned(),
                found: found(setting),
                declared,
            })
            .collect())
    }

    async fn create(&self, topic: Topic, name: &str) -> Result<(), EventLogError> {
        let copies = self.copies(self.find(name).await?.brokers);
        let settings = declared_settings(topic, copies, "");
        // The configuration allows 32 at most.
        let replication = TopicReplication::Fixed(copies as i32);
        let new = settings.iter().fold(
            NewTopic::new(name, topic.partitions().into(), replication),
            |new, (setting, value)| new.set(setting, value),
        );
        let fault = |e| EventLogError::new(format!("creating {name}"), e);
        let answers = self
            .client
            .create_topics([&new], &options())
            .await
            .map_err(fault)?;
        for answer in answers {
            match answer {
                // Another process applied the same declaration at the same time.
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((_, code)) => return Err(fault(KafkaError::AdminOp(code))),
            }
        }
        Ok(())
    }

    async fn set(&self, topic: Topic, name: &str) -> Result<(), EventLogError> {
        let fault = |e| EventLogError::new(format!("setting {name}"), e);
        let copies = self.find(name).await?.copies;
        let found = self.fetch_settings(name).await?;
        let min_insync = found.get(MIN_INSYNC_REPLICAS).map_or("", String::as_str);
        let settings = declared_settings(topic, copies, min_insync);
        let alter = settings.iter().fold(
            AlterConfig::new(ResourceSpecifier::Topic(name)),
            |alter, (setting, value)| alter.set(setting, value),
        );
        let answers = self
            .client
            .alter_configs([&alter], &options())
            .await
            .map_err(fault)?;
        for answer in answers {
            answer.map_err(|(_, code)| fault(KafkaError::AdminOp(code)))?;
        }
        Ok(())
    }
}

/// The settings of a topic with `copies` copies. `min_insync` is the topic's current `min.insync.replicas`, which is raised if it is too low, and
/// never lowered.
fn declared_settings(topic: Topic, copies: usize, min_insync: &str) -> Vec<(&'static str, String)> {
    let least = Topic::min_insync_replicas(copies);
    let min_insync = min_insync
        .parse()
        .map_or(least, |found: u32| found.max(least));
    let settings = topic.settings().iter();
    settings
        .map(|(setting, value)| (*setting, (*value).to_owned()))
        .chain([(MIN_INSYNC_REPLICAS, min_insync.to_string())])
        .collect()
}

fn options() -> AdminOptions {
    AdminOptions::new()
        .request_timeout(Some(TIMEOUT))
        .operation_timeout(Some(TIMEOUT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn min_insync_replicas_are_raised_and_never_lowered() {
        let declared = |copies, found| {
            let settings = declared_settings(Topic::Inbound, copies, found);
            let of = |(name, _): &&(_, String)| *name == MIN_INSYNC_REPLICAS;
            settings.iter().find(of).unwrap().1.clone()
        };
        assert_eq!(declared(1, ""), "1");
        assert_eq!(declared(2, "1"), "1");
        assert_eq!(declared(3, ""), "2");
        assert_eq!(declared(3, "1"), "2");
        assert_eq!(declared(5, "3"), "3");
        assert_eq!(declared(1, "2"), "2");
    }
}
