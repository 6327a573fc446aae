//! What all requests share.

use std::sync::Arc;

use access::{Access, Caller};
use problem::Problem;
use service_runtime::Shutdown;

use crate::{
    added_by::Consent,
    byte_budget::ByteBudget,
    config::{Config, IngestConfig},
    fair_pool::FairPool,
    inbound::InboundProducer,
    metrics::IngestMetrics,
    post::Post,
    words::Words,
};

/// As many bytes of a body, a line or an event in memory count as another event.
const EVENT_BYTES: usize = 1_024;

pub(crate) struct Ingest {
    pub(crate) config: IngestConfig,
    pub(crate) access: Access,
    pub(crate) inbound: InboundProducer,
    pub(crate) metrics: Arc<IngestMetrics>,
    /// The bytes of single posts.
    pub(crate) singles: Arc<FairPool>,
    /// The bytes of the lines and results of batches.
    pub(crate) batches: ByteBudget,
    /// The batches that are read at a time.
    pub(crate) places: Arc<FairPool>,
    /// `None` where no dictionary is configured.
    pub(crate) words: Option<Arc<Words>>,
    /// `None` where any user may add any other one to groups.
    pub(crate) consent: Option<Consent>,
    pub(crate) shutdown: Shutdown,
}

impl Ingest {
    pub(crate) fn new(config: Config, access: Access, shutdown: Shutdown) -> anyhow::Result<Self> {
        let inbound = InboundProducer::new(&config)?;
        let dictionary = config.ingest.word_dictionary.as_deref();
        Ok(Self {
            words: dictionary.map(Words::open).transpose()?.map(Arc::new),
            access,
            inbound,
            metrics: Arc::new(IngestMetrics::new()),
            singles: FairPool::new(config.ingest.singles()),
            batches: config.ingest.batches(),
            places: FairPool::new(config.ingest.places()),
            consent: Consent::new(config.groups, &config.mysql),
            config: config.ingest,
            shutdown,
        })
    }

    /// Checks all that is not said by a single post's fields alone, and counts whom it names.
    pub(crate) async fn admit(&self, caller: &Caller, post: &mut Post) -> Result<(), Problem> {
        post.authorize(caller)?;
        self.charge_named(caller, post)?;
        self.check_added(caller, post).await?;
        self.check_words(post)
    }

    /// Counts the users whom a post names as an event each, the one that was counted before included.
    pub(crate) fn charge_named(&self, caller: &Caller, post: &Post) -> Result<(), Problem> {
        let further = post.named_users().saturating_sub(1);
        self.access.charge_events(caller, further)
    }

    /// Checks that those whom a user adds to a group let him do so.
    pub(crate) async fn check_added(&self, caller: &Caller, post: &Post) -> Result<(), Problem> {
        match &self.consent {
            Some(consent) => consent.check(caller, post).await,
            None => Ok(()),
        }
    }

    /// Applies the filter of words to a post, if there is one.
    pub(crate) fn check_words(&self, post: &mut Post) -> Result<(), Problem> {
        match &self.words {
            Some(words) => words.apply(post),
            None => Ok(()),
        }
    }

    /// Counts what is large as several events: it takes as much of the log, and is sent on as often. One event is counted before anything is
    /// read.
    pub(crate) fn charge_size(&self, caller: &Caller, bytes: usize) -> Result<(), Problem> {
        let further = u32::try_from(bytes / EVENT_BYTES).unwrap_or(u32::MAX);
        self.access.charge_events(caller, further)
    }
}
