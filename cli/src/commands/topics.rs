use std::process::ExitCode;

use event_log::Admin;

use crate::{args::ApplyOrDiff, failure, handles::Handles};

pub(super) async fn run(
    handles: &Handles,
    command: &ApplyOrDiff,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let admin = Admin::new(&handles.kafka()?)?;
    let (differences, verb) = match command {
        ApplyOrDiff::Apply => (admin.apply().await?, "changed"),
        ApplyOrDiff::Diff => (admin.diff().await?, "differs"),
    };
    let lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
    if json {
        println!("{}", serde_json::json!({ verb: lines }));
    } else if lines.is_empty() {
        println!("the topics are as declared");
    } else {
        for line in &lines {
            println!("topic {line} ({verb})");
        }
    }
    let left = match command {
        ApplyOrDiff::Apply => !admin.diff().await?.is_empty(),
        ApplyOrDiff::Diff => !lines.is_empty(),
    };
    Ok(ExitCode::from(if left { failure::NEGATIVE } else { 0 }))
}
