//! Topics for tests that share a broker.

use std::{
    thread,
    time::{Duration, Instant},
};

use schemas::topics::Topic;

use crate::{Admin, KafkaConfig};

/// All topics of a deployment, under a unique prefix. They are deleted with the value: a broker maps the indexes of every partition into its memory,
/// and the kernel allows it some 30,000 partitions only.
pub struct TestTopics {
    config: KafkaConfig,
}

impl TestTopics {
    /// Creates the topics on `brokers` (`host:port`, separated by commas).
    ///
    /// # Panics
    /// If Kafka does not answer or refuses. No test can continue then.
    pub async fn create(brokers: &str) -> Self {
        let config = KafkaConfig {
            brokers: brokers.to_owned(),
            prefix: format!("t{}.", uuid::Uuid::new_v4().simple()),
            ..KafkaConfig::default()
        };
        let admin = Admin::new(&config).expect("an admin client");
        admin.apply().await.expect("topics for the test");
        Self { config }
    }

    /// A configuration with the broker and the prefix, and defaults for the rest.
    #[must_use]
    pub fn config(&self) -> &KafkaConfig {
        &self.config
    }

    /// Deletes a topic; returns when nothing can be appended to it any more.
    ///
    /// # Panics
    /// If Kafka does not answer or refuses, or still has the topic after a minute.
    pub async fn delete_topic(&self, topic: Topic) {
        let admin = Admin::new(&self.config).expect("an admin client");
        let name = self.config.topic(topic);
        let deleted = admin.delete_topics(std::slice::from_ref(&name)).await;
        deleted.expect("the topic can be deleted");
        // The controller has deleted the topic; the broker learns of it later.
        let deadline = Instant::now() + Duration::from_secs(60);
        while admin.find(&name).await.expect("Kafka answers").partitions > 0 {
            assert!(Instant::now() < deadline, "{name} is still there");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Deletes the topics, unless the broker is gone.
    fn delete(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let deleted = Admin::new(&self.config).and_then(|admin| {
            let topics = Topic::ALL.map(|topic| self.config.topic(topic));
            runtime.block_on(admin.delete_topics(&topics))
        });
        if let Err(error) = deleted {
            tracing::warn!(%error, "topics of a test stay");
        }
    }
}

impl Drop for TestTopics {
    fn drop(&mut self) {
        // A test ends inside a runtime, which must not block on another.
        thread::scope(|scope| {
            scope.spawn(|| self.delete());
        });
    }
}
