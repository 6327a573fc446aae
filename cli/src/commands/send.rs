use serde_json::{Value, json};

use crate::{args::SendArgs, context::CommandContext};

pub(super) async fn run(
    context: &CommandContext,
    args: SendArgs,
    json: bool,
) -> anyhow::Result<()> {
    let client = context.client()?;
    let mut body = json!({ "srcid": args.from, "destid": args.to, "msg": args.msg });
    if let Some(id) = args.client_msg_id {
        body["client_msg_id"] = Value::from(id);
    }
    let accepted = client.post::<Value>("/v1/messages", &body).await?;
    let position = super::position_of(&accepted);
    if args.wait {
        let path = format!("/v1/users/{}/conversations/{}/messages", args.from, args.to);
        let query = [("limit", "1".to_owned()), ("after", position.clone())];
        client
            .get::<Value>(&super::with_query(&path, &query))
            .await?;
    }
    if json {
        println!("{accepted}");
    } else {
        println!("on the log at {position}; `tidemark where {position}` says what became of it");
    }
    Ok(())
}
