use serde_json::{Value, json};

use crate::{args::AckArgs, handles::Handles, up_to::UpTo};

pub(super) async fn run(handles: &Handles, args: &AckArgs, json: bool) -> anyhow::Result<()> {
    let mut body = json!({ "uid": args.uid, "peer": args.peer, "device": args.device });
    body["mid"] = match args.mid {
        UpTo::Latest => Value::from("latest"),
        UpTo::Message(mid) => Value::from(mid),
    };
    let accepted = handles.client()?.post("/v1/read-acks", &body).await?;
    if json {
        println!("{accepted}");
    } else {
        println!("on the log at {}", super::position_of(&accepted));
    }
    Ok(())
}
