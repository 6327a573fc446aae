//! Reading and writing the marks.

use std::str::FromStr;

use redis::Cmd;
use schemas::{PARTITIONS, Partition, event::SrcMark};

use crate::{Connection, Generation, Mark, MarkMove, Marks, UnreadError, scripts};

/// The fields of a mark, as Redis answers them.
pub(crate) type Fields = [Option<String>; 4];

impl Connection {
    /// All marks of the node, at one moment. A writer asks this first on every new connection and follows
    /// [`plan`](crate::plan).
    ///
    /// # Errors
    /// [`UnreadError::Transient`], [`UnreadError::Malformed`].
    pub async fn read_marks(&self) -> Result<Marks, UnreadError> {
        let mut pipe = redis::pipe();
        pipe.atomic();
        for partition in Partition::all() {
            pipe.add_command(self.get_mark(partition));
        }
        let found: Vec<Fields> = self.run(&pipe).await?;
        let mut marks = Marks::NONE;
        for (partition, fields) in Partition::all().zip(found) {
            marks.set(partition, self.parse_mark(partition, fields)?);
        }
        Ok(marks)
    }

    /// Begins a new generation at the given ends of `chat.events` (next offset and highest src of each partition),
    /// unless all marks are there by now. Answers the generation in force; read the marks again afterwards.
    ///
    /// # Errors
    /// [`UnreadError::Transient`], [`UnreadError::Malformed`].
    pub async fn initialise_marks(
        &self,
        ends: &[(i64, SrcMark); PARTITIONS as usize],
    ) -> Result<Generation, UnreadError> {
        let keys: Vec<String> = Partition::all().map(|p| self.keys().mark(p)).collect();
        let mut cmd = scripts::call(&scripts::INITIALISE_MARKS, &keys);
        cmd.arg(Generation::fresh().to_string());
        for (offset, src) in ends {
            cmd.arg(offset).arg(src.epoch).arg(src.offset);
        }
        let generation: String = self.run_one(cmd).await?;
        parse(&keys[0], &generation)
    }

    /// Writes marks that are missing; those that are there by now stay. Read the marks again afterwards.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn repair_marks(&self, marks: &[(Partition, Mark)]) -> Result<(), UnreadError> {
        let keys: Vec<String> = marks.iter().map(|(p, _)| self.keys().mark(*p)).collect();
        let mut cmd = scripts::call(&scripts::REPAIR_MARKS, &keys);
        for (_, mark) in marks {
            push_mark(&mut cmd, mark);
        }
        self.run_one::<i64>(cmd).await.map(drop)
    }

    /// Moves marks forward, all or none.
    pub(crate) async fn move_marks(&self, moves: &[MarkMove]) -> Result<(), UnreadError> {
        if moves.is_empty() {
            return Ok(());
        }
        let keys: Vec<String> = moves
            .iter()
            .map(|m| self.keys().mark(m.partition))
            .collect();
        let mut cmd = scripts::call(&scripts::MOVE_MARKS, &keys);
        for MarkMove { from, to, .. } in moves {
            push_mark(&mut cmd, from);
            push_mark(&mut cmd, to);
        }
        match self.run_one(cmd).await? {
            1_i64 => Ok(()),
            _ => Err(UnreadError::MarksMoved),
        }
    }

    /// Asks for the fields of a mark.
    pub(crate) fn get_mark(&self, partition: Partition) -> Cmd {
        let mut cmd = redis::cmd("HMGET");
        cmd.arg(self.keys().mark(partition)).arg(&[
            "generation",
            "offset",
            "src_epoch",
            "src_offset",
        ]);
        cmd
    }

    /// What [`Self::get_mark`] was answered; `None` for a mark that is not there.
    pub(crate) fn parse_mark(
        &self,
        partition: Partition,
        fields: Fields,
    ) -> Result<Option<Mark>, UnreadError> {
        if fields.iter().all(Option::is_none) {
            return Ok(None);
        }
        let key = self.keys().mark(partition);
        let [
            Some(generation),
            Some(offset),
            Some(epoch),
            Some(src_offset),
        ] = fields
        else {
            return Err(UnreadError::malformed(
                &key,
                "a mark without all its fields",
            ));
        };
        let src = SrcMark {
            epoch: parse(&key, &epoch)?,
            offset: parse(&key, &src_offset)?,
        };
        Ok(Some(Mark {
            generation: parse(&key, &generation)?,
            offset: parse(&key, &offset)?,
            src,
        }))
    }
}

/// Adds a mark's four fields, in the order of the scripts.
fn push_mark(cmd: &mut Cmd, mark: &Mark) {
    cmd.arg(mark.generation.to_string())
        .arg(mark.offset)
        .arg(mark.src.epoch)
        .arg(mark.src.offset);
}

fn parse<T: FromStr<Err: ToString>>(key: &str, text: &str) -> Result<T, UnreadError> {
    text.parse()
        .map_err(|error: T::Err| UnreadError::malformed(key, error))
}
