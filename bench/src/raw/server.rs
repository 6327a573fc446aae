//! A bare axum server that makes query-api's calls to the stores, and nothing else: no callers, parameters, limits, `after=` or metrics. The server
//! runs as a process of its own, as query-api does.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Result;
use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    routing::get,
};
use clap::Args;
use message_store::MessageStore;
use schemas::{DeviceClass, DirectConversation, Mid, UserId};
use serde::Serialize;
use tokio::net::TcpListener;
use unread_store::{Expiry, SharedConnections, UnreadView};

use crate::progress::{message_store, unread_store};

/// One row more than a page has, which shows whether there are more.
const PAGE: u32 = 51;

/// Where it listens, and what it reads from.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    #[arg(long)]
    pub(crate) port: u16,
    #[arg(long)]
    pub(crate) redis: String,
    #[arg(long)]
    pub(crate) mysql: String,
}

struct Stores {
    redis: SharedConnections,
    messages: MessageStore,
}

#[derive(Serialize)]
struct Unread {
    unread: BTreeMap<UserId, i64>,
}

#[derive(Serialize)]
struct Item {
    srcid: UserId,
    destid: UserId,
    mid: i64,
    ts: i64,
    client_msg_id: String,
    msg: String,
}

/// Serves until it is killed.
///
/// # Errors
/// If the port is taken, or an address is invalid.
pub(crate) async fn serve(args: &ServerArgs) -> Result<()> {
    let stores = Stores {
        redis: SharedConnections::new(unread_store(&args.redis)?),
        messages: message_store(&args.mysql)?,
    };
    let calls = Router::new()
        .route("/unread/{uid}", get(unread))
        .route("/messages/{uid}/{peer}", get(messages))
        .with_state(Arc::new(stores));
    let listener = TcpListener::bind(("127.0.0.1", args.port)).await?;
    axum::serve(listener, calls).await?;
    Ok(())
}

type Answer<T> = Result<Json<T>, (StatusCode, String)>;

async fn unread(State(stores): State<Arc<Stores>>, Path(uid): Path<i64>) -> Answer<Unread> {
    let uid = UserId::try_from(uid).map_err(failed)?;
    let connection = stores.redis.of(uid).await.map_err(failed)?;
    let view = connection.read_unread(uid, DeviceClass::Pc, Expiry::Renew);
    match view.await.map_err(failed)? {
        UnreadView::Complete { counts, .. } => Ok(Json(Unread { unread: counts })),
        absent => Err(failed(format!("{absent:?}"))),
    }
}

async fn messages(
    State(stores): State<Arc<Stores>>,
    Path((uid, peer)): Path<(i64, i64)>,
) -> Answer<Vec<Item>> {
    let user = |uid| UserId::try_from(uid).map_err(failed);
    let (uid, peer) = (user(uid)?, user(peer)?);
    let layout = stores.messages.layout();
    let own = layout.shard_of_user(uid);
    let mut tx = stores.messages.snapshot(own).await.map_err(failed)?;
    tx.contact(uid, peer).await.map_err(failed)?;
    drop(tx);
    let conversation = DirectConversation::new(uid, peer);
    let shard = layout.shard_of(conversation.partition());
    let mut tx = stores.messages.snapshot(shard).await.map_err(failed)?;
    let rows = tx
        .page_before(conversation, None, Mid::ZERO, PAGE)
        .await
        .map_err(failed)?;
    let items = rows.into_iter().take(PAGE as usize - 1);
    let items = items.map(|row| Item {
        srcid: row.srcid,
        destid: conversation.peer_of(row.srcid),
        mid: row.mid.get(),
        ts: row.ts.0,
        client_msg_id: row.client_msg_id.to_string(),
        msg: row.msg,
    });
    Ok(Json(items.collect()))
}

fn failed(why: impl ToString) -> (StatusCode, String) {
    (StatusCode::INTERNAL_SERVER_ERROR, why.to_string())
}
