//! Compiles the `.proto` files without protoc, and keeps their descriptor set for tools.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;

const FILES: [&str; 4] = [
    "chat/v1/inbound.proto",
    "chat/v1/event.proto",
    "chat/v1/snapshot.proto",
    "chat/v1/ingest.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?).join("chat.v1.bin");
    fs::write(out, descriptors.encode_to_vec())?;
    prost_build::Config::new().compile_fds(descriptors)?;
    Ok(())
}
