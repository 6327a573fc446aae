use schemas::{DeviceClass, Partition, UserId};

/// The names of the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyNames {
    /// Prefix of every key; empty for the frozen names.
    pub prefix: String,
    /// Whether a user's three keys carry `{<uid>}`, so that Redis Cluster keeps them in one slot.
    pub hash_tags: bool,
}

impl KeyNames {
    /// The state hash, from which the views follow.
    #[must_use]
    pub fn state(&self, uid: UserId) -> String {
        self.of_user("state", uid)
    }

    /// The hash that shows a user's unread counts on one class.
    #[must_use]
    pub fn view(&self, device: DeviceClass, uid: UserId) -> String {
        self.of_user(device.as_str(), uid)
    }

    /// How far a partition of `chat.events` is applied.
    #[must_use]
    pub fn position(&self, partition: Partition) -> String {
        format!("{}tidemark:mark:{partition}", self.prefix)
    }

    /// The set of users for whom a rebuild is requested.
    #[must_use]
    pub fn rebuild_requests(&self) -> String {
        format!("{}tidemark:wanted", self.prefix)
    }

    /// The hash with the progress of a rebuild of all users, by table.
    #[must_use]
    pub fn rebuild_progress(&self) -> String {
        format!("{}tidemark:rebuilt", self.prefix)
    }

    /// The user to whom a state or view key belongs; `None` for any other key.
    #[must_use]
    pub fn user_of(&self, key: &str) -> Option<UserId> {
        let (kind, uid) = key.strip_prefix(&self.prefix)?.split_once('-')?;
        let uid = if self.hash_tags {
            uid.strip_prefix('{')?.strip_suffix('}')?
        } else {
            uid
        };
        if kind != "state" && kind.parse::<DeviceClass>().is_err() {
            return None;
        }
        uid.parse().ok()
    }

    /// The KEYS of the scripts on a user.
    pub(crate) fn of_scripts(&self, uid: UserId) -> [String; 5] {
        [
            self.state(uid),
            self.view(DeviceClass::Pc, uid),
            self.view(DeviceClass::Mobile, uid),
            self.rebuild_requests(),
            self.of_user("new", uid),
        ]
    }

    fn of_user(&self, kind: &str, uid: UserId) -> String {
        let prefix = &self.prefix;
        if self.hash_tags {
            format!("{prefix}{kind}-{{{uid}}}")
        } else {
            format!("{prefix}{kind}-{uid}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_documented_ones() {
        let uid = "1000".parse().unwrap();
        let plain = KeyNames::default();
        assert_eq!(plain.state(uid), "state-1000");
        assert_eq!(plain.view(DeviceClass::Pc, uid), "pc-1000");
        assert_eq!(plain.view(DeviceClass::Mobile, uid), "mobile-1000");
        assert_eq!(plain.rebuild_requests(), "tidemark:wanted");
        assert_eq!(
            plain.position(Partition::try_from(63).unwrap()),
            "tidemark:mark:63"
        );

        let tagged = KeyNames {
            prefix: "t1:".to_owned(),
            hash_tags: true,
        };
        assert_eq!(tagged.view(DeviceClass::Pc, uid), "t1:pc-{1000}");
    }

    #[test]
    fn only_state_and_view_keys_belong_to_a_user() {
        let uid = "1000".parse().unwrap();
        for hash_tags in [false, true] {
            let names = KeyNames {
                prefix: "x-".to_owned(),
                hash_tags,
            };
            for key in [
                names.state(uid),
                names.view(DeviceClass::Pc, uid),
                names.view(DeviceClass::Mobile, uid),
            ] {
                assert_eq!(names.user_of(&key), Some(uid), "{key}");
            }
            for key in [
                names.rebuild_requests().as_str(),
                "pc-1000",
                "x-pc-",
                "x-pc-01",
                "x-tv-1000",
            ] {
                assert_eq!(names.user_of(key), None, "{key}");
            }
        }
    }
}
