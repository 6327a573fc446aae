//! The response body of a batch: the stream of its results.

use std::{convert::Infallible, sync::Arc};

use axum::body::{Body, Bytes};
use futures::stream;

use super::queue::{LineResult, ResultQueue};
use crate::media::BatchEncoding;

/// Dropped when the client disconnects or everything was sent.
struct ResultStream {
    queue: Arc<ResultQueue>,
    encoding: BatchEncoding,
    is_complete: bool,
}

pub(super) fn stream(queue: Arc<ResultQueue>, encoding: BatchEncoding) -> Body {
    let results = ResultStream {
        queue,
        encoding,
        is_complete: false,
    };
    Body::from_stream(stream::unfold(results, async |mut results| {
        let chunk = results.next_chunk().await?;
        Some((Ok::<_, Infallible>(chunk), results))
    }))
}

impl ResultStream {
    async fn next_chunk(&mut self) -> Option<Bytes> {
        if self.is_complete {
            return None;
        }
        let mut chunk = Vec::new();
        for result in self.queue.take().await {
            self.is_complete = matches!(result, LineResult::Summary(_));
            self.encoding.write(&mut chunk, result);
        }
        Some(chunk.into())
    }
}

impl Drop for ResultStream {
    fn drop(&mut self) {
        self.queue.close();
    }
}
