//! The outcome of a record of `chat.inbound`.

mod dead_letter;
mod epoch_of;
mod event;
mod lookup;
mod original;
mod outcome;
mod reader_pool;

pub(crate) use lookup::lookup;
pub(crate) use reader_pool::ReaderPool;
