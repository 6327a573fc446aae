//! If callers are not authenticated, a page under a name that resolves to this machine (DNS rebinding) could act for every user: its browser takes it
//! for a page of this very site. Such a page is recognised by `Host`, which has its name.

use std::{net::IpAddr, sync::Arc};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderValue, Uri, header, uri::Authority},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
};
use problem::Problem;

/// Lets `router` be called only by names that others cannot point here: `localhost`, addresses, names without a dot, and those of `origins`.
pub(crate) fn require_own_host(router: Router, origins: &[String]) -> Router {
    let hosts = origins.iter().filter_map(|origin| {
        let origin: Uri = origin.parse().ok()?;
        origin.host().map(str::to_owned)
    });
    let hosts: Arc<[String]> = hosts.collect();
    router.layer(from_fn_with_state(hosts, check))
}

async fn check(State(hosts): State<Arc<[String]>>, request: Request, next: Next) -> Response {
    let given = request.headers().get_all(header::HOST).iter();
    match given.into_iter().find(|host| !is_own(host, &hosts)) {
        None => next.run(request).await,
        Some(host) => Problem::forbidden_field(
            "Host",
            format_args!("is {host:?}"),
            "localhost, an address, a name without a dot, or one of http.allowed_origins: callers are not authenticated here ([auth])",
        )
        .into_response(),
    }
}

fn is_own(host: &HeaderValue, hosts: &[String]) -> bool {
    let Some(host) = host.to_str().ok().and_then(|host| host.parse().ok()) else {
        return false;
    };
    let host = Authority::host(&host).to_lowercase();
    // A name with a dot at its end is absolute. Without another dot, anyone could own it.
    let name = host.strip_suffix('.').unwrap_or(&host);
    let address: Result<IpAddr, _> = name.trim_matches(['[', ']']).parse();
    address.is_ok()
        || !host.contains('.')
        || name == "localhost"
        || name.ends_with(".localhost")
        || hosts.iter().any(|own| own == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_somebody_else_can_point_here_is_not_ours() {
        let hosts = ["chat.example.org".to_owned()];
        for (host, is_ours) in [
            ("127.0.0.1:7308", true),
            ("192.0.2.7", true),
            ("[::1]:7308", true),
            ("LocalHost:7308", true),
            ("tidemark.localhost", true),
            ("localhost.", true),
            ("tidemark.localhost.:7308", true),
            ("127.0.0.1.", true),
            ("chat.example.org.", true),
            ("gateway:7308", true),
            ("Chat.example.org:7308", true),
            ("evil.example:7308", false),
            ("evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("evil.", false),
            ("a b", false),
        ] {
            let host = HeaderValue::from_str(host).unwrap();
            assert_eq!(is_own(&host, &hosts), is_ours, "{host:?}");
        }
    }
}
