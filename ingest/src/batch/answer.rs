//! The stream of results that a client reads.

use std::{convert::Infallible, sync::Arc};

use axum::body::{Body, Bytes};
use futures::stream;

use super::{results::Results, state::LineResult};
use crate::media::BatchEncoding;

/// Takes results as the client reads them; dropped when the client goes or everything was sent.
struct Answer {
    results: Arc<Results>,
    encoding: BatchEncoding,
    is_complete: bool,
}

/// The body of the answer.
pub(super) fn stream(results: Arc<Results>, encoding: BatchEncoding) -> Body {
    let answer = Answer {
        results,
        encoding,
        is_complete: false,
    };
    Body::from_stream(stream::unfold(answer, async |mut answer| {
        let chunk = answer.next_chunk().await?;
        Some((Ok::<_, Infallible>(chunk), answer))
    }))
}

impl Answer {
    async fn next_chunk(&mut self) -> Option<Bytes> {
        if self.is_complete {
            return None;
        }
        let mut chunk = Vec::new();
        for result in self.results.take().await {
            self.is_complete = matches!(result, LineResult::Summary(_));
            self.encoding.write(&mut chunk, result);
        }
        Some(chunk.into())
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.results.abandon();
    }
}
