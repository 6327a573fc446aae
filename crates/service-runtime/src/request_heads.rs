//! Finds requests whose end is ambiguous, as smuggled ones are: with `Content-Length` beside `Transfer-Encoding`. hyper goes by the second, closes
//! the connection after it and does not say that there was the first.

use std::sync::atomic::{AtomicU64, Ordering};

/// So much of a line is kept: the headers that matter here are shorter.
const KEPT_BYTES: usize = 64;

/// Reads along with hyper. Behind a body whose end it does not know it reads no more.
#[derive(Default)]
pub(crate) struct RequestHeads {
    at: At,
    /// How many heads were read.
    count: u64,
}

enum At {
    Head(Head),
    Body(u64),
    Unknown,
}

#[derive(Default)]
struct Head {
    line: Vec<u8>,
    has_request_line: bool,
    length: Option<u64>,
    is_encoded: bool,
    is_upgrade: bool,
}

/// What a connection's requests say to whoever answers them.
#[derive(Default)]
pub(crate) struct Ambiguous {
    /// The number of the request, from 1; 0 where there is none.
    at: AtomicU64,
    answered: AtomicU64,
}

impl Default for At {
    fn default() -> Self {
        Self::Head(Head::default())
    }
}

impl RequestHeads {
    /// Takes what the client has sent.
    pub(crate) fn read(&mut self, mut bytes: &[u8], ambiguous: &Ambiguous) {
        while !bytes.is_empty() {
            match &mut self.at {
                At::Unknown => return,
                At::Body(left) => {
                    let read = (bytes.len() as u64).min(*left);
                    bytes = &bytes[read as usize..];
                    *left -= read;
                    if *left == 0 {
                        self.at = At::default();
                    }
                }
                At::Head(head) => {
                    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                        return head.keep(bytes);
                    };
                    head.keep(&bytes[..end]);
                    bytes = &bytes[end + 1..];
                    if !head.end_line() {
                        continue;
                    }
                    self.count += 1;
                    if head.is_encoded && head.length.is_some() {
                        ambiguous.at.store(self.count, Ordering::Relaxed);
                    }
                    self.at = head.body();
                }
            }
        }
    }
}

impl Head {
    fn keep(&mut self, bytes: &[u8]) {
        let room = KEPT_BYTES.saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Whether this was the last line, which is empty.
    fn end_line(&mut self) -> bool {
        let line = self.line.trim_ascii();
        // An empty line before a request is passed over.
        let is_end = line.is_empty() && self.has_request_line;
        if self.has_request_line {
            let mut parts = line.splitn(2, |byte| *byte == b':');
            let name = parts.next().unwrap_or_default();
            if name.eq_ignore_ascii_case(b"content-length") {
                let value = parts.next().unwrap_or_default().trim_ascii();
                let value = str::from_utf8(value).ok();
                // hyper refuses what is no number.
                self.length = Some(value.and_then(|value| value.parse().ok()).unwrap_or(0));
            }
            self.is_encoded |= name.eq_ignore_ascii_case(b"transfer-encoding");
            self.is_upgrade |= name.eq_ignore_ascii_case(b"upgrade");
        }
        self.has_request_line |= !line.is_empty();
        self.line.clear();
        is_end
    }

    /// What comes behind it.
    fn body(&self) -> At {
        match self.length {
            _ if self.is_encoded || self.is_upgrade => At::Unknown,
            None | Some(0) => At::default(),
            Some(length) => At::Body(length),
        }
    }
}

impl Ambiguous {
    /// Whether the request that is answered now is.
    pub(crate) fn next(&self) -> bool {
        let number = self.answered.fetch_add(1, Ordering::Relaxed) + 1;
        self.at.load(Ordering::Relaxed) == number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &str = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\nContent-Length: 5\r\n\r\n";

    /// The number of the request that is ambiguous, in pieces of so many bytes.
    fn ambiguous(sent: &str, piece: usize) -> u64 {
        let (mut heads, ambiguous) = (RequestHeads::default(), Ambiguous::default());
        for piece in sent.as_bytes().chunks(piece) {
            heads.read(piece, &ambiguous);
        }
        ambiguous.at.into_inner()
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
        ] {
            let sent = format!("{before}{BOTH}");
            for piece in [1, 7, 10_000] {
                assert_eq!(ambiguous(&sent, piece), number, "{before:?} by {piece}");
            }
        }
    }

    #[test]
    fn one_alone_and_what_is_in_a_body_is_not() {
        let body = format!(
            "POST / HTTP/1.1\r\ncontent-length: {}\r\n\r\n{BOTH}",
            BOTH.len()
        );
        let chunked = format!("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{BOTH}");
        let upgrade = format!("GET / HTTP/1.1\r\nupgrade: websocket\r\n\r\n{BOTH}");
        for sent in [body, chunked, upgrade] {
            assert_eq!(ambiguous(&sent, 10), 0, "{sent}");
        }
    }

    #[test]
    fn it_is_the_request_of_its_number() {
        let (mut heads, ambiguous) = (RequestHeads::default(), Ambiguous::default());
        heads.read(b"GET / HTTP/1.1\r\n\r\n", &ambiguous);
        heads.read(BOTH.as_bytes(), &ambiguous);
        assert_eq!([ambiguous.next(), ambiguous.next()], [false, true]);
    }
}
