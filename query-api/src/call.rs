//! A call: what all calls share, and the account that this one reads for.

use std::{ops::Deref, sync::Arc};

use access::{Caller, QuotaPermit};
use axum::{
    Extension,
    extract::{FromRef, FromRequestParts, State},
    http::request::Parts,
    response::{IntoResponse as _, Response},
};
use message_store::{Shard, StoreError};
use schemas::UserId;
use tokio::time::sleep;

use crate::{
    call_slot::CallSlot,
    deadline::Deadline,
    error::{Lag, QueryError},
    snapshot::Snapshot,
    state::QueryApi,
};

/// An extractor; only calls inside the limits have one.
pub(crate) struct Call {
    shared: Arc<QueryApi>,
    slot: Arc<CallSlot>,
    /// The user of the token; `None` for services and for callers without authentication, which read for many users.
    account: Option<UserId>,
}

impl Deref for Call {
    type Target = QueryApi;

    fn deref(&self) -> &QueryApi {
        &self.shared
    }
}

impl<S> FromRequestParts<S> for Call
where
    Arc<QueryApi>: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let caller = Caller::from_request_parts(parts, state).await;
        let caller = caller.map_err(|refusal| refusal.into_response())?;
        let slot = Extension::<Arc<CallSlot>>::from_request_parts(parts, state).await;
        let Extension(slot) = slot.map_err(|refusal| refusal.into_response())?;
        let Ok(State(shared)) = State::from_request_parts(parts, state).await;
        Ok(Self {
            shared,
            slot,
            account: match caller {
                Caller::User(uid) => Some(uid),
                Caller::Service(_) | Caller::Anyone => None,
            },
        })
    }
}

impl Call {
    /// A snapshot of a database, over a connection of the user's share.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn snapshot(&self, shard: Shard) -> Result<Snapshot, StoreError> {
        let place = self.connection(shard).await;
        Ok(Snapshot::new(self.store.snapshot(shard).await?, place))
    }

    /// A place among the connections to a database's server; `None` if the call is not a user's. A call that has to wait gives up its slot meanwhile.
    pub(crate) async fn connection(&self, shard: Shard) -> Option<QuotaPermit> {
        let caller = Caller::User(self.account?);
        let places = &self.connections[self.store.layout().server_of(shard)];
        match places.try_acquire(&caller, 1) {
            Some(place) => Some(place),
            None => Some(self.slot.without(places.acquire(&caller, 1)).await),
        }
    }

    /// Waits, without the call's slot, for something that is not read on this call's account.
    pub(crate) async fn waiting<T>(&self, wait: impl Future<Output = T>) -> T {
        self.slot.without(wait).await
    }

    /// Takes a slot again after a wait that was dropped.
    pub(crate) async fn go_on(&self) {
        self.slot.again().await;
    }

    /// Repeats `attempt` until no store lags, and waits for the store that lags before each repetition. Ends at once if the log lacks what is
    /// required, since no store will ever have it then.
    ///
    /// # Errors
    /// Those of `attempt`; 504 at the deadline, or if the log lacks what is required.
    pub(crate) async fn poll<T, F>(
        &self,
        deadline: Deadline,
        attempt: impl Fn() -> F,
    ) -> Result<T, QueryError>
    where
        F: Future<Output = Result<T, QueryError>>,
    {
        let lag = match deadline.bound(attempt()).await? {
            Err(QueryError::Lagging(lag)) => lag,
            outcome => return outcome,
        };
        let required = lag.missing.clone();
        tokio::select! {
            outcome = self.repeat(deadline, lag, attempt) => outcome,
            error = self.log_lacks(&required) => Err(error),
        }
    }

    /// Repeats `attempt`, which has found that a store lags, until none does. The call has no slot while it waits.
    ///
    /// # Errors
    /// As [`Deadline::repeat`].
    pub(crate) async fn repeat<T, F>(
        &self,
        deadline: Deadline,
        lag: Lag,
        attempt: impl Fn() -> F,
    ) -> Result<T, QueryError>
    where
        F: Future<Output = Result<T, QueryError>>,
    {
        let wait = async |delay, lag| {
            let caught_up = async {
                sleep(delay).await;
                Box::pin(self.catch_up(lag)).await
            };
            self.waiting(caught_up).await
        };
        deadline.repeat(lag, attempt, wait).await
    }
}
