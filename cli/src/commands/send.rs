use client::{AcceptedBody, Client, ClientError, MessageBody, Outcome, new_command_id};
use schemas::InboundPosition;
use serde_json::{Value, json};

use crate::{answers, args::SendArgs, context::CommandContext};

pub(super) async fn run(
    context: &CommandContext,
    args: SendArgs,
    json: bool,
) -> anyhow::Result<()> {
    let client = context.client()?;
    // Generated here, so that it is known where no response comes.
    let id = args.client_msg_id.unwrap_or_else(new_command_id);
    let body = MessageBody {
        srcid: args.from,
        destid: Some(args.to),
        gid: None,
        client_msg_id: Some(id.clone()),
        msg: args.msg,
    };
    let accepted: AcceptedBody = match client.post("/v1/messages", &body).await {
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
    let position = accepted.position();
    if args.wait {
        let path = format!("/v1/users/{}/conversations/{}/messages", args.from, args.to);
        let query = [("limit", "1".to_owned()), ("after", position.to_string())];
        client
            .get::<Value>(&answers::with_query(&path, &query))
            .await?;
    }
    answers::print_accepted(&accepted, json);
    if args.wait {
        fail_if_refused(&client, position).await?;
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
