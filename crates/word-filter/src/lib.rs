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

/// What is done with a text that has a word, the strictest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// It is marked, and goes on as it is.
    Flag,
    /// The word is replaced by asterisks.
    Mask,
    /// It does not go on.
    Refuse,
}

/// What a text is after the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// It has none of the words.
    Clean,
    /// It has words that are flagged.
    Flagged,
    /// It has words that are masked: the text with an asterisk for each of their characters.
    Masked(String),
    /// It has a word that is refused.
    Refused,
}

/// A dictionary, ready to search.
#[derive(Clone, Debug)]
pub struct WordFilter {
    automaton: AhoCorasick,
    /// By the automaton's numbers.
    words: Vec<Word>,
    version: u64,
}

#[derive(Clone, Copy, Debug)]
struct Word {
    action: Action,
    /// No letter may be before it.
    starts_a_word: bool,
    /// No letter may be behind it.
    ends_a_word: bool,
}

impl WordFilter {
    /// The first 8 bytes of BLAKE3 over the words and what is done with them, in normal form and sorted: the same for dictionaries that mean the same.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How many words it has.
    #[must_use]
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// How much memory the search takes, bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.automaton.memory_usage() + size_of_val(self.words.as_slice())
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

    /// What is found, and where in the normal form.
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
