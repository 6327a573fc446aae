//! The output of commands: tables, and `print!` for a standard output that may be closed early (`| head`).

use std::{
    fmt,
    io::{self, Write as _},
};

/// The exit code of a program that SIGPIPE ends. The signal itself stays ignored: it would also end commands whose peer closes a connection.
const READER_GONE: i32 = 141;

/// Prints on standard output; once that is closed, the program ends silently.
macro_rules! print {
    ($($arg:tt)*) => {
        $crate::output::write(format_args!($($arg)*))
    };
}

/// `print!` with a newline.
macro_rules! println {
    ($($arg:tt)*) => {
        $crate::output::write(format_args!("{}\n", format_args!($($arg)*)))
    };
}

/// For `print!`.
pub(crate) fn write(text: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) {
        give_up(&error);
    }
}

fn give_up(error: &io::Error) -> ! {
    if error.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(READER_GONE);
    }
    eprintln!("tidemark: cannot print: {error}");
    std::process::exit(crate::failure::NEGATIVE.into());
}

/// Aligned columns; the first row is the heading.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<usize>,
}

impl Table {
    pub(crate) fn new<const N: usize>(heading: [&str; N]) -> Self {
        Self {
            rows: vec![heading.map(str::to_owned).to_vec()],
            right: Vec::new(),
        }
    }

    /// Aligns a column to the right.
    pub(crate) fn right(mut self, columns: &[usize]) -> Self {
        self.right.extend(columns);
        self
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[column] - cell.chars().count());
                let (before, after) = if self.right.contains(&column) {
                    (pad.as_str(), "")
                } else {
                    ("", pad.as_str())
                };
                line.push_str(&format!("{before}{cell}{after}  "));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A whole number with its digits grouped: 59,835.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["name", "count"]).right(&[1]);
        table.row(["a".to_owned(), "5".to_owned()]);
        table.row(["long name".to_owned(), "12345".to_owned()]);
        assert_eq!(
            table.to_string(),
            "name       count\na              5\nlong name  12345\n"
        );
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [0, 999, 1000, 59_835, 1_234_567].map(grouped),
            ["0", "999", "1,000", "59,835", "1,234,567"]
        );
    }
}
