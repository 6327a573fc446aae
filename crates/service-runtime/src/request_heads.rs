//! Parses the heads of a connection's requests beside hyper: to refuse requests that have both `Content-Length` and `Transfer-Encoding`, which hyper
//! does not report, and to know whether the client still owes part of a body.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How much of a line is kept: the headers that matter here are shorter.
const KEPT_BYTES: usize = 64;

/// Reads along with hyper, until an upgrade or until hyper refuses something.
#[derive(Default)]
pub(crate) struct RequestHeads {
    at: At,
    /// How many heads have been read.
    count: u64,
}

enum At {
    Head(Head),
    /// This many bytes of a body are left.
    Body(u64),
    /// This many bytes of a chunk and of the end of its line are left.
    Chunk(u64),
    /// In the line before a chunk, of which this part was read.
    ChunkSize(Vec<u8>),
    /// After the last chunk.
    Trailers(Trailer),
    Unknown,
}

/// What was read of the current line.
#[derive(Default)]
struct Trailer {
    has_text: bool,
    ends_in_cr: bool,
}

#[derive(Default)]
struct Head {
    line: Vec<u8>,
    has_request_line: bool,
    length: Length,
    is_encoded: bool,
}

/// What `Content-Length` says.
#[derive(Clone, Copy, Default)]
enum Length {
    #[default]
    Absent,
    Bytes(u64),
    /// A value that hyper may read in another way than this file does, such as one that is cut here.
    Unclear,
}

/// State shared by the reader of a connection's requests and the component that answers them.
#[derive(Default)]
pub(crate) struct Requests {
    /// The number of the first request that is ambiguous, from 1; 0 if there is none.
    ambiguous: AtomicU64,
    answered: AtomicU64,
    /// Whether the connection now speaks another protocol.
    is_upgraded: AtomicBool,
}

impl Default for At {
    fn default() -> Self {
        Self::Head(Head::default())
    }
}

impl RequestHeads {
    /// Takes bytes that the client has sent.
    pub(crate) fn read(&mut self, mut bytes: &[u8], requests: &Requests) {
        if requests.is_upgraded.load(Ordering::Relaxed) {
            self.at = At::Unknown;
        }
        while !bytes.is_empty() {
            match &mut self.at {
                At::Unknown => return,
                At::Body(left) => {
                    bytes = skip(bytes, left);
                    if *left == 0 {
                        self.at = At::default();
                    }
                }
                At::Chunk(left) => {
                    bytes = skip(bytes, left);
                    if *left == 0 {
                        self.at = At::ChunkSize(Vec::new());
                    }
                }
                At::ChunkSize(line) => {
                    let (part, ends, rest) = line_of(bytes);
                    bytes = rest;
                    keep(line, part);
                    if ends {
                        self.at = after_size(line);
                        // What comes next cannot be followed, so the next request counts as ambiguous and is refused.
                        if matches!(self.at, At::Unknown) {
                            requests.note_ambiguous(self.count + 1);
                        }
                    }
                }
                At::Trailers(line) => {
                    let (part, ends, rest) = line_of(bytes);
                    bytes = rest;
                    line.has_text |= !part.trim_ascii().is_empty();
                    line.ends_in_cr = part.last().map_or(line.ends_in_cr, |last| *last == b'\r');
                    if ends {
                        let line = std::mem::take(line);
                        if !line.ends_in_cr {
                            // hyper takes a lone line feed for a part of the line.
                            self.at = At::Unknown;
                            requests.note_ambiguous(self.count + 1);
                        } else if !line.has_text {
                            self.at = At::default();
                        }
                    }
                }
                At::Head(head) => {
                    let (part, ends, rest) = line_of(bytes);
                    bytes = rest;
                    keep(&mut head.line, part);
                    if !ends || !head.end_line() {
                        continue;
                    }
                    self.count += 1;
                    if head.is_ambiguous() {
                        requests.note_ambiguous(self.count);
                    }
                    self.at = head.body();
                }
            }
        }
    }

    /// Whether a request's head was read, and not all of its body.
    pub(crate) fn is_in_body(&self) -> bool {
        !matches!(self.at, At::Head(_) | At::Unknown)
    }
}

/// Skips up to `left` bytes, and returns the rest.
fn skip<'b>(bytes: &'b [u8], left: &mut u64) -> &'b [u8] {
    let read = (bytes.len() as u64).min(*left);
    *left -= read;
    &bytes[read as usize..]
}

/// The part of a line in `bytes`, whether the line ends, and the bytes after it.
fn line_of(bytes: &[u8]) -> (&[u8], bool, &[u8]) {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&bytes[..end], true, &bytes[end + 1..]),
        None => (bytes, false, &[]),
    }
}

fn keep(line: &mut Vec<u8>, bytes: &[u8]) {
    let room = KEPT_BYTES.saturating_sub(line.len());
    line.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

/// What comes after the line with the size of a chunk, which may be followed by extensions.
fn after_size(line: &[u8]) -> At {
    let size = line.split(|byte| *byte == b';').next().unwrap_or_default();
    if size.len() == KEPT_BYTES {
        return At::Unknown;
    }
    let size = str::from_utf8(size.trim_ascii()).ok();
    match size.and_then(|size| u64::from_str_radix(size, 16).ok()) {
        Some(0) => At::Trailers(Trailer::default()),
        Some(size) => At::Chunk(size.saturating_add(2)),
        None => At::Unknown,
    }
}

impl Head {
    /// Ends a line. Returns whether it was the last one of the head, which is empty.
    fn end_line(&mut self) -> bool {
        let line = self.line.trim_ascii();
        // An empty line before a request is skipped.
        let is_end = line.is_empty() && self.has_request_line;
        if self.has_request_line {
            let mut parts = line.splitn(2, |byte| *byte == b':');
            let name = parts.next().unwrap_or_default();
            if name.eq_ignore_ascii_case(b"content-length") {
                let value = str::from_utf8(parts.next().unwrap_or_default().trim_ascii()).ok();
                let is_cut = self.line.len() == KEPT_BYTES;
                let length = value
                    .filter(|_| !is_cut)
                    .and_then(|value| value.parse().ok());
                if !matches!(self.length, Length::Unclear) {
                    self.length = length.map_or(Length::Unclear, Length::Bytes);
                }
            }
            self.is_encoded |= name.eq_ignore_ascii_case(b"transfer-encoding");
        }
        self.has_request_line |= !line.is_empty();
        self.line.clear();
        is_end
    }

    /// Whether it has two lengths, or one that another program may read in another way.
    fn is_ambiguous(&self) -> bool {
        match self.length {
            Length::Absent => false,
            Length::Bytes(_) => self.is_encoded,
            Length::Unclear => true,
        }
    }

    /// What comes after the head.
    fn body(&self) -> At {
        match self.length {
            _ if self.is_encoded => At::ChunkSize(Vec::new()),
            Length::Absent | Length::Bytes(0) => At::default(),
            Length::Bytes(length) => At::Body(length),
            Length::Unclear => At::Unknown,
        }
    }
}

impl Requests {
    /// Only the first ambiguous request counts: the connection is closed after it.
    fn note_ambiguous(&self, number: u64) {
        let at = &self.ambiguous;
        _ = at.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether the request that is answered now is ambiguous.
    pub(crate) fn next_is_ambiguous(&self) -> bool {
        let number = self.answered.fetch_add(1, Ordering::Relaxed) + 1;
        self.ambiguous.load(Ordering::Relaxed) == number
    }

    /// Marks that the bytes from now on are not requests.
    pub(crate) fn end(&self) {
        self.is_upgraded.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &str = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\nContent-Length: 5\r\n\r\n";

    /// The number of the ambiguous request, if the text comes in pieces of `piece` bytes.
    fn ambiguous(sent: &str, piece: usize) -> u64 {
        let (mut heads, requests) = (RequestHeads::default(), Requests::default());
        for piece in sent.as_bytes().chunks(piece) {
            heads.read(piece, &requests);
        }
        requests.ambiguous.into_inner()
    }

    #[test]
    fn a_length_beside_an_encoding_is_found_wherever_it_stands() {
        let long = format!(
            "GET /{} HTTP/1.1\r\nx: {}\r\n\r\n",
            "a".repeat(500),
            "b".repeat(500)
        );
        for (before, number) in [
            ("", 1),
            ("\r\n", 1),
            (&long, 2),
            (
                "POST / HTTP/1.1\r\ncontent-length: 6\r\n\r\n\r\n\r\n\r\n",
                2,
            ),
            ("GET / HTTP/1.1\ncontent-length: 0\n\n", 2),
            (
                "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2;x=y\r\n\r\n\r\n0\r\na: b\r\n\r\n",
                2,
            ),
        ] {
            let sent = format!("{before}{BOTH}");
            for piece in [1, 7, 10_000] {
                assert_eq!(ambiguous(&sent, piece), number, "{before:?} by {piece}");
            }
        }
    }

    #[test]
    fn a_length_that_others_may_read_otherwise_is_found() {
        let zeros = "0".repeat(KEPT_BYTES);
        let length = |value: &str| format!("POST / HTTP/1.1\r\ncontent-length: {value}\r\n\r\n");
        let twice = "POST / HTTP/1.1\r\ncontent-length: x\r\ncontent-length: 5\r\n\r\n";
        for sent in [
            &length(&format!("{zeros}5")),
            &length("5, 5"),
            &length(""),
            twice,
        ] {
            assert_eq!(ambiguous(sent, 10), 1, "{sent}");
        }
        let chunked = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
        for piece in [1, 10] {
            let sent = format!("{chunked}0\r\nB: c\n\nC: /\r\ncontent-length: 1000\r\n\r\n{BOTH}");
            assert_eq!(ambiguous(&sent, piece), 2);
        }
        assert_eq!(
            ambiguous(&format!("{chunked}{zeros}5\r\nabcde\r\n0\r\n\r\n"), 10),
            2
        );
    }

    #[test]
    fn one_alone_and_what_is_in_a_body_is_not() {
        let body = format!(
            "POST / HTTP/1.1\r\ncontent-length: {}\r\n\r\n{BOTH}",
            BOTH.len()
        );
        let chunked = format!(
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{BOTH}\r\n0\r\n\r\n",
            BOTH.len()
        );
        for sent in [body, chunked] {
            assert_eq!(ambiguous(&sent, 10), 0, "{sent}");
        }
    }

    #[test]
    fn a_client_owes_the_rest_of_a_body() {
        let mut heads = RequestHeads::default();
        let mut owes = |sent: &str| {
            heads.read(sent.as_bytes(), &Requests::default());
            heads.is_in_body()
        };
        assert!(!owes("POST / HTTP/1.1\r\ncontent-length: 2\r\n"));
        assert!(owes("\r\n") && owes("a") && !owes("b"));
        assert!(owes(
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
        ));
        assert!(owes("1\r\na\r\n") && owes("0\r\n") && !owes("\r\n"));
        // This request only asks for an upgrade.
        assert!(owes(
            "POST / HTTP/1.1\r\nupgrade: x\r\ncontent-length: 2\r\n\r\n"
        ));
    }

    #[test]
    fn it_is_the_request_of_its_number() {
        let (mut heads, requests) = (RequestHeads::default(), Requests::default());
        heads.read(b"GET / HTTP/1.1\r\n\r\n", &requests);
        heads.read(format!("{BOTH}0\r\n\r\n{BOTH}").as_bytes(), &requests);
        let answered = [(); 2].map(|()| requests.next_is_ambiguous());
        assert_eq!(answered, [false, true]);
    }

    #[test]
    fn nothing_is_a_request_after_an_upgrade() {
        let (mut heads, requests) = (RequestHeads::default(), Requests::default());
        heads.read(b"GET / HTTP/1.1\r\nupgrade: websocket\r\n\r\n", &requests);
        requests.end();
        heads.read(BOTH.as_bytes(), &requests);
        assert_eq!(requests.ambiguous.into_inner(), 0);
        assert!(!heads.is_in_body());
    }
}
