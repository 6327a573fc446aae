//! Turns a deserializer's message into a problem that names the field.

use serde_path_to_error::{Path, Segment};

use crate::Problem;

/// A caller's own text is quoted back at most this far.
const QUOTE_CHARS: usize = 120;

/// The problem for a value that is well-formed but not what `path` should hold.
pub(crate) fn field_problem(path: &Path, complaint: &str) -> Problem {
    let complaint = without_position(complaint);
    if let Some(name) = quoted_after(complaint, "missing field `") {
        // `path` is that of the object which lacks the member, and may end in the same name.
        return Problem::invalid_field(member_of(path, name), "is missing", "present");
    }
    if let Some(name) = quoted_after(complaint, "unknown field `") {
        let known = complaint
            .split_once(", expected ")
            .map_or("absent", |(_, known)| known);
        return Problem::invalid_field(member(path, name), "is not known here", known);
    }
    if let Some(name) = quoted_after(complaint, "duplicate field `") {
        let field = member(path, name);
        return Problem::invalid_field(field, "is there more than once", "there once");
    }
    // serde_html_form's message about a parameter that takes one value and is given twice.
    if complaint == "unsupported value" {
        return Problem::invalid_field(dotted(path), "is there more than once", "there once");
    }
    // serde_json's message about a text such as "\ud83d".
    if complaint.ends_with("hex escape") {
        let right = "whole characters";
        return Problem::invalid_field(dotted(path), "has half of a surrogate pair", right);
    }
    complaint_problem(dotted(path), complaint)
}

/// The problem for `field` in a deserializer's words, or in those of one of our own types ("is 0; must be 1 or more").
pub(crate) fn complaint_problem(field: impl Into<String>, complaint: &str) -> Problem {
    let (wrong, right) = wrong_and_right(complaint);
    Problem::invalid_field(field, wrong, right)
}

/// Splits serde's "invalid type: X, expected Y"; messages of our own types stay as they are.
fn wrong_and_right(complaint: &str) -> (String, String) {
    for prefix in [
        "invalid type: ",
        "invalid value: ",
        "invalid length ",
        "unknown variant ",
    ] {
        let Some(rest) = complaint.strip_prefix(prefix) else {
            continue;
        };
        if let Some((wrong, right)) = rest.rsplit_once(", expected ") {
            return (
                format!("is {}", shortened(plain(wrong))),
                plain(right).to_owned(),
            );
        }
    }
    match complaint.split_once("; must be ") {
        Some((wrong, right)) => (shortened(wrong), right.to_owned()),
        None => (
            format!("is refused: {}", shortened(complaint)),
            "a valid value".to_owned(),
        ),
    }
}

/// Rust's or serde's name for a type, in words for a caller.
pub(crate) fn plain(name: &str) -> &str {
    match name {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more, in range",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number in range",
        "bool" | "a boolean" => "true or false",
        "map" | "a map" => "an object",
        "sequence" | "a sequence" => "an array",
        "string or map" | "variant identifier" => "a string",
        other if other.starts_with("struct ") => "an object",
        other => other,
    }
}

/// serde_json appends " at line 1 column 7", which is of no use beside a field's name.
fn without_position(complaint: &str) -> &str {
    match complaint.rfind(" at line ") {
        Some(at) => &complaint[..at],
        None => complaint,
    }
}

fn quoted_after<'a>(complaint: &'a str, prefix: &str) -> Option<&'a str> {
    complaint.strip_prefix(prefix)?.split('`').next()
}

fn shortened(words: &str) -> String {
    match words.char_indices().nth(QUOTE_CHARS) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words.to_owned(),
    }
}

/// `path` as a caller would write it: `message.srcid`, `items[3].mid`; the whole body is `body`.
fn dotted(path: &Path) -> String {
    let path = joined(path);
    if path.is_empty() {
        "body".to_owned()
    } else {
        path
    }
}

/// The member `name` of whatever `path` points at; a path that already ends in it stays.
fn member(path: &Path, name: &str) -> String {
    let already_there =
        matches!(path.iter().next_back(), Some(Segment::Map { key }) if key.as_str() == name);
    if already_there {
        return joined(path);
    }
    member_of(path, name)
}

/// The member `name` of the object that `path` points at.
fn member_of(path: &Path, name: &str) -> String {
    let mut member = joined(path);
    push_name(&mut member, name);
    member
}

fn joined(path: &Path) -> String {
    let mut joined = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => joined.push_str(&format!("[{index}]")),
            Segment::Map { key } => push_name(&mut joined, key),
            Segment::Enum { variant } => push_name(&mut joined, variant),
            Segment::Unknown => {}
        }
    }
    joined
}

fn push_name(joined: &mut String, name: &str) {
    if !joined.is_empty() {
        joined.push('.');
    }
    joined.push_str(&shortened(name));
}
