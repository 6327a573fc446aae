//! Shadow tables, which are built beside the live ones and then replace them (ADR 0008).
//!
//! `chat_msg_<n>_new` is the shadow of `chat_msg_<n>`; its offsets are in `resume_offset` under `messages.new`, and are committed with its
//! rows. The swap is one RENAME while the live offsets are locked.

mod fence;
mod full_rebuild;
mod lock;
mod shadows;

pub use fence::Fence;
pub use lock::RebuildLock;
pub(crate) use shadows::tables_of;
pub use shadows::{ShadowState, Shadows};

use crate::{StoreError, names::shadow_sink_name, resume::check_topic};

/// Fills in a statement about the offsets of shadow tables and of their live tables.
fn of_offsets(
    template: &str,
    table: &str,
    topic: &str,
    shadows: &Shadows,
) -> Result<String, StoreError> {
    check_topic(topic)?;
    let partitions: Vec<String> = shadows.partitions.iter().map(ToString::to_string).collect();
    Ok(template
        .replace("{table}", table)
        .replace("{live}", shadows.sink.name())
        .replace("{built}", &shadow_sink_name(shadows.sink))
        .replace("{topic}", topic)
        .replace("{partitions}", &partitions.join(", ")))
}
