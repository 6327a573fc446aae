//! The credentials of commands.

use std::{
    env::{self, VarError},
    fs,
    path::PathBuf,
};

use service_runtime::{Secret, config::TOKEN_VARIABLE, without_mark};

use crate::failure::Failure;

/// Where the token is; none is needed if the services have no authentication.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Credentials {
    /// The file with the token or service key to call services with; without it the variable TIDEMARK_TOKEN
    #[arg(long, value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,
}

impl Credentials {
    pub(crate) fn token(&self) -> Result<Option<Secret>, Failure> {
        let (place, text) = match &self.token_file {
            Some(path) => {
                let place = format!("--token-file {}", path.display());
                let text = fs::read_to_string(path)
                    .map_err(|error| Failure::Usage(format!("{place}: cannot be read: {error}")))?;
                (place, text)
            }
            None => match env::var(TOKEN_VARIABLE) {
                Ok(text) => (TOKEN_VARIABLE.to_owned(), text),
                Err(VarError::NotPresent) => return Ok(None),
                Err(VarError::NotUnicode(_)) => (TOKEN_VARIABLE.to_owned(), String::new()),
            },
        };
        parse(&text)
            .map(Some)
            .map_err(|problem| Failure::Usage(format!("{place}: {problem}")))
    }
}

/// A token is one word: any other text cannot be a header's value.
fn parse(text: &str) -> Result<Secret, &'static str> {
    let token = without_mark(text).trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("holds no token; must be one JWT or service key");
    }
    Ok(Secret::from(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_word() {
        assert_eq!(parse("abc.def.ghi\n").unwrap().expose(), "abc.def.ghi");
        assert_eq!(parse("\u{feff}abc\r\n").unwrap().expose(), "abc");
        for text in ["", "\n", "two words", "ü", "a\nb"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
