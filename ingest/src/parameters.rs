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
