//! The two encodings of a batch: parses its lines or items and writes their results.

use std::io::Write as _;

use posting::{MadeId, Post, RetryId, not_appended, unknown_outcome};
use problem::Problem;
use prost::Message as _;
use schemas::{
    InboundPosition,
    proto::{self, event_result},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    entries::Entry,
    frame::FrameError,
    framer::Framer,
    items::ItemFramer,
    lines::LineFramer,
    queue::{LineResult, Summary},
};
use crate::{json, media::BatchEncoding, protobuf};

/// One line of the answer: an accepted line, a refused one, or the summary at the end.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes what is written by hand")]
pub(crate) enum ResultLine {
    /// On the log.
    Accepted {
        /// The line's number, from 1; blank ones count.
        line: u32,
        /// 202.
        status: u16,
        /// 0 to 63.
        partition: u8,
        /// From 0.
        offset: i64,
        /// Of a message, only where it was generated here.
        client_msg_id: Option<String>,
        /// Of any other command but the beginning of a group, only where it was generated here.
        command_id: Option<String>,
        /// Of a group that begins.
        gid: Option<String>,
    },
    /// Not on the log, or not known to be.
    Refused {
        /// The line's number, from 1; blank ones count.
        line: u32,
        #[serde(flatten)]
        problem: Problem,
    },
    /// The last line.
    Summary {
        /// How many lines were answered with 202.
        accepted: u64,
        /// How many were answered with anything else.
        rejected: u64,
    },
}

#[derive(Serialize)]
struct RefusedLine<'a> {
    line: u32,
    #[serde(flatten)]
    problem: &'a Problem,
}

impl BatchEncoding {
    pub(super) fn framer(self, max_bytes: usize) -> Framer {
        match self {
            Self::Ndjson => Framer::Lines(LineFramer::new(max_bytes)),
            Self::Protobuf => Framer::Items(ItemFramer::new(max_bytes)),
        }
    }

    /// Parses the content of a frame.
    pub(super) fn parse(
        self,
        content: Result<&[u8], FrameError>,
        max_bytes: usize,
        max_msg_bytes: usize,
    ) -> Result<Post, Problem> {
        let content = content.map_err(|error| self.frame_problem(error, max_bytes))?;
        match self {
            Self::Ndjson => json::event(content, max_msg_bytes),
            Self::Protobuf => protobuf::event(content, max_msg_bytes),
        }
    }

    fn frame_problem(self, error: FrameError, max_bytes: usize) -> Problem {
        match error {
            FrameError::TooLong => Problem::payload_too_large(max_bytes as u64),
            FrameError::Truncated => {
                Problem::invalid_protobuf("IngestEvent", "the body ends within it")
            }
            FrameError::NoLength => Problem::invalid_protobuf(
                "IngestEvent",
                "the length in front of it is no varint, so the rest of the body cannot be read",
            ),
        }
    }

    /// The encoded result of a refused line.
    pub(super) fn refusal(self, line: u32, problem: &Problem) -> Box<[u8]> {
        let mut out = Vec::new();
        self.write_refusal(&mut out, line, problem);
        out.into_boxed_slice()
    }

    /// Appends a result to `out`.
    pub(super) fn write(self, out: &mut Vec<u8>, result: LineResult) {
        match result {
            LineResult::Appended(entry, made) => {
                self.write_appended(out, entry, made);
            }
            LineResult::Encoded(encoded) => out.extend_from_slice(&encoded),
            LineResult::Summary(summary) => self.write_summary(out, summary),
        }
    }

    fn write_appended(self, out: &mut Vec<u8>, entry: Entry, made: Option<MadeId>) {
        match entry {
            Entry::Accepted {
                line,
                partition,
                offset,
            } => {
                let at = InboundPosition { partition, offset };
                self.write_accepted(out, line, at, made);
            }
            Entry::NotAppended { line } => self.write_refusal(out, line, &not_appended()),
            Entry::Unknown { line, retry } => {
                let id = made.map(RetryId::from).unwrap_or_default();
                self.write_refusal(out, line, &unknown_outcome(retry, id));
            }
            Entry::Pending { .. } | Entry::Refused { .. } => {
                unreachable!("only complete entries are taken, and a refused one is encoded")
            }
        }
    }

    fn write_accepted(
        self,
        out: &mut Vec<u8>,
        line: u32,
        at: InboundPosition,
        made: Option<MadeId>,
    ) {
        let (partition, offset) = (at.partition, at.offset);
        match self {
            Self::Ndjson => {
                write_text(
                    out,
                    format_args!(
                        r#"{{"line":{line},"status":202,"partition":{partition},"offset":{offset}"#
                    ),
                );
                // Nothing in a UUID or a number needs escaping.
                match made {
                    Some(MadeId::ClientMsgId(id)) => {
                        write_text(out, format_args!(r#","client_msg_id":"{id}""#));
                    }
                    Some(MadeId::CommandId(id)) => {
                        write_text(out, format_args!(r#","command_id":"{id}""#));
                    }
                    Some(MadeId::Gid(gid)) => write_text(out, format_args!(r#","gid":"{gid}""#)),
                    None => {}
                }
                out.extend_from_slice(b"}\n");
            }
            Self::Protobuf => {
                let mut accepted = proto::Accepted {
                    partition: partition.get().into(),
                    offset,
                    ..proto::Accepted::default()
                };
                match made {
                    Some(MadeId::ClientMsgId(id)) => accepted.client_msg_id = id.to_string(),
                    Some(MadeId::CommandId(id)) => accepted.command_id = id.to_string(),
                    Some(MadeId::Gid(gid)) => accepted.gid = gid.get(),
                    None => {}
                }
                write_item(out, line, event_result::Result::Accepted(accepted));
            }
        }
    }

    fn write_refusal(self, out: &mut Vec<u8>, line: u32, problem: &Problem) {
        match self {
            Self::Ndjson => {
                serde_json::to_writer(&mut *out, &RefusedLine { line, problem })
                    .expect("a problem is strings and numbers only, and a Vec takes all of it");
                out.push(b'\n');
            }
            Self::Protobuf => {
                write_item(
                    out,
                    line,
                    event_result::Result::Problem(item_problem(problem)),
                );
            }
        }
    }

    fn write_summary(self, out: &mut Vec<u8>, summary: Summary) {
        let Summary { accepted, rejected } = summary;
        match self {
            Self::Ndjson => write_text(
                out,
                format_args!("{{\"accepted\":{accepted},\"rejected\":{rejected}}}\n"),
            ),
            Self::Protobuf => {
                let summary = proto::Summary {
                    accepted: accepted.cast_signed(),
                    rejected: rejected.cast_signed(),
                };
                write_item(out, 0, event_result::Result::Summary(summary));
            }
        }
    }
}

fn item_problem(problem: &Problem) -> proto::ItemProblem {
    proto::ItemProblem {
        r#type: problem.kind.uri().to_owned(),
        title: problem.title.clone(),
        status: problem.status.into(),
        detail: problem.detail.clone(),
        client_msg_id: problem.client_msg_id.clone().unwrap_or_default(),
        command_id: problem.command_id.clone().unwrap_or_default(),
        errors: problem
            .errors
            .iter()
            .map(|error| proto::FieldProblem {
                field: error.field.clone(),
                message: error.message.clone(),
            })
            .collect(),
    }
}

fn write_item(out: &mut Vec<u8>, line: u32, result: event_result::Result) {
    let item = proto::EventResult {
        item: line.into(),
        result: Some(result),
    };
    item.encode_length_delimited(out)
        .expect("a Vec grows as needed");
}

fn write_text(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a Vec takes all of it");
}
