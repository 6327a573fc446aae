//! The accounts to which costs are charged.

use access::Caller;
use schemas::UserId;

/// A caller, as the limits on what is held at a time see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Account {
    User(UserId),
    /// By the id of its key.
    Service(String),
    /// Any caller, if callers are not authenticated.
    Anyone,
}

impl From<&Caller> for Account {
    fn from(caller: &Caller) -> Self {
        match caller {
            Caller::User(uid) => Self::User(*uid),
            Caller::Service(service) => Self::Service(service.id.clone()),
            Caller::Anyone => Self::Anyone,
        }
    }
}
