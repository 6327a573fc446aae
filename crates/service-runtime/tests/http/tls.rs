//! Listeners that speak TLS.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use reqwest::{Certificate, Client};
use service_runtime::{HttpConfig, TlsConfig, bind_listener};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::server::{PATIENCE, Server, any_port, rest_of};

/// A certificate for 127.0.0.1 in files, which may be replaced.
struct Files {
    dir: TempDir,
}

impl Files {
    fn new() -> (Self, Certificate) {
        let files = Self {
            dir: TempDir::new().unwrap(),
        };
        let authority = files.renew();
        (files, authority)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Another certificate with another key; gives what clients must trust.
    fn renew(&self) -> Certificate {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        fs::write(self.path("cert.pem"), cert.pem()).unwrap();
        fs::write(self.path("key.pem"), signing_key.serialize_pem()).unwrap();
        Certificate::from_pem(cert.pem().as_bytes()).unwrap()
    }

    fn http(&self) -> HttpConfig {
        HttpConfig {
            tls: Some(TlsConfig {
                cert_file: self.path("cert.pem"),
                key_file: self.path("key.pem"),
                handshake_timeout_ms: 500,
            }),
            ..HttpConfig::default()
        }
    }

    async fn refused(&self) -> String {
        let http = self.http();
        let bound = bind_listener("test.bind", any_port(), &http, &http);
        bound.unwrap_err().to_string()
    }
}

fn hello() -> Router {
    Router::new().route("/", get(async || "hello"))
}

fn trusting(authority: Certificate) -> Client {
    // Only this one: the system's authorities have nothing to do with the test.
    let client = Client::builder().tls_certs_only([authority]).no_proxy();
    client.pool_max_idle_per_host(0).build().unwrap()
}

async fn ask(client: &Client, server: &Server) -> reqwest::Result<String> {
    let url = format!("https://{}/", server.addr);
    client.get(url).send().await?.text().await
}

#[tokio::test]
async fn calls_are_answered_over_tls_and_nothing_else() {
    let (files, authority) = Files::new();
    let server = Server::start(hello(), files.http()).await;
    assert_eq!(ask(&trusting(authority), &server).await.unwrap(), "hello");
    let (_, other) = Files::new();
    assert!(
        ask(&trusting(other), &server).await.is_err(),
        "an unknown authority is trusted"
    );
    let plain = server.tell(b"GET / HTTP/1.1\r\nhost: t\r\n\r\n").await;
    assert!(!plain.contains("hello"), "{plain}");
    server.shutdown.begin();
    server.ended().await;
}

#[tokio::test]
async fn a_handshake_that_does_not_come_blocks_nobody_and_ends() {
    let (files, authority) = Files::new();
    let server = Server::start(hello(), files.http()).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(server.addr).await.unwrap());
    }
    silent[0].write_all(b"\x16\x03\x01").await.unwrap();
    assert_eq!(ask(&trusting(authority), &server).await.unwrap(), "hello");
    for mut stream in silent {
        assert_eq!(rest_of(&mut stream).await, "");
    }
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_and_a_broken_one_is_not() {
    let (files, old) = Files::new();
    let server = Server::start(hello(), files.http()).await;
    assert!(ask(&trusting(old.clone()), &server).await.is_ok());
    let good_key = fs::read(files.path("key.pem")).unwrap();

    let new = files.renew();
    let renewed = async {
        while ask(&trusting(new.clone()), &server).await.is_err() {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, renewed)
        .await
        .expect("the new certificate is shown");
    assert!(ask(&trusting(old), &server).await.is_err());

    // A key that does not belong to it: the last good pair stays.
    fs::write(files.path("key.pem"), good_key).unwrap();
    sleep(Duration::from_secs(6)).await;
    assert!(ask(&trusting(new), &server).await.is_ok());
}

#[tokio::test]
async fn a_certificate_that_cannot_be_served_is_named_with_its_setting() {
    let (files, _) = Files::new();
    let key = files.path("key.pem");
    fs::write(&key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let said = files.refused().await;
    assert!(
        said.contains("http.tls.key_file") && said.contains("is not the key of the certificate"),
        "{said}"
    );

    fs::write(
        &key,
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n",
    )
    .unwrap();
    let said = files.refused().await;
    assert!(
        said.contains("http.tls.key_file") && said.contains("is encrypted; must be"),
        "{said}"
    );

    fs::write(&key, "no key").unwrap();
    let said = files.refused().await;
    assert!(
        said.contains("http.tls.key_file") && said.contains("has no private key"),
        "{said}"
    );
    assert!(
        !said.contains("no key\""),
        "the content of a key is shown: {said}"
    );

    fs::remove_file(&key).unwrap();
    let said = files.refused().await;
    assert!(
        said.contains("http.tls.key_file") && said.contains("cannot be read"),
        "{said}"
    );

    files.renew();
    empty(&files.path("cert.pem"));
    let said = files.refused().await;
    assert!(
        said.contains("http.tls.cert_file") && said.contains("no BEGIN CERTIFICATE"),
        "{said}"
    );
}

fn empty(path: &Path) {
    fs::write(path, "").unwrap();
}
