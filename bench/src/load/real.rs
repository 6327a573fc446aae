//! The senders and receivers of a real network: CollegeMsg (Panzarasa, Opsahl, Carley 2009), which the tests and the demo load, too.

use std::io::Read as _;

use anyhow::{Context as _, Result};
use flate2::read::GzDecoder;

const DATA: &[u8] = include_bytes!("../../../tests/data/college-msg.txt.gz");

/// Sender and receiver of each message, in the order of their times; uids from 1.
///
/// # Errors
/// If the data file is damaged.
pub(crate) fn pairs() -> Result<Vec<(u64, u64)>> {
    let mut text = String::new();
    GzDecoder::new(DATA).read_to_string(&mut text)?;
    text.lines()
        .map(|line| {
            let mut fields = line.split(' ').map(str::parse);
            let mut uid = || fields.next().context("a short line")?.context("no uid");
            Ok((uid()?, uid()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_59_835_messages_of_1_899_users() {
        let pairs = pairs().unwrap();
        assert_eq!(pairs.len(), 59_835);
        let users: std::collections::BTreeSet<u64> =
            pairs.iter().flat_map(|(from, to)| [*from, *to]).collect();
        assert_eq!(users.len(), 1_899);
    }
}
