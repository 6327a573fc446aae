//! Reading and writing the stored positions.

use std::str::FromStr;

use redis::Cmd;
use schemas::{LogPosition, NextOffset, Partition, PartitionMap, event::SourceOffset};

use crate::{
    Connection, Generation, PositionMove, StoredPosition, StoredPositions, UnreadError, scripts,
};

/// The fields of a position, as Redis returns them.
pub(crate) type Fields = [Option<String>; 4];

impl Connection {
    /// The positions of all partitions, read in one transaction. A writer calls this first on every new connection and follows
    /// [`ResumePlan`](crate::ResumePlan).
    ///
    /// # Errors
    /// [`UnreadError::Transient`], [`UnreadError::Malformed`].
    pub async fn read_positions(&self) -> Result<StoredPositions, UnreadError> {
        let mut pipe = redis::pipe();
        pipe.atomic();
        for partition in Partition::all() {
            pipe.add_command(self.get_position(partition));
        }
        let found: Vec<Fields> = self.run(&pipe).await?;
        Partition::all()
            .zip(found)
            .filter_map(|(partition, fields)| {
                let stored = self.parse_position(partition, fields).transpose()?;
                Some(stored.map(|stored| (partition, stored)))
            })
            .collect()
    }

    /// Deletes the keys of all users, then writes positions of a new generation, at the given ends of `chat.events`; does nothing if the slot has all
    /// positions of one generation meanwhile. Returns the generation in force; read the positions again afterwards.
    ///
    /// Keys of an earlier generation must not stay: nothing would correct a view until the user's next event. A rebuild that begins meanwhile in the
    /// generation in force reads rows that reach these ends, since the ends were read before.
    ///
    /// # Errors
    /// [`UnreadError::Transient`], [`UnreadError::Malformed`].
    pub async fn initialise_positions(
        &self,
        ends: &PartitionMap<LogPosition>,
    ) -> Result<Generation, UnreadError> {
        if let Some(generation) = self.read_positions().await?.generation() {
            return Ok(generation);
        }
        self.drop_users().await?;
        let keys: Vec<String> = Partition::all().map(|p| self.keys().position(p)).collect();
        let mut cmd = scripts::call(&scripts::INITIALISE_POSITIONS, &keys);
        cmd.arg(Generation::fresh().to_string());
        for partition in Partition::all() {
            push_position(&mut cmd, ends.get(partition).copied().unwrap_or_default());
        }
        let generation: String = self.run_one(cmd).await?;
        parse(&keys[0], &generation)
    }

    /// Deletes all keys of all users. The keys of one user are deleted together.
    async fn drop_users(&self) -> Result<(), UnreadError> {
        let mut cursor = Some(0);
        while let Some(at) = cursor {
            let page = self.scan_users(at).await?;
            let mut pipe = redis::pipe();
            for uid in &page.users {
                let [state, pc, mobile, _, shadow] = self.keys().of_scripts(*uid);
                pipe.cmd("UNLINK")
                    .arg(&[state, pc, mobile, shadow])
                    .ignore();
            }
            if !page.users.is_empty() {
                self.run::<()>(&pipe).await?;
            }
            cursor = page.next;
        }
        self.clear_rebuild_progress().await
    }

    /// Writes the positions that are missing; those that exist by now stay. Read the positions again afterwards.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn repair_positions(
        &self,
        positions: &[(Partition, StoredPosition)],
    ) -> Result<(), UnreadError> {
        let keys: Vec<String> = positions
            .iter()
            .map(|(p, _)| self.keys().position(*p))
            .collect();
        let mut cmd = scripts::call(&scripts::REPAIR_POSITIONS, &keys);
        for (_, stored) in positions {
            push_stored(&mut cmd, stored);
        }
        self.run_one::<i64>(cmd).await.map(drop)
    }

    /// Moves positions forward, all or none.
    pub(crate) async fn move_positions(&self, moves: &[PositionMove]) -> Result<(), UnreadError> {
        if moves.is_empty() {
            return Ok(());
        }
        let keys: Vec<String> = moves
            .iter()
            .map(|m| self.keys().position(m.partition))
            .collect();
        let mut cmd = scripts::call(&scripts::MOVE_POSITIONS, &keys);
        for PositionMove { from, to, .. } in moves {
            push_stored(&mut cmd, from);
            push_stored(&mut cmd, to);
        }
        match self.run_one(cmd).await? {
            1_i64 => Ok(()),
            _ => Err(UnreadError::PositionsMoved),
        }
    }

    /// The command that reads a position.
    pub(crate) fn get_position(&self, partition: Partition) -> Cmd {
        let mut cmd = redis::cmd("HMGET");
        cmd.arg(self.keys().position(partition)).arg(&[
            "generation",
            "offset",
            "src_epoch",
            "src_offset",
        ]);
        cmd
    }

    /// Parses what [`Self::get_position`] returned; `None` if the key does not exist.
    pub(crate) fn parse_position(
        &self,
        partition: Partition,
        fields: Fields,
    ) -> Result<Option<StoredPosition>, UnreadError> {
        if fields.iter().all(Option::is_none) {
            return Ok(None);
        }
        let key = self.keys().position(partition);
        let [
            Some(generation),
            Some(offset),
            Some(epoch),
            Some(src_offset),
        ] = fields
        else {
            return Err(UnreadError::malformed(
                &key,
                "a position without all its fields",
            ));
        };
        let watermark = SourceOffset {
            epoch: parse(&key, &epoch)?,
            offset: parse(&key, &src_offset)?,
        };
        Ok(Some(StoredPosition {
            generation: parse(&key, &generation)?,
            position: LogPosition {
                next: NextOffset::new(parse(&key, &offset)?),
                watermark,
            },
        }))
    }
}

/// The lowest position of each partition in these slots; positions that a slot lacks are left out.
///
/// # Errors
/// As [`Connection::read_positions`].
pub async fn lowest_positions(
    connections: &[Connection],
) -> Result<PartitionMap<LogPosition>, UnreadError> {
    let mut lowest: Option<PartitionMap<LogPosition>> = None;
    for connection in connections {
        let found = connection.read_positions().await?;
        let lower = |partition| {
            let position = found.get(partition)?.position;
            let others = match &lowest {
                None => position,
                Some(lowest) => *lowest.get(partition)?,
            };
            let lower = if others.next < position.next {
                others
            } else {
                position
            };
            Some((partition, lower))
        };
        lowest = Some(Partition::all().filter_map(lower).collect());
    }
    Ok(lowest.unwrap_or_default())
}

/// Adds a position's four fields, in the order of the scripts.
fn push_stored(cmd: &mut Cmd, stored: &StoredPosition) {
    cmd.arg(stored.generation.to_string());
    push_position(cmd, stored.position);
}

fn push_position(cmd: &mut Cmd, LogPosition { next, watermark }: LogPosition) {
    cmd.arg(next.get())
        .arg(watermark.epoch)
        .arg(watermark.offset);
}

fn parse<T: FromStr<Err: ToString>>(key: &str, text: &str) -> Result<T, UnreadError> {
    text.parse()
        .map_err(|error: T::Err| UnreadError::malformed(key, error))
}
