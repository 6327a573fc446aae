use std::{io::Write as _, net::SocketAddr};

use garde::Validate;
use serde::Deserialize;
use tempfile::NamedTempFile;

use super::*;

#[derive(Debug, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields, default)]
struct Ingest {
    #[garde(skip)]
    bind: String,
    #[garde(range(min = 1, max = 16_384))]
    max_msg_bytes: usize,
    #[garde(skip)]
    brokers: Vec<String>,
    #[garde(skip)]
    verbose: bool,
    #[garde(skip)]
    password: Secret,
    #[garde(skip)]
    token: Option<Secret>,
    #[garde(skip)]
    spill_file: Option<String>,
    #[garde(dive)]
    retry: Retry,
    #[garde(dive)]
    others: Vec<Retry>,
    #[garde(skip)]
    batch_linger_ms: u32,
    #[garde(skip)]
    peer: SocketAddr,
}

#[derive(Debug, Default, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields, default)]
struct Retry {
    #[garde(range(max = 10))]
    attempts: u8,
}

impl Default for Ingest {
    fn default() -> Self {
        Self {
            bind: "127.0.0.1:7301".to_owned(),
            max_msg_bytes: 1_000,
            brokers: vec!["127.0.0.1:7392".to_owned()],
            verbose: false,
            password: Secret::from("built-in"),
            token: None,
            spill_file: None,
            retry: Retry::default(),
            others: Vec::new(),
            batch_linger_ms: 1,
            peer: SocketAddr::from(([127, 0, 0, 1], 7303)),
        }
    }
}

/// The layers of one test: a file's text, variables, overrides.
#[derive(Default)]
struct Layers<'a> {
    file: &'a str,
    environment: &'a [(&'a str, &'a str)],
    overrides: &'a [(&'a str, &'a str)],
}

impl Layers<'_> {
    fn source(&self) -> Result<ConfigSource, ConfigError> {
        let file = file_with(self.file);
        ConfigSource::from_parts(
            Some(file.path()),
            owned(self.environment),
            &owned(self.overrides),
        )
    }

    fn ingest(&self) -> Result<Ingest, ConfigError> {
        self.source()?.section("ingest")
    }

    /// The only error, which must name all of `parts`.
    fn refused(&self, parts: &[&str]) {
        let message = self.ingest().unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
    }
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
    pairs.iter().map(owned).collect()
}

fn file_with(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::with_suffix(".toml").unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[test]
fn without_anything_the_defaults_hold() {
    let ingest: Ingest = ConfigSource::default().section("ingest").unwrap();
    assert_eq!(ingest.max_msg_bytes, 1_000);
    assert_eq!(ingest.password.expose(), "built-in");
    assert!(ingest.token.is_none());
}

#[test]
fn each_layer_goes_over_the_one_below() {
    let file = "[ingest]\nbind = 'file'\nmax_msg_bytes = 1\n[ingest.retry]\nattempts = 1";
    let environment = &[
        ("TIDEMARK_INGEST__BIND", "env"),
        ("TIDEMARK_INGEST__MAX_MSG_BYTES", "2"),
        ("TIDEMARK_INGEST__RETRY__ATTEMPTS", "2"),
        ("TIDEMARK_CONFIG", "is no setting"),
        ("PATH", "neither is this"),
    ];
    let layers = Layers {
        file,
        ..Layers::default()
    };
    let ingest = layers.ingest().unwrap();
    assert_eq!((ingest.bind.as_str(), ingest.retry.attempts), ("file", 1));

    let layers = Layers {
        environment,
        ..layers
    };
    let ingest = layers.ingest().unwrap();
    assert_eq!((ingest.bind.as_str(), ingest.retry.attempts), ("env", 2));

    let layers = Layers {
        overrides: &[("ingest.bind", "flag"), ("ingest.retry.attempts", "3")],
        ..layers
    };
    let ingest = layers.ingest().unwrap();
    assert_eq!((ingest.bind.as_str(), ingest.retry.attempts), ("flag", 3));
    assert_eq!(ingest.max_msg_bytes, 2);
}

#[test]
fn what_was_said_is_a_file_that_says_the_same() {
    let layers = Layers {
        file: "[runtime]\nprofile = 'throughput'\n[ingest]\nbind = 'file'\n[ingest.retry]\nattempts = 1",
        environment: &[("TIDEMARK_INGEST__RETRY__ATTEMPTS", "2")],
        overrides: &[("ingest.max_msg_bytes", "3")],
    };
    let said = layers.source().unwrap().said().unwrap();
    // A text from the environment or the command line stays a text, and is read as a number if the setting is one.
    let expected = "[runtime]\nprofile = 'throughput'\n\
                    [ingest]\nbind = 'file'\nmax_msg_bytes = '3'\n[ingest.retry]\nattempts = '2'";
    assert_eq!(said, toml::from_str(expected).unwrap());
}

#[test]
fn a_profile_goes_over_the_defaults_and_under_all_else() {
    let linger_and_origin = |overrides| {
        let layers = Layers {
            file: "[runtime]\nprofile = 'throughput'",
            overrides,
            ..Layers::default()
        };
        let ingest = layers.ingest().unwrap();
        let origin = layers.source().unwrap().origin("ingest", "batch_linger_ms");
        (ingest.batch_linger_ms, origin)
    };
    let (linger, origin) = linger_and_origin(&[]);
    assert!(linger > 1);
    assert_eq!(origin, "profile throughput");
    assert_eq!(linger_and_origin(&[("ingest.batch_linger_ms", "7")]).0, 7);
    assert_eq!(linger_and_origin(&[("runtime.profile", "latency")]).0, 1);
    Layers {
        overrides: &[("runtime.profile", "fast")],
        ..Layers::default()
    }
    .refused(&["--set runtime.profile", "must be latency or throughput"]);
}

#[test]
fn text_is_read_as_what_the_key_is() {
    let layers = Layers {
        environment: &[
            ("TIDEMARK_INGEST__BROKERS", r#"["a:1", "b:2"]"#),
            ("TIDEMARK_INGEST__VERBOSE", "true"),
            ("TIDEMARK_INGEST__BIND", "12"),
            ("TIDEMARK_INGEST__PASSWORD", "007"),
            ("TIDEMARK_INGEST__TOKEN", "[not a list"),
        ],
        ..Layers::default()
    };
    let ingest = layers.ingest().unwrap();
    assert_eq!(ingest.brokers, ["a:1", "b:2"]);
    assert!(ingest.verbose);
    assert_eq!(ingest.bind, "12");
    assert_eq!(ingest.password.expose(), "007");
    assert_eq!(ingest.token.unwrap().expose(), "[not a list");
}

#[test]
fn an_unknown_key_is_refused_wherever_it_stands() {
    let right = "must be one of bind, max_msg_bytes";
    Layers {
        file: "[ingest]\nbund = 'x'",
        ..Layers::default()
    }
    .refused(&["file ", ".toml", "ingest.bund", right]);
    Layers {
        environment: &[("TIDEMARK_INGEST__BUND", "x")],
        ..Layers::default()
    }
    .refused(&["TIDEMARK_INGEST__BUND", "ingest.bund", right]);
    Layers {
        overrides: &[("ingest.bund", "x")],
        ..Layers::default()
    }
    .refused(&["--set ingest.bund", right]);
    Layers {
        file: "[ingest.retry]\ntimes = 3",
        ..Layers::default()
    }
    .refused(&["ingest.retry.times", "must be one of attempts"]);
}

#[test]
fn an_unknown_section_is_refused_wherever_it_stands() {
    for layers in [
        Layers {
            file: "[ingets]",
            ..Layers::default()
        },
        Layers {
            file: "[ingets]\nbind = 1",
            ..Layers::default()
        },
        Layers {
            environment: &[("TIDEMARK_INGETS__BIND", "x")],
            ..Layers::default()
        },
        Layers {
            overrides: &[("ingets.bind", "x")],
            ..Layers::default()
        },
    ] {
        layers.refused(&["[ingets] is not a section", "query_api"]);
    }
}

#[test]
fn a_key_outside_every_section_is_refused() {
    Layers {
        file: "bind = 'x'",
        ..Layers::default()
    }
    .refused(&["file ", "bind is outside every section"]);
}

#[test]
fn a_wrong_type_says_where_what_and_what_is_right() {
    Layers {
        environment: &[("TIDEMARK_INGEST__MAX_MSG_BYTES", "many")],
        ..Layers::default()
    }
    .refused(&[
        "environment variable TIDEMARK_INGEST__MAX_MSG_BYTES: ingest.max_msg_bytes is text",
        "must be a whole number, 0 or more",
    ]);
}

#[test]
fn what_was_given_is_not_repeated() {
    let leaky = [
        ("ingest.others", "[{password=hush"),
        ("ingest.brokers", "hush"),
    ];
    for one in leaky {
        let layers = Layers {
            overrides: &[one],
            ..Layers::default()
        };
        let message = layers.ingest().unwrap_err().to_string();
        assert!(message.ends_with("is text; must be a list"), "{message}");
    }
}

#[test]
fn where_a_complaint_does_not_say_what_is_right_the_default_does() {
    Layers {
        overrides: &[("ingest.peer", "here")],
        ..Layers::default()
    }
    .refused(&["ingest.peer is not an IP address and a port; the default is \"127.0.0.1:7303\""]);
}

#[test]
fn what_is_wrong_in_a_list_was_said_where_the_list_was() {
    Layers {
        file: "[ingest]\nothers = [{ attempts = 1 }, { attempts = 11 }]",
        ..Layers::default()
    }
    .refused(&[".toml: ingest.others[1].attempts is refused: greater than 10"]);
}

#[test]
fn bounds_are_checked_and_every_breach_is_named() {
    Layers {
        file: "[ingest]\nmax_msg_bytes = 0\nretry = { attempts = 11 }",
        overrides: &[("ingest.max_msg_bytes", "20000")],
        ..Layers::default()
    }
    .refused(&[
        "--set ingest.max_msg_bytes: ingest.max_msg_bytes is refused: greater than 16384; the default is 1000",
        ".toml: ingest.retry.attempts is refused: greater than 10; the default is 0",
    ]);
}

#[test]
fn a_secret_may_stand_in_a_file_of_its_own() {
    let secret = file_with("from file\n\n");
    let path = secret.path().to_str().unwrap();
    let pointer = format!("[ingest]\ntoken_file = '{path}'");
    let environment = [("TIDEMARK_INGEST__PASSWORD_FILE", path)];
    let ingest = Layers {
        file: &pointer,
        environment: &environment,
        ..Layers::default()
    }
    .ingest()
    .unwrap();
    assert_eq!(ingest.password.expose(), "from file\n");
    assert_eq!(ingest.token.unwrap().expose(), "from file\n");
}

#[test]
fn a_key_that_happens_to_end_in_file_is_itself() {
    let ingest = Layers {
        file: "[ingest]\nspill_file = '/nowhere'",
        ..Layers::default()
    }
    .ingest()
    .unwrap();
    assert_eq!(ingest.spill_file.as_deref(), Some("/nowhere"));
}

#[test]
fn a_missing_secret_file_is_named() {
    Layers {
        environment: &[("TIDEMARK_INGEST__PASSWORD_FILE", "/nowhere/secret")],
        ..Layers::default()
    }
    .refused(&[
        "TIDEMARK_INGEST__PASSWORD_FILE",
        "ingest.password_file",
        "/nowhere/secret",
    ]);
}

#[test]
fn what_is_shown_holds_no_secret() {
    let source = Layers {
        overrides: &[("ingest.password", "hunter2"), ("ingest.token", "hunter3")],
        ..Layers::default()
    }
    .source()
    .unwrap();
    let shown = source.effective::<Ingest>("ingest").unwrap();
    assert_eq!(shown["password"], "[redacted]");
    assert_eq!(shown["token"], "[redacted]");
    assert_eq!(shown["max_msg_bytes"], 1_000);
    let ingest: Ingest = source.section("ingest").unwrap();
    assert!(!format!("{ingest:?}").contains("hunter"));
    assert_eq!(ingest.password.expose(), "hunter2");
}

#[test]
fn complaints_quote_no_secret() {
    for file in [
        "[ingest]\npassword = 424242",
        "[ingest]\npassword = [424242]",
        "[ingest]\npassword = 4242.42",
        "[ingest]\npassword = 424242abc",
    ] {
        let layers = Layers {
            file,
            ..Layers::default()
        };
        let message = layers.ingest().unwrap_err().to_string();
        assert!(!message.contains("4242"), "{message}");
        assert!(message.contains(".toml"), "{message}");
    }
}

#[test]
fn a_broken_file_is_named_with_the_line() {
    Layers {
        file: "[ingest]\nbind = 'x'\nmax_msg_bytes = = 1",
        ..Layers::default()
    }
    .refused(&[".toml, line 3", "must be valid TOML"]);
    let missing = ConfigSource::from_parts(Some(Path::new("/nowhere.toml")), [], &[]);
    assert!(missing.unwrap_err().to_string().contains("/nowhere.toml"));
}

#[test]
fn an_override_needs_a_section_and_a_key() {
    for path in ["bind", ".bind", "ingest."] {
        let source = ConfigSource::from_parts(None, [], &owned(&[(path, "x")]));
        assert!(
            matches!(source, Err(ConfigError::MalformedOverride { .. })),
            "{path}"
        );
    }
}

#[test]
fn a_variable_that_names_no_section_is_refused_unless_it_is_known() {
    let of = |name| ConfigSource::from_parts(None, owned(&[(name, "1")]), &[]);
    let message = of("TIDEMARK_FOO").unwrap_err().to_string();
    assert!(message.contains("TIDEMARK_FOO"), "{message}");
    assert!(of("TIDEMARK_INGEST_LISTEN").is_err());
    for known in [
        "TIDEMARK_CONFIG",
        "TIDEMARK_CACHE",
        "TIDEMARK_TOKEN",
        "TIDEMARK_TEST_KAFKA",
        "PATH",
    ] {
        assert!(of(known).is_ok(), "{known}");
    }
}

#[test]
fn the_place_of_a_value_is_known() {
    let source = Layers {
        file: "[ingest]\nbind = 'a'\n",
        overrides: &[("ingest.token", "x")],
        ..Layers::default()
    }
    .source()
    .unwrap();
    assert!(source.origin("ingest", "bind").starts_with("file "));
    assert_eq!(source.origin("ingest", "token"), "--set ingest.token");
    assert_eq!(source.origin("ingest", "retry"), "built-in default");
}
