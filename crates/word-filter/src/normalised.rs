//! The form in which texts are compared: NFKC, case-folded, without invisible characters, white space of any length as one space.

use std::{borrow::Cow, ops::Range, sync::LazyLock};

use caseless::Caseless as _;
use unicode_normalization::{
    IsNormalized, UnicodeNormalization as _, char::canonical_combining_class, is_nfkc_quick,
};

/// The normal form of a text, without the origins of its parts.
pub(crate) fn normalise(text: &str) -> Normal {
    if text.is_ascii() {
        if has_odd_space(text) {
            let mut normal = String::with_capacity(text.len());
            push_all(text.chars().map(|c| c.to_ascii_lowercase()), &mut normal);
            return Normal::Other(normal);
        }
        return if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Normal::Other(text.to_ascii_lowercase())
        } else {
            Normal::Same
        };
    }
    let mut normal = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        // The last character of a run of ASCII may join with what follows.
        let run = rest.bytes().take_while(u8::is_ascii).count();
        let (alone, behind) = rest.split_at(run.saturating_sub(1));
        push_all(alone.chars().map(|c| c.to_ascii_lowercase()), &mut normal);
        let segment = segments(behind).next().unwrap_or(0..behind.len());
        push(&behind[segment.clone()], &mut normal);
        rest = &behind[segment.end..];
    }
    Normal::Other(normal)
}

/// Whether an ASCII text has white space other than single spaces. The two loops have no early end, so that they take many bytes at a time.
fn has_odd_space(text: &str) -> bool {
    let bytes = text.as_bytes();
    let others = bytes
        .iter()
        .fold(false, |odd, byte| odd | matches!(byte, 9..=13));
    let pairs = bytes.iter().zip(bytes.iter().skip(1));
    others
        | pairs.fold(false, |odd, (one, next)| {
            odd | ((*one == b' ') & (*next == b' '))
        })
}

/// Appends characters; white space becomes one space.
fn push_all(chars: impl Iterator<Item = char>, normal: &mut String) {
    for c in chars {
        if !c.is_whitespace() {
            normal.push(c);
        } else if !normal.ends_with(' ') {
            normal.push(' ');
        }
    }
}

/// A normal form.
pub(crate) enum Normal {
    /// The text itself.
    Same,
    Other(String),
}

impl Normal {
    pub(crate) fn as_str<'a>(&'a self, text: &'a str) -> &'a str {
        match self {
            Self::Same => text,
            Self::Other(normal) => normal,
        }
    }
}

/// The normal form of a text, with the origins of its parts.
pub(crate) struct Normalised {
    text: String,
    /// For each segment: its end in the normal form, and its range in the original text.
    segments: Vec<(usize, Range<usize>)>,
}

impl Normalised {
    pub(crate) fn with_origins(text: &str) -> Self {
        let mut normal = String::with_capacity(text.len());
        let mut ends = Vec::new();
        for segment in segments(text) {
            push(&text[segment.clone()], &mut normal);
            ends.push((normal.len(), segment));
        }
        Self {
            text: normal,
            segments: ends,
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The part of the original text that a part of the normal form comes from, in whole segments.
    pub(crate) fn origin(&self, part: &Range<usize>) -> Range<usize> {
        // The segments from the first that ends above the part's start to the one in which the part ends. Characters that are left out have no length
        // in the normal form.
        let first = self.segments.partition_point(|(end, _)| *end <= part.start);
        let last = self.segments.partition_point(|(end, _)| *end < part.end);
        match (self.segments.get(first), self.segments.get(last)) {
            (Some((_, first)), Some((_, last))) => first.start..last.end,
            _ => 0..0,
        }
    }
}

/// The segments of a text: cut so that the normal form of the whole is made of those of the segments.
fn segments(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, _) = rest.next()?;
        while rest.next_if(|(_, c)| !begins_a_segment(*c)).is_some() {}
        let end = rest.peek().map_or(text.len(), |(next, _)| *next);
        Some(start..end)
    })
}

/// Characters that join with those before them, and invisible ones, are in the same segment as these.
fn begins_a_segment(c: char) -> bool {
    if c < '\u{300}' || is_ideograph(c) {
        return !is_unseen(c);
    }
    !is_unseen(c)
        && canonical_combining_class(c) == 0
        && is_nfkc_quick(std::iter::once(c)) != IsNormalized::Maybe
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{4e00}'..='\u{9fff}')
}

/// Appends the normal form of a segment.
fn push(segment: &str, normal: &mut String) {
    let mut chars = segment.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) if c.is_ascii() => {
            push_all(std::iter::once(c.to_ascii_lowercase()), normal);
        }
        (Some(c), None) if is_ideograph(c) => normal.push(c),
        (Some(c), None) if SINGLE.get(c as usize).is_some_and(Option::is_some) => {
            push_all(SINGLE[c as usize].into_iter(), normal);
        }
        _ => push_all(folded(segment).into_iter(), normal),
    }
}

/// The normal forms of single Latin, Greek and Cyrillic letters, if they are one character: most texts have nothing else.
static SINGLE: LazyLock<Vec<Option<char>>> = LazyLock::new(|| {
    let single = |number: u32| {
        let mut normal = folded(char::from_u32(number)?.encode_utf8(&mut [0; 4])).into_iter();
        normal.next().filter(|_| normal.next().is_none())
    };
    (0..0x530).map(single).collect()
});

fn folded(segment: &str) -> Vec<char> {
    let seen = if segment.contains(is_unseen) {
        Cow::Owned(
            segment
                .chars()
                .filter(|c| !is_unseen(*c))
                .collect::<String>(),
        )
    } else {
        Cow::Borrowed(segment)
    };
    // Folding can leave a text that is not normal, and normalising one that is not folded.
    let once: Vec<char> = seen.nfkc().default_case_fold().collect();
    let folded = once.into_iter().nfkc().default_case_fold().nfkc();
    folded.filter(|c| !is_unseen(*c)).collect()
}

/// Soft hyphen, zero-width and directional characters, joiners, fillers, variation selectors and tags.
fn is_unseen(c: char) -> bool {
    matches!(u32::from(c),
        0xad | 0x34f | 0x61c | 0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x180b..=0x180f | 0x200b..=0x200f
        | 0x202a..=0x202e | 0x2060..=0x206f | 0x3164 | 0xfe00..=0xfe0f | 0xfeff | 0xffa0
        | 0xe0000..=0xe0fff)
}
