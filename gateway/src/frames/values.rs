//! How values in frames look, for the description: their own types come from crates that describe nothing.

#![expect(dead_code, reason = "they are only described")]

use utoipa::ToSchema;

/// A user or a group: 63 bits, more than a number of JavaScript has.
#[derive(ToSchema)]
#[schema(pattern = "^[1-9][0-9]{0,18}$", examples("1000"))]
pub(super) struct Id(String);

/// The id that a device has chosen for itself.
#[derive(ToSchema)]
#[schema(pattern = "^[A-Za-z0-9._-]{1,64}$", examples("phone-1"))]
pub(super) struct ShortId(String);

/// A position in a log: partition and offset.
#[derive(ToSchema)]
#[schema(pattern = "^[0-9]{1,2}:[0-9]{1,19}$", examples("17:42"))]
pub(super) struct At(String);

/// A class of devices; a user has a read position on each.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(super) enum DeviceClass {
    Pc,
    Mobile,
}
