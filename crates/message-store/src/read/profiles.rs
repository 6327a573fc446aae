use schemas::{StoredProfile, TableNumber, UserId};

use super::{ReadTx, decode};
use crate::{StoreError, names::Table};

impl ReadTx {
    /// The profiles of these users, all in this database, in one statement; a user may have none.
    pub async fn profiles(&mut self, uids: &[UserId]) -> Result<Vec<StoredProfile>, StoreError> {
        let ids = uids
            .iter()
            .map(|uid| (TableNumber::of_user(*uid), uid.get()));
        let sql = |tx: &Self, number, uids: &str| {
            Ok(include_str!("../../sql/read/profiles.sql")
                .replace("{table}", &tx.table(Table::User, number)?)
                .replace("{uids}", uids))
        };
        self.fetch_of_tables(ids, sql, decode::profile).await
    }

    /// The next `limit` rows of `user_<n>` after that of `after`, ascending.
    pub async fn scan_profiles(
        &mut self,
        number: TableNumber,
        after: Option<UserId>,
        limit: u32,
    ) -> Result<Vec<StoredProfile>, StoreError> {
        let after = after.map_or(0, UserId::get);
        let sql = include_str!("../../sql/read/scan_profiles.sql");
        let key = [("uid", after)];
        self.scan(sql, (Table::User, number), &key, limit, decode::profile)
            .await
    }
}
