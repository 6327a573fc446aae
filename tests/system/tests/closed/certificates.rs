//! An authority, and a certificate for 127.0.0.1 that it has signed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// PEM files.
pub struct Certificates {
    pub ca: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
    /// An authority that has signed nothing.
    pub stranger: PathBuf,
}

impl Certificates {
    pub fn write(dir: &Path) -> Result<Self> {
        let (authority, ca_pem) = authority("Tidemark test")?;
        let (_, stranger_pem) = self::authority("Stranger")?;
        let key = KeyPair::generate()?;
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let cert = CertificateParams::new(names)?.signed_by(&key, &authority)?;
        let write = |name: &str, content: String| {
            let path = dir.join(name);
            fs::write(&path, content).map(|()| path)
        };
        Ok(Self {
            ca: write("ca.pem", ca_pem)?,
            cert: write("cert.pem", cert.pem())?,
            key: write("key.pem", key.serialize_pem())?,
            stranger: write("stranger.pem", stranger_pem)?,
        })
    }
}

fn authority(name: &str) -> Result<(Issuer<'static, KeyPair>, String)> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    let pem = params.self_signed(&key)?.pem();
    Ok((Issuer::new(params, key), pem))
}
