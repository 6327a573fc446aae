/// Up to where a user has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpTo {
    Latest,
    Message(i64),
}

impl std::str::FromStr for UpTo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "latest" => Ok(Self::Latest),
            _ => text
                .parse()
                .map(Self::Message)
                .map_err(|_| "must be a mid or `latest`".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Args;

    #[test]
    fn latest_is_a_place_to_have_read_up_to() {
        assert_eq!("latest".parse(), Ok(UpTo::Latest));
        assert_eq!("42".parse(), Ok(UpTo::Message(42)));
        let mut line = vec!["tidemark", "ack", "1", "2", "pc"];
        assert!(Args::try_parse_from(&line).is_ok());
        line.push("latest");
        assert!(Args::try_parse_from(&line).is_ok());
    }
}
