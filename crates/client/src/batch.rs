//! Batches: NDJSON in, one result a line out.

use std::{collections::VecDeque, time::Instant};

use api::AcceptedBody;
use backon::BackoffBuilder as _;
use reqwest::{Body, Response};
use schemas::InboundPosition;
use serde::Deserialize;
use serde_json::{Map, Value, from_value};

use crate::{Client, ClientError, Problem, line::prepare};

/// One result of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineResult {
    /// A line is on the log.
    Accepted {
        /// Its number in the request, from 1.
        line: usize,
        /// Where it is.
        accepted: AcceptedBody,
    },
    /// A line was refused.
    Rejected {
        /// Its number in the request, from 1.
        line: usize,
        /// Why.
        problem: Problem,
    },
    /// The last result: how many lines there were.
    Summary {
        /// How many of them are on the log.
        accepted: u64,
        /// How many of them are not.
        rejected: u64,
    },
}

/// The results of one request, as they arrive.
#[derive(Debug)]
pub struct LineResults {
    client: Client,
    url: String,
    response: Response,
    buffer: Vec<u8>,
    ready: VecDeque<LineResult>,
}

/// What became of the lines of [`Client::post_batch`].
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The lines that are on the log, in the order of their results.
    pub accepted: Vec<AcceptedLine>,
    /// The lines that were refused for good.
    pub rejected: Vec<RejectedLine>,
}

/// A line that is on the log.
#[derive(Clone, Copy, Debug)]
pub struct AcceptedLine {
    /// Its number, from 1.
    pub line: usize,
    /// Where it is.
    pub position: InboundPosition,
}

/// A line that was refused for good.
#[derive(Clone, Debug)]
pub struct RejectedLine {
    /// Its number, from 1.
    pub line: usize,
    /// Why.
    pub problem: Problem,
}

impl Client {
    /// Posts NDJSON in one request, once. [`line`](crate::line) makes lines; each ends with a newline.
    ///
    /// # Errors
    /// The request was refused as a whole, or there is no connection.
    pub async fn post_lines(&self, body: impl Into<Body>) -> Result<LineResults, ClientError> {
        let url = self.ingest.url("/v1/events");
        let request = self
            .http
            .post(&url)
            .header("content-type", "application/x-ndjson")
            .body(body);
        let response = self.send_request(request, &url).await?;
        Ok(LineResults {
            client: self.clone(),
            url,
            response,
            buffer: Vec::new(),
            ready: VecDeque::new(),
        })
    }

    /// Posts lines in order, `per_request` to a request, one request after the other. Blank lines have no result. What ingest could not take, and
    /// what has an unknown outcome, is posted again, also if ingest is away. A message always has the same id, so it is stored once. Below rule
    /// version 4 a read-ack of `latest` or a deleted contact that is posted again also covers what came meanwhile, and an edit or a contact change
    /// takes the place of one in a later line. `progress` is called with the number of lines that are done with.
    ///
    /// # Errors
    /// A request was refused as a whole, or no line was taken for as long as [`Retry`](crate::Retry) says: then the last error. Posting all
    /// lines again is as safe as said above, for messages that had a `client_msg_id`.
    pub async fn post_batch(
        &self,
        lines: &[impl AsRef<str>],
        per_request: usize,
        mut progress: impl FnMut(usize),
    ) -> Result<Batch, ClientError> {
        let mut batch = Batch::default();
        let texts: Vec<_> = lines.iter().map(|line| prepare(line.as_ref())).collect();
        let numbered: Vec<Line<'_>> = (1..)
            .zip(texts.iter().map(AsRef::as_ref))
            .filter(|(_, text): &Line<'_>| !text.is_empty())
            .collect();
        for request in numbered.chunks(per_request.max(1)) {
            self.post_until_taken(request.to_vec(), &mut batch, &mut progress)
                .await?;
        }
        Ok(batch)
    }

    async fn post_until_taken(
        &self,
        mut open: Vec<Line<'_>>,
        batch: &mut Batch,
        progress: &mut impl FnMut(usize),
    ) -> Result<(), ClientError> {
        let (mut began, mut pauses) = (Instant::now(), self.retry.pauses().build());
        loop {
            let before = open.len();
            let Some(left) = self.post_once_in_batch(open, batch, progress).await? else {
                return Ok(());
            };
            open = left.lines;
            if open.len() < before {
                (began, pauses) = (Instant::now(), self.retry.pauses().build());
            }
            let pause = pauses.next().unwrap_or_default();
            match self.retry.pause(pause, &left.why, began) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(left.why),
            }
        }
    }

    /// One request; returns the lines to be posted again.
    async fn post_once_in_batch<'a>(
        &self,
        lines: Vec<Line<'a>>,
        batch: &mut Batch,
        progress: &mut impl FnMut(usize),
    ) -> Result<Option<OpenLines<'a>>, ClientError> {
        let mut body = String::with_capacity(lines.iter().map(|(_, line)| line.len() + 1).sum());
        for (_, line) in &lines {
            body.push_str(line);
            body.push('\n');
        }
        let mut results = match self.post_lines(body).await {
            Err(why) if why.is_retryable() => return Ok(Some(OpenLines { lines, why })),
            results => results?,
        };
        let mut attempt = Attempt::new(&lines);
        loop {
            match results.next().await {
                Err(why) if why.is_retryable() => return Ok(attempt.open_lines(Some(why))),
                result => match result? {
                    None => return Ok(attempt.open_lines(None)),
                    Some(result) => progress(usize::from(attempt.take(result, batch)?)),
                },
            }
        }
    }
}

impl LineResults {
    /// The next result; `None` after the last one.
    ///
    /// # Errors
    /// The response broke off, or a line of it is not a result.
    pub async fn next(&mut self) -> Result<Option<LineResult>, ClientError> {
        while self.ready.is_empty() {
            let chunk = self.response.chunk().await;
            let chunk = chunk.map_err(|error| ClientError::of_response(&error, &self.url))?;
            let Some(chunk) = chunk else { return Ok(None) };
            self.buffer.extend_from_slice(&chunk);
            self.parse_lines()?;
        }
        Ok(self.ready.pop_front())
    }

    /// Takes the complete lines out of the buffer.
    fn parse_lines(&mut self) -> Result<(), ClientError> {
        let end = self.buffer.iter().rposition(|byte| *byte == b'\n');
        let complete: Vec<u8> = self.buffer.drain(..end.map_or(0, |end| end + 1)).collect();
        for text in complete.split(|byte| *byte == b'\n') {
            if text.is_empty() {
                continue;
            }
            let result =
                parse(text).map_err(|error| ClientError::invalid_response(&self.url, error))?;
            if let LineResult::Rejected { problem, .. } = &result {
                self.client.count(problem);
            }
            self.ready.push_back(result);
        }
        Ok(())
    }
}

/// One result as it travels.
#[derive(Deserialize)]
struct LineBody {
    line: Option<usize>,
    status: Option<u16>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

fn parse(text: &[u8]) -> serde_json::Result<LineResult> {
    let LineBody { line, status, rest } = serde_json::from_slice(text)?;
    let mut rest = rest;
    let Some(line) = line else {
        let count = |name| rest.get(name).and_then(Value::as_u64).unwrap_or_default();
        return Ok(LineResult::Summary {
            accepted: count("accepted"),
            rejected: count("rejected"),
        });
    };
    if status == Some(202) {
        let accepted = from_value(Value::Object(rest))?;
        return Ok(LineResult::Accepted { line, accepted });
    }
    rest.insert("status".to_owned(), status.into());
    let problem = from_value(Value::Object(rest))?;
    Ok(LineResult::Rejected { line, problem })
}

/// A line and its number among all that were given.
type Line<'a> = (usize, &'a str);

/// Lines to be posted again, and why the last of them was not taken.
struct OpenLines<'a> {
    lines: Vec<Line<'a>>,
    why: ClientError,
}

/// The results of one request of several.
struct Attempt<'l, 'a> {
    lines: &'l [Line<'a>],
    answered: usize,
    again: Vec<Line<'a>>,
    /// Why the last of the lines in `again` was not taken.
    why: Option<ClientError>,
}

impl<'l, 'a> Attempt<'l, 'a> {
    fn new(lines: &'l [Line<'a>]) -> Self {
        Self {
            lines,
            answered: 0,
            again: Vec::new(),
            why: None,
        }
    }

    /// Takes a result. Returns whether a line is done with.
    fn take(&mut self, result: LineResult, batch: &mut Batch) -> Result<bool, ClientError> {
        match result {
            LineResult::Summary { .. } => return Ok(false),
            LineResult::Accepted { line, accepted } => {
                let (line, _) = self.answer(line)?;
                batch.accepted.push(AcceptedLine {
                    line,
                    position: accepted.position(),
                });
            }
            // A result of the line after the last one: ingest stopped there, and every line has its result.
            LineResult::Rejected { line, .. } if line == self.lines.len() + 1 => return Ok(false),
            LineResult::Rejected { line, problem } => {
                let (line, text) = self.answer(line)?;
                // 408: the results from here on were dropped, or the line did not arrive whole.
                if matches!(problem.status, 408 | 429 | 500..) {
                    self.again.push((line, text));
                    self.why = Some(ClientError::Problem(Box::new(problem)));
                    return Ok(false);
                }
                batch.rejected.push(RejectedLine { line, problem });
            }
        }
        Ok(true)
    }

    fn answer(&mut self, number: usize) -> Result<Line<'a>, ClientError> {
        self.answered += 1;
        let line = self.lines.get(number.wrapping_sub(1)).copied();
        line.ok_or_else(|| {
            let detail = format!("a result of line {number}, which was not posted");
            ClientError::invalid_response("/v1/events", detail)
        })
    }

    /// The lines to be posted again. A response that ended early, with `broken` or without, says nothing about the rest.
    fn open_lines(mut self, broken: Option<ClientError>) -> Option<OpenLines<'a>> {
        let rest = self.lines.get(self.answered..).unwrap_or_default();
        self.again.extend(rest);
        let lines = self.again;
        let why = broken.or(self.why).unwrap_or_else(|| {
            let (url, cause) = ("/v1/events".to_owned(), "too few results".to_owned());
            ClientError::BrokenResponse { url, cause }
        });
        (!lines.is_empty()).then_some(OpenLines { lines, why })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What becomes of three lines, numbered from 11: those accepted, rejected, and to be posted again.
    fn attempt(results: &[Value]) -> Result<(usize, Vec<usize>, Vec<usize>), ClientError> {
        let lines: Vec<Line<'_>> = (11..14).map(|number| (number, "")).collect();
        let mut batch = Batch::default();
        let mut attempt = Attempt::new(&lines);
        for result in results {
            attempt.take(parse(result.to_string().as_bytes()).unwrap(), &mut batch)?;
        }
        let open = attempt.open_lines(None);
        let again = open.map_or_else(Vec::new, |open| open.lines);
        let again = again.into_iter().map(|(line, _)| line).collect();
        let rejected = batch.rejected.iter().map(|one| one.line).collect();
        Ok((batch.accepted.len(), rejected, again))
    }

    fn accepted(line: usize) -> Value {
        json!({ "line": line, "status": 202, "partition": 1, "offset": 7 })
    }

    fn refused(line: usize, status: u16) -> Value {
        json!({ "line": line, "status": status, "type": "/problems/x", "title": "no" })
    }

    #[test]
    fn lines_are_accepted_rejected_or_posted_again() {
        let summary = json!({ "accepted": 1, "rejected": 2 });
        let results = [accepted(1), refused(2, 400), refused(3, 429), summary];
        assert_eq!(attempt(&results).unwrap(), (1, vec![12], vec![13]));
    }

    #[test]
    fn the_whole_problem_of_a_rejected_line_is_kept() {
        let mut line = refused(1, 400);
        line["new_member"] = json!(7);
        let line = line.to_string();
        let LineResult::Rejected { line, problem } = parse(line.as_bytes()).unwrap() else {
            panic!("{line}");
        };
        assert_eq!((line, problem.status, &*problem.title), (1, 400, "no"));
        assert_eq!(problem.extensions["new_member"], 7);
    }

    #[test]
    fn a_terminal_result_before_the_end_leaves_the_rest_to_be_posted_again() {
        for status in [408, 503] {
            let results = [accepted(1), refused(2, status)];
            assert_eq!(attempt(&results).unwrap(), (1, vec![], vec![12, 13]));
        }
    }

    #[test]
    fn a_terminal_result_after_the_last_line_is_about_no_line() {
        let results = [accepted(1), accepted(2), accepted(3), refused(4, 503)];
        assert_eq!(attempt(&results).unwrap(), (3, vec![], vec![]));
        assert!(attempt(&[refused(5, 503)]).is_err());
        assert!(attempt(&[refused(0, 503)]).is_err());
    }
}
