use serde_json::{Value, json};

use crate::{args::AckArgs, handles::Handles};

pub(super) async fn run(handles: &Handles, args: &AckArgs, json: bool) -> anyhow::Result<()> {
    let mut body = json!({ "uid": args.uid, "peer": args.peer, "device": args.device });
    body["mid"] = args.mid.map_or_else(|| Value::from("latest"), Value::from);
    let accepted = handles.client()?.post("/v1/read-acks", &body).await?;
    if json {
        println!("{accepted}");
    } else {
        println!("on the log at {}", super::position_of(&accepted));
    }
    Ok(())
}
