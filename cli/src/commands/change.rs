//! Changes to messages.

use serde_json::json;

use crate::{args::ChangeArgs, context::CommandContext};

/// Posts a change of this kind; `msg` is the text of an edit.
pub(super) async fn run(
    context: &CommandContext,
    kind: &str,
    args: &ChangeArgs,
    msg: Option<&str>,
    json: bool,
) -> anyhow::Result<()> {
    let mut body = json!({
        "by": args.by,
        "peer": args.peer,
        "gid": args.gid,
        "mid": args.mid,
        "kind": kind,
    });
    if let Some(msg) = msg {
        body["msg"] = msg.into();
    }
    let accepted = context.client()?.post("/v1/message-changes", &body).await?;
    super::print_accepted(&accepted, json);
    Ok(())
}
