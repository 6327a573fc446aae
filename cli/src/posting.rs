//! Posts events to ingest, many to a request, and records when each was accepted.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use futures::{StreamExt as _, future::try_join_all};
use schemas::{InboundPosition, Partition};
use serde::Deserialize;
use serde_json::Value;

use crate::{client::Client, input::Line};

/// How many requests [`post_parallel`] has open at a time.
const CONNECTIONS: usize = 4;
/// How often lines that may succeed later are posted again where none of them does.
const ATTEMPTS: u32 = 20;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// One accepted line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted {
    /// Its number among those posted, from 1.
    pub(crate) line: usize,
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

/// Posts `lines` in order, `batch` to a request, one request after the other.
pub(crate) async fn post(
    client: &Client,
    lines: &[String],
    batch: usize,
) -> anyhow::Result<Posted> {
    let lines: Vec<(usize, &String)> = (1..).zip(lines).collect();
    post_in_order(client, &lines, batch, &|_| ()).await
}

/// Posts `lines` over several connections at once. A conversation's lines keep their order: they share a connection.
/// `progress` is called with the number of lines answered.
pub(crate) async fn post_parallel(
    client: &Client,
    lines: &[Line],
    batch: usize,
    progress: &impl Fn(usize),
) -> anyhow::Result<Posted> {
    let mut by_connection = vec![Vec::new(); CONNECTIONS];
    for line in lines {
        let connection = line.partition.map_or(0, Partition::index) % CONNECTIONS;
        by_connection[connection].push((line.number, &line.text));
    }
    let posts = by_connection
        .iter()
        .map(|lines| post_in_order(client, lines, batch, progress));
    let mut all = Posted::default();
    for posted in try_join_all(posts).await? {
        all.accepted.extend(posted.accepted);
        all.rejected.extend(posted.rejected);
    }
    all.rejected.sort_by_key(|one| one.line);
    Ok(all)
}

/// Lines that ingest could not take now, or whose outcome is unknown, are posted again: their ids make that safe.
async fn post_in_order(
    client: &Client,
    lines: &[(usize, &String)],
    batch: usize,
    progress: &impl Fn(usize),
) -> anyhow::Result<Posted> {
    let mut posted = Posted::default();
    for chunk in lines.chunks(batch.max(1)) {
        let mut open = chunk.to_vec();
        let mut pause = FIRST_PAUSE;
        let mut in_vain = 0;
        loop {
            let before = open.len();
            open = post_once(client, open, &mut posted, progress).await?;
            if open.is_empty() {
                break;
            }
            in_vain = if open.len() < before { 0 } else { in_vain + 1 };
            anyhow::ensure!(
                in_vain < ATTEMPTS,
                "{} lines were not taken in {ATTEMPTS} attempts",
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
    progress: &impl Fn(usize),
) -> anyhow::Result<Vec<(usize, &'a String)>> {
    let mut body = String::with_capacity(lines.iter().map(|(_, line)| line.len() + 1).sum());
    for (_, line) in &lines {
        body.push_str(line);
        body.push('\n');
    }
    let mut answers = client.post_events(body.into()).await?.bytes_stream();
    let mut round = Round::new(&lines);
    let mut buffer = Vec::new();
    while let Some(bytes) = answers.next().await {
        let at = Instant::now();
        buffer.extend_from_slice(&bytes.context("the answer broke off")?);
        let newline = buffer.iter().rposition(|byte| *byte == b'\n');
        let whole = newline.map_or(0, |end| end + 1);
        let whole: Vec<u8> = buffer.drain(..whole).collect();
        let texts = whole.split(|byte| *byte == b'\n');
        for text in texts.filter(|text| !text.is_empty()) {
            let answer = serde_json::from_slice(text).context("an answer is not JSON")?;
            if round.take(answer, at, posted)? {
                progress(1);
            }
        }
    }
    Ok(round.left())
}

/// The answers to one request.
struct Round<'l, 'a> {
    lines: &'l [(usize, &'a String)],
    answered: usize,
    again: Vec<(usize, &'a String)>,
}

impl<'l, 'a> Round<'l, 'a> {
    fn new(lines: &'l [(usize, &'a String)]) -> Self {
        Self {
            lines,
            answered: 0,
            again: Vec::new(),
        }
    }

    /// Whether a line is done with.
    fn take(&mut self, answer: Answer, at: Instant, posted: &mut Posted) -> anyhow::Result<bool> {
        let Some(number) = answer.line else {
            return Ok(false);
        };
        // Ingest stopped where another line could have begun: every line has its answer.
        if number == self.lines.len() + 1 {
            return Ok(false);
        }
        let line = self.lines.get(number.wrapping_sub(1));
        let (line, text) = *line.context("an answer for no line")?;
        self.answered += 1;
        match answer.status {
            Some(202) => posted.accepted.push(Accepted {
                line,
                position: position(&answer)?,
                at,
            }),
            // 408: the results from here on were dropped, or the line did not come whole.
            Some(408 | 429 | 500..) => {
                self.again.push((line, text));
                return Ok(false);
            }
            _ => {
                let mut problem = Value::Object(answer.rest);
                problem["status"] = answer.status.into();
                posted.rejected.push(Rejected { line, problem });
            }
        }
        Ok(true)
    }

    /// The lines to be posted again: a stream that ended early says nothing of the rest.
    fn left(mut self) -> Vec<(usize, &'a String)> {
        self.again.extend(self.lines.iter().skip(self.answered));
        self.again
    }
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
        line: 1,
        position: position(&answer)?,
        at,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What becomes of three lines, numbered from 11: those accepted, rejected, and to be posted again.
    fn round(answers: &[Value]) -> anyhow::Result<(usize, Vec<usize>, Vec<usize>)> {
        let text = String::new();
        let lines: Vec<_> = (11..14).map(|number| (number, &text)).collect();
        let mut posted = Posted::default();
        let mut round = Round::new(&lines);
        for answer in answers {
            let answer = serde_json::from_value(answer.clone())?;
            round.take(answer, Instant::now(), &mut posted)?;
        }
        let again = round.left().into_iter().map(|(line, _)| line).collect();
        let rejected = posted.rejected.iter().map(|one| one.line).collect();
        Ok((posted.accepted.len(), rejected, again))
    }

    fn accepted(line: usize) -> Value {
        json!({ "line": line, "status": 202, "partition": 1, "offset": 7 })
    }

    fn refused(line: usize, status: u16) -> Value {
        json!({ "line": line, "status": status, "title": "no" })
    }

    #[test]
    fn lines_are_accepted_rejected_or_posted_again() {
        let summary = json!({ "accepted": 1, "rejected": 2 });
        let answers = [accepted(1), refused(2, 400), refused(3, 429), summary];
        assert_eq!(round(&answers).unwrap(), (1, vec![12], vec![13]));
    }

    #[test]
    fn the_whole_problem_of_a_rejected_line_is_kept() {
        let (text, mut posted) = (String::new(), Posted::default());
        let lines = [(1, &text)];
        let mut round = Round::new(&lines);
        let answer = serde_json::from_value(refused(1, 400)).unwrap();
        round.take(answer, Instant::now(), &mut posted).unwrap();
        let problem = json!({ "status": 400, "title": "no" });
        assert_eq!(posted.rejected[0].problem, problem);
    }

    #[test]
    fn last_words_before_the_end_leave_the_rest_to_be_posted_again() {
        for status in [408, 503] {
            let answers = [accepted(1), refused(2, status)];
            assert_eq!(round(&answers).unwrap(), (1, vec![], vec![12, 13]));
        }
    }

    #[test]
    fn last_words_behind_the_last_line_are_about_no_line() {
        let answers = [accepted(1), accepted(2), accepted(3), refused(4, 503)];
        assert_eq!(round(&answers).unwrap(), (3, vec![], vec![]));
        assert!(round(&[refused(5, 503)]).is_err());
        assert!(round(&[refused(0, 503)]).is_err());
    }
}
