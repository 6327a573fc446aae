//! What operators and the audit look at.

use std::collections::{BTreeMap, BTreeSet};

use schemas::{DeviceClass, UserId};

use crate::{Connection, UnreadError, UserState};

/// A key's value and when it expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawKey<T> {
    /// The value.
    pub value: T,
    /// Milliseconds since 1970; `None` for a key that never expires, which none of ours should be.
    pub expires_at_ms: Option<i64>,
}

/// A user's three keys at one moment, as they stand; `None` for a key that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawUser {
    /// The state, of whatever generation.
    pub state: Option<RawKey<UserState>>,
    /// The view `pc-<uid>`.
    pub pc: Option<RawKey<BTreeMap<UserId, i64>>>,
    /// The view `mobile-<uid>`.
    pub mobile: Option<RawKey<BTreeMap<UserId, i64>>>,
}

/// Some of the users that have a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanPage {
    /// Users with at least one of the three keys. A user may come on more than one page.
    pub users: BTreeSet<UserId>,
    /// What to go on with; `None` after the last page.
    pub next: Option<u64>,
}

/// How many keys a page looks at, roughly.
const KEYS_PER_PAGE: usize = 1_000;

type Hash = BTreeMap<String, String>;

impl Connection {
    /// A user's keys as they stand. No expiry is changed.
    ///
    /// # Errors
    /// [`UnreadError::Malformed`] where a key holds what is not ours; [`UnreadError::Transient`].
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
        let answers = self.run(&pipe).await;
        let answers: (Hash, i64, Hash, i64, Hash, i64) =
            answers.map_err(|error| name_wrong_type(error, &names))?;
        let (state, state_at, pc, pc_at, mobile, mobile_at) = answers;
        let state = UserState::parse(&names[0], state)?;
        Ok(RawUser {
            state: state.map(|state| raw(state, state_at)),
            pc: parse_view(&names[1], &pc)?.map(|view| raw(view, pc_at)),
            mobile: parse_view(&names[2], &mobile)?.map(|view| raw(view, mobile_at)),
        })
    }

    /// Users that have a state or a view, page by page; begin with cursor 0.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn scan_users(&self, cursor: u64) -> Result<ScanPage, UnreadError> {
        let mut cmd = redis::cmd("SCAN");
        cmd.arg(cursor).arg("COUNT").arg(KEYS_PER_PAGE);
        let (next, keys): (u64, Vec<Vec<u8>>) = self.run_one(cmd).await?;
        let user = |key: &Vec<u8>| self.keys().user_of(std::str::from_utf8(key).ok()?);
        Ok(ScanPage {
            users: keys.iter().filter_map(user).collect(),
            next: (next != 0).then_some(next),
        })
    }
}

/// A key of another type is not ours. Two commands were sent for each key.
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
        Some(key) => UnreadError::malformed(key, "it is no hash"),
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
