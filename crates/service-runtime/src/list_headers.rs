//! A list header may be on several lines of a request (RFC 9110, 5.3), but its readers take one line: these lines are joined first.

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, header},
};

/// The list headers that this system reads.
const LISTS: [HeaderName; 8] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::EXPECT,
    header::SEC_WEBSOCKET_EXTENSIONS,
    header::SEC_WEBSOCKET_PROTOCOL,
    header::UPGRADE,
];

/// Makes one line of each list.
pub(crate) async fn join(mut request: Request) -> Request {
    for name in LISTS {
        join_lines(request.headers_mut(), name);
    }
    request
}

fn join_lines(headers: &mut HeaderMap, name: HeaderName) {
    let lines = headers.get_all(&name).iter();
    let lines: Vec<&[u8]> = lines.map(HeaderValue::as_bytes).collect();
    if lines.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&lines.join(&b", "[..]))
    {
        headers.insert(name, joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_of_a_list_are_one_and_other_headers_stay() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (header::CONNECTION, &b"keep-alive"[..]),
            (header::CONNECTION, b"Upgrade, \xff"),
            (header::CONTENT_ENCODING, b"gzip"),
            (header::HOST, b"a"),
            (header::HOST, b"b"),
        ] {
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        LISTS
            .into_iter()
            .for_each(|name| join_lines(&mut headers, name));
        let lines = |name| {
            headers
                .get_all(name)
                .iter()
                .map(HeaderValue::as_bytes)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            lines(header::CONNECTION),
            [&b"keep-alive, Upgrade, \xff"[..]]
        );
        assert_eq!(lines(header::CONTENT_ENCODING), [b"gzip"]);
        assert_eq!(lines(header::HOST), [b"a", b"b"]);
    }
}
