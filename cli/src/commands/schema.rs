//! Prints the protobuf types of the topics.

use std::{fs, path::Path};

use anyhow::Context as _;
use schemas::{FILE_DESCRIPTOR_SET, PROTO_FILES};

use crate::{args::SchemaCommand, output};

pub(super) fn run(command: &SchemaCommand) -> anyhow::Result<()> {
    match command {
        SchemaCommand::Descriptor => output::write_bytes(FILE_DESCRIPTOR_SET),
        SchemaCommand::Proto { folder: None } => {
            for (path, text) in PROTO_FILES {
                println!("// {path}\n\n{text}");
            }
        }
        SchemaCommand::Proto {
            folder: Some(folder),
        } => {
            for (path, text) in PROTO_FILES {
                write(&folder.join(path), text)?;
            }
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = path
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(path, text));
    written.with_context(|| format!("writing {}", path.display()))
}
