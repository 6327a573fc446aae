use std::collections::BTreeSet;

use access::{Access, Caller};
use api::{Profiles, UserProfile};
use axum::{Extension, Json};
use problem::{FieldError, Path, Problem, Query};
use schemas::UserId;

use crate::{
    after::RequiredWatermarks,
    call::Call,
    deadline::Deadline,
    error::QueryError,
    openapi::Refusal,
    parameters::{UserPath, query_parameters},
    profiles,
};

/// How many profiles a call returns at most.
const MAX_USERS: usize = 100;

query_parameters! {
    /// As of when.
    struct ProfileQuery, after = "41:42" {}
}

query_parameters! {
    /// Whose, and as of when.
    struct ProfilesQuery, after = "41:42" {
        /// The users, up to 100: with commas between them, or the parameter repeated.
        #[serde(default)]
        #[param(example = json!(["1000,1001"]))]
        uid: Vec<String>,
    }
}

/// Read a profile
///
/// Every user may read everybody's.
#[utoipa::path(
    get,
    path = "/v1/users/{uid}/profile",
    tag = "query",
    params(UserPath, ProfileQuery),
    responses(
        (status = 200, description = "The profile.", body = UserProfile),
        Refusal,
        (status = 404, description = "The user has set none.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get_profile(
    call: Call,
    caller: Caller,
    Path(UserPath { uid }): Path<UserPath>,
    Query(query): Query<ProfileQuery>,
) -> Result<Json<UserProfile>, QueryError> {
    caller.may_read_as_a_user()?;
    let deadline = Deadline::in_time(query.timeout_ms);
    let required = RequiredWatermarks::parse(&query.after, call.epoch.get())?;
    let uids = BTreeSet::from([uid]);
    let (mut found, as_of) = profiles::read(&call, &uids, &required, deadline).await?;
    let profile = found
        .remove(&uid)
        .ok_or_else(|| Problem::not_found(format_args!("profile of {uid}")))?;
    Ok(Json(UserProfile {
        uid,
        profile,
        as_of: as_of.positions(),
    }))
}

/// Read profiles of several users
///
/// Every user may read everybody's. Of the caller's rate limit ten users take as much as a call.
#[utoipa::path(
    get,
    path = "/v1/profiles",
    tag = "query",
    params(ProfilesQuery),
    responses(
        (status = 200, description = "Those that there are; none is not an error.", body = Profiles),
        Refusal,
    ),
)]
pub(crate) async fn get_profiles(
    call: Call,
    Extension(access): Extension<Access>,
    caller: Caller,
    Query(query): Query<ProfilesQuery>,
) -> Result<Json<Profiles>, QueryError> {
    caller.may_read_as_a_user()?;
    let deadline = Deadline::in_time(query.timeout_ms);
    let required = RequiredWatermarks::parse(&query.after, call.epoch.get())?;
    let uids = users(&query.uid)?;
    access.charge_users(&caller, uids.len())?;
    let (profiles, as_of) = profiles::read(&call, &uids, &required, deadline).await?;
    let as_of = as_of.positions();
    Ok(Json(Profiles { profiles, as_of }))
}

fn users(given: &[String]) -> Result<BTreeSet<UserId>, Problem> {
    let right = format!("1 to {MAX_USERS} uids, with commas between them");
    let texts = given.iter().flat_map(|text| text.split(','));
    // One more shows that there are too many.
    let uids: Result<BTreeSet<UserId>, _> = texts.take(MAX_USERS + 1).map(str::parse).collect();
    let count = given.iter().flat_map(|text| text.split(',')).count();
    match uids {
        Ok(_) if count > MAX_USERS => {
            let wrong = format!("has {count} uids");
            Err(Problem::invalid_field("uid", wrong, right))
        }
        Ok(uids) if uids.is_empty() => Err(Problem::invalid_field("uid", "is absent", right)),
        Ok(uids) => Ok(uids),
        Err(wrong) => Err(Problem::invalid_fields(vec![FieldError {
            field: "uid".to_owned(),
            message: wrong.to_string(),
        }])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(given: &[&str]) -> Result<Vec<i64>, String> {
        let given: Vec<String> = given.iter().map(|text| (*text).to_owned()).collect();
        let uids = users(&given).map_err(|problem| problem.errors[0].field.clone())?;
        Ok(uids.into_iter().map(UserId::get).collect())
    }

    #[test]
    fn up_to_100_uids_come_in_either_form() {
        assert_eq!(parsed(&["3,1", "2", "1"]), Ok(vec![1, 2, 3]));
        let many = |count: i64| {
            let uids: Vec<String> = (1..=count).map(|uid| uid.to_string()).collect();
            parsed(&[&uids.join(",")])
        };
        assert_eq!(many(100).unwrap().len(), 100);
        assert!(many(101).is_err());
        // Repeats count: what is asked for is bounded, not what is left of it.
        assert!(parsed(&["1"; 101]).is_err());
        for wrong in [&[][..], &[""], &["1,"], &["0"], &["1, 2"], &["x"]] {
            assert_eq!(parsed(wrong), Err("uid".to_owned()), "{wrong:?}");
        }
    }
}
