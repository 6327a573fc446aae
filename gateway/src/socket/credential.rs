//! A browser cannot set `Authorization` on a WebSocket: it offers its token as a second subprotocol, `bearer.<token>`, or as base64url, since a token
//! may have characters that a subprotocol may not: `bearer.base64url.<base64url of the token>`.

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use problem::Problem;

const PREFIX: &str = "bearer.";
const ENCODED: &str = "base64url.";

/// Hands the token to authentication as a header. A caller without a token is told of both ways to bring one.
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

/// Whether a subprotocol is offered that is not the caller's token, or that is not text.
pub(super) fn offers_another(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    values.any(|value| value.to_str().is_err())
        || offered(headers).any(|name| !name.starts_with(PREFIX))
}

/// The header for authentication; `None` if there is no such subprotocol.
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
    let Some(encoded) = token.strip_prefix(ENCODED) else {
        return Ok(HeaderValue::try_from(format!("Bearer {token}")).ok());
    };
    let decoded = URL_SAFE_NO_PAD.decode(encoded.trim_end_matches('='));
    let bearer = decoded
        .ok()
        .map(|token| [b"Bearer ", token.as_slice()].concat());
    let bearer = bearer.and_then(|bearer| HeaderValue::try_from(bearer).ok());
    bearer.map(Some).ok_or_else(|| {
        Problem::invalid_field(
            "Sec-WebSocket-Protocol",
            format_args!("has {PREFIX}{ENCODED} with what is no token"),
            "base64url of the token, without padding",
        )
    })
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
    fn a_token_may_be_base64url() {
        let of = |offered: &str| {
            let offered = HeaderValue::from_str(offered).unwrap();
            let headers = [(header::SEC_WEBSOCKET_PROTOCOL, offered)];
            as_header(&headers.into_iter().collect())
        };
        for (offered, token) in [
            ("bearer.a.b", "Bearer a.b"),
            ("tidemark.v1.json, bearer.base64url.YS9iPT0", "Bearer a/b=="),
        ] {
            assert_eq!(of(offered).unwrap().unwrap(), token);
        }
        // Not base64url; and not a text that a header can have.
        for offered in ["bearer.base64url.a/b", "bearer.base64url.Cg"] {
            let problem = of(offered).unwrap_err();
            assert!(problem.detail.contains("bearer.base64url."), "{problem}");
        }
    }

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
