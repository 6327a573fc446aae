//! Reading and writing the watermarks.

use std::str::FromStr;

use redis::Cmd;
use schemas::{PARTITIONS, Partition, event::SourceOffset};

use crate::{Connection, Generation, UnreadError, Watermark, WatermarkMove, Watermarks, scripts};

/// The fields of a watermark, as Redis answers them.
pub(crate) type Fields = [Option<String>; 4];

impl Connection {
    /// All watermarks of the node, at one moment. A writer asks this first on every new connection and follows
    /// [`plan`](crate::plan).
    ///
    /// # Errors
    /// [`UnreadError::Transient`], [`UnreadError::Malformed`].
    pub async fn read_marks(&self) -> Result<Watermarks, UnreadError> {
        let mut pipe = redis::pipe();
        pipe.atomic();
        for partition in Partition::all() {
            pipe.add_command(self.get_mark(partition));
        }
        let found: Vec<Fields> = self.run(&pipe).await?;
        let mut watermarks = Watermarks::NONE;
        for (partition, fields) in Partition::all().zip(found) {
            watermarks.set(partition, self.parse_mark(partition, fields)?);
        }
        Ok(watermarks)
    }

    /// Begins a new generation at the given ends of `chat.events` (next offset and highest src of each partition),
    /// unless all watermarks are there by now. Answers the generation in force; read the watermarks again afterwards.
    ///
    /// # Errors
    /// [`UnreadError::Transient`], [`UnreadError::Malformed`].
    pub async fn initialise_marks(
        &self,
        ends: &[(i64, SourceOffset); PARTITIONS as usize],
    ) -> Result<Generation, UnreadError> {
        let keys: Vec<String> = Partition::all().map(|p| self.keys().watermark(p)).collect();
        let mut cmd = scripts::call(&scripts::INITIALISE_MARKS, &keys);
        cmd.arg(Generation::fresh().to_string());
        for (offset, src) in ends {
            cmd.arg(offset).arg(src.epoch).arg(src.offset);
        }
        let generation: String = self.run_one(cmd).await?;
        parse(&keys[0], &generation)
    }

    /// Writes watermarks that are missing; those that are there by now stay. Read the watermarks again afterwards.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn repair_marks(
        &self,
        watermarks: &[(Partition, Watermark)],
    ) -> Result<(), UnreadError> {
        let keys: Vec<String> = watermarks
            .iter()
            .map(|(p, _)| self.keys().watermark(*p))
            .collect();
        let mut cmd = scripts::call(&scripts::REPAIR_MARKS, &keys);
        for (_, watermark) in watermarks {
            push_mark(&mut cmd, watermark);
        }
        self.run_one::<i64>(cmd).await.map(drop)
    }

    /// Moves watermarks forward, all or none.
    pub(crate) async fn move_marks(&self, moves: &[WatermarkMove]) -> Result<(), UnreadError> {
        if moves.is_empty() {
            return Ok(());
        }
        let keys: Vec<String> = moves
            .iter()
            .map(|m| self.keys().watermark(m.partition))
            .collect();
        let mut cmd = scripts::call(&scripts::MOVE_MARKS, &keys);
        for WatermarkMove { from, to, .. } in moves {
            push_mark(&mut cmd, from);
            push_mark(&mut cmd, to);
        }
        match self.run_one(cmd).await? {
            1_i64 => Ok(()),
            _ => Err(UnreadError::MarksMoved),
        }
    }

    /// Asks for the fields of a watermark.
    pub(crate) fn get_mark(&self, partition: Partition) -> Cmd {
        let mut cmd = redis::cmd("HMGET");
        cmd.arg(self.keys().watermark(partition)).arg(&[
            "generation",
            "offset",
            "src_epoch",
            "src_offset",
        ]);
        cmd
    }

    /// What [`Self::get_mark`] was answered; `None` for a watermark that is not there.
    pub(crate) fn parse_mark(
        &self,
        partition: Partition,
        fields: Fields,
    ) -> Result<Option<Watermark>, UnreadError> {
        if fields.iter().all(Option::is_none) {
            return Ok(None);
        }
        let key = self.keys().watermark(partition);
        let [
            Some(generation),
            Some(offset),
            Some(epoch),
            Some(src_offset),
        ] = fields
        else {
            return Err(UnreadError::malformed(
                &key,
                "a watermark without all its fields",
            ));
        };
        let src = SourceOffset {
            epoch: parse(&key, &epoch)?,
            offset: parse(&key, &src_offset)?,
        };
        Ok(Some(Watermark {
            generation: parse(&key, &generation)?,
            offset: parse(&key, &offset)?,
            src,
        }))
    }
}

/// Adds a watermark's four fields, in the order of the scripts.
fn push_mark(cmd: &mut Cmd, watermark: &Watermark) {
    cmd.arg(watermark.generation.to_string())
        .arg(watermark.offset)
        .arg(watermark.src.epoch)
        .arg(watermark.src.offset);
}

fn parse<T: FromStr<Err: ToString>>(key: &str, text: &str) -> Result<T, UnreadError> {
    text.parse()
        .map_err(|error: T::Err| UnreadError::malformed(key, error))
}
