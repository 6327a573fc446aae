use std::{
    array, fmt,
    ops::{Index, IndexMut},
};

use serde::{Serialize, Serializer};

use crate::{PARTITIONS, Partition};

/// A map from partitions to values, in the order of the partitions. Each look-up is an index.
#[derive(Clone, PartialEq, Eq)]
pub struct PartitionMap<T>(Box<[Option<T>; PARTITIONS as usize]>);

impl<T> PartitionMap<T> {
    /// A map without entries.
    #[must_use]
    pub fn new() -> Self {
        Self(Box::new(array::from_fn(|_| None)))
    }

    /// A map with an entry for each of the 64 partitions, made by `of`.
    pub fn full(mut of: impl FnMut(Partition) -> T) -> Self {
        Partition::all()
            .map(|partition| (partition, of(partition)))
            .collect()
    }

    /// The entry of `partition`, if there is one.
    #[must_use]
    pub fn get(&self, partition: Partition) -> Option<&T> {
        self.0[partition.index()].as_ref()
    }

    /// The entry of `partition`, to change it.
    pub fn get_mut(&mut self, partition: Partition) -> Option<&mut T> {
        self.0[partition.index()].as_mut()
    }

    /// The entry of `partition`; `value` makes it if there is none.
    pub fn get_or_insert_with(
        &mut self,
        partition: Partition,
        value: impl FnOnce() -> T,
    ) -> &mut T {
        self.0[partition.index()].get_or_insert_with(value)
    }

    /// Sets the entry of `partition` and returns the one before.
    pub fn insert(&mut self, partition: Partition, value: T) -> Option<T> {
        self.0[partition.index()].replace(value)
    }

    /// Removes the entry of `partition` and returns it.
    pub fn remove(&mut self, partition: Partition) -> Option<T> {
        self.0[partition.index()].take()
    }

    /// Whether `partition` has an entry.
    #[must_use]
    pub fn contains(&self, partition: Partition) -> bool {
        self.0[partition.index()].is_some()
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().flatten().count()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.0.fill_with(|| None);
    }

    /// Removes the entries for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(Partition, &mut T) -> bool) {
        for (partition, slot) in Partition::all().zip(self.0.iter_mut()) {
            if slot.as_mut().is_some_and(|value| !keep(partition, value)) {
                *slot = None;
            }
        }
    }

    /// The partitions that have entries, ascending.
    pub fn partitions(&self) -> impl DoubleEndedIterator<Item = Partition> {
        self.iter().map(|(partition, _)| partition)
    }

    /// The entries' values, by partition.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.0.iter().flatten()
    }

    /// The entries' values, to change them.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> {
        self.0.iter_mut().flatten()
    }

    /// The entries, by partition.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Partition, &T)> {
        Partition::all()
            .zip(self.0.iter())
            .filter_map(|(partition, slot)| Some((partition, slot.as_ref()?)))
    }

    /// The entries, to change their values.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (Partition, &mut T)> {
        Partition::all()
            .zip(self.0.iter_mut())
            .filter_map(|(partition, slot)| Some((partition, slot.as_mut()?)))
    }

    /// Applies `change` to each value.
    pub fn map<U>(self, mut change: impl FnMut(Partition, T) -> U) -> PartitionMap<U> {
        self.into_iter()
            .map(|(partition, value)| (partition, change(partition, value)))
            .collect()
    }
}

impl<T> Default for PartitionMap<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for PartitionMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<T: Serialize> Serialize for PartitionMap<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// Panics for a partition without an entry, as slices do.
impl<T> Index<Partition> for PartitionMap<T> {
    type Output = T;

    fn index(&self, partition: Partition) -> &T {
        self.get(partition).expect("the partition has an entry")
    }
}

/// Panics for a partition without an entry, as slices do.
impl<T> IndexMut<Partition> for PartitionMap<T> {
    fn index_mut(&mut self, partition: Partition) -> &mut T {
        self.get_mut(partition).expect("the partition has an entry")
    }
}

impl<T> Extend<(Partition, T)> for PartitionMap<T> {
    fn extend<I: IntoIterator<Item = (Partition, T)>>(&mut self, entries: I) {
        for (partition, value) in entries {
            self.insert(partition, value);
        }
    }
}

impl<T> FromIterator<(Partition, T)> for PartitionMap<T> {
    fn from_iter<I: IntoIterator<Item = (Partition, T)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<T, const N: usize> From<[(Partition, T); N]> for PartitionMap<T> {
    fn from(entries: [(Partition, T); N]) -> Self {
        entries.into_iter().collect()
    }
}

/// The entries of a [`PartitionMap`], by partition.
#[derive(Debug)]
pub struct IntoIter<T>(std::iter::Enumerate<array::IntoIter<Option<T>, { PARTITIONS as usize }>>);

impl<T> Iterator for IntoIter<T> {
    type Item = (Partition, T);

    fn next(&mut self) -> Option<Self::Item> {
        self.0
            .find_map(|(index, slot)| Some((Partition::of_number(index as u64), slot?)))
    }
}

impl<T> IntoIterator for PartitionMap<T> {
    type Item = (Partition, T);
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter((*self.0).into_iter().enumerate())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(number: i64) -> Partition {
        number.try_into().unwrap()
    }

    #[test]
    fn entries_are_ordered_by_partition() {
        let map: PartitionMap<_> = [
            (partition(63), 'c'),
            (partition(0), 'a'),
            (partition(7), 'b'),
        ]
        .into();
        assert_eq!(map.len(), 3);
        assert_eq!(map.values().collect::<String>(), "abc");
        assert_eq!(map.partitions().next_back(), Some(partition(63)));
        assert_eq!(map.clone().into_iter().collect::<PartitionMap<_>>(), map);
        assert_eq!(
            serde_json::to_string(&map).unwrap(),
            r#"{"0":"a","7":"b","63":"c"}"#
        );
    }

    #[test]
    fn entries_are_set_changed_and_removed() {
        let mut map = PartitionMap::full(|partition| partition.get());
        map.retain(|partition, _| partition.get() % 2 == 0);
        assert_eq!(map.len(), 32);
        assert_eq!(map.insert(partition(2), 5), Some(2));
        assert_eq!(*map.get_or_insert_with(partition(3), || 9), 9);
        map[partition(3)] += 1;
        assert_eq!(map.remove(partition(3)), Some(10));
        assert!(!map.contains(partition(3)) && map.get(partition(3)).is_none());
        map.clear();
        assert!(map.is_empty());
    }
}
