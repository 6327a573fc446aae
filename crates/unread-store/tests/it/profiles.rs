//! Cached profiles: never behind the position of their partition (PROTOCOL K6).

use schemas::{NextOffset, Profile, StoredProfile, TimestampMs};
use unread_store::{PositionMove, ProfileUpdate, RedisConfig, StoredPosition};

use crate::test_env::{ME, TestEnv, messages, partition, user};

/// The partition of the profile of [`ME`].
const OWN: i64 = ME % 64;

fn profile(uid: i64, event_offset: i64) -> StoredProfile {
    StoredProfile {
        profile: Profile {
            uid: user(uid),
            nick: format!("nick {event_offset}"),
            avatar: (event_offset % 2 == 0).then(|| format!("https://a/{event_offset}")),
            extra: (event_offset % 3 == 0).then(|| format!("{{ \"pos\": {event_offset} }}")),
        },
        ts: TimestampMs(event_offset * 1_000),
        event_offset,
    }
}

/// A row of a store that has all events below `reflects`.
fn row(uid: i64, event_offset: i64, reflects: i64) -> ProfileUpdate {
    ProfileUpdate {
        stored: profile(uid, event_offset),
        reflects: NextOffset::new(reflects),
    }
}

async fn cached(env: &TestEnv, uid: i64) -> Option<i64> {
    let read = env.conn.read_profiles(&[user(uid)]).await.unwrap();
    let found = read.profiles.get(&user(uid))?;
    assert_eq!(*found, profile(uid, found.event_offset));
    Some(found.event_offset)
}

async fn cache(env: &TestEnv, update: ProfileUpdate) {
    env.conn.cache_profiles(&[update]).await.unwrap();
}

#[tokio::test]
async fn a_profile_is_cached_whole_and_expires() {
    for cluster in [false, true] {
        let config = RedisConfig {
            cluster,
            ..RedisConfig::default()
        };
        let env = TestEnv::with(config).await;
        assert_eq!(cached(&env, ME).await, None);
        // What one has and the next has not.
        for event_offset in [0, 2, 3, 6, 7] {
            cache(&env, ProfileUpdate::of_event(profile(ME, event_offset))).await;
            assert_eq!(cached(&env, ME).await, Some(event_offset));
        }
        let key = if cluster {
            "{40}user-1000"
        } else {
            "user-1000"
        };
        assert!(env.redis::<i64>(&format!("PTTL {key}")).await > 0);
        let page = env.conn.scan_profiles(0).await.unwrap();
        assert_eq!(page.users, [user(ME)].into());
        assert!(env.conn.scan_users(0).await.unwrap().users.is_empty());
        env.conn.drop_profiles(&page.users).await.unwrap();
        assert_eq!(cached(&env, ME).await, None);
    }
}

#[tokio::test]
async fn an_older_row_is_not_cached() {
    let mut env = TestEnv::new().await;
    cache(&env, row(ME, 5, 6)).await;
    assert_eq!(cached(&env, ME).await, Some(5));
    cache(&env, ProfileUpdate::of_event(profile(ME, 9))).await;
    let step = env.step(OWN, 0, 10);
    env.batch(&[], &[step]).await.unwrap();
    // Read before the event, and late.
    cache(&env, row(ME, 5, 9)).await;
    assert_eq!(cached(&env, ME).await, Some(9));
    // And where the hash has expired meanwhile.
    env.redis::<i64>("DEL user-1000").await;
    cache(&env, row(ME, 5, 9)).await;
    assert_eq!(cached(&env, ME).await, None);
    cache(&env, row(ME, 9, 10)).await;
    assert_eq!(cached(&env, ME).await, Some(9));
    // An event that is applied again, of a log that is read from a lower position.
    env.redis::<i64>("DEL user-1000").await;
    cache(&env, ProfileUpdate::of_event(profile(ME, 5))).await;
    assert_eq!(cached(&env, ME).await, None);
}

#[tokio::test]
async fn what_was_cached_in_another_generation_is_absent() {
    let mut env = TestEnv::new().await;
    cache(&env, ProfileUpdate::of_event(profile(ME, 5))).await;
    let positions: Vec<String> = (0..64).map(|p| format!("tidemark:mark:{p}")).collect();
    let forget = format!("DEL {}", positions.join(" "));
    assert_eq!(env.redis::<i64>(&forget).await, 64);
    // Nobody knows how far the slot is.
    cache(&env, row(ME, 7, 100)).await;
    env.generation = env.initialise_at(9).await;
    assert_eq!(cached(&env, ME).await, None);
    cache(&env, row(ME, 7, 8)).await;
    assert_eq!(cached(&env, ME).await, None);
    cache(&env, row(ME, 7, 9)).await;
    assert_eq!(cached(&env, ME).await, Some(7));
}

#[tokio::test]
async fn a_key_of_another_type_is_absent_and_replaced() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[]).await;
    env.redis::<()>("SET user-1000 junk").await;
    assert_eq!(cached(&env, ME).await, None);
    // The connection serves others.
    assert!(!env.apply(messages(ME, 2, 1)).await);
    cache(&env, ProfileUpdate::of_event(profile(ME, 5))).await;
    assert_eq!(cached(&env, ME).await, Some(5));
    env.redis::<i64>("HDEL user-1000 pos").await;
    cache(&env, ProfileUpdate::of_event(profile(ME, 6))).await;
    assert_eq!(cached(&env, ME).await, Some(6));
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        number as usize % limit
    }
}

/// A log of profiles of three users, MySQL that follows it, Redis that follows it on its own, and readers whose rows arrive late.
struct World {
    env: TestEnv,
    random: Random,
    /// By offset: whose profile it sets, if it sets one.
    log: Vec<Option<i64>>,
    /// How far MySQL and Redis are.
    rows_below: usize,
    applied_below: usize,
    /// Rows that were read and are not in Redis yet.
    late: Vec<ProfileUpdate>,
}

const USERS: [i64; 3] = [ME, ME + 64, ME + 128];

impl World {
    fn newest(&self, uid: i64, below: usize) -> Option<i64> {
        let at = self.log[..below].iter().rposition(|one| *one == Some(uid));
        at.map(|at| at as i64)
    }

    async fn step(&mut self) {
        let uid = USERS[self.random.below(USERS.len())];
        match self.random.below(20) {
            0..5 => {
                let one = self.random.below(3) > 0;
                self.log.push(one.then_some(uid));
            }
            5..8 => {
                let left = self.log.len() - self.rows_below;
                self.rows_below += self.random.below(left + 1);
            }
            8..12 => self.apply().await,
            12..15 => {
                if let Some(event_offset) = self.newest(uid, self.rows_below) {
                    self.late
                        .push(row(uid, event_offset, self.rows_below as i64));
                }
            }
            15..18 => {
                if !self.late.is_empty() {
                    let at = self.random.below(self.late.len());
                    let update = self.late.swap_remove(at);
                    cache(&self.env, update).await;
                }
            }
            // An expiry.
            18 => drop(self.env.redis::<i64>(&format!("DEL user-{uid}")).await),
            _ => self.lose_something().await,
        }
    }

    /// A batch, from the position or from below it; its position is not always moved.
    async fn apply(&mut self) {
        let from = self.applied_below - self.random.below(self.applied_below.min(4) + 1);
        let left = self.log.len() - self.applied_below;
        let to = self.applied_below + self.random.below(left + 1);
        let mut newest = Vec::new();
        for uid in USERS {
            let at = self.log[from..to].iter().rposition(|one| *one == Some(uid));
            newest.extend(at.map(|at| profile(uid, (from + at) as i64)));
        }
        let updates: Vec<_> = newest.into_iter().map(ProfileUpdate::of_event).collect();
        self.env.conn.cache_profiles(&updates).await.unwrap();
        if self.random.below(5) > 0 && to > self.applied_below {
            let step = self.env.step(OWN, self.applied_below as i64, to as i64);
            self.env.batch(&[], &[step]).await.unwrap();
            self.applied_below = to;
        }
    }

    /// The server is flushed, or only the positions are lost: a new generation begins at the log's end.
    async fn lose_something(&mut self) {
        if self.random.below(2) == 0 {
            self.env.redis::<()>("FLUSHALL").await;
        } else {
            let positions: Vec<String> = (0..64).map(|p| format!("tidemark:mark:{p}")).collect();
            let forget = format!("DEL {}", positions.join(" "));
            self.env.redis::<i64>(&forget).await;
        }
        if let (Some(update), true) = (self.late.pop(), self.random.below(2) == 0) {
            cache(&self.env, update).await;
        }
        self.applied_below = self.log.len();
        self.env.generation = self.env.initialise_at(self.log.len() as i64).await;
    }

    async fn check(&self) -> usize {
        let mut found = 0;
        for uid in USERS {
            let cached = cached(&self.env, uid).await;
            let least = self.newest(uid, self.applied_below);
            assert!(
                cached.is_none() || cached >= least,
                "{cached:?} < {least:?}"
            );
            let exists =
                cached.is_none_or(|event_offset| self.log[event_offset as usize] == Some(uid));
            assert!(exists, "{cached:?}");
            found += usize::from(cached.is_some());
        }
        found
    }
}

#[tokio::test]
async fn no_cached_profile_is_behind_its_position() {
    let env = TestEnv::new().await;
    let mut world = World {
        env,
        random: Random(0x5EED),
        log: Vec::new(),
        rows_below: 0,
        applied_below: 0,
        late: Vec::new(),
    };
    let mut found = 0;
    for _ in 0..6_000 {
        world.step().await;
        found += world.check().await;
    }
    // It is not right because it is empty.
    assert!(found > 3_000, "{found}");
}

#[tokio::test]
async fn the_positions_are_those_of_the_users_partitions() {
    let mut env = TestEnv::new().await;
    let moves: Vec<PositionMove> = [OWN, OWN + 1].map(|p| env.step(p, 0, p)).to_vec();
    env.batch(&[], &moves).await.unwrap();
    let uids = [ME, ME + 64, ME + 1].map(user);
    let read = env.conn.read_profiles(&uids).await.unwrap();
    let found: Vec<(_, StoredPosition)> = read.positions.into_iter().collect();
    let expected = [OWN, OWN + 1].map(|p| (partition(p), env.stored(p)));
    assert_eq!(found, expected);
}
