use super::*;

const KEY: [u8; 16] = [7; 16];

fn rules(window: i64, most: i64) -> [Rules; 2] {
    let version_1 = Rules {
        dedup_window_ms: window,
        dedup_max_entries: most,
        ..Rules::VERSION_1
    };
    let version_2 = Rules {
        rule_version: 2,
        hash_key: Some(KEY.into()),
        dedup_max_per_sender: most,
        ..version_1
    };
    [version_1, version_2]
}

/// A state with nothing but deduplication.
struct Remembered {
    dedup: Dedup,
    clock: TimestampMs,
}

impl Remembered {
    fn new() -> Self {
        Self {
            dedup: Dedup::default(),
            clock: TimestampMs(0),
        }
    }

    fn pass(&mut self, now: i64, rules: &Rules) {
        self.dedup.evict(self.clock, TimestampMs(now), rules);
        self.clock = TimestampMs(now);
    }

    fn send(&mut self, n: usize, now: i64, rules: &Rules) {
        self.send_from(1, n, now, rules);
    }

    fn send_from(&mut self, sender: i64, n: usize, now: i64, rules: &Rules) {
        self.pass(now, rules);
        of(n, "text", |send| {
            let srcid = sender.try_into().unwrap();
            let send = SendFields { srcid, ..send };
            self.dedup.insert(send, Mid::ZERO, self.clock, rules);
        });
        self.pass(now, rules);
    }

    /// How many of the sends 0..n of a sender are known.
    fn known_of(&self, sender: i64, n: usize, rules: &Rules) -> usize {
        let is_known = |n: &usize| {
            of(*n, "text", |send| {
                let srcid = sender.try_into().unwrap();
                let send = SendFields { srcid, ..send };
                self.dedup.find(send, self.clock, self.clock, rules)
            })
            .is_some()
        };
        (0..n).filter(is_known).count()
    }

    fn find(&self, n: usize, now: i64, rules: &Rules) -> Option<Known> {
        of(n, "text", |send| {
            self.dedup.find(send, self.clock, TimestampMs(now), rules)
        })
    }
}

fn of<T>(n: usize, msg: &str, then: impl FnOnce(SendFields<'_>) -> T) -> T {
    let client_msg_id = n.to_string().try_into().unwrap();
    then(SendFields {
        srcid: 1.try_into().unwrap(),
        to: Recipient::User(2.try_into().unwrap()),
        client_msg_id: &client_msg_id,
        msg,
    })
}

#[test]
fn an_entry_lives_to_the_end_of_its_window() {
    for rules in rules(10, 9) {
        let mut remembered = Remembered::new();
        remembered.send(1, 100, &rules);
        remembered.send(2, 101, &rules);
        assert_eq!(remembered.find(1, 110, &rules), Some(Known::Repeat));
        assert_eq!(
            remembered.find(1, 111, &rules),
            None,
            "expired, not evicted"
        );
        remembered.pass(110, &rules);
        assert_eq!(remembered.dedup.len(), 2);
        remembered.pass(111, &rules);
        assert_eq!(remembered.dedup.len(), 1);
        assert_eq!(remembered.find(2, 111, &rules), Some(Known::Repeat));
    }
}

#[test]
fn an_id_with_other_contents_is_a_conflict() {
    for rules in rules(10, 9) {
        let mut remembered = Remembered::new();
        remembered.send(1, 100, &rules);
        let found = of(1, "another text", |send| {
            remembered
                .dedup
                .find(send, remembered.clock, TimestampMs(100), &rules)
        });
        assert_eq!(found, Some(Known::Conflict));
    }
}

#[test]
fn the_oldest_go_when_there_are_too_many() {
    for rules in rules(10, 50) {
        let mut remembered = Remembered::new();
        for n in 0..200 {
            remembered.send(n, 0, &rules);
        }
        assert_eq!(remembered.dedup.len(), 50);
        for n in 0..200 {
            assert_eq!(remembered.find(n, 0, &rules).is_some(), n >= 150, "{n}");
        }
    }
}

/// Entries of version 1 are recognised until they expire, and count towards the maximum.
#[test]
fn entries_of_version_1_live_on() {
    let [version_1, version_2] = rules(10, 5);
    let mut remembered = Remembered::new();
    for n in 0..4 {
        remembered.send(n, 100 + n as i64, &version_1);
    }
    for n in 4..6 {
        remembered.send(n, 105, &version_2);
    }
    assert_eq!(
        remembered.find(0, 105, &version_2),
        None,
        "six are too many"
    );
    for n in 1..6 {
        assert_eq!(
            remembered.find(n, 110, &version_2),
            Some(Known::Repeat),
            "{n}"
        );
    }
    remembered.pass(113, &version_2);
    assert_eq!(remembered.dedup.unkeyed.entries().len(), 1);
    remembered.pass(115, &version_2);
    assert_eq!(remembered.dedup.unkeyed.entries().len(), 0);
    assert_eq!(remembered.dedup.keyed.shared().len(), 2);
}

/// Only the low bits of a time are kept.
#[test]
fn times_far_apart_are_not_mixed_up() {
    const AGE: i64 = MAX_WINDOW_MS;
    let [_, rules] = rules(AGE, 50);
    for start in [0, AGE - 5, AGE + 5, 1_763_000_000_000] {
        let mut remembered = Remembered::new();
        remembered.send(1, start, &rules);
        remembered.send(2, start + AGE, &rules);
        assert_eq!(remembered.find(1, start + AGE, &rules), Some(Known::Repeat));
        for later in [1, AGE, 10 * AGE] {
            assert_eq!(remembered.find(1, start + AGE + later, &rules), None);
        }
        remembered.pass(start + 9 * AGE, &rules);
        assert_eq!(remembered.dedup.len(), 0);
    }
}

#[test]
fn an_entry_costs_what_the_docs_say() {
    assert_eq!(size_of::<UnkeyedEntry>(), 40);
    assert_eq!(size_of::<KeyedEntry>(), 20);
}

/// One sender sends a hundred times what the partition remembers.
#[test]
fn a_sender_ends_no_window_but_his_own() {
    let [_, rules] = rules(1_000, 6_400);
    let rules = Rules {
        dedup_max_per_sender: 640,
        ..rules
    };
    let mut remembered = Remembered::new();
    let (mut of_others, mut greedy) = (0, 0);
    for others in 0..400 {
        remembered.send_from(2, others, 0, &rules);
        of_others += 1;
        for _ in 0..160 {
            remembered.send_from(9, greedy, 0, &rules);
            greedy += 1;
        }
    }
    assert_eq!(remembered.known_of(2, of_others, &rules), of_others);
    // The sender's share of the rounds, and the sender's own entries.
    let known = remembered.known_of(9, greedy, &rules);
    assert!((640..=1_280).contains(&known), "{known}");
    assert!(remembered.dedup.len() <= 6_400 + 640);
    remembered.pass(2_000, &rules);
    assert_eq!(remembered.dedup.len(), 0);
    assert_eq!(remembered.dedup.keyed.own().count(), 0);
}

#[test]
fn senders_with_entries_of_their_own_share_the_memory() {
    let [_, rules] = rules(1_000, 1_280);
    let rules = Rules {
        dedup_max_per_sender: 64,
        ..rules
    };
    let mut remembered = Remembered::new();
    for begun in [0, 100] {
        for sender in 1..100 {
            for n in begun..begun + 100 {
                remembered.send_from(sender, n, 0, &rules);
            }
        }
    }
    let own: usize = remembered.dedup.keyed.own().map(|(_, own)| own.len()).sum();
    assert_eq!(own, 99 * (1_280 / 99));
}
