use access::{AuthConfig, Verifier, test_issuer::SECRET};
use service_runtime::{ConfigError, ConfigSource};

use crate::test_env::Files;

fn load(file: &Files, text: &str) -> Result<AuthConfig, ConfigError> {
    let path = file.write("tidemark.toml", text);
    ConfigSource::from_parts(Some(&path), [], &[])?.section("auth")
}

fn issuer(rest: &str) -> String {
    format!("[[auth.issuers]]\niss = 'https://a'\naud = 'b'\n{rest}\n")
}

#[test]
fn an_issuer_is_taken_whole_from_a_file() {
    let files = Files::new();
    let text = issuer("algorithms = ['EdDSA', 'RS256']\njwks_url = 'https://a/jwks.json'")
        + "[auth]\nleeway_s = 5\nuser_limits = { requests_per_s = 7 }\n";
    let config = load(&files, &text).unwrap();
    assert_eq!(config.issuers[0].algorithms.len(), 2);
    assert_eq!((config.leeway_s, config.user_limits.requests_per_s), (5, 7));
    assert!(config.is_configured() && !AuthConfig::default().is_configured());
}

#[test]
fn what_would_weaken_verification_is_refused_by_name() {
    let files = Files::new();
    let url = "jwks_url = 'https://a/jwks.json'";
    for (text, words) in [
        (issuer(&format!("algorithms = ['none']\n{url}")), "EdDSA"),
        (
            issuer(&format!("algorithms = []\n{url}")),
            "algorithms is empty",
        ),
        (
            issuer(&format!("algorithms = ['HS256']\n{url}")),
            "HS256 takes secret_file",
        ),
        (
            issuer(&format!("algorithms = ['HS256', 'RS256']\n{url}")),
            "HS256 takes secret_file",
        ),
        (
            issuer("algorithms = ['HS256', 'RS256']\nsecret_file = 'x'"),
            "HS256 only",
        ),
        (
            issuer("algorithms = ['RS256']\nsecret_file = 'x'"),
            "HS256 only",
        ),
        (issuer("algorithms = ['RS256']"), "exactly one of"),
        (
            issuer(&format!("algorithms = ['RS256']\n{url}\njwks_file = 'x'")),
            "exactly one of",
        ),
        (
            issuer("algorithms = ['RS256']\njwks_url = 'ftp://a/b'"),
            "jwks_url must be",
        ),
        (
            issuer("algorithms = ['RS256']\njwks_url = 'http://id.example.org/b'"),
            "without TLS",
        ),
        (
            issuer("algorithms = ['RS256']\njwks_url = 'https://u:p@a/b'"),
            "must be without",
        ),
        (
            issuer("algorithms = ['HS256']\nsecret_env = 'TIDEMARK_X'"),
            "another name",
        ),
        (issuer("algorithms = ['HS256']\nsecret = 'x'"), "secret"),
        (
            issuer("algorithms = ['HS256']\nsecret_env = 'X'").replace("'b'", "''"),
            "aud is empty",
        ),
        (
            issuer(&format!("algorithms = ['RS256']\n{url}")).repeat(2),
            "same iss",
        ),
        (
            "[auth]\nkeys_file = 'x'\nallow_anyone = true\n".to_owned(),
            "auth.allow_anyone",
        ),
        ("[auth]\nno_such_key = 1\n".to_owned(), "no_such_key"),
    ] {
        let error = load(&files, &text).unwrap_err().to_string();
        assert!(error.contains(words), "{error}\n{text}");
        assert!(!error.contains("u:p@"), "{error}");
    }
}

#[test]
fn what_cannot_be_opened_is_named_with_its_setting() {
    let files = Files::new();
    let short = files.write("short", "hunter2-is-too-short");
    let good = files.write("good", SECRET);
    let broken = files.write("broken", SECRET);
    let (short, good, broken) = (short.display(), good.display(), broken.display());
    for (text, setting) in [
        (
            issuer(&format!("algorithms = ['HS256']\nsecret_file = '{short}'")),
            "auth.issuers[0].secret_file",
        ),
        (
            issuer("algorithms = ['HS256']\nsecret_file = '/no/such'"),
            "auth.issuers[0].secret_file",
        ),
        (
            issuer("algorithms = ['HS256']\nsecret_env = 'NO_SUCH_VARIABLE'"),
            "auth.issuers[0].secret_env",
        ),
        (
            issuer(&format!("algorithms = ['RS256']\njwks_file = '{broken}'")),
            "auth.issuers[0].jwks_file",
        ),
        (
            format!("[auth]\nkeys_file = '{broken}'\n"),
            "auth.keys_file",
        ),
    ] {
        let config = load(&files, &text).unwrap();
        let error = Verifier::open(&config).unwrap_err().to_string();
        assert!(error.contains(setting), "{error}");
        assert!(
            !error.contains("hunter2") && !error.contains(SECRET),
            "{error}"
        );
    }
    let config = load(
        &files,
        &issuer(&format!("algorithms = ['HS256']\nsecret_file = '{good}'")),
    );
    let verifier = Verifier::open(&config.unwrap()).unwrap();
    assert!(!format!("{verifier:?}").contains(SECRET));
}
