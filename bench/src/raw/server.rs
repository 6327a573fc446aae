//! A bare axum server that makes query-api's calls to the stores, and nothing else: no callers, parameters, limits,
//! `after=` or metrics. It runs as a process of its own, as query-api does.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Result;
use axum::{
    Json, Router,
    extract::{Path, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{AppendHeaders, IntoResponse},
    routing::get,
};
use clap::Args;
use message_store::{MessageStore, ReadTx};
use redis::{AsyncCommands as _, aio::MultiplexedConnection};
use schemas::{DeviceClass, DirectConversation, GroupId, Mid, UserId};
use serde::Serialize;
use tokio::net::TcpListener;
use unread_store::{Expiry, SharedConnections, UnreadView};

use crate::progress::{message_store, unread_store};

/// One more than a page has: whether there are more.
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
    caches: MultiplexedConnection,
    messages: MessageStore,
}

#[derive(Serialize)]
struct Unread {
    unread: BTreeMap<UserId, i64>,
}

#[derive(Serialize)]
struct Item {
    srcid: UserId,
    #[serde(skip_serializing_if = "Option::is_none")]
    destid: Option<UserId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gid: Option<GroupId>,
    mid: i64,
    ts: i64,
    client_msg_id: String,
    msg: String,
}

/// Serves until it is killed.
///
/// # Errors
/// The port is taken, or an address is none.
pub(crate) async fn serve(args: &ServerArgs) -> Result<()> {
    let stores = Stores {
        redis: SharedConnections::new(unread_store(&args.redis)?),
        caches: caches(&args.redis).await?,
        messages: message_store(&args.mysql)?,
    };
    let calls = Router::new()
        .route("/unread/{uid}", get(unread))
        .route("/messages/{uid}/{peer}", get(messages))
        .route("/group-messages/{uid}/{gid}", get(group_messages))
        .route(
            "/cached-group-messages/{uid}/{gid}",
            get(cached_group_messages),
        )
        .route(
            "/validated-group-messages/{uid}/{gid}",
            get(validated_group_messages),
        )
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
        destid: Some(conversation.peer_of(row.srcid)),
        gid: None,
        mid: row.mid.get(),
        ts: row.ts.0,
        client_msg_id: row.client_msg_id.to_string(),
        msg: row.msg,
    });
    Ok(Json(items.collect()))
}

async fn group_messages(
    State(stores): State<Arc<Stores>>,
    Path((uid, gid)): Path<(i64, i64)>,
) -> Answer<Vec<Item>> {
    let (gid, mut tx) = group(&stores, uid, gid).await?;
    let rows = tx.page_before(gid, None, Mid::ZERO, PAGE).await;
    let items = rows.map_err(failed)?.into_iter().take(PAGE as usize - 1);
    let items = items.map(|row| Item {
        srcid: row.srcid,
        destid: None,
        gid: Some(gid),
        mid: row.mid.get(),
        ts: row.ts.0,
        client_msg_id: row.client_msg_id.to_string(),
        msg: row.msg,
    });
    Ok(Json(items.collect()))
}

/// The same if a cache has the newest messages as they are shown, and the member's own row says all about the membership: no cache costs less.
async fn cached_group_messages(
    State(stores): State<Arc<Stores>>,
    Path((uid, gid)): Path<(i64, i64)>,
) -> Result<impl IntoResponse, (StatusCode, String)> {
    let (_, gid) = member(&stores, uid, gid).await?;
    newest_of_cache(&stores, gid).await
}

/// The same if the group is read from MySQL all the same, and says which version of the cache is right: nothing that is out of date is shown.
async fn validated_group_messages(
    State(stores): State<Arc<Stores>>,
    Path((uid, gid)): Path<(i64, i64)>,
) -> Result<impl IntoResponse, (StatusCode, String)> {
    let (gid, tx) = group(&stores, uid, gid).await?;
    drop(tx);
    newest_of_cache(&stores, gid).await
}

async fn newest_of_cache(
    stores: &Stores,
    gid: GroupId,
) -> Result<impl IntoResponse + use<>, (StatusCode, String)> {
    let mut redis = stores.caches.clone();
    let newest = redis.zrevrange(cache_key(gid), 0, PAGE as isize - 2);
    let items: Vec<String> = newest.await.map_err(failed)?;
    let json = format!("[{}]", items.join(","));
    Ok((AppendHeaders([(CONTENT_TYPE, "application/json")]), json))
}

async fn member(
    stores: &Stores,
    uid: i64,
    gid: i64,
) -> Result<(UserId, GroupId), (StatusCode, String)> {
    let uid = UserId::try_from(uid).map_err(failed)?;
    let gid = GroupId::try_from(gid).map_err(failed)?;
    let own = stores.messages.layout().shard_of_user(uid);
    let mut tx = stores.messages.snapshot(own).await.map_err(failed)?;
    let row = tx.membership(uid, gid).await.map_err(failed)?;
    row.ok_or_else(|| failed(format!("{uid} is no member of {gid}")))?;
    Ok((uid, gid))
}

/// A group of which the user is a member, and a snapshot of its database in which it was read.
async fn group(
    stores: &Stores,
    uid: i64,
    gid: i64,
) -> Result<(GroupId, ReadTx), (StatusCode, String)> {
    let (uid, gid) = member(stores, uid, gid).await?;
    let shard = stores.messages.layout().shard_of(gid.partition());
    let mut tx = stores.messages.snapshot(shard).await.map_err(failed)?;
    tx.group_heads(uid, &[gid]).await.map_err(failed)?;
    Ok((gid, tx))
}

/// Where the newest messages of a group are cached: a sorted set of JSON by mid.
pub(crate) fn cache_key(gid: GroupId) -> String {
    format!("gmsg-{gid}")
}

/// A connection for such caches.
///
/// # Errors
/// Redis does not answer.
pub(crate) async fn caches(redis_url: &str) -> Result<MultiplexedConnection> {
    let client = redis::Client::open(redis_url)?;
    Ok(client.get_multiplexed_async_connection().await?)
}

fn failed(why: impl ToString) -> (StatusCode, String) {
    (StatusCode::INTERNAL_SERVER_ERROR, why.to_string())
}
