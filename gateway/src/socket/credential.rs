//! A browser cannot set `Authorization` on a WebSocket: it offers its token as a second subprotocol, `bearer.<token>`.

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use problem::Problem;

const PREFIX: &str = "bearer.";

/// Hands the token to authentication as a header, and tells who brings none of both ways.
pub(crate) async fn token_from_subprotocol(mut request: Request, next: Next) -> Response {
    match as_header(request.headers()) {
        Ok(None) => {}
        Ok(Some(bearer)) => {
            let headers = request.headers_mut();
            headers.insert(header::AUTHORIZATION, bearer);
        }
        Err(problem) => return problem.into_response(),
    }
    let headers = request.headers();
    let brings_none = headers.contains_key(header::SEC_WEBSOCKET_KEY)
        && !headers.contains_key(header::AUTHORIZATION);
    let mut response = next.run(request).await;
    if !brings_none || response.status() != StatusCode::UNAUTHORIZED {
        return response;
    }
    let missing = access::Refusal::Missing;
    let detail = format!("{missing}, or from a browser the second subprotocol {PREFIX}<token>");
    let challenge = response.headers_mut().remove(header::WWW_AUTHENTICATE);
    let challenge = challenge.map(|challenge| [(header::WWW_AUTHENTICATE, challenge)]);
    (challenge, Problem::unauthenticated(detail)).into_response()
}

/// Whether a subprotocol is offered that is not the caller's token, or what is no text.
pub(super) fn offers_another(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    values.any(|value| value.to_str().is_err())
        || offered(headers).any(|name| !name.starts_with(PREFIX))
}

/// What authentication has to see; `None` where there is no such subprotocol.
///
/// # Errors
/// There are two credentials.
fn as_header(headers: &HeaderMap) -> Result<Option<HeaderValue>, Problem> {
    let mut tokens = offered(headers).filter_map(|name| name.strip_prefix(PREFIX));
    let Some(token) = tokens.next() else {
        return Ok(None);
    };
    if tokens.next().is_some() || headers.contains_key(header::AUTHORIZATION) {
        return Err(Problem::invalid_field(
            "Sec-WebSocket-Protocol",
            format_args!(
                "has a token ({PREFIX}<token>) beside another one or the header Authorization"
            ),
            "the only credential",
        ));
    }
    Ok(HeaderValue::try_from(format!("Bearer {token}")).ok())
}

/// The subprotocols that are offered.
fn offered(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let offered = offered.filter_map(|value| value.to_str().ok());
    offered.flat_map(|value| value.split(',').map(str::trim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_no_subprotocol_and_what_is_no_text_is_an_unknown_one() {
        for (offered, is_another) in [
            (&b"bearer.a"[..], false),
            (b"bearer.a, graphql-ws", true),
            (b"bearer.a\xff", true),
        ] {
            let offered = HeaderValue::from_bytes(offered).unwrap();
            let headers = [(header::SEC_WEBSOCKET_PROTOCOL, offered)];
            assert_eq!(offers_another(&headers.into_iter().collect()), is_another);
        }
        assert!(!offers_another(&HeaderMap::new()));
    }
}
