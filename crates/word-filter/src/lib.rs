#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod dictionary;
mod normalised;
mod scripts;

use std::ops::Range;

use aho_corasick::AhoCorasick;

pub use self::dictionary::{InvalidDictionary, MAX_WORDS};
use self::{
    normalised::{Normalised, normalise},
    scripts::is_letter_between_spaces,
};

/// What happens to a text that has a word, the strictest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// The text is marked, and passes unchanged.
    Flag,
    /// The word is replaced by asterisks.
    Mask,
    /// The text is refused.
    Refuse,
}

/// The result of checking a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The text has none of the words.
    Clean,
    /// The text has words that are flagged.
    Flagged,
    /// The text has words that are masked: the text with an asterisk for each of their characters.
    Masked(String),
    /// The text has a word that is refused.
    Refused,
}

/// A dictionary, ready to search.
#[derive(Clone, Debug)]
pub struct WordFilter {
    automaton: AhoCorasick,
    /// The words, by their numbers in the automaton.
    words: Vec<Word>,
    version: u64,
}

#[derive(Clone, Copy, Debug)]
struct Word {
    action: Action,
    /// A letter before the word means that it does not match.
    starts_a_word: bool,
    /// A letter after the word means that it does not match.
    ends_a_word: bool,
}

impl WordFilter {
    /// The first 8 bytes of BLAKE3 over the words and their actions, in normal form and sorted: the same for dictionaries with the same meaning.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The number of words.
    #[must_use]
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// Looks for the words in a text.
    #[must_use]
    pub fn check(&self, text: &str) -> Checked {
        let normal = normalise(text);
        let normal = normal.as_str(text);
        match self.found(normal).map(|(action, _)| action).max() {
            None => Checked::Clean,
            Some(Action::Flag) => Checked::Flagged,
            Some(Action::Mask) => Checked::Masked(self.masked(text)),
            Some(Action::Refuse) => Checked::Refused,
        }
    }

    /// The actions of the words found, and their places in the normal form.
    fn found<'a>(&'a self, normal: &'a str) -> impl Iterator<Item = (Action, Range<usize>)> + 'a {
        let matches = self.automaton.find_overlapping_iter(normal);
        matches.filter_map(|found| {
            let word = self.words[found.pattern().as_usize()];
            let before = || normal[..found.start()].chars().next_back();
            let behind = || normal[found.end()..].chars().next();
            let is_part = word.starts_a_word && before().is_some_and(is_letter_between_spaces)
                || word.ends_a_word && behind().is_some_and(is_letter_between_spaces);
            (!is_part).then_some((word.action, found.range()))
        })
    }

    fn masked(&self, text: &str) -> String {
        let normal = Normalised::with_origins(text);
        let found = self.found(normal.text());
        let spans = found.filter(|(action, _)| *action == Action::Mask);
        let mut hidden = vec![false; text.len()];
        for (_, span) in spans {
            hidden[normal.origin(&span)].fill(true);
        }
        let shown = text
            .char_indices()
            .map(|(at, c)| if hidden[at] { '*' } else { c });
        shown.collect()
    }
}

#[cfg(test)]
mod tests;
