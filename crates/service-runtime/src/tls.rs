//! TLS for the listeners of a process.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::Duration;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

/// How often the files are read again. A certificate is renewed days before it expires, so seconds are soon enough.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// Table `http.tls`: every listener of the process speaks TLS, and nothing else.
#[derive(Debug, Clone, Serialize, Deserialize, garde::Validate)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM file with the certificate, followed by those of the intermediate authorities.
    #[garde(skip)]
    pub cert_file: PathBuf,
    /// PEM file with the certificate's key, not encrypted.
    #[garde(skip)]
    pub key_file: PathBuf,
    /// How long a connection may take for its handshake.
    #[garde(range(min = 100, max = 600_000))]
    #[serde(default = "default_handshake_timeout_ms")]
    pub handshake_timeout_ms: u64,
}

impl TlsConfig {
    /// Reads the files, as a listener would.
    ///
    /// # Errors
    /// A file that cannot be read or used.
    pub fn check(&self) -> Result<(), TlsError> {
        ServerTls::load(self).map(drop)
    }
}

fn default_handshake_timeout_ms() -> u64 {
    10_000
}

/// A certificate that cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file does not exist or is not readable.
    #[error("{setting}: {} cannot be read: {reason}; must be a readable PEM file", path.display())]
    Unreadable {
        /// The setting that names the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        reason: io::Error,
    },
    /// A file has unusable contents.
    #[error("{setting}: {} {problem}", path.display())]
    Unusable {
        /// The setting that names the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong and what is right.
        problem: String,
    },
}

/// Makes aws-lc-rs the provider of cryptography for all code in this process that names none. May be called repeatedly.
pub fn install_crypto_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // A provider that is installed already stays.
        let _ = aws_lc_rs::default_provider().install_default();
    });
}

/// The certificate that listeners show. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ServerTls {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) handshake_timeout: Duration,
    certificate: Arc<Certificate>,
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

impl ServerTls {
    /// Reads the files.
    pub(crate) fn load(config: &TlsConfig) -> Result<Self, TlsError> {
        install_crypto_provider();
        let certificate = Arc::new(Certificate::load(config)?);
        let mut server = ServerConfig::builder()
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&certificate) as Arc<dyn ResolvesServerCert>);
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(server)),
            handshake_timeout: Duration::from_millis(config.handshake_timeout_ms),
            certificate,
        })
    }

    /// Shows new connections the contents of the files whenever these change. An unusable content is reported, and the last good certificate stays.
    pub(crate) async fn reload_files(&self) {
        let mut last_error = String::new();
        loop {
            sleep(RELOAD_INTERVAL).await;
            match self.certificate.reload() {
                Ok(is_new) => {
                    last_error.clear();
                    if is_new {
                        info!("the certificate of http.tls.cert_file was read again");
                    }
                }
                Err(error) => {
                    let message = error.to_string();
                    if message != last_error {
                        warn!(%error, "the certificate is not renewed");
                        last_error = message;
                    }
                }
            }
        }
    }
}

#[derive(Debug)]
struct Certificate {
    files: Files,
    shown: RwLock<Shown>,
}

#[derive(Debug)]
struct Files {
    cert: PathBuf,
    key: PathBuf,
}

#[derive(Debug)]
struct Shown {
    content: Content,
    key: Arc<CertifiedKey>,
}

/// The bytes of both files. Comparing them is simpler than time stamps, and correct for symbolic links that are switched.
#[derive(PartialEq, Eq)]
struct Content {
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl Certificate {
    fn load(config: &TlsConfig) -> Result<Self, TlsError> {
        let files = Files {
            cert: config.cert_file.clone(),
            key: config.key_file.clone(),
        };
        let content = files.read()?;
        let key = files.certified(&content)?;
        let shown = RwLock::new(Shown { content, key });
        Ok(Self { files, shown })
    }

    /// Reads the files again. Returns whether a new certificate is shown from now on.
    fn reload(&self) -> Result<bool, TlsError> {
        let content = self.files.read()?;
        let is_known = {
            let shown = self.shown.read();
            shown.content == content
        };
        if is_known {
            return Ok(false);
        }
        let key = self.files.certified(&content)?;
        *self.shown.write() = Shown { content, key };
        Ok(true)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let shown = self.shown.read();
        Some(Arc::clone(&shown.key))
    }
}

/// Checks that a file has certificates in PEM, such as those of authorities.
///
/// # Errors
/// The error completes a sentence that begins with the file: "which …".
pub fn check_certificates(path: &Path) -> Result<(), String> {
    let pem = fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err("has no certificates".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("is no PEM file: {error}")),
    }
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

const CERT_SETTING: &str = "http.tls.cert_file";
const KEY_SETTING: &str = "http.tls.key_file";

impl Files {
    fn read(&self) -> Result<Content, TlsError> {
        Ok(Content {
            cert: read(CERT_SETTING, &self.cert)?,
            key: read(KEY_SETTING, &self.key)?,
        })
    }

    fn certified(&self, content: &Content) -> Result<Arc<CertifiedKey>, TlsError> {
        let bad_cert = |problem: String| unusable(CERT_SETTING, &self.cert, problem);
        let bad_key = |problem: String| unusable(KEY_SETTING, &self.key, problem);
        let chain = CertificateDer::pem_slice_iter(&content.cert)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| bad_cert(format!("is no PEM file: {error}")))?;
        if chain.is_empty() {
            return Err(bad_cert("has no BEGIN CERTIFICATE in it".to_owned()));
        }
        if is_encrypted(&content.key) {
            let right = "is encrypted; must be a key without a passphrase (openssl pkey -in … -out …), readable by this user only";
            return Err(bad_key(right.to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(&content.key)
            .map_err(|error| bad_key(format!("has no private key in PEM: {error}")))?;
        CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
            .map(Arc::new)
            .map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => bad_key(format!(
                    "is not the key of the certificate in {}; must belong to it",
                    self.cert.display()
                )),
                error => bad_key(format!("and {CERT_SETTING} cannot be used: {error}")),
            })
    }
}

fn read(setting: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut content = fs::read(path).map_err(|reason| TlsError::Unreadable {
        setting,
        path: path.to_owned(),
        reason,
    })?;
    // With a byte order mark, the first line would not be a BEGIN.
    if content.starts_with(BYTE_ORDER_MARK) {
        content.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(content)
}

fn unusable(setting: &'static str, path: &Path, problem: String) -> TlsError {
    TlsError::Unusable {
        setting,
        path: path.to_owned(),
        problem,
    }
}

/// Whether a key is encrypted: PKCS #8 says so in its label, older forms in a header.
fn is_encrypted(pem: &[u8]) -> bool {
    let text = String::from_utf8_lossy(pem);
    text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED")
}
