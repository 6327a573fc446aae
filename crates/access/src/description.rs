//! What an OpenAPI document says of guarded calls.

use problem::PROBLEM_JSON;
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder,
    path::{Operation, PathItem},
    security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
};

const SCHEME: &str = "bearer";

/// The refusals that a guard adds to every call, unless the call describes one of its own.
const REFUSALS: [(&str, &str); 3] = [
    (
        "401",
        "Nothing valid says who calls; `WWW-Authenticate` says what was wrong.",
    ),
    (
        "403",
        "The caller may not do this in this user's name, or the service key lacks the scope.",
    ),
    (
        "429",
        "More than the caller may do at a time; nothing was done.",
    ),
];

/// Adds the scheme to the document, and to every call that it is needed and how it may be refused.
pub(crate) fn add_access(document: &mut OpenApi) {
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("JWT")
        .description(Some(
            "A JWT whose subject is the user, or a service key `tmk_…`. Not asked for where the service has no authentication and listens on \
             loopback only.",
        ))
        .build();
    let components = document.components.take().unwrap_or_default();
    let components = ComponentsBuilder::from(components)
        .security_scheme(SCHEME, SecurityScheme::Http(scheme))
        .build();
    document.components = Some(components);
    for call in document.paths.paths.values_mut().flat_map(calls_of) {
        call.security = Some(vec![SecurityRequirement::new(SCHEME, Vec::<String>::new())]);
        for (status, words) in REFUSALS {
            let answers = &mut call.responses.responses;
            answers
                .entry(status.to_owned())
                .or_insert_with(|| RefOr::T(refusal(words)));
        }
    }
}

fn calls_of(path: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [
        &mut path.get,
        &mut path.put,
        &mut path.post,
        &mut path.delete,
    ]
    .into_iter()
    .flatten()
}

fn refusal(words: &str) -> Response {
    let schema = Ref::from_schema_name("Problem");
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new()
        .description(words)
        .content(PROBLEM_JSON, content)
        .build()
}
