//! A dictionary's text, checked.

use std::collections::BTreeMap;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::{Action, Word, WordFilter, normalised::normalise, scripts::is_letter_between_spaces};

/// The most words of a dictionary.
pub const MAX_WORDS: usize = 1_000_000;
/// The longest word, bytes of its normal form.
const MAX_WORD_BYTES: usize = 256;

/// The error in a dictionary. It does not repeat the text of the line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct InvalidDictionary {
    /// The line, from 1; 0 if the error is of all lines together.
    pub line: usize,
    /// What is wrong with the line, and what would be right.
    pub problem: String,
}

impl WordFilter {
    /// Reads a dictionary. A word that comes twice gets the stricter of the two actions.
    ///
    /// # Errors
    /// [`InvalidDictionary`] for the first wrong line.
    pub fn parse(text: &str) -> Result<Self, InvalidDictionary> {
        let mut words: BTreeMap<String, Action> = BTreeMap::new();
        // A byte order mark belongs to no word.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            let at_line = |problem: String| InvalidDictionary {
                line: index + 1,
                problem,
            };
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (word, action) = entry(line).map_err(at_line)?;
            let known = words.entry(word).or_insert(action);
            *known = action.max(*known);
            if words.len() > MAX_WORDS {
                let problem = format!("there are more than {MAX_WORDS} words");
                return Err(at_line(problem));
            }
        }
        if words.is_empty() {
            let problem = "there is no word".to_owned();
            return Err(InvalidDictionary { line: 1, problem });
        }
        Self::new(&words).map_err(|problem| InvalidDictionary { line: 0, problem })
    }

    fn new(words: &BTreeMap<String, Action>) -> Result<Self, String> {
        // The other kinds are slightly faster, but take gigabytes or minutes for the largest dictionaries.
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(words.keys())
            .map_err(|error| format!("all words together are too many: {error}"))?;
        let mut hasher = blake3::Hasher::new();
        for (word, action) in words {
            hasher.update(&[*action as u8]);
            hasher.update(word.as_bytes());
            hasher.update(b"\n");
        }
        let mut version = [0; 8];
        hasher.finalize_xof().fill(&mut version);
        let word_of_entry = |(word, action): (&String, &Action)| Word {
            action: *action,
            starts_a_word: word.chars().next().is_some_and(is_letter_between_spaces),
            ends_a_word: word
                .chars()
                .next_back()
                .is_some_and(is_letter_between_spaces),
        };
        Ok(Self {
            automaton,
            words: words.iter().map(word_of_entry).collect(),
            version: u64::from_be_bytes(version),
        })
    }
}

/// A line's word in its normal form, and its action.
fn entry(line: &str) -> Result<(String, Action), String> {
    let (action, word) = line
        .split_once(char::is_whitespace)
        .ok_or("must be refuse, mask or flag, white space, and a word")?;
    let action = match action {
        "refuse" => Action::Refuse,
        "mask" => Action::Mask,
        "flag" => Action::Flag,
        _ => return Err("must begin with refuse, mask or flag".to_owned()),
    };
    let word = word.trim();
    let word = normalise(word).as_str(word).to_owned();
    match word.len() {
        0 => Err("the word has no character that is seen".to_owned()),
        1..=MAX_WORD_BYTES => Ok((word, action)),
        bytes => Err(format!(
            "the word has {bytes} bytes: at most {MAX_WORD_BYTES} are allowed"
        )),
    }
}
