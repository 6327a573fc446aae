//! NDJSON's lines.

use memchr::memchr;

use super::frame::{Frame, FrameError};

/// Cuts at LF and drops a CR before it. Blank lines are counted and skipped. The last line needs no line ending.
pub(crate) struct LineFramer {
    max_line_bytes: usize,
    /// How many lines have ended.
    ended: u32,
    /// The beginning of a line that is not whole yet.
    carry: Vec<u8>,
    /// What `carry` and `skipping` say is about a line that has ended.
    carry_is_old: bool,
    /// The line is too long already; its bytes are not kept.
    skipping: bool,
}

impl LineFramer {
    /// `max_line_bytes` does not count the line ending.
    pub(crate) fn new(max_line_bytes: usize) -> Self {
        Self {
            max_line_bytes,
            ended: 0,
            carry: Vec::new(),
            carry_is_old: false,
            skipping: false,
        }
    }

    pub(crate) fn next<'a, 'c: 'a>(&'a mut self, chunk: &mut &'c [u8]) -> Option<Frame<'a>> {
        loop {
            self.drop_old_carry();
            let Some(end) = memchr(b'\n', chunk) else {
                self.keep(chunk);
                *chunk = &[];
                return None;
            };
            let line = &chunk[..end];
            *chunk = &chunk[end + 1..];
            self.ended += 1;
            if self.carry.is_empty() && !self.skipping {
                if let Some(content) = content(line, self.max_line_bytes) {
                    return Some(self.frame(content));
                }
                continue;
            }
            self.keep(line);
            self.carry_is_old = true;
            if self.carried().is_some() {
                return self.carried_frame();
            }
        }
    }

    pub(crate) fn finish(&mut self) -> Option<Frame<'_>> {
        self.drop_old_carry();
        self.ended += 1;
        self.carry_is_old = true;
        self.carried_frame()
    }

    pub(crate) fn unfinished(&self) -> u32 {
        self.ended + 1
    }

    fn keep(&mut self, part: &[u8]) {
        // One more byte than the limit, since the last may turn out to be the CR of a line ending.
        if self.skipping || self.carry.len() + part.len() > self.max_line_bytes + 1 {
            self.skipping = true;
            self.carry = Vec::new();
        } else {
            self.carry.extend_from_slice(part);
        }
    }

    /// The line that has just ended, if parts of it were kept or skipped.
    fn carried(&self) -> Option<Result<&[u8], FrameError>> {
        if self.skipping {
            return Some(Err(FrameError::TooLong));
        }
        content(&self.carry, self.max_line_bytes)
    }

    fn carried_frame(&self) -> Option<Frame<'_>> {
        self.carried().map(|content| self.frame(content))
    }

    fn drop_old_carry(&mut self) {
        if std::mem::take(&mut self.carry_is_old) {
            self.carry.clear();
            self.skipping = false;
        }
    }

    fn frame<'a>(&self, content: Result<&'a [u8], FrameError>) -> Frame<'a> {
        Frame {
            number: self.ended,
            content,
        }
    }
}

/// A line without its CR; `None` for a blank one.
fn content(line: &[u8], max_line_bytes: usize) -> Option<Result<&[u8], FrameError>> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() > max_line_bytes {
        return Some(Err(FrameError::TooLong));
    }
    (!line.trim_ascii().is_empty()).then_some(Ok(line))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::framer::{
        Framer,
        tests::{Owned, frames},
    };
    use super::*;

    const MAX: usize = 5;

    fn lines(body: &[u8], cuts: &[usize]) -> Vec<Owned> {
        frames(Framer::Lines(LineFramer::new(MAX)), body, cuts)
    }

    /// The same in the simplest words, for a whole body.
    fn expected(body: &[u8]) -> Vec<Owned> {
        (1..)
            .zip(body.split(|byte| *byte == b'\n'))
            .map(|(number, line)| (number, line.strip_suffix(b"\r").unwrap_or(line)))
            .filter(|(_, line)| line.len() > MAX || !line.trim_ascii().is_empty())
            .map(|(number, line)| match line.len() > MAX {
                true => (number, Err(FrameError::TooLong)),
                false => (number, Ok(line.to_vec())),
            })
            .collect()
    }

    #[test]
    fn lines_are_cut_and_numbered_as_they_lie_there() {
        assert_eq!(
            lines(b"a\r\n\n \nb\r", &[]),
            [(1, Ok(b"a".to_vec())), (4, Ok(b"b".to_vec()))]
        );
    }

    #[test]
    fn the_limit_is_exact_with_either_line_ending() {
        for ending in ["", "\n", "\r\n"] {
            let at_limit = format!("12345{ending}");
            let above = format!("123456{ending}");
            for cut in 0..above.len() {
                assert_eq!(
                    lines(at_limit.as_bytes(), &[cut])[0].1,
                    Ok(b"12345".to_vec())
                );
                assert_eq!(
                    lines(above.as_bytes(), &[cut]),
                    [(1, Err(FrameError::TooLong))]
                );
            }
        }
    }

    #[test]
    fn what_follows_a_long_line_is_whole() {
        let body = b"1234567890\nok\n";
        for cut in 0..body.len() {
            let found = lines(body, &[cut]);
            assert_eq!(
                found,
                [(1, Err(FrameError::TooLong)), (2, Ok(b"ok".to_vec()))]
            );
        }
    }

    #[test]
    fn little_is_kept_of_an_endless_line() {
        let mut framer = LineFramer::new(MAX);
        for _ in 0..1_000 {
            assert_eq!(framer.next(&mut &b"0123456789"[..]), None);
            assert!(framer.carry.capacity() < 64);
        }
        assert_eq!(framer.unfinished(), 1);
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_lines(
            body in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b' '), Just(b'a')], 0..80),
            cuts in proptest::collection::vec(any::<usize>(), 0..10),
        ) {
            prop_assert_eq!(lines(&body, &cuts), expected(&body));
        }
    }
}
