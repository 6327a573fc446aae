//! Maps whose entries expire.

use std::{collections::HashMap, hash::Hash};

/// How many entries a map grows by, at least.
const MIN: usize = 1_024;

/// Inserts an entry. Before the map grows, expired entries are dropped, so it has at most twice as many as have not expired.
pub(crate) fn insert<K: Eq + Hash, V>(
    map: &mut HashMap<K, V>,
    key: K,
    value: V,
    has_expired: impl Fn(&V) -> bool,
) {
    if map.len() == map.capacity() {
        map.retain(|_, value| !has_expired(value));
        map.reserve(map.len().max(MIN));
    }
    map.insert(key, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_expired_is_dropped_and_nothing_else() {
        let mut map = HashMap::new();
        for n in 0..20 * MIN {
            insert(&mut map, n, (), |()| true);
        }
        assert!(map.len() <= 4 * MIN, "{}", map.len());
        let mut map = HashMap::new();
        for n in 0..20 * MIN {
            insert(&mut map, n, (), |()| false);
        }
        assert_eq!(map.len(), 20 * MIN);
    }
}
