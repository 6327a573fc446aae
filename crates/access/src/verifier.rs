//! Verifies tokens and service keys.

use std::{env, path::Path, sync::Arc};

use jsonwebtoken::DecodingKey;
use service_runtime::{ConfigError, Secret, Shutdown, ValueError, secret_in};
use time::OffsetDateTime;

use crate::{
    caller::{Caller, ValidUntil},
    config::{Algorithm, AuthConfig, IssuerConfig, Source},
    key_set::KeySet,
    refusal::Refusal,
    reloaded_file::{self, ReloadedFile},
    remote_keys::RemoteKeys,
    service_key::ServiceKey,
    service_keys::ServiceKeys,
    token::Unverified,
};

/// What RFC 7518 wants of a secret of HS256, bytes.
const MIN_SECRET_BYTES: usize = 32;

/// Verifies tokens and service keys.
#[derive(Debug)]
pub struct Verifier {
    issuers: Vec<Issuer>,
    service_keys: Option<ReloadedFile<ServiceKeys>>,
    leeway_s: u32,
}

#[derive(Debug)]
struct Issuer {
    config: IssuerConfig,
    keys: Keys,
}

#[derive(Debug)]
enum Keys {
    Secret(DecodingKey),
    File(ReloadedFile<KeySet>),
    Remote(Arc<RemoteKeys>),
}

impl Verifier {
    /// Reads the files and variables that `config` names. Key sets with a URL are fetched when they are needed.
    ///
    /// # Errors
    /// The setting at fault, and what is wrong with what it names. No word of a secret.
    pub fn open(config: &AuthConfig) -> Result<Self, ConfigError> {
        let issuers = config.issuers.iter().enumerate().map(|(i, issuer)| {
            let keys = Keys::open(issuer, config)
                .map_err(|(key, problem)| refused(format!("auth.issuers[{i}].{key}"), problem))?;
            Ok(Issuer {
                config: issuer.clone(),
                keys,
            })
        });
        let service_keys = config.keys_file.as_ref().map(|path| {
            ReloadedFile::open(path, "keys_file", ServiceKeys::parse)
                .map_err(|problem| refused("auth.keys_file".to_owned(), of_file(path, &problem)))
        });
        Ok(Self {
            issuers: issuers.collect::<Result<_, _>>()?,
            service_keys: service_keys.transpose()?,
            leeway_s: config.leeway_s,
        })
    }

    /// The caller that this token or service key authenticates at `now`.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn verify(&self, bearer: &str, now: OffsetDateTime) -> Result<Caller, Refusal> {
        Ok(self.verify_until(bearer, now).await?.0)
    }

    /// The same, and when the token or key ends.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn verify_until(
        &self,
        bearer: &str,
        now: OffsetDateTime,
    ) -> Result<(Caller, ValidUntil), Refusal> {
        if ServiceKey::has_prefix(bearer) {
            return self.verify_service_key(bearer, now);
        }
        let token = Unverified::parse(bearer)?;
        let issuer = self
            .issuers
            .iter()
            .find(|one| one.config.iss == token.iss());
        let issuer = issuer.ok_or(Refusal::Issuer)?;
        let algorithm = token.algorithm(&issuer.config)?;
        let key = issuer.keys.get(&token, algorithm).await?;
        let (uid, until) = token.verify(&issuer.config, algorithm, &key, self.leeway_s, now)?;
        Ok((Caller::User(uid), ValidUntil(until)))
    }

    fn verify_service_key(
        &self,
        key: &str,
        now: OffsetDateTime,
    ) -> Result<(Caller, ValidUntil), Refusal> {
        let key = ServiceKey::parse(key).ok_or(Refusal::ServiceKey)?;
        let keys = self.service_keys.as_ref().ok_or(Refusal::ServiceKey)?;
        let found = keys.get().find(&key, now).ok_or(Refusal::ServiceKey)?;
        let (service, until) = found;
        Ok((Caller::Service(service), ValidUntil(until)))
    }

    /// Reads the files again.
    pub fn reload_files(&self) {
        if let Some(keys) = &self.service_keys {
            keys.refresh();
        }
        for issuer in &self.issuers {
            if let Keys::File(keys) = &issuer.keys {
                keys.refresh();
            }
        }
    }

    /// One worker for each key set with a URL, with its issuer.
    pub(crate) fn fetchers(
        &self,
        shutdown: &Shutdown,
    ) -> impl Iterator<Item = (String, impl Future<Output = ()> + use<>)> {
        self.issuers.iter().filter_map(|issuer| match &issuer.keys {
            Keys::Remote(keys) => {
                let (keys, shutdown) = (Arc::clone(keys), shutdown.clone());
                let worker = async move { keys.keep_fresh(shutdown).await };
                Some((issuer.config.iss.clone(), worker))
            }
            Keys::Secret(_) | Keys::File(_) => None,
        })
    }
}

impl Keys {
    /// An error has the key of the setting at fault beside what is wrong.
    fn open(issuer: &IssuerConfig, config: &AuthConfig) -> Result<Self, (&'static str, String)> {
        match issuer.source() {
            Some(Source::Url(url)) => RemoteKeys::new(&issuer.iss, url, config)
                .map(|keys| Self::Remote(Arc::new(keys)))
                .map_err(|error| ("jwks_url", error.without_url().to_string())),
            Some(Source::File(path)) => ReloadedFile::open(path, &issuer.iss, KeySet::parse)
                .map(Self::File)
                .map_err(|problem| ("jwks_file", of_file(path, &problem))),
            Some(Source::SecretFile(path)) => reloaded_file::read(path)
                .map(|text| Secret::from(secret_in(&text)))
                .and_then(|secret| Self::of_secret(&secret))
                .map_err(|problem| ("secret_file", of_file(path, &problem))),
            Some(Source::SecretVariable(name)) => env::var(name)
                .map_err(|_| "is not set; must be".to_owned())
                .and_then(|secret| Self::of_secret(&Secret::from(secret.as_str())))
                .map_err(|problem| {
                    (
                        "secret_env",
                        format!("names the variable {name}, which {problem}"),
                    )
                }),
            None => Err(("iss", "has no source of keys; must have one".to_owned())),
        }
    }

    fn of_secret(secret: &Secret) -> Result<Self, String> {
        let secret = secret.expose().as_bytes();
        if secret.len() < MIN_SECRET_BYTES {
            return Err(format!(
                "has {} bytes; must have {MIN_SECRET_BYTES} or more, drawn at random",
                secret.len()
            ));
        }
        Ok(Self::Secret(DecodingKey::from_secret(secret)))
    }

    /// The key that `token` says it is signed with; only one that is of `algorithm`'s kind.
    async fn get(
        &self,
        token: &Unverified<'_>,
        algorithm: Algorithm,
    ) -> Result<DecodingKey, Refusal> {
        match self {
            Self::Secret(key) => Ok(key.clone()),
            Self::File(keys) => {
                let key = keys.get().get(token.kid()?, algorithm);
                key.ok_or(Refusal::UnknownKey)
            }
            Self::Remote(keys) => keys.get(token.kid()?, algorithm).await,
        }
    }
}

fn of_file(path: &Path, problem: &str) -> String {
    format!("names {}, which {problem}", path.display())
}

fn refused(key: String, problem: String) -> ConfigError {
    ConfigError::Values(vec![ValueError {
        origin: "section auth".to_owned(),
        key,
        problem,
    }])
}
