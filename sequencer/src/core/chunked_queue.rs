//! A queue for a million entries that does not reserve memory for another million.

use std::{collections::VecDeque, sync::Arc};

/// The number of entries of a chunk.
const CHUNK: usize = 512;

/// A first-in, first-out queue in chunks. It wastes at most a chunk at each end, while a ring buffer that doubles can be half empty. A clone
/// shares the chunks; a shared chunk is copied before an entry is added to it.
#[derive(Clone, Debug)]
pub(super) struct ChunkedQueue<T> {
    /// Every chunk but the last is full.
    chunks: VecDeque<Arc<Vec<T>>>,
    /// How many entries of the first chunk are removed; never all of them.
    removed: usize,
}

impl<T> Default for ChunkedQueue<T> {
    fn default() -> Self {
        Self {
            chunks: VecDeque::new(),
            removed: 0,
        }
    }
}

/// The chunk for writing. A shared chunk is replaced by a copy with the same capacity.
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
        (self.chunks.len() - 1) * CHUNK + last.len() - self.removed
    }

    /// The entry at `index`, counted from the oldest.
    pub(super) fn get(&self, index: usize) -> Option<&T> {
        let position = self.removed + index;
        self.chunks.get(position / CHUNK)?.get(position % CHUNK)
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
        self.removed += 1;
        if self.removed == self.chunks[0].len() {
            self.chunks.pop_front();
            self.removed = 0;
        }
        Some(first)
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        (0..self.len()).map(|index| self.get(index).expect("it is within the length"))
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
