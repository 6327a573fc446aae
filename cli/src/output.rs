//! The output of commands: tables, and `print!` for a standard output that may be closed early (`| head`). Texts that other users have written must
//! not control the terminal: only this module makes them harmless.

use std::{
    borrow::Cow,
    fmt,
    io::{self, Write as _},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use unicode_width::UnicodeWidthStr as _;

/// A bar of what is done, its rate and the time left; shown on a terminal only.
pub(crate) fn progress_bar() -> anyhow::Result<ProgressBar> {
    let style =
        ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} {per_sec} {eta}  {msg}")?;
    let bar = ProgressBar::no_length().with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    Ok(bar)
}

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

/// Prints a line on standard error, if that is open.
macro_rules! eprintln {
    ($($arg:tt)*) => {
        $crate::output::complain(format_args!($($arg)*))
    };
}

/// The function behind `print!`.
pub(crate) fn write(text: fmt::Arguments<'_>) {
    let text = text.to_string();
    let mut out = io::stdout().lock();
    let written = out.write_all(harmless(&text).as_bytes());
    if let Err(error) = written.and_then(|()| out.flush()) {
        give_up(&error);
    }
}

/// Writes bytes on standard output, which a program reads.
pub(crate) fn write_bytes(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes);
    if let Err(error) = written.and_then(|()| out.flush()) {
        give_up(&error);
    }
}

/// The function behind `eprintln!`.
pub(crate) fn complain(text: fmt::Arguments<'_>) {
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "{}", harmless(&text.to_string()));
}

/// The text with `\u001b` (and the like) in place of control characters, which a terminal obeys, and of invisible characters that change how others
/// are shown: escaped as in JSON, so that a JSON text keeps its value. Lines and tabs stay; a [`Table`] has none in its cells.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return text.into();
    }
    let mut harmless = String::with_capacity(text.len());
    for c in text.chars() {
        if is_obeyed(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                harmless.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            harmless.push(c);
        }
    }
    harmless.into()
}

fn is_obeyed(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // C0, DEL and C1, which a terminal takes for commands.
        c if c.is_control() => true,
        // The format characters, which Unicode calls Cf, except the joiners of emoji and of Persian.
        '\u{200c}' | '\u{200d}' => false,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' => true,
        // Separators of lines and paragraphs, and directions of text.
        '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{feff}' | '\u{fff9}'..='\u{fffb}' => true,
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => false,
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

    /// A cell is one line, whatever text is in it.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        let cell = |text: String| {
            let text = harmless(&text);
            text.replace('\n', "\\n").replace('\t', "\\t")
        };
        self.rows.push(cells.map(cell).to_vec());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.width()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[column] - cell.width());
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

/// `count` items `over` a time, as a rate per second.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub(crate) fn per_second(count: u64, over: Duration) -> f64 {
    count as f64 / over.as_secs_f64().max(1e-9)
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
    fn columns_line_up_in_every_script() {
        let mut table = Table::new(["name", "count"]).right(&[1]);
        table.row(["\u{6f22}\u{5b57}".to_owned(), "5".to_owned()]);
        table.row(["\u{1f30a}".to_owned(), "12".to_owned()]);
        table.row(["e\u{301}te\u{301}".to_owned(), "123".to_owned()]);
        assert_eq!(
            table.to_string(),
            "name  count\n\u{6f22}\u{5b57}      5\n\u{1f30a}       12\ne\u{301}te\u{301}     123\n"
        );
    }

    #[test]
    fn what_strangers_write_acts_on_no_terminal() {
        for (text, shown) in [
            ("\u{1b}]52;c;cm0gLXJm\u{7}", "\\u001b]52;c;cm0gLXJm\\u0007"),
            ("\u{9b}31m", "\\u009b31m"),
            ("a\u{202e}gpj.exe", "a\\u202egpj.exe"),
            ("\u{2066}\u{feff}\u{7f}", "\\u2066\\ufeff\\u007f"),
            ("\u{e0041}", "\\udb40\\udc41"),
            ("line\n\tnext", "line\n\tnext"),
            (
                "\u{1f468}\u{200d}\u{1f469} \u{e9}",
                "\u{1f468}\u{200d}\u{1f469} \u{e9}",
            ),
        ] {
            assert_eq!(harmless(text), shown);
        }
        let texts = ["\u{9b}31m", "a\u{202e}b", "\u{e0041}"];
        let json = serde_json::json!(texts).to_string();
        let read: Vec<String> = serde_json::from_str(&harmless(&json)).unwrap();
        assert_eq!(read, texts);
    }

    #[test]
    fn a_cell_is_one_line() {
        let mut table = Table::new(["text"]);
        table.row(["a\nb\tc\u{1b}".to_owned()]);
        assert_eq!(table.to_string(), "text\na\\nb\\tc\\u001b\n");
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [0, 999, 1000, 59_835, 1_234_567].map(grouped),
            ["0", "999", "1,000", "59,835", "1,234,567"]
        );
    }
}
