//! What the fuzzer has found worth keeping (`fuzz/corpus`), for tests that run it once more and without it.

use std::{fs, path::Path};

/// Runs `target` over the inputs that the fuzz target `name` has.
///
/// # Panics
/// If there are none, or one cannot be read.
pub fn replay_corpus(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(name);
    let inputs = fs::read_dir(&folder).expect("the corpus is there");
    let mut count = 0;
    for input in inputs {
        let path = input.expect("an input").path();
        target(&fs::read(&path).expect("an input can be read"));
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}
