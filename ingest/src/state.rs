//! What all requests share.

use std::sync::Arc;

use access::{Access, Caller, CallerQuota};
use problem::Problem;
use service_runtime::Shutdown;

use crate::{
    byte_budget::{ByteBudget, SinglePermit},
    config::{Config, IngestConfig},
    inbound::InboundProducer,
    metrics::IngestMetrics,
    post::Post,
    words::Words,
};

pub(crate) struct Ingest {
    pub(crate) config: IngestConfig,
    pub(crate) access: Access,
    pub(crate) inbound: InboundProducer,
    pub(crate) metrics: Arc<IngestMetrics>,
    /// The bytes of single posts.
    pub(crate) singles: ByteBudget,
    /// The same bytes, with a limit for each user.
    single_quota: Arc<CallerQuota>,
    /// The bytes of the lines and results of batches.
    pub(crate) batches: ByteBudget,
    /// The number of batches.
    pub(crate) batch_quota: Arc<CallerQuota>,
    /// `None` where no dictionary is configured.
    pub(crate) words: Option<Arc<Words>>,
    pub(crate) shutdown: Shutdown,
}

impl Ingest {
    pub(crate) fn new(config: Config, access: Access, shutdown: Shutdown) -> anyhow::Result<Self> {
        let inbound = InboundProducer::new(&config)?;
        let singles_bytes = config.ingest.in_flight_bytes / 4;
        let dictionary = config.ingest.word_dictionary.as_deref();
        Ok(Self {
            words: dictionary.map(Words::open).transpose()?.map(Arc::new),
            access,
            inbound,
            metrics: Arc::new(IngestMetrics::new()),
            singles: ByteBudget::new(singles_bytes),
            single_quota: CallerQuota::new(
                singles_bytes as usize,
                config.ingest.in_flight_bytes_of_user as usize,
            ),
            batches: ByteBudget::new(config.ingest.in_flight_bytes - singles_bytes),
            batch_quota: CallerQuota::new(
                config.ingest.max_batches,
                config.ingest.max_batches_of_user,
            ),
            config: config.ingest,
            shutdown,
        })
    }

    /// Counts the users whom a post names as an event each, the one that was counted before included.
    pub(crate) fn charge_named(&self, caller: &Caller, post: &Post) -> Result<(), Problem> {
        let further = post.named_users().saturating_sub(1);
        self.access.charge_events(caller, further)
    }

    /// Applies the filter of words to a post, if there is one.
    pub(crate) fn check_words(&self, post: &mut Post) -> Result<(), Problem> {
        match &self.words {
            Some(words) => words.apply(post),
            None => Ok(()),
        }
    }

    /// Acquires the bytes of a single post of `caller`, if they are free now.
    pub(crate) fn try_acquire_single(&self, caller: &Caller, bytes: u32) -> Option<SinglePermit> {
        let quota = self.single_quota.try_acquire(caller, bytes as usize)?;
        let bytes = self.singles.try_acquire(bytes)?;
        Some(SinglePermit { quota, bytes })
    }
}
