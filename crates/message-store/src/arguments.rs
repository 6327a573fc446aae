use sqlx::{Encode, MySql, Type, mysql::MySqlArguments};

use crate::StoreError;

/// Parameters of a statement, in the order of their question marks.
#[derive(Default)]
pub(crate) struct Arguments {
    bound: MySqlArguments,
    refused: Option<StoreError>,
}

impl Arguments {
    pub(crate) fn with<'q, T: Encode<'q, MySql> + Type<MySql>>(mut self, value: T) -> Self {
        if let Err(error) = sqlx::Arguments::add(&mut self.bound, value) {
            self.refused.get_or_insert(StoreError::fatal(error));
        }
        self
    }

    pub(crate) fn finish(self) -> Result<MySqlArguments, StoreError> {
        match self.refused {
            None => Ok(self.bound),
            Some(error) => Err(error),
        }
    }
}
