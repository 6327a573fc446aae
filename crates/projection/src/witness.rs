//! What a lane knows of the log below its positions.

use std::{sync::Arc, time::Duration};

use event_log::{EventLogError, LogReader};
use schemas::Partition;
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::timeout,
};

use crate::{
    Settings, SinkError,
    look_back::{Kept, Leaders, Looked, look_back},
};

/// How long a lane waits for a look; one that takes longer goes on meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks at the log before a lane reads on from its positions.
pub(crate) struct Witness {
    log: Arc<LogReader>,
    leaders: Leaders,
    /// A look that has not ended, and what it is at.
    under_way: Option<(Kept, JoinHandle<Result<Looked, EventLogError>>)>,
}

impl Witness {
    pub(crate) fn new(log: Arc<LogReader>) -> Self {
        Self {
            log,
            leaders: Leaders::new(),
            under_way: None,
        }
    }

    /// Fails if the log below a position is not what was read there, or the brokers do not say.
    pub(crate) async fn confirm(
        &mut self,
        kept: Kept,
        settings: &Settings,
    ) -> Result<(), SinkError> {
        let unanswered =
            |why: String| SinkError::Transient(format!("looking back in chat.events: {why}"));
        let mut looking = self.look(kept.clone());
        let Ok(ended) = timeout(PATIENCE, &mut looking).await else {
            self.under_way = Some((kept, looking));
            return Err(unanswered("it takes long".to_owned()));
        };
        let looked = ended
            .expect("reading the log does not panic")
            .map_err(|fault| unanswered(fault.to_string()))?;
        for (partition, epoch) in looked.leaders {
            self.note_leader(partition, epoch);
        }
        if looked.gone_back.is_empty() {
            Ok(())
        } else {
            Err(SinkError::Fatal(settings.gone_back(&looked.gone_back)))
        }
    }

    /// The look at these positions that is under way, or another.
    fn look(&mut self, kept: Kept) -> JoinHandle<Result<Looked, EventLogError>> {
        match self.under_way.take() {
            Some((of, looking)) if of == kept => looking,
            _ => {
                let log = Arc::clone(&self.log);
                spawn_blocking(move || look_back(&log, &kept))
            }
        }
    }

    /// A record was seen that a leader of this epoch had appended.
    pub(crate) fn note_leader(&mut self, partition: Partition, epoch: i32) {
        let known = self.leaders.entry(partition).or_insert(epoch);
        *known = epoch.max(*known);
    }

    /// The highest epoch of a leader that had appended anything when positions were confirmed.
    pub(crate) fn leader_epoch(&self, partition: Partition) -> Option<i32> {
        self.leaders.get(&partition).copied()
    }

    pub(crate) fn forget(&mut self, partition: Partition) {
        self.leaders.remove(&partition);
    }
}
