//! What `/openapi.json` says.

use std::sync::Arc;

use problem::Problem;
use utoipa::{IntoResponses, OpenApi};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{routes, state::Ingest};

#[derive(OpenApi)]
#[openapi(
    components(schemas(Problem)),
    info(
        title = "Tidemark ingest",
        description = "Messages, read positions, profiles, groups and changes to messages and contacts in; every answer of 202 is on the log."
    ),
    tags((name = "ingest", description = "What producers post"))
)]
struct Description;

/// How a single post may be refused.
#[derive(IntoResponses)]
#[expect(
    dead_code,
    reason = "it is only described; handlers answer with the problem itself"
)]
pub(crate) enum Refusal {
    /// A field, or the body, is not as it should be.
    #[response(status = 400, content_type = "application/problem+json")]
    Invalid(Problem),
    /// The body did not arrive in time.
    #[response(status = 408, content_type = "application/problem+json")]
    Late(Problem),
    /// The body is too large.
    #[response(status = 413, content_type = "application/problem+json")]
    TooLarge(Problem),
    /// The media type is none that this call reads.
    #[response(status = 415, content_type = "application/problem+json")]
    MediaType(Problem),
    /// A field is right in form, but not taken: a text with words that are not accepted, `deleted` that is false, or an extra that is too large.
    #[response(status = 422, content_type = "application/problem+json")]
    Words(Problem),
    /// Too much is under way, or more than the caller may send at a time; nothing was done.
    #[response(status = 429, content_type = "application/problem+json")]
    NoRoom(Problem),
    /// Not done, or of unknown outcome: the problem's `type` tells.
    #[response(status = 503, content_type = "application/problem+json")]
    NotOnLog(Problem),
}

/// The calls and their description.
pub(crate) fn calls() -> OpenApiRouter<Arc<Ingest>> {
    OpenApiRouter::with_openapi(Description::openapi())
        .merge(routes::single::calls())
        .routes(routes!(routes::events::post_events))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_reference_of_the_description_leads_somewhere() {
        let (_, description) = calls().split_for_parts();
        let description = serde_json::to_value(description).unwrap();
        let text = description.to_string();
        let references: Vec<&str> = text.split("\"$ref\":\"#").skip(1).collect();
        assert!(!references.is_empty());
        for reference in references {
            let pointer = reference.split('"').next().unwrap();
            assert!(description.pointer(pointer).is_some(), "{pointer}");
        }
        let refusals = &description["paths"]["/v1/messages"]["post"]["responses"];
        assert_eq!(
            refusals["429"]["content"]["application/problem+json"]["schema"]["$ref"],
            Value::from("#/components/schemas/Problem")
        );
    }
}
