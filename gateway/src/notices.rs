//! Notices of other gateways. Without Redis none arrive, and everything else goes on.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use unread_store::{Notice, UnreadError};

use crate::{metrics, state::Gateway, typing};

const RETRY: Duration = Duration::from_millis(500);

/// Listens until the shutdown.
pub(crate) async fn listen(gateway: Arc<Gateway>) -> anyhow::Result<()> {
    let mut attempt = 0;
    let mut is_known = false;
    while !gateway.shutdown.soft().is_cancelled() {
        let following = follow(&gateway, attempt, &mut is_known);
        tokio::select! {
            Err(error) = following => {
                metrics::redis_up(false);
                if !is_known {
                    is_known = true;
                    tracing::warn!(%error, "other gateways are not heard: no typing, and presence is late");
                }
            }
            () = gateway.shutdown.soft().cancelled() => break,
        }
        sleep(RETRY).await;
        attempt += 1;
    }
    Ok(())
}

async fn follow(
    gateway: &Gateway,
    attempt: usize,
    failure_is_known: &mut bool,
) -> Result<(), UnreadError> {
    let mut subscription = gateway.redis.store().subscribe(attempt).await?;
    metrics::redis_up(true);
    if std::mem::take(failure_is_known) {
        tracing::info!("other gateways are heard again");
    }
    loop {
        match subscription.next().await? {
            Notice::Typing { from, to } => {
                metrics::notice("typing");
                let focus = &gateway.focus;
                let receivers = gateway.typing.receivers(&gateway.hub(), focus, from, to);
                typing::notify(&receivers, from, to);
            }
            Notice::Presence(uid) => {
                metrics::notice("presence");
                gateway.presence.mark_stale_if_watched(uid);
            }
            Notice::Replaced(uid, id) => {
                metrics::notice("replaced");
                gateway.presence.replace(uid, &id);
            }
        }
    }
}
