use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use rdkafka::{
    Offset, TopicPartitionList,
    admin::{
        AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication,
    },
    error::{KafkaError, RDKafkaErrorCode},
};
use schemas::{Partition, topics::Topic};

use crate::{EventLogError, KafkaConfig, client_log::drain_log, context::NamedContext};

const TIMEOUT: Duration = Duration::from_secs(30);
/// How long a new topic may take to be known to every broker.
const PROPAGATION_TIMEOUT: Duration = Duration::from_secs(10);
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// A difference between a cluster's topic and its declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicDifference {
    /// It is not there.
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
    /// Whether [`Admin::apply`] removes it.
    #[must_use]
    pub fn can_be_changed(&self) -> bool {
        !matches!(self, Self::Partitions { .. })
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
    client: AdminClient<NamedContext>,
}

impl Admin {
    /// Connects lazily.
    ///
    /// # Errors
    /// [`EventLogError`] where librdkafka refuses a setting.
    pub fn new(config: &KafkaConfig) -> Result<Self, EventLogError> {
        let client = config
            .client()
            .create_with_context(NamedContext("admin"))
            .map_err(|e| EventLogError::new("creating an admin client", e))?;
        Ok(Self {
            config: config.clone(),
            client,
        })
    }

    /// The differences between the cluster and the declaration.
    ///
    /// # Errors
    /// [`EventLogError`] where the cluster does not answer.
    pub async fn diff(&self) -> Result<Vec<TopicDifference>, EventLogError> {
        let mut differences = Vec::new();
        for topic in Topic::ALL {
            let name = self.config.topic(topic);
            match self.partitions(&name)? {
                0 => differences.push(TopicDifference::Missing { topic: name }),
                found => {
                    let declared = usize::from(topic.partitions());
                    if found != declared {
                        let topic = name.clone();
                        differences.push(TopicDifference::Partitions {
                            topic,
                            found,
                            declared,
                        });
                    }
                    differences.extend(self.settings_differing(topic, &name).await?);
                }
            }
        }
        Ok(differences)
    }

    /// Creates missing topics and changes settings; returns the differences that it found, once every partition has a leader. Those
    /// that [cannot be changed](TopicDifference::can_be_changed) are left as they are.
    ///
    /// # Errors
    /// [`EventLogError`] where the cluster does not answer or refuses.
    pub async fn apply(&self) -> Result<Vec<TopicDifference>, EventLogError> {
        let differences = self.diff().await?;
        for topic in Topic::ALL {
            let name = self.config.topic(topic);
            let of_topic = |d: &&TopicDifference| match d {
                TopicDifference::Missing { topic } => *topic == name,
                TopicDifference::Setting { topic, .. } => *topic == name,
                TopicDifference::Partitions { .. } => false,
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
        let deadline = Instant::now() + TIMEOUT;
        let pending = |d: &TopicDifference| match d {
            // Partitions without a leader do not count: there will be more.
            TopicDifference::Partitions {
                found, declared, ..
            } => found < declared,
            TopicDifference::Missing { .. } | TopicDifference::Setting { .. } => true,
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
    /// [`EventLogError`] where the cluster does not answer or refuses.
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

    /// How many partitions with a leader the topic has; 0 where it is not there.
    fn partitions(&self, name: &str) -> Result<usize, EventLogError> {
        let metadata = self
            .client
            .inner()
            .fetch_metadata(Some(name), TIMEOUT)
            .map_err(|e| {
                // SAFETY: the client lives as long as `self`.
                unsafe { drain_log(self.client.inner().native_ptr(), "admin") };
                EventLogError::new("asking for the topics", e)
            })?;
        Ok(metadata
            .topics()
            .iter()
            .filter(|topic| topic.name() == name && topic.error().is_none())
            .flat_map(|topic| topic.partitions())
            .filter(|partition| partition.leader() >= 0)
            .count())
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
                // Every topic has settings: rdkafka drops the reason why none are returned.
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
    ) -> Result<Vec<TopicDifference>, EventLogError> {
        let found = self.fetch_settings(name).await?;
        Ok(topic
            .settings()
            .iter()
            .filter(|(setting, declared)| found.get(*setting).is_none_or(|value| value != declared))
            .map(|(setting, declared)| TopicDifference::Setting {
                topic: name.to_owned(),
                name: (*setting).to_owned(),
                found: found.get(*setting).cloned().unwrap_or_default(),
                declared: (*declared).to_owned(),
            })
            .collect())
    }

    async fn create(&self, topic: Topic, name: &str) -> Result<(), EventLogError> {
        let replication = TopicReplication::Fixed(self.config.replication);
        let new = topic.settings().iter().fold(
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
        let alter = topic.settings().iter().fold(
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

fn options() -> AdminOptions {
    AdminOptions::new()
        .request_timeout(Some(TIMEOUT))
        .operation_timeout(Some(TIMEOUT))
}
