use client::{Client, ClientError, Outcome, Query};
use schemas::{ClientMsgId, InboundPosition};
use serde_json::{Value, json};

use crate::{answers, args::SendArgs, context::CommandContext, failure::Failure};

pub(super) async fn run(
    context: &CommandContext,
    args: SendArgs,
    json: bool,
) -> anyhow::Result<()> {
    let client = context.client()?;
    let mut message = client::message(args.from, args.to, args.msg);
    if let Some(id) = args.client_msg_id {
        message.client_msg_id = client_msg_id(id)?;
    }
    let id = message.client_msg_id.to_string();
    let accepted = match client.post_command(message).await {
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
        let query = Query::of(path).with("limit", [1]).with("after", [position]);
        client.get::<Value>(query.path()).await?;
    }
    answers::print_accepted(&accepted, json);
    if args.wait {
        fail_if_refused(&client, position).await?;
    }
    Ok(())
}

/// An id that is given on the command line.
pub(super) fn client_msg_id(id: String) -> anyhow::Result<ClientMsgId> {
    let id = ClientMsgId::try_from(id);
    id.map_err(|wrong| Failure::Usage(format!("--client-msg-id {wrong}")).into())
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
