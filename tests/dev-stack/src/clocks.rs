//! Wall clocks that can be set, of every process of a throw-away stack. Monotonic clocks are left alone, as they are when a wall clock is set.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::StackError;
use crate::managed::run;
use crate::run_dir::{RunDir, write_with_parents};

const LIBFAKETIME: &str = "faketime/libfaketimeMT.so.1";
/// Debian has a directory of libraries for every architecture.
const LIBRARY_ROOTS: [&str; 2] = ["/usr/lib", "/usr/local/lib"];
/// Libraries of ours that are preloaded, and their sources.
const PLAIN: (&str, &str) = ("wall_clock.so", include_str!("wall_clock.c"));
const C11_WAITS: (&str, &str) = ("c11_waits.so", include_str!("c11_waits.c"));

/// How a process gets its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClockKind {
    /// From libfaketime, which supports threads that wait until a time of the wall clock.
    Waits,
    /// From a few functions of ours, for a program that never waits like that and does not work with libfaketime: a Java virtual machine becomes ten
    /// times slower, and an allocator such as jemalloc asks for the time before that library is ready.
    Plain,
}

/// The clocks of a stack.
#[derive(Debug, Clone)]
pub(crate) struct Clocks {
    libfaketime: Option<PathBuf>,
    run_dir: RunDir,
}

impl Clocks {
    /// The path of libfaketime, if it is installed (Debian: `apt-get install faketime`).
    pub(crate) fn libfaketime() -> Option<PathBuf> {
        let roots = LIBRARY_ROOTS.iter().flat_map(fs::read_dir);
        let dirs = roots.flatten().filter_map(|entry| Some(entry.ok()?.path()));
        dirs.chain(LIBRARY_ROOTS.map(PathBuf::from))
            .map(|dir| dir.join(LIBFAKETIME))
            .find(|library| library.is_file())
    }

    pub(crate) fn new(run_dir: &RunDir) -> Result<Self, StackError> {
        for (library, source) in [PLAIN, C11_WAITS] {
            compile(&run_dir.clock_file(library), source)?;
        }
        Ok(Self {
            libfaketime: Self::libfaketime(),
            run_dir: run_dir.clone(),
        })
    }

    /// Gives a process, before it is started, a clock of its own.
    pub(crate) fn apply(
        &self,
        kind: ClockKind,
        name: &str,
        command: &mut Command,
    ) -> Result<(), StackError> {
        let (text, number) = self.files(name);
        if !text.exists() {
            self.set(name, 0)?;
        }
        // Only by their names: a space would end a path in LD_PRELOAD.
        command.env("LD_LIBRARY_PATH", self.run_dir.clock_file(""));
        match kind {
            ClockKind::Plain => command
                .env("LD_PRELOAD", PLAIN.0)
                .env("WALL_CLOCK_OFFSET", number),
            ClockKind::Waits => {
                let libfaketime = self.libfaketime.as_ref();
                let libfaketime = libfaketime.ok_or(StackError::NoSettableClocks)?;
                command
                    .env(
                        "LD_PRELOAD",
                        format!("{}:{}", C11_WAITS.0, libfaketime.display()),
                    )
                    .env("FAKETIME_TIMESTAMP_FILE", text)
                    .env("FAKETIME_CACHE_DURATION", "1")
                    .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            }
        };
        Ok(())
    }

    /// Sets the clock of a process `offset_s` seconds off; the process notices within a second.
    pub(crate) fn set(&self, name: &str, offset_s: i64) -> Result<(), StackError> {
        let (text, number) = self.files(name);
        // Renamed into place: a reader never finds half a number.
        let written = text.with_extension("new");
        write_with_parents(&written, &format!("{offset_s:+}\n"))?;
        // In place: the process has it mapped, and would be killed if its file were emptied.
        let mut in_place = File::options();
        in_place.create(true).truncate(false).write(true);
        fs::rename(&written, &text)
            .and_then(|()| in_place.open(&number)?.write_all(&offset_s.to_ne_bytes()))
            .map_err(StackError::io(format!("set the clock of {name}")))
    }

    /// The file that libfaketime reads, and the one that our own functions read.
    fn files(&self, name: &str) -> (PathBuf, PathBuf) {
        let file = |extension| self.run_dir.clock_file(&format!("{name}.{extension}"));
        (file("text"), file("number"))
    }
}

fn compile(library: &Path, text: &str) -> Result<(), StackError> {
    let source = library.with_extension("c");
    write_with_parents(&source, text)?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC", "-o"]);
    run("compile a wall clock", compiler.arg(library).arg(source))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_the_time_that_was_set() {
        let dir = tempfile::Builder::new()
            .prefix("a space ")
            .tempdir()
            .unwrap();
        let clocks = Clocks::new(&RunDir::new(dir.path()).unwrap()).unwrap();
        let waits = Clocks::libfaketime().map(|_| ClockKind::Waits);
        for kind in waits.into_iter().chain([ClockKind::Plain]) {
            clocks.set("date", -86_400).unwrap();
            let mut date = Command::new("date");
            clocks.apply(kind, "date", &mut date).unwrap();
            let printed = date.arg("+%s").output().unwrap();
            let printed: u64 = String::from_utf8(printed.stdout)
                .unwrap()
                .trim()
                .parse()
                .unwrap();
            let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
            assert!((now - 86_460..now - 86_340).contains(&printed), "{kind:?}");
        }
    }
}
