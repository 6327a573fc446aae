//! Length-delimited protobuf messages.

use super::frame::{Frame, FrameError};

/// The longest varint, bytes.
const MAX_VARINT_BYTES: u32 = 10;

/// Reads a varint, then as many bytes as it says.
pub(crate) struct ItemFramer {
    max_item_bytes: usize,
    /// How many items have begun: their length was read.
    begun: u32,
    state: State,
    /// The beginning of an item that is not whole yet, or the one handed out last.
    carry: Vec<u8>,
}

enum State {
    /// Some bytes of a length, the lowest seven bits first.
    Length { value: u64, bytes: u32 },
    /// An item of this many bytes.
    Item { bytes: usize },
    /// The rest of an item that is too long.
    Skip { left: u64 },
    /// A length could not be read.
    Lost,
}

const BETWEEN: State = State::Length { value: 0, bytes: 0 };

impl ItemFramer {
    /// `max_item_bytes` does not count the length in front.
    pub(crate) fn new(max_item_bytes: usize) -> Self {
        Self {
            max_item_bytes,
            begun: 0,
            state: BETWEEN,
            carry: Vec::new(),
        }
    }

    pub(crate) fn next<'a, 'c: 'a>(&'a mut self, chunk: &mut &'c [u8]) -> Option<Frame<'a>> {
        while !chunk.is_empty() {
            match self.state {
                State::Length { value, bytes } => {
                    let byte = chunk[0];
                    *chunk = &chunk[1..];
                    if let Some(error) = self.take_length_byte(value, bytes, byte) {
                        return Some(self.frame(Err(error)));
                    }
                    if matches!(self.state, State::Item { bytes: 0 }) {
                        self.state = BETWEEN;
                        return Some(self.frame(Ok(&[])));
                    }
                }
                State::Item { bytes } if self.carry.is_empty() && chunk.len() >= bytes => {
                    let (item, rest) = chunk.split_at(bytes);
                    *chunk = rest;
                    self.state = BETWEEN;
                    return Some(self.frame(Ok(item)));
                }
                State::Item { bytes } => {
                    let missing = bytes - self.carry.len();
                    let (part, rest) = chunk.split_at(missing.min(chunk.len()));
                    self.carry.extend_from_slice(part);
                    *chunk = rest;
                    if self.carry.len() == bytes {
                        self.state = BETWEEN;
                        return Some(self.frame(Ok(&self.carry)));
                    }
                }
                State::Skip { left } => {
                    let skipped = left.min(chunk.len() as u64);
                    *chunk = &chunk[skipped as usize..];
                    self.state = match left - skipped {
                        0 => BETWEEN,
                        left => State::Skip { left },
                    };
                }
                State::Lost => *chunk = &[],
            }
        }
        None
    }

    pub(crate) fn finish(&mut self) -> Option<Frame<'_>> {
        match self.state {
            State::Length { bytes: 0, .. } | State::Skip { .. } | State::Lost => return None,
            State::Length { .. } => self.begun += 1,
            State::Item { .. } => {}
        }
        Some(self.frame(Err(FrameError::Truncated)))
    }

    pub(crate) fn unfinished(&self) -> u32 {
        match self.state {
            State::Item { .. } => self.begun,
            State::Length { .. } | State::Skip { .. } | State::Lost => self.begun + 1,
        }
    }

    /// Adds a byte to the length; returns why there is no item, if that is now clear.
    fn take_length_byte(&mut self, value: u64, bytes: u32, byte: u8) -> Option<FrameError> {
        let value = value | u64::from(byte & 0x7f) << (7 * bytes);
        let bytes = bytes + 1;
        let more = byte & 0x80 != 0;
        if more && bytes < MAX_VARINT_BYTES {
            self.state = State::Length { value, bytes };
            return None;
        }
        self.begun += 1;
        if more {
            self.state = State::Lost;
            return Some(FrameError::NoLength);
        }
        if value > self.max_item_bytes as u64 {
            self.state = State::Skip { left: value };
            return Some(FrameError::TooLong);
        }
        self.carry.clear();
        self.state = State::Item {
            bytes: value as usize,
        };
        None
    }

    fn frame<'a>(&self, content: Result<&'a [u8], FrameError>) -> Frame<'a> {
        Frame {
            number: self.begun,
            content,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::encoding::encode_varint;

    use super::super::framer::{
        Framer,
        tests::{Owned, frames},
    };
    use super::*;

    const MAX: usize = 200;

    fn items(body: &[u8], cuts: &[usize]) -> Vec<Owned> {
        frames(Framer::Items(ItemFramer::new(MAX)), body, cuts)
    }

    fn delimited(items: &[Vec<u8>]) -> Vec<u8> {
        let mut body = Vec::new();
        for item in items {
            encode_varint(item.len() as u64, &mut body);
            body.extend_from_slice(item);
        }
        body
    }

    #[test]
    fn the_limit_is_exact_and_what_follows_is_whole() {
        let body = delimited(&[vec![7; MAX], vec![8; MAX + 1], vec![], vec![9]]);
        let expected = [
            (1, Ok(vec![7; MAX])),
            (2, Err(FrameError::TooLong)),
            (3, Ok(vec![])),
            (4, Ok(vec![9])),
        ];
        for cut in 0..body.len() {
            assert_eq!(items(&body, &[cut]), expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_body_that_ends_within_an_item_says_so() {
        let body = delimited(&[vec![1], vec![2; 150]]);
        for end in 3..body.len() {
            let found = items(&body[..end], &[]);
            assert_eq!(
                found[1..],
                [(2, Err(FrameError::Truncated))],
                "ends at {end}"
            );
        }
        assert_eq!(items(&body[..2], &[]).len(), 1);
    }

    #[test]
    fn a_length_that_never_ends_loses_the_rest() {
        let body = [[0xff; 10].as_slice(), &[1, 2, 3]].concat();
        for cut in 0..body.len() {
            assert_eq!(items(&body, &[cut]), [(1, Err(FrameError::NoLength))]);
        }
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_items(
            contents in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..250), 0..8),
            cuts in proptest::collection::vec(any::<usize>(), 0..10),
        ) {
            let expected: Vec<Owned> = (1..)
                .zip(&contents)
                .map(|(number, item)| match item.len() > MAX {
                    true => (number, Err(FrameError::TooLong)),
                    false => (number, Ok(item.clone())),
                })
                .collect();
            prop_assert_eq!(items(&delimited(&contents), &cuts), expected);
        }

        #[test]
        fn no_bytes_panic(
            body in proptest::collection::vec(any::<u8>(), 0..300),
            cuts in proptest::collection::vec(any::<usize>(), 0..10),
        ) {
            prop_assert_eq!(items(&body, &cuts), items(&body, &[]));
        }
    }
}
