use schemas::{DeviceClass, Partition, TableNumber, UserId};

/// The names of the keys of a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyNames {
    /// Prefix of every key; empty for the frozen names.
    pub prefix: String,
}

impl KeyNames {
    /// The keys of the slot with this number in a Redis Cluster: the hash tag `{n}` comes before the prefix.
    pub(crate) fn in_cluster(n: TableNumber, prefix: &str) -> Self {
        Self {
            prefix: format!("{{{}}}{prefix}", n.get()),
        }
    }

    /// The pattern for `SCAN`, so that it returns no keys of other slots; `None` if there is only one slot.
    pub(crate) fn scan_pattern(&self) -> Option<String> {
        let (tag, _) = self.prefix.split_once('}')?;
        Some(format!("{tag}}}*"))
    }

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

    /// The hash with a user's profile.
    #[must_use]
    pub fn profile(&self, uid: UserId) -> String {
        self.of_user("user", uid)
    }

    /// The hash with a user's connections to gateways.
    #[must_use]
    pub fn presence(&self, uid: UserId) -> String {
        self.of_user("presence", uid)
    }

    /// The sorted set with the leases of gateways, by their end.
    #[must_use]
    pub fn gateway_leases(&self) -> String {
        format!("{}tidemark:gateways", self.prefix)
    }

    /// The channel on which gateways notify each other; for all slots it is the channel of the first.
    pub(crate) fn notices(&self) -> String {
        format!("{}tidemark:notices", self.prefix)
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

    /// The key that exists for a moment while it is tested whether writes are taken.
    pub(crate) fn write_probe(&self) -> String {
        format!("{}tidemark:probe", self.prefix)
    }

    /// The user to whom a state or view key belongs; `None` for any other key.
    #[must_use]
    pub fn user_of(&self, key: &str) -> Option<UserId> {
        let (kind, uid) = self.split(key)?;
        (kind == "state" || kind.parse::<DeviceClass>().is_ok()).then_some(uid)
    }

    /// The user whose profile is in a key; `None` for any other key.
    #[must_use]
    pub fn profile_of(&self, key: &str) -> Option<UserId> {
        let (kind, uid) = self.split(key)?;
        (kind == "user").then_some(uid)
    }

    fn split<'a>(&self, key: &'a str) -> Option<(&'a str, UserId)> {
        let (kind, uid) = key.strip_prefix(&self.prefix)?.split_once('-')?;
        Some((kind, uid.parse().ok()?))
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
        format!("{prefix}{kind}-{uid}")
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
        assert_eq!(plain.profile(uid), "user-1000");
        assert_eq!(plain.rebuild_requests(), "tidemark:wanted");
        assert_eq!(
            plain.position(Partition::try_from(63).unwrap()),
            "tidemark:mark:63"
        );
        assert_eq!(plain.scan_pattern(), None);

        let tagged = KeyNames::in_cluster(TableNumber::of_user(uid), "t1:");
        assert_eq!(tagged.view(DeviceClass::Pc, uid), "{40}t1:pc-1000");
        assert_eq!(tagged.scan_pattern().as_deref(), Some("{40}*"));
    }

    #[test]
    fn only_state_and_view_keys_belong_to_a_user() {
        let uid = "1000".parse().unwrap();
        let plain = KeyNames {
            prefix: "x-".to_owned(),
        };
        for names in [plain, KeyNames::in_cluster(TableNumber::of_user(uid), "")] {
            for key in [
                names.state(uid),
                names.view(DeviceClass::Pc, uid),
                names.view(DeviceClass::Mobile, uid),
            ] {
                assert_eq!(names.user_of(&key), Some(uid), "{key}");
            }
            let profile = names.profile(uid);
            assert_eq!(names.profile_of(&profile), Some(uid));
            assert_eq!(names.profile_of(&names.state(uid)), None);
            for key in [
                profile.as_str(),
                names.rebuild_requests().as_str(),
                "pc-1000",
                "x-pc-",
                "x-pc-01",
                "x-tv-1000",
                "{41}pc-1000",
            ] {
                assert_eq!(names.user_of(key), None, "{key}");
            }
        }
    }
}
