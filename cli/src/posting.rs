//! Posts batches to ingest and keeps what was accepted, with when.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use futures::StreamExt as _;
use schemas::{InboundPosition, Partition};
use serde::Deserialize;
use serde_json::Value;

use crate::client::Client;

/// How often lines that may succeed later are posted again.
const ATTEMPTS: u32 = 20;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// One accepted line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted {
    /// Where it lies in `chat.inbound`.
    pub(crate) position: InboundPosition,
    /// When its answer was read.
    pub(crate) at: Instant,
}

/// A line that ingest refused for good.
#[derive(Clone, Debug)]
pub(crate) struct Rejected {
    /// Its number among those posted, from 1.
    pub(crate) line: usize,
    /// Why.
    pub(crate) problem: Value,
}

/// What became of the lines.
#[derive(Default)]
pub(crate) struct Posted {
    pub(crate) accepted: Vec<Accepted>,
    pub(crate) rejected: Vec<Rejected>,
}

/// One line of the answer.
#[derive(Deserialize)]
struct Answer {
    line: Option<usize>,
    status: Option<u16>,
    partition: Option<i64>,
    offset: Option<i64>,
    #[serde(flatten)]
    rest: serde_json::Map<String, Value>,
}

/// Posts `lines` in order, `batch` to a request, one request after the other; `progress` hears how many are answered.
/// Lines that ingest could not take now, or of which it does not know, are posted again: their ids make that safe.
pub(crate) async fn post(
    client: &Client,
    lines: &[String],
    batch: usize,
    mut progress: impl FnMut(usize),
) -> anyhow::Result<Posted> {
    let mut posted = Posted::default();
    for (start, chunk) in (0..).step_by(batch.max(1)).zip(lines.chunks(batch.max(1))) {
        let mut open: Vec<(usize, &String)> = (start + 1..).zip(chunk).collect();
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            open = post_once(client, open, &mut posted, &mut progress).await?;
            if open.is_empty() {
                break;
            }
            anyhow::ensure!(
                attempt < ATTEMPTS,
                "{} lines were not taken after {ATTEMPTS} attempts",
                open.len()
            );
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
    Ok(posted)
}

/// One request; gives back the lines to be posted again.
async fn post_once<'a>(
    client: &Client,
    lines: Vec<(usize, &'a String)>,
    posted: &mut Posted,
    progress: &mut impl FnMut(usize),
) -> anyhow::Result<Vec<(usize, &'a String)>> {
    let mut body = String::with_capacity(lines.iter().map(|(_, line)| line.len() + 1).sum());
    for (_, line) in &lines {
        body.push_str(line);
        body.push('\n');
    }
    let mut answers = client.post_events(body.into()).await?.bytes_stream();
    let mut again = Vec::new();
    let mut buffer = Vec::new();
    let mut answered = 0;
    while let Some(bytes) = answers.next().await {
        let at = Instant::now();
        buffer.extend_from_slice(&bytes.context("the answer broke off")?);
        let whole = buffer
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        for answer in buffer[..whole]
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let answer: Answer = serde_json::from_slice(answer).context("an answer is not JSON")?;
            let Some(number) = answer.line else { continue };
            let (line, text) = *lines
                .get(number.wrapping_sub(1))
                .context("an answer for no line")?;
            answered += 1;
            match answer.status {
                Some(202) => {
                    posted.accepted.push(Accepted {
                        position: position(&answer)?,
                        at,
                    });
                    progress(1);
                }
                Some(429 | 500..) => again.push((line, text)),
                _ => {
                    let problem = Value::Object(answer.rest);
                    posted.rejected.push(Rejected { line, problem });
                    progress(1);
                }
            }
        }
        buffer.drain(..whole);
    }
    // A stream that ended early says nothing of the rest.
    again.extend(lines.iter().skip(answered));
    Ok(again)
}

fn position(answer: &Answer) -> anyhow::Result<InboundPosition> {
    let (Some(partition), Some(offset)) = (answer.partition, answer.offset) else {
        anyhow::bail!("an accepted line without partition and offset");
    };
    Ok(InboundPosition {
        partition: Partition::try_from(partition)?,
        offset,
    })
}

/// Posts one message; where it lies, and when that was heard.
pub(crate) async fn post_single(client: Arc<Client>, body: Value) -> anyhow::Result<Accepted> {
    let answer = client.post("/v1/messages", &body).await?;
    let at = Instant::now();
    let answer: Answer = serde_json::from_value(answer)?;
    Ok(Accepted {
        position: position(&answer)?,
        at,
    })
}
