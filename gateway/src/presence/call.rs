//! `GET /v1/presence`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use access::{Access, Caller};
use api::PresenceBody;
use axum::{Extension, Json, extract::State};
use problem::{Problem, Query};
use schemas::{Excerpt, UserId};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::Presence;

/// How many users a call asks for at most.
const MAX_USERS: usize = 100;
/// How long MySQL and Redis may take together; after that nothing is known.
const READ_TIME: Duration = Duration::from_secs(2);
/// How many calls are answered at a time; of one user.
pub(super) const CALLS: usize = 256;
pub(super) const CALLS_OF_USER: usize = 2;
/// After this a call that was one too many may be tried again, seconds.
const RETRY_AFTER_S: u64 = 1;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PresenceQuery {
    /// With commas between them, or the parameter repeated.
    #[serde(default)]
    uid: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct PresenceAnswer {
    /// By uid.
    items: Vec<PresenceBody>,
}

/// Whether users are connected to any gateway. A user learns it of users who have written to them and do not block them.
pub(crate) async fn get_presence(
    State(presence): State<Arc<Presence>>,
    Extension(access): Extension<Access>,
    caller: Caller,
    Query(query): Query<PresenceQuery>,
) -> Result<Json<PresenceAnswer>, Problem> {
    caller.may_read_as_a_user()?;
    let uids = users(&query.uid)?;
    access.charge_users(&caller, uids.len())?;
    let Some(_place) = presence.calls.try_acquire(&caller, 1) else {
        return Err(Problem::too_many_requests(RETRY_AFTER_S));
    };
    let read = timeout(READ_TIME, presence.shown_to(&caller, &uids)).await;
    let unknown = || uids.iter().copied().map(PresenceBody::unknown).collect();
    let items = read.unwrap_or_else(|_| unknown());
    Ok(Json(PresenceAnswer { items }))
}

impl Presence {
    /// What a caller may know of these users, by uid.
    async fn shown_to(&self, caller: &Caller, uids: &BTreeSet<UserId>) -> Vec<PresenceBody> {
        let all = uids.iter().copied();
        let seen: Vec<UserId> = match caller {
            Caller::User(seer) => {
                let pairs: Vec<_> = all.map(|uid| (*seer, uid)).collect();
                let seen = self.who_sees(&pairs).await;
                seen.into_iter().map(|(_, uid)| uid).collect()
            }
            Caller::Service(_) | Caller::Anyone => all.collect(),
        };
        let shown = self.read(&seen).await.into_iter();
        let mut shown: BTreeMap<_, _> = shown.map(|one| (one.uid, one)).collect();
        let shown = |uid: &UserId| {
            shown
                .remove(uid)
                .unwrap_or_else(|| PresenceBody::unknown(*uid))
        };
        uids.iter().map(shown).collect()
    }
}

fn users(given: &[String]) -> Result<BTreeSet<UserId>, Problem> {
    let right = format_args!(
        "1 to {MAX_USERS} uids, decimal integers from 1 to {}, with commas between them",
        i64::MAX
    );
    let texts = || given.iter().flat_map(|text| text.split(','));
    let count = texts().count();
    if count > MAX_USERS {
        let wrong = format_args!("has {count} uids");
        return Err(Problem::invalid_field("uid", wrong, right));
    }
    if count == 0 {
        return Err(Problem::invalid_field("uid", "is absent", right));
    }
    let parsed = texts().map(|text| {
        let wrong = format_args!("has {:?}", Excerpt(text));
        let uid = text.parse();
        uid.map_err(|_| Problem::invalid_field("uid", wrong, right))
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_100_uids_come_in_either_form() {
        let parsed = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(|text| (*text).to_owned()).collect();
            let uids = users(&given).ok()?;
            Some(uids.into_iter().map(UserId::get).collect::<Vec<_>>())
        };
        assert_eq!(parsed(&["3,1", "2", "1"]), Some(vec![1, 2, 3]));
        assert!(parsed(&["1"; 100]).is_some());
        for wrong in [&[][..], &[""], &["1,"], &["0"], &["x"], &["1"; 101]] {
            assert_eq!(parsed(wrong), None, "{wrong:?}");
        }
        let wrong = users(&["1,x".to_owned()]).unwrap_err();
        let right = "must be 1 to 100 uids, decimal integers from 1 to 9223372036854775807, with commas between them";
        assert_eq!(wrong.detail, format!("uid has \"x\"; {right}"));
    }
}
