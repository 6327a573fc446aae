//! Tables that are built beside the live ones and then take their place (ADR 0008).
//!
//! `chat_msg_<n>_new` is the shadow of `chat_msg_<n>`; its offsets are in `resume_offset` under `messages.new`, and move with its
//! rows. The switch is one RENAME while the live offsets are locked.

mod fence;
mod lock;
mod run;
mod shadows;

pub use fence::Fence;
pub use lock::RebuildLock;
pub use shadows::{Leftover, Shadows};

use crate::{StoreError, names::shadow_sink_name, resume::check_topic};

/// Fills in a statement over the offsets of some shadows and of the tables that they stand for.
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
