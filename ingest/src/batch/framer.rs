//! Splits a body, which arrives in chunks of any size, into its lines or items. What is within one chunk is not copied.

use super::{frame::Frame, items::ItemFramer, lines::LineFramer};

pub(crate) enum Framer {
    Lines(LineFramer),
    Items(ItemFramer),
}

impl Framer {
    /// The next frame that ends in `chunk`, which is advanced past it; `None` at the end of the chunk.
    pub(crate) fn next<'a, 'c: 'a>(&'a mut self, chunk: &mut &'c [u8]) -> Option<Frame<'a>> {
        match self {
            Self::Lines(lines) => lines.next(chunk),
            Self::Items(items) => items.next(chunk),
        }
    }

    /// The last frame, if the body does not end with a complete one.
    pub(crate) fn finish(&mut self) -> Option<Frame<'_>> {
        match self {
            Self::Lines(lines) => lines.finish(),
            Self::Items(items) => items.finish(),
        }
    }

    /// The number of the frame that is not complete yet.
    pub(crate) fn unfinished(&self) -> u32 {
        match self {
            Self::Lines(lines) => lines.unfinished(),
            Self::Items(items) => items.unfinished(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{super::frame::FrameError, *};

    pub(crate) type Owned = (u32, Result<Vec<u8>, FrameError>);

    /// The frames of `body` when it arrives in chunks that end at `cuts`.
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
