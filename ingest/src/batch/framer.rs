//! Cuts a body that comes in pieces of any size into its parts, without copying what lies in one piece.

use super::{items::ItemFramer, lines::LineFramer};

/// One part of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// Its number, from 1; of a line its physical one.
    pub(crate) number: u32,
    pub(crate) content: Result<&'a [u8], Unframed>,
}

/// Why a part has no content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unframed {
    /// It is longer than the limit, and was skipped.
    TooLong,
    /// The body ended in the middle of it.
    Truncated,
    /// Its length cannot be read, so nothing behind it can either.
    NoLength,
}

/// A framer for each encoding.
pub(crate) enum Framer {
    Lines(LineFramer),
    Items(ItemFramer),
}

impl Framer {
    /// The next part that ends in `chunk`, which is moved past it; `None` once the chunk is used up.
    pub(crate) fn next<'a, 'c: 'a>(&'a mut self, chunk: &mut &'c [u8]) -> Option<Frame<'a>> {
        match self {
            Self::Lines(lines) => lines.next(chunk),
            Self::Items(items) => items.next(chunk),
        }
    }

    /// What the body's end leaves.
    pub(crate) fn finish(&mut self) -> Option<Frame<'_>> {
        match self {
            Self::Lines(lines) => lines.finish(),
            Self::Items(items) => items.finish(),
        }
    }

    /// The number of the part that is not whole yet, or has not begun.
    pub(crate) fn unfinished(&self) -> u32 {
        match self {
            Self::Lines(lines) => lines.unfinished(),
            Self::Items(items) => items.unfinished(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) type Owned = (u32, Result<Vec<u8>, Unframed>);

    /// Everything that `framer` makes of `body` when it comes in pieces that end at `cuts`.
    pub(crate) fn frames(mut framer: Framer, body: &[u8], cuts: &[usize]) -> Vec<Owned> {
        let own = |frame: Frame<'_>| (frame.number, frame.content.map(<[u8]>::to_vec));
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (body.len() + 1)).collect();
        ends.push(body.len());
        ends.sort_unstable();
        let mut found = Vec::new();
        let mut start = 0;
        for end in ends {
            let mut chunk = &body[start..end];
            while let Some(frame) = framer.next(&mut chunk) {
                found.push(own(frame));
            }
            assert!(chunk.is_empty(), "a chunk is used up");
            start = end;
        }
        found.extend(framer.finish().map(own));
        found
    }
}
