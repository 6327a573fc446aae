//! Reads of raw keys, for operators and the audit.

use std::collections::{BTreeMap, BTreeSet};

use schemas::{DeviceClass, PerDevice, UserId};

use crate::{Connection, UnreadError, UserState};

/// A key's value, and when it expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawKey<T> {
    /// The value.
    pub value: T,
    /// Milliseconds since 1970; `None` for a key that never expires, which is an error for all keys of this crate.
    pub expires_at_ms: Option<i64>,
}

/// A user's keys, read in one transaction; `None` for a key that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawUser {
    /// The state, of any generation.
    pub state: Option<RawKey<UserState>>,
    /// The views `pc-<uid>` and `mobile-<uid>`: peer and unread count.
    pub views: PerDevice<Option<RawKey<BTreeMap<UserId, i64>>>>,
}

/// Some of the users that have a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanPage {
    /// Users with at least one of the keys. A user may be on more than one page.
    pub users: BTreeSet<UserId>,
    /// The cursor of the next page; `None` after the last one.
    pub next: Option<u64>,
}

/// The memory limit of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// `noeviction`; under any other policy the server drops keys by itself.
    pub policy: String,
    /// Whether the limit is reached: the server refuses writes, or drops keys.
    pub is_reached: bool,
}

/// How many keys a page scans, roughly.
const KEYS_PER_PAGE: usize = 1_000;

type Hash = BTreeMap<String, String>;

impl Connection {
    /// The server's memory limit; `None` if it does not tell.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn memory_limit(&self) -> Result<Option<MemoryLimit>, UnreadError> {
        let mut cmd = redis::cmd("INFO");
        cmd.arg("memory");
        let info: String = self.run_one(cmd).await?;
        let value = |name: &str| {
            let fields = info.lines().filter_map(|line| line.split_once(':'));
            let found = fields.into_iter().find(|(field, _)| *field == name);
            found.map(|(_, value)| value)
        };
        let number = |name| value(name)?.parse::<u64>().ok();
        let (Some(policy), Some(most), Some(used)) = (
            value("maxmemory_policy"),
            number("maxmemory"),
            number("used_memory"),
        ) else {
            return Ok(None);
        };
        Ok(Some(MemoryLimit {
            policy: policy.to_owned(),
            is_reached: most > 0 && used >= most,
        }))
    }

    /// Reads a user's keys, without renewing their expiry.
    ///
    /// # Errors
    /// [`UnreadError::Malformed`] if a key has a value that this crate never writes; [`UnreadError::Transient`].
    pub async fn read_state(&self, uid: UserId) -> Result<RawUser, UnreadError> {
        let keys = self.keys();
        let names = [
            keys.state(uid),
            keys.view(DeviceClass::Pc, uid),
            keys.view(DeviceClass::Mobile, uid),
        ];
        let mut pipe = redis::pipe();
        pipe.atomic();
        for name in &names {
            pipe.cmd("HGETALL").arg(name);
            pipe.cmd("PEXPIRETIME").arg(name);
        }
        let read = self.run(&pipe).await;
        let read: (Hash, i64, Hash, i64, Hash, i64) =
            read.map_err(|error| name_wrong_type(error, &names))?;
        let (state, state_at, pc, pc_at, mobile, mobile_at) = read;
        let state = UserState::parse(&names[0], state)?;
        Ok(RawUser {
            state: state.map(|state| raw(state, state_at)),
            views: PerDevice {
                pc: parse_view(&names[1], &pc)?.map(|view| raw(view, pc_at)),
                mobile: parse_view(&names[2], &mobile)?.map(|view| raw(view, mobile_at)),
            },
        })
    }

    /// One page of the users that have a state or a view; the first page has cursor 0.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn scan_users(&self, cursor: u64) -> Result<ScanPage, UnreadError> {
        self.scan(cursor, |key| self.keys().user_of(key)).await
    }

    /// Deletes every key under the prefix, which is that of a scratch, page by page. Without a prefix it deletes nothing.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn drop_all(&self) -> Result<(), UnreadError> {
        if self.keys().scan_pattern().is_none() {
            return Ok(());
        }
        let mut cursor = Some(0);
        while let Some(at) = cursor {
            let (next, keys) = self.scan_keys(at).await?;
            if !keys.is_empty() {
                let mut drop = redis::cmd("UNLINK");
                drop.arg(keys);
                let _: i64 = self.run_one(drop).await?;
            }
            cursor = next;
        }
        Ok(())
    }

    /// One page of all keys under the prefix, and the cursor of the next page.
    async fn scan_keys(&self, cursor: u64) -> Result<(Option<u64>, Vec<Vec<u8>>), UnreadError> {
        let mut cmd = redis::cmd("SCAN");
        cmd.arg(cursor).arg("COUNT").arg(KEYS_PER_PAGE);
        if let Some(pattern) = self.keys().scan_pattern() {
            cmd.arg("MATCH").arg(pattern);
        }
        let (next, keys): (u64, Vec<Vec<u8>>) = self.run_one(cmd).await?;
        Ok(((next != 0).then_some(next), keys))
    }

    /// One page of the users of these keys.
    pub(crate) async fn scan(
        &self,
        cursor: u64,
        user_of: impl Fn(&str) -> Option<UserId>,
    ) -> Result<ScanPage, UnreadError> {
        let (next, keys) = self.scan_keys(cursor).await?;
        let user = |key: &Vec<u8>| user_of(std::str::from_utf8(key).ok()?);
        Ok(ScanPage {
            users: keys.iter().filter_map(user).collect(),
            next,
        })
    }
}

/// Turns `WRONGTYPE` into [`UnreadError::Malformed`] with the key. Two commands were sent for each key.
fn name_wrong_type(error: UnreadError, keys: &[String; 3]) -> UnreadError {
    let UnreadError::Transient(error) = error else {
        return error;
    };
    let refused = error.clone().into_server_errors();
    let wrong = refused
        .iter()
        .flat_map(|errors| errors.iter())
        .find(|(_, error)| error.code() == "WRONGTYPE")
        .and_then(|(command, _)| keys.get(command / 2));
    match wrong {
        Some(key) => UnreadError::malformed(key, "it is not a hash"),
        None => UnreadError::Transient(error),
    }
}

fn raw<T>(value: T, expires_at_ms: i64) -> RawKey<T> {
    RawKey {
        value,
        expires_at_ms: (expires_at_ms >= 0).then_some(expires_at_ms),
    }
}

fn parse_view(key: &str, fields: &Hash) -> Result<Option<BTreeMap<UserId, i64>>, UnreadError> {
    if fields.is_empty() {
        return Ok(None);
    }
    let entry = |(peer, count): (&String, &String)| {
        let peer: UserId = peer.parse().map_err(|e| UnreadError::malformed(key, e))?;
        let count: i64 = count.parse().map_err(|e| UnreadError::malformed(key, e))?;
        Ok((peer, count))
    };
    fields.iter().map(entry).collect::<Result<_, _>>().map(Some)
}
