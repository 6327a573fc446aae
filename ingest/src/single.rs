//! A single post: acquire its bytes, read, check, append, wait for the delivery report.

use access::Caller;
use axum::{
    extract::Request,
    http::{HeaderMap, HeaderValue},
    response::Response,
};
use posting::{PoolPermit, Post, Poster};
use problem::Problem;
use service_runtime::IDEMPOTENCY_KEY;
use tokio::time::{Instant, timeout_at};

use crate::{body::RequestBody, media::SingleEncoding, responses::accepted, state::Ingest};

/// Responds to one post, whose body `parse` reads.
pub(crate) async fn post(
    ingest: &Ingest,
    caller: &Caller,
    request: Request,
    parse: impl FnOnce(SingleEncoding, &[u8]) -> Result<Post, Problem>,
) -> Result<Response, Problem> {
    let poster = &ingest.poster;
    let deadline = Instant::now() + poster.config().request_deadline();
    let (parts, body) = request.into_parts();
    let mut body = RequestBody::new(&parts.headers, body);
    let result: Result<Response, Problem> = async {
        poster.charge_event(caller)?;
        let encoding = SingleEncoding::of(&parts.headers)?;
        let (bytes, permit) = read_body(poster, caller, &mut body, deadline).await?;
        poster.charge_size(caller, bytes.len())?;
        let mut post = parse(encoding, &bytes)?;
        post.identify(idempotency_key(&parts.headers)?)?;
        poster.admit(caller, &mut post).await?;
        let id = post.retry_id();
        let gid = post.created_group();
        let at = poster.append(post, permit, deadline).await?;
        Ok(accepted(at, id, gid, encoding))
    }
    .await;
    if let Err(problem) = &result {
        poster.metrics().rejected(problem.kind);
        body.discard();
    }
    result
}

/// The id in the header `Idempotency-Key`, as it is there, with the header's name.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<(&'static str, String)>, Problem> {
    let mut keys = headers.get_all(IDEMPOTENCY_KEY).into_iter();
    match (keys.next().map(HeaderValue::to_str), keys.next()) {
        (None, _) => Ok(None),
        (Some(Ok(key)), None) => Ok(Some((IDEMPOTENCY_KEY, key.to_owned()))),
        (Some(Err(_)), _) => Err(Problem::invalid_field(
            IDEMPOTENCY_KEY,
            "has other characters",
            "1 to 64 visible characters of ASCII",
        )),
        (Some(_), Some(_)) => Err(Problem::invalid_field(
            IDEMPOTENCY_KEY,
            "is there twice",
            "one",
        )),
    }
}

/// Reads the body, for which bytes are acquired as they arrive.
async fn read_body(
    poster: &Poster,
    caller: &Caller,
    body: &mut RequestBody,
    deadline: Instant,
) -> Result<(bytes::Bytes, PoolPermit), Problem> {
    let limit = poster.config().max_body_bytes;
    body.check_declared(limit)?;
    let mut permit = poster.begin(caller)?;
    let read = timeout_at(deadline, body.read(limit, &mut permit)).await;
    let bytes = read.map_err(|_elapsed| {
        let allowed_s = poster.config().request_deadline().as_secs_f64();
        Problem::request_timeout(format!("the request was not complete after {allowed_s} s"))
    })??;
    Ok((bytes, permit))
}
