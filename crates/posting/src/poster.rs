//! What all posts of a process share: limits, the producer, and the workers beside it.

use std::{sync::Arc, time::Duration};

use access::{Access, Caller};
use event_log::{Admin, DeliveryFailure, KafkaConfig, LogReader, PostProducer};
use message_store::MySqlConfig;
use problem::Problem;
use schemas::{InboundPosition, command::Command, topics::Topic};
use service_runtime::{Health, Shutdown, Supervisor};
use tokio::time::{Instant, interval, timeout_at};

use crate::{
    added_by::Consent,
    byte_budget::cost_bytes,
    config::{Config, IngestConfig},
    fair_pool::{FairPool, PoolPermit},
    inbound::{InboundRecord, producer_settings},
    metrics::PostMetrics,
    post::{Post, check_length, invalid_field},
    readiness,
    refusals::{not_appended, over_capacity, unknown_outcome},
    words::{self, Words},
};

/// This many bytes of a body, a line or a command in memory count as another event.
const EVENT_BYTES: usize = 1_024;

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// Checks posts and appends them. Clones share everything.
#[derive(Clone)]
pub struct Poster(Arc<Shared>);

struct Shared {
    config: IngestConfig,
    access: Access,
    /// The full name of `chat.inbound`.
    topic: String,
    producer: PostProducer<PoolPermit>,
    metrics: Arc<PostMetrics>,
    /// The bytes of single posts.
    singles: Arc<FairPool>,
    /// `None` if no dictionary is configured.
    words: Option<Arc<Words>>,
    /// `None` if any user may add any other one to groups.
    consent: Option<Consent>,
    shutdown: Shutdown,
}

/// Why a post was not admitted.
#[derive(Debug)]
pub enum NotAdmitted {
    /// 429: the caller's rate is used up, for this post and for later ones.
    AboveRate(Problem),
    /// 403, 503 or, for its words, 422: later posts may be admitted.
    Refused(Problem),
}

impl From<Problem> for NotAdmitted {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

impl From<NotAdmitted> for Problem {
    fn from(not_admitted: NotAdmitted) -> Self {
        match not_admitted {
            NotAdmitted::AboveRate(problem) | NotAdmitted::Refused(problem) => problem,
        }
    }
}

impl Poster {
    /// Starts the workers. Without Kafka `/readyz` (the check `<service>.kafka`) and posts respond with 503.
    ///
    /// # Errors
    /// If librdkafka refuses a setting, or the dictionary of words is not right.
    pub fn start(
        config: Config,
        kafka: &KafkaConfig,
        mysql: &MySqlConfig,
        access: &Access,
        supervisor: &Supervisor,
        health: &Health,
        service: &'static str,
    ) -> anyhow::Result<Self> {
        let reader = Arc::new(LogReader::new(kafka)?);
        let admin = Admin::new(kafka)?;
        let shutdown = supervisor.shutdown();
        let Config { ingest, groups } = config;
        let dictionary = ingest.word_dictionary.as_deref();
        let (words, text) = dictionary.map(Words::open).transpose()?.unzip();
        let words = words.map(Arc::new);
        let settings = producer_settings(&ingest, 0);
        let poster = Self(Arc::new(Shared {
            access: access.clone(),
            topic: kafka.topic(Topic::Inbound),
            producer: PostProducer::new(kafka, &settings)?,
            metrics: Arc::new(PostMetrics::register(service)),
            singles: FairPool::new(ingest.singles()),
            words: words.clone(),
            consent: Consent::new(groups, mysql),
            config: ingest,
            shutdown: shutdown.clone(),
        }));
        let check = health.check(format!("{service}.kafka"));
        supervisor.spawn(
            "ingest topic",
            readiness::watch_topic(admin, check.clone(), shutdown.clone()),
        );
        supervisor.spawn(
            "ingest readiness",
            readiness::watch(reader, poster.clone(), check, shutdown.clone()),
        );
        if let Some((words, text)) = words.zip(text) {
            supervisor.spawn("ingest words", words::watch(words, text, shutdown));
        }
        supervisor.spawn("ingest in flight", poster.clone().watch_bytes());
        Ok(poster)
    }

    /// Why single posts cannot be appended, if that is known.
    pub(crate) fn connection_error(&self) -> Option<String> {
        self.0.producer.connection_error()
    }

    /// Section `ingest`.
    #[must_use]
    pub fn config(&self) -> &IngestConfig {
        &self.0.config
    }

    /// The metrics of posts.
    #[must_use]
    pub fn metrics(&self) -> &Arc<PostMetrics> {
        &self.0.metrics
    }

    /// Checks a command that is in memory, and appends it. The position is that of `chat.inbound`.
    ///
    /// # Errors
    /// The problem with which a call would be answered.
    pub async fn post(
        &self,
        caller: &Caller,
        mut command: Command,
    ) -> Result<InboundPosition, Problem> {
        let deadline = Instant::now() + self.config().request_deadline();
        let bytes = command.kind_mut().text_mut().map_or(0, |text| text.len());
        let posted: Result<InboundPosition, Problem> = async {
            self.charge_event(caller)?;
            self.charge_size(caller, bytes)?;
            let permit = self
                .0
                .singles
                .try_acquire(caller, cost_bytes(bytes) as usize);
            let permit = permit.map_err(over_capacity)?;
            let mut post = Post::from(self.checked(command)?);
            post.identify(None)?;
            self.admit(caller, &mut post).await?;
            self.append(post, permit, deadline).await
        }
        .await;
        posted.inspect_err(|problem| self.0.metrics.rejected(problem.kind))
    }

    /// Checks a text, which no decoder has checked.
    fn checked(&self, mut command: Command) -> Result<Command, Problem> {
        if let Some(text) = command.kind_mut().text_mut() {
            check_length(text, self.config().max_msg_bytes)?;
        }
        match command {
            Command::Send(send) => Ok(send.checked().map_err(invalid_field)?.into()),
            command => Ok(command),
        }
    }

    /// Begins to acquire bytes for a post that arrives.
    ///
    /// # Errors
    /// 429.
    pub fn begin(&self, caller: &Caller) -> Result<PoolPermit, Problem> {
        let begun = self.0.singles.begin(caller, cost_bytes(0) as usize);
        begun.map_err(over_capacity)
    }

    /// Counts an event, before anything is read.
    ///
    /// # Errors
    /// 429.
    pub fn charge_event(&self, caller: &Caller) -> Result<(), Problem> {
        self.0.access.charge_event(caller)
    }

    /// Counts a large event as several: it takes as much of the log, and is sent on as often. One event is counted before anything is read.
    ///
    /// # Errors
    /// 429.
    pub fn charge_size(&self, caller: &Caller, bytes: usize) -> Result<(), Problem> {
        let further = u32::try_from(bytes / EVENT_BYTES).unwrap_or(u32::MAX);
        self.0.access.charge_events(caller, further)
    }

    /// Makes all checks of a post that need more than its fields, and counts the users whom it names.
    ///
    /// # Errors
    /// [`NotAdmitted`].
    pub async fn admit(&self, caller: &Caller, post: &mut Post) -> Result<(), NotAdmitted> {
        post.authorize(caller)?;
        self.charge_named(caller, post)
            .map_err(NotAdmitted::AboveRate)?;
        self.check_added(caller, post).await?;
        Ok(self.check_words(post)?)
    }

    /// Counts each user whom a post names as an event. The event that was counted before is one of these.
    ///
    /// # Errors
    /// 429.
    fn charge_named(&self, caller: &Caller, post: &Post) -> Result<(), Problem> {
        let further = post.named_users().saturating_sub(1);
        self.0.access.charge_events(caller, further)
    }

    /// Checks that the users whom a user adds to a group let that user do so.
    ///
    /// # Errors
    /// 403, or 503 if that cannot be read.
    async fn check_added(&self, caller: &Caller, post: &Post) -> Result<(), Problem> {
        match &self.0.consent {
            // Boxed: otherwise this rare check would make the futures of all posts deeper than the compiler follows.
            Some(consent) => Box::pin(consent.check(caller, post)).await,
            None => Ok(()),
        }
    }

    /// Applies the filter of words to a post, if there is one.
    ///
    /// # Errors
    /// 422.
    fn check_words(&self, post: &mut Post) -> Result<(), Problem> {
        match &self.0.words {
            Some(words) => words.apply(post),
            None => Ok(()),
        }
    }

    /// Appends a post that was admitted.
    ///
    /// # Errors
    /// 429 or 503.
    pub async fn append(
        &self,
        post: Post,
        permit: PoolPermit,
        deadline: Instant,
    ) -> Result<InboundPosition, Problem> {
        let id = post.retry_id();
        let record = InboundRecord::from(post);
        let started = Instant::now();
        let partition = record.partition;
        let appending = self.0.producer.append(record.append(&self.0.topic), permit);
        match timeout_at(deadline, appending).await {
            Ok(Ok(offset)) => {
                self.0.metrics.single_delivered(started.elapsed());
                self.0.metrics.accepted(record.label);
                Ok(InboundPosition { partition, offset })
            }
            Ok(Err(DeliveryFailure::Refused(reason))) => {
                tracing::warn!(%reason, %partition, "Kafka refused a record");
                Err(not_appended())
            }
            Ok(Err(DeliveryFailure::Unknown(reason))) => {
                tracing::debug!(%reason, %partition, "an append has an unknown outcome");
                Err(unknown_outcome(record.retry, id))
            }
            Err(_) => Err(unknown_outcome(record.retry, id)),
        }
    }

    /// Shows the bytes of single posts in the metrics.
    async fn watch_bytes(self) -> anyhow::Result<()> {
        let Shared {
            singles,
            producer,
            metrics,
            shutdown,
            ..
        } = &*self.0;
        let sample = || {
            metrics.in_flight_of_singles(singles.used());
            producer.fatal_error()
        };
        let connecting = shutdown
            .soft()
            .run_until_cancelled(producer.stay_connected());
        let watching = watch_producer(shutdown, sample, singles.drained());
        tokio::join!(connecting, watching).1
    }
}

/// Calls `sample` each second until shutdown, or fails with the fatal error of a producer that `sample` returns. Afterwards waits for `drained`: once all
/// bytes were given back every append has its delivery report, and no producer is dropped with records in its queue.
///
/// # Errors
/// The fatal error.
pub async fn watch_producer<D>(
    shutdown: &Shutdown,
    sample: impl Fn() -> Option<String>,
    drained: impl Future<Output = D>,
) -> anyhow::Result<()> {
    let mut ticks = interval(SAMPLE_INTERVAL);
    while !shutdown.soft().is_cancelled() {
        if let Some(error) = sample() {
            anyhow::bail!("a producer has a fatal error: {error}");
        }
        tokio::select! {
            _ = ticks.tick() => {}
            () = shutdown.soft().cancelled() => {}
        }
    }
    tokio::select! {
        _drained = drained => {}
        () = shutdown.hard().cancelled() => {}
    }
    Ok(())
}
