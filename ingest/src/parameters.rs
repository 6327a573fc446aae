//! Parameters of paths.

use schemas::{GroupId, UserId};
use serde::Deserialize;
use utoipa::IntoParams;

/// A user in a path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct UserPath {
    /// Whose profile it is.
    #[param(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1001")]
    pub(crate) uid: UserId,
}

/// A group in a path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct GroupPath {
    /// The group.
    #[param(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "5000")]
    pub(crate) gid: GroupId,
}

/// The header of a call that is repeated.
#[derive(IntoParams)]
#[into_params(parameter_in = Header, names("Idempotency-Key"))]
#[expect(dead_code, reason = "it is only described")]
pub(crate) struct IdempotencyKey(
    /// The caller's own id of this command, 1 to 64 visible characters, taken as it is: `client_msg_id` of a message, `command_id` of everything else. Where the body has it, too, both are the same.
    #[param(value_type = Option<String>, min_length = 1, max_length = 64)]
    Option<String>,
);
