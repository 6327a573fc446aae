//! Who calls, and what that lets them do.

use std::{collections::BTreeSet, fmt, str::FromStr, sync::Arc};

use axum::{extract::FromRequestParts, http::request::Parts};
use problem::Problem;
use schemas::UserId;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::config::LimitConfig;

/// The sender of a request. In handlers an extractor: calls that [`crate::Access::guard`] guards have one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A user, by the subject of a token.
    User(UserId),
    /// A service, by its key.
    Service(Arc<Service>),
    /// There is no authentication.
    Anyone,
}

/// When the token or key of a call ends. An extractor, as [`Caller`] is: for calls that last longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidUntil(pub Option<OffsetDateTime>);

/// A service, as the entry of its key has it.
#[derive(Debug, PartialEq, Eq)]
pub struct Service {
    /// Names its key; no secret.
    pub id: String,
    /// For people.
    pub name: String,
    /// What it may do.
    pub scopes: BTreeSet<Scope>,
    /// How much it may do.
    pub limits: Option<LimitConfig>,
}

/// What a service may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scope {
    /// Send messages and read-acks in any user's name.
    #[serde(rename = "send:any")]
    SendAny,
    /// Read what any user may.
    #[serde(rename = "read:any")]
    ReadAny,
    /// All of that, and see metrics.
    #[serde(rename = "admin")]
    Admin,
}

impl Caller {
    /// Whether it may send what is in the name of `uid`, which `field` names.
    ///
    /// # Errors
    /// 403 that names the field.
    pub fn may_send_as(&self, uid: UserId, field: &str) -> Result<(), Problem> {
        if self.is_allowed(Some(uid), Scope::SendAny) {
            return Ok(());
        }
        Err(Problem::forbidden_field(
            field,
            format_args!("is {uid}"),
            self.right(Scope::SendAny),
        ))
    }

    /// Whether it may read what only `uid` may.
    ///
    /// # Errors
    /// 403.
    pub fn may_read(&self, uid: UserId) -> Result<(), Problem> {
        if self.is_allowed(Some(uid), Scope::ReadAny) {
            return Ok(());
        }
        Err(Problem::forbidden_field(
            "uid",
            format_args!("is {uid}"),
            self.right(Scope::ReadAny),
        ))
    }

    /// Whether it may read what every user may.
    ///
    /// # Errors
    /// 403.
    pub fn may_read_as_a_user(&self) -> Result<(), Problem> {
        if matches!(self, Self::User(_)) || self.is_allowed(None, Scope::ReadAny) {
            return Ok(());
        }
        Err(Problem::forbidden(
            "this call takes a user's token, or a service key with the scope read:any",
        ))
    }

    /// Whether it may read what only one of `users` may. Returns no problem, since others may not know that the data exists.
    #[must_use]
    pub fn is_one_of(&self, users: &[UserId]) -> bool {
        self.is_allowed(None, Scope::ReadAny)
            || matches!(self, Self::User(uid) if users.contains(uid))
    }

    /// Whether it may see what is only for the operator.
    ///
    /// # Errors
    /// 403.
    pub fn may_administer(&self) -> Result<(), Problem> {
        if self.is_allowed(None, Scope::Admin) {
            return Ok(());
        }
        Err(Problem::forbidden(
            "this call takes a service key with the scope admin",
        ))
    }

    fn is_allowed(&self, uid: Option<UserId>, scope: Scope) -> bool {
        match self {
            Self::Anyone => true,
            Self::User(subject) => uid == Some(*subject),
            Self::Service(service) => service.has(scope),
        }
    }

    /// What would be right, as the end of "must be …".
    fn right(&self, scope: Scope) -> String {
        match self {
            Self::User(subject) => format!("{subject}, the subject of the token"),
            Self::Service(_) | Self::Anyone => {
                format!("the caller's own, or the service key must have the scope {scope}")
            }
        }
    }
}

impl Service {
    fn has(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }
}

impl Scope {
    /// Every scope there is.
    pub const ALL: [Self; 3] = [Self::SendAny, Self::ReadAny, Self::Admin];
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SendAny => "send:any",
            Self::ReadAny => "read:any",
            Self::Admin => "admin",
        })
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|one| one.to_string() == name);
        named.ok_or_else(|| "must be send:any, read:any or admin".to_owned())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        extension(parts)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ValidUntil {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        extension(parts)
    }
}

/// Without the extension the call is not guarded: a defect, which must not open anything.
fn extension<T: Clone + Send + Sync + 'static>(parts: &Parts) -> Result<T, Problem> {
    let found = parts.extensions.get().cloned();
    found.ok_or_else(Problem::internal)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn user(uid: i64) -> UserId {
        uid.try_into().unwrap()
    }

    fn service(scopes: impl IntoIterator<Item = Scope>) -> Caller {
        Caller::Service(Arc::new(Service {
            id: "a1".to_owned(),
            name: "mailer".to_owned(),
            scopes: scopes.into_iter().collect(),
            limits: None,
        }))
    }

    #[test]
    fn a_refusal_names_the_field_and_who_might() {
        let refused = Caller::User(user(7))
            .may_send_as(user(8), "message.srcid")
            .unwrap_err();
        assert_eq!(refused.status, 403);
        assert_eq!(
            refused.detail,
            "message.srcid is 8; must be 7, the subject of the token"
        );
        let refused = service([Scope::ReadAny])
            .may_send_as(user(8), "srcid")
            .unwrap_err();
        assert!(refused.detail.contains("scope send:any"), "{refused}");
    }

    #[test]
    fn admin_includes_the_others_and_they_do_not_include_each_other() {
        let admin = service([Scope::Admin]);
        assert!(admin.may_send_as(user(1), "srcid").is_ok());
        assert!(admin.may_read(user(1)).is_ok() && admin.may_administer().is_ok());
        let sender = service([Scope::SendAny]);
        assert!(sender.may_send_as(user(1), "srcid").is_ok());
        assert!(sender.may_read(user(1)).is_err() && sender.may_administer().is_err());
        let reader = service([Scope::ReadAny]);
        assert!(reader.may_read(user(1)).is_ok() && reader.is_one_of(&[]));
        assert!(reader.may_send_as(user(1), "srcid").is_err());
    }

    #[test]
    fn without_authentication_everything_is_allowed() {
        assert!(Caller::Anyone.may_read(user(1)).is_ok());
        assert!(Caller::Anyone.is_one_of(&[]) && Caller::Anyone.may_administer().is_ok());
    }

    proptest! {
        #[test]
        fn a_user_may_what_is_theirs_and_nothing_else(subject in 1..i64::MAX, uid in 1..i64::MAX) {
            for uid in [subject, uid] {
                let (caller, own) = (Caller::User(user(subject)), subject == uid);
                prop_assert_eq!(caller.may_send_as(user(uid), "srcid").is_ok(), own);
                prop_assert_eq!(caller.may_read(user(uid)).is_ok(), own);
                prop_assert_eq!(caller.is_one_of(&[user(uid)]), own);
                prop_assert!(caller.may_administer().is_err());
            }
        }
    }

    #[test]
    fn scopes_read_back() {
        for scope in Scope::ALL {
            assert_eq!(scope.to_string().parse(), Ok(scope));
            assert_eq!(serde_json::to_value(scope).unwrap(), scope.to_string());
        }
        assert!("send".parse::<Scope>().is_err());
    }
}
