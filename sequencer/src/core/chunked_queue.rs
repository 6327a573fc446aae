//! A queue that holds a million entries without room for another million.

use std::{collections::VecDeque, sync::Arc};

/// So many entries are allocated together.
const CHUNK: usize = 512;

/// First in, first out, in chunks: what it takes up beyond its entries is a chunk at each end, where a ring that doubles
/// would stand half empty. A clone shares the chunks; whoever adds to one that is shared has a copy of it.
#[derive(Clone, Debug)]
pub(super) struct ChunkedQueue<T> {
    /// All full but the last.
    chunks: VecDeque<Arc<Vec<T>>>,
    /// So many of the first chunk are gone; never all of it.
    gone: usize,
}

impl<T> Default for ChunkedQueue<T> {
    fn default() -> Self {
        Self {
            chunks: VecDeque::new(),
            gone: 0,
        }
    }
}

/// The chunk, to be changed: of one that is shared a copy, with the room of a whole one.
fn own<T: Copy>(chunk: &mut Arc<Vec<T>>) -> &mut Vec<T> {
    if Arc::get_mut(chunk).is_none() {
        let mut copy = Vec::with_capacity(CHUNK);
        copy.extend_from_slice(chunk);
        *chunk = Arc::new(copy);
    }
    Arc::get_mut(chunk).expect("nobody shares it")
}

impl<T: Copy> ChunkedQueue<T> {
    pub(super) fn len(&self) -> usize {
        let Some(last) = self.chunks.back() else {
            return 0;
        };
        (self.chunks.len() - 1) * CHUNK + last.len() - self.gone
    }

    /// The entry that `index` others are before.
    pub(super) fn get(&self, index: usize) -> Option<&T> {
        let place = self.gone + index;
        self.chunks.get(place / CHUNK)?.get(place % CHUNK)
    }

    pub(super) fn front(&self) -> Option<&T> {
        self.get(0)
    }

    pub(super) fn push_back(&mut self, entry: T) {
        match self.chunks.back_mut() {
            Some(last) if last.len() < CHUNK => own(last).push(entry),
            _ => self.chunks.push_back(Arc::new(vec![entry])),
        }
    }

    pub(super) fn pop_front(&mut self) -> Option<T> {
        let first = *self.front()?;
        self.gone += 1;
        if self.gone == self.chunks[0].len() {
            self.chunks.pop_front();
            self.gone = 0;
        }
        Some(first)
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        (0..self.len()).map(|index| self.get(index).expect("it is within the length"))
    }

    #[cfg(test)]
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks.iter_mut().flat_map(own).skip(self.gone)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_queue(turns in proptest::collection::vec((0..700_usize, 0..700_usize), 0..12)) {
            let (mut ours, mut plain) = (ChunkedQueue::default(), VecDeque::new());
            let mut clones = Vec::new();
            for (pushed, popped) in turns {
                clones.push((ours.clone(), plain.clone()));
                for entry in 0..pushed {
                    ours.push_back(entry);
                    plain.push_back(entry);
                }
                for _ in 0..popped {
                    prop_assert_eq!(ours.pop_front(), plain.pop_front());
                }
                prop_assert_eq!(ours.len(), plain.len());
                prop_assert_eq!(ours.front(), plain.front());
                prop_assert!(ours.iter().eq(&plain));
                prop_assert!(ours.iter_mut().eq(&mut plain));
                prop_assert_eq!(ours.get(plain.len()), None);
            }
            for (ours, plain) in clones {
                prop_assert!(ours.iter().eq(&plain));
            }
        }
    }

    #[test]
    fn a_chunk_at_each_end_is_all_that_it_takes_beyond_its_entries() {
        let mut queue = ChunkedQueue::default();
        for entry in 0..10 * CHUNK + 1 {
            queue.push_back(entry);
        }
        for _ in 0..3 * CHUNK - 1 {
            queue.pop_front();
        }
        let clone = queue.clone();
        queue.push_back(0);
        let shared = queue.chunks.iter().zip(&clone.chunks);
        let shared = shared.filter(|(ours, theirs)| Arc::ptr_eq(ours, theirs));
        assert_eq!(shared.count(), clone.chunks.len() - 1, "all but the last");
        let room: usize = queue.chunks.iter().map(|chunk| chunk.capacity()).sum();
        assert!(room <= queue.len() + 2 * CHUNK, "{room}");
    }
}
