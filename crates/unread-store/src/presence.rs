//! The users who are connected to a gateway: `presence-<uid>`, under the leases of gateways.

use std::{fmt, str::FromStr};

use redis::{Cmd, FromRedisValue as _, Value};
use schemas::{DeviceClass, DeviceId, TimestampMs, UserId};

use crate::{Connection, UnreadError, scripts};

/// How long Redis keeps when a user was last seen.
const LAST_SEEN_TTL_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

/// Names a connection: the lease under which it is written, and its number under that lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    /// The gateway's lease.
    pub lease: String,
    /// The gateway's own number for the connection.
    pub number: u64,
}

/// A connection of a device to a gateway.
#[derive(Clone, Debug)]
pub struct PresentConnection {
    /// The user of the device.
    pub uid: UserId,
    /// The connection's number under the lease.
    pub number: u64,
    /// The device's class.
    pub class: DeviceClass,
    /// The device.
    pub device: DeviceId,
    /// When it was established, as Redis said when it was first written.
    pub connected_at: Option<TimestampMs>,
    /// How long ago it was established, milliseconds; used until Redis has said when.
    pub age_ms: u64,
}

/// A connection that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedConnection {
    /// When it was established.
    pub connected_at: TimestampMs,
    /// Whether the user was away before.
    pub is_first: bool,
    /// The connections that this one replaces; it may be one of them itself.
    pub replaced: Vec<ConnectionId>,
}

/// Whether a user is connected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserPresence {
    /// The classes of the connected devices; empty if the user is away.
    pub classes: Vec<DeviceClass>,
    /// When a user who is away was last seen. After a crash of a gateway this may be some minutes too early.
    pub last_seen: Option<TimestampMs>,
}

impl Connection {
    /// Begins a lease that did not exist before: what is written under it counts as long as it lasts.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn begin_lease(&self, lease: &str, lease_ms: u64) -> Result<(), UnreadError> {
        self.hold_lease(lease, lease_ms, true).await.map(drop)
    }

    /// Renews a lease; `false` if it has ended: then nothing that was written under it counts any more.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn renew_lease(&self, lease: &str, lease_ms: u64) -> Result<bool, UnreadError> {
        self.hold_lease(lease, lease_ms, false).await
    }

    async fn hold_lease(
        &self,
        lease: &str,
        lease_ms: u64,
        begins: bool,
    ) -> Result<bool, UnreadError> {
        let keys = [self.keys().gateway_leases()];
        let mut cmd = scripts::call(&scripts::HOLD_LEASE, &keys);
        cmd.arg(lease).arg(lease_ms).arg(u8::from(begins));
        self.run_one(cmd).await
    }

    /// Ends a lease: what was written under it no longer counts.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn end_lease(&self, lease: &str) -> Result<(), UnreadError> {
        let mut cmd = redis::cmd("ZREM");
        cmd.arg(self.keys().gateway_leases()).arg(lease);
        self.run_one(cmd).await
    }

    /// Writes connections of users of this slot; a user may have `max_devices` of a class. Returns `None` for each if the lease has ended.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn add_connections(
        &self,
        lease: &str,
        connections: &[PresentConnection],
        max_devices: usize,
    ) -> Result<Vec<Option<AddedConnection>>, UnreadError> {
        let mut pipe = redis::pipe();
        for added in connections {
            let mut cmd = self.presence_command(&scripts::ADD_CONNECTION, added.uid);
            cmd.arg(lease).arg(added.number);
            cmd.arg(added.class.as_str()).arg(added.device.as_str());
            match added.connected_at {
                Some(connected_at) => cmd.arg(connected_at.0),
                None => cmd.arg(""),
            };
            cmd.arg(added.age_ms).arg(max_devices).arg(LAST_SEEN_TTL_MS);
            pipe.add_command(cmd);
        }
        let answers: Vec<Vec<Value>> = self.run(&pipe).await?;
        answers
            .into_iter()
            .map(|answer| added(answer).map_err(UnreadError::Transient))
            .collect()
    }

    /// Removes connections, each given with its user. Returns the users who were connected before and are away now.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn remove_connections(
        &self,
        lease: &str,
        connections: &[(UserId, u64)],
    ) -> Result<Vec<UserId>, UnreadError> {
        let mut pipe = redis::pipe();
        for (uid, number) in connections {
            let mut cmd = self.presence_command(&scripts::REMOVE_CONNECTION, *uid);
            cmd.arg(lease).arg(number).arg(LAST_SEEN_TTL_MS);
            pipe.add_command(cmd);
        }
        let away: Vec<bool> = self.run(&pipe).await?;
        let users = connections.iter().zip(away);
        Ok(users
            .filter_map(|((uid, _), away)| away.then_some(*uid))
            .collect())
    }

    /// Whether users of this slot are connected, in their order.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn read_presence(&self, uids: &[UserId]) -> Result<Vec<UserPresence>, UnreadError> {
        let mut pipe = redis::pipe();
        for uid in uids {
            pipe.add_command(self.presence_command(&scripts::READ_PRESENCE, *uid));
        }
        let answers: Vec<Vec<Value>> = self.run(&pipe).await?;
        let answers = answers.into_iter();
        answers
            .map(|answer| presence(answer).map_err(UnreadError::Transient))
            .collect()
    }

    fn presence_command(&self, script: &redis::Script, uid: UserId) -> Cmd {
        let keys = [self.keys().presence(uid), self.keys().gateway_leases()];
        scripts::call(script, &keys)
    }
}

fn added(answer: Vec<Value>) -> redis::RedisResult<Option<AddedConnection>> {
    let mut parts = answer.into_iter();
    let mut number = || i64::from_redis_value(parts.next().unwrap_or(Value::Nil));
    if number()? == 0 {
        return Ok(None);
    }
    let (connected_at, is_first) = (number()?, number()? == 1);
    let replaced: Vec<String> = parts
        .map(String::from_redis_value)
        .collect::<Result<_, _>>()?;
    Ok(Some(AddedConnection {
        connected_at: TimestampMs(connected_at),
        is_first,
        replaced: replaced.iter().filter_map(|id| id.parse().ok()).collect(),
    }))
}

fn presence(answer: Vec<Value>) -> redis::RedisResult<UserPresence> {
    let mut parts = answer.into_iter();
    let seen = i64::from_redis_value(parts.next().unwrap_or(Value::Nil))?;
    let classes: Vec<String> = parts
        .map(String::from_redis_value)
        .collect::<Result<_, _>>()?;
    let mut classes: Vec<DeviceClass> = classes
        .iter()
        .filter_map(|class| class.parse().ok())
        .collect();
    classes.sort_unstable();
    classes.dedup();
    let last_seen = (classes.is_empty() && seen > 0).then_some(TimestampMs(seen));
    Ok(UserPresence { classes, last_seen })
}

/// `<lease>:<number>`, as in the hash.
impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.lease, self.number)
    }
}

impl FromStr for ConnectionId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (lease, number) = text.rsplit_once(':').ok_or(())?;
        Ok(Self {
            lease: lease.to_owned(),
            number: number.parse().map_err(|_| ())?,
        })
    }
}
