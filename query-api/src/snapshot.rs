use std::ops::{Deref, DerefMut};

use access::QuotaPermit;
use message_store::ReadTx;

/// A snapshot of a database, with its connection's place in the quota of the database server.
pub(crate) struct Snapshot {
    tx: ReadTx,
    _place: Option<QuotaPermit>,
}

impl Snapshot {
    pub(crate) fn new(tx: ReadTx, place: Option<QuotaPermit>) -> Self {
        Self { tx, _place: place }
    }
}

impl Deref for Snapshot {
    type Target = ReadTx;

    fn deref(&self) -> &ReadTx {
        &self.tx
    }
}

impl DerefMut for Snapshot {
    fn deref_mut(&mut self) -> &mut ReadTx {
        &mut self.tx
    }
}
