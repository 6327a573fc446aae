use client::{Client, ClientError, Outcome};
use schemas::InboundPosition;
use serde_json::{Value, json};

use crate::{args::SendArgs, context::CommandContext};

pub(super) async fn run(
    context: &CommandContext,
    args: SendArgs,
    json: bool,
) -> anyhow::Result<()> {
    let client = context.client()?;
    // Generated here, so that it is known where no response comes.
    let id = args
        .client_msg_id
        .unwrap_or_else(|| client::new_client_msg_id().into_string());
    let body =
        json!({ "srcid": args.from, "destid": args.to, "msg": args.msg, "client_msg_id": id });
    let accepted: Value = match client.post("/v1/messages", &body).await {
        Err(error) if has_unknown_outcome(&error) => {
            if json {
                println!("{}", json!({ "state": "unknown", "client_msg_id": id }));
            }
            let what = format!(
                "the outcome is unknown; `--client-msg-id {id}` sends it again and never twice"
            );
            return Err(anyhow::Error::new(error).context(what));
        }
        accepted => accepted?,
    };
    let position = super::position_of(&accepted);
    if args.wait {
        let path = format!("/v1/users/{}/conversations/{}/messages", args.from, args.to);
        let query = [("limit", "1".to_owned()), ("after", position.clone())];
        client
            .get::<Value>(&super::with_query(&path, &query))
            .await?;
    }
    super::print_accepted(&accepted, json);
    if args.wait {
        fail_if_refused(&client, position.parse()?).await?;
    }
    Ok(())
}

fn has_unknown_outcome(error: &ClientError) -> bool {
    match error {
        ClientError::Timeout { .. } | ClientError::BrokenResponse { .. } => true,
        error => error
            .problem()
            .is_some_and(|problem| problem.is_unknown_outcome()),
    }
}

async fn fail_if_refused(client: &Client, position: InboundPosition) -> anyhow::Result<()> {
    match client.outcome(position).await? {
        Outcome::Refused { reason, detail } => {
            anyhow::bail!("the sequencer refused the message: {reason}: {detail}")
        }
        _ => Ok(()),
    }
}
