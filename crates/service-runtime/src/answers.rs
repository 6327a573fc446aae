//! Answers the requests of one connection by the router. It refuses a request if too many are handled, or if the end of the request is ambiguous.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    http::{HeaderValue, Request, Response, StatusCode, header},
    response::IntoResponse as _,
};
use hyper::{
    body::{Frame, Incoming, SizeHint},
    service::Service,
};
use problem::Problem;
use tower::ServiceExt as _;

use crate::{
    connection_slots::{Activity, Busy},
    probes::is_probe,
    request_heads::Requests,
};

pub(crate) struct Answers {
    router: Router,
    activity: Activity,
    /// How many requests are handled at a time; a refusal names this number.
    limit: usize,
    requests: Arc<Requests>,
}

/// The body of an answer. While it is written, the request is in progress.
pub(crate) struct AnswerBody {
    body: Body,
    _busy: Option<Busy>,
}

impl Answers {
    pub(crate) fn new(router: Router, activity: Activity, limit: usize) -> Self {
        Self {
            router,
            activity,
            limit,
            requests: Arc::default(),
        }
    }

    /// For the reader of the connection.
    pub(crate) fn requests(&self) -> Arc<Requests> {
        Arc::clone(&self.requests)
    }

    /// # Errors
    /// The request is refused, and nothing of it is done.
    fn begin(&self, request: &Request<Incoming>) -> Result<Busy, Problem> {
        if self.requests.next_is_ambiguous() {
            return Err(Problem::invalid_field(
                "Content-Length",
                "stands beside Transfer-Encoding, or is not one short number",
                "one number without Transfer-Encoding: otherwise programs may disagree where the request ends",
            ));
        }
        let begun = self.activity.begin_request(is_probe(request.uri().path()));
        begun.ok_or_else(|| Problem::too_many_connections(self.limit))
    }
}

impl Service<Request<Incoming>> for Answers {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let begun = self.begin(&request);
        let (router, requests) = (self.router.clone(), self.requests());
        Box::pin(async move {
            Ok(match begun {
                Ok(busy) => {
                    let answer = router.oneshot(request).await?;
                    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
                        requests.end();
                    }
                    with_body(answer, Some(busy))
                }
                Err(problem) => {
                    let mut answer = problem.into_response();
                    let close = HeaderValue::from_static("close");
                    answer.headers_mut().insert(header::CONNECTION, close);
                    with_body(answer, None)
                }
            })
        })
    }
}

fn with_body(answer: Response<Body>, busy: Option<Busy>) -> Response<AnswerBody> {
    answer.map(|body| AnswerBody { body, _busy: busy })
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
