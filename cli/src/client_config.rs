//! The addresses of the services that commands call.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
};

use garde::Validate;
use reqwest::{Certificate, Url};
use serde::{Deserialize, Serialize};
use service_runtime::HttpConfig;

/// The section `client`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ClientConfig {
    /// The URL of ingest; default: `ingest.listen`, on this machine.
    #[garde(inner(custom(is_http)))]
    pub(crate) ingest_url: Option<String>,
    /// The URL of query-api; default: `query_api.listen`, on this machine.
    #[garde(inner(custom(is_http)))]
    pub(crate) query_url: Option<String>,
    /// The URL of the gateway; default: `gateway.listen`, on this machine.
    #[garde(inner(custom(is_http)))]
    pub(crate) gateway_url: Option<String>,
    /// PEM file with the certificate authorities of the services; default: those of the system.
    #[garde(custom(has_certificates))]
    pub(crate) tls_ca: Option<PathBuf>,
}

/// The base URL: the configured one, or else the listener's on this machine.
pub(crate) fn base(url: Option<&str>, listen: SocketAddr, http: &HttpConfig) -> String {
    let scheme = if http.tls.is_some() { "https" } else { "http" };
    match url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => format!("{scheme}://{}", reachable(listen)),
    }
}

fn has_certificates(file: &Option<PathBuf>, _context: &()) -> garde::Result {
    let Some(file) = file else { return Ok(()) };
    let problem = match std::fs::read(file).map(|pem| Certificate::from_pem_bundle(&pem)) {
        Ok(Ok(certificates)) if !certificates.is_empty() => return Ok(()),
        Ok(_) => "has no certificates".to_owned(),
        Err(error) => format!("cannot be read: {error}"),
    };
    let file = file.display();
    Err(garde::Error::new(format!(
        "names {file}, which {problem}; must be a readable PEM file"
    )))
}

/// An unspecified address cannot be called; the loopback address can.
fn reachable(mut listen: SocketAddr) -> SocketAddr {
    match listen {
        SocketAddr::V4(at) if at.ip().is_unspecified() => listen.set_ip(Ipv4Addr::LOCALHOST.into()),
        SocketAddr::V6(at) if at.ip().is_unspecified() => listen.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    listen
}

fn is_http(url: &str, _context: &()) -> garde::Result {
    let is_base = |url: &Url| {
        matches!(url.scheme(), "http" | "https") && url.query().is_none() && url.has_host()
    };
    match Url::parse(url) {
        // The URL is shown in the configuration.
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Err(garde::Error::new("has a user or password; must be without"))
        }
        Ok(url) if is_base(&url) => Ok(()),
        _ => Err(garde::Error::new(
            "must be like http://10.0.0.5:7301 (ingest; query 7302, gateway 7308)",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_listens_everywhere_is_called_here() {
        let http = HttpConfig::default();
        let base_of = |listen: &str| base(None, listen.parse().unwrap(), &http);
        assert_eq!(base_of("127.0.0.2:7301"), "http://127.0.0.2:7301");
        assert_eq!(base_of("0.0.0.0:7301"), "http://127.0.0.1:7301");
        assert_eq!(base_of("[::]:7301"), "http://[::1]:7301");
    }

    #[test]
    fn what_is_configured_goes_first() {
        let listen = "0.0.0.0:7301".parse().unwrap();
        let url = "https://chat.internal/im/";
        let http = HttpConfig::default();
        assert_eq!(base(Some(url), listen, &http), "https://chat.internal/im");
    }

    #[test]
    fn only_a_base_of_http_is_taken() {
        let check = |url: &str| is_http(url, &()).is_ok();
        assert!(check("http://10.0.0.5:7301") && check("https://chat.internal/im"));
        for wrong in [
            "10.0.0.5:7301",
            "ftp://a",
            "http://a/?b",
            "",
            "http://",
            "http://u:p@a",
        ] {
            assert!(!check(wrong), "{wrong:?}");
        }
    }
}
