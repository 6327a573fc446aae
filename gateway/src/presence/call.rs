//! `GET /v1/presence`.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use access::Caller;
use axum::{Json, extract::State};
use problem::{Problem, Query};
use schemas::{Excerpt, UserId};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::Presence;
use crate::frames::PresenceBody;

/// How many users a call asks for at most.
const MAX_USERS: usize = 100;
/// How long Redis may take; after that nothing is known.
const READ_TIME: Duration = Duration::from_secs(2);

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

/// Whether users are connected to any gateway. A user learns it of those who have written to him and do not block him.
pub(crate) async fn get_presence(
    State(presence): State<Arc<Presence>>,
    caller: Caller,
    Query(query): Query<PresenceQuery>,
) -> Result<Json<PresenceAnswer>, Problem> {
    caller.may_read_as_a_user()?;
    let uids = users(&query.uid)?;
    let mut seen = Vec::new();
    let mut items = Vec::new();
    for uid in uids {
        let is_seen = match caller {
            Caller::User(seer) => presence.may_see(seer, uid).await,
            Caller::Service(_) | Caller::Anyone => true,
        };
        match is_seen {
            true => seen.push(uid),
            false => items.push(PresenceBody::unknown(uid)),
        }
    }
    let read = timeout(READ_TIME, presence.read(&seen)).await;
    let unknown = || seen.iter().copied().map(PresenceBody::unknown).collect();
    items.extend(read.unwrap_or_else(|_| unknown()));
    items.sort_by_key(|presence| presence.uid);
    Ok(Json(PresenceAnswer { items }))
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
