use std::process::ExitCode;

use event_log::{Admin, TopicDifference};

use super::rules;
use crate::{args::ApplyOrDiff, context::CommandContext, failure};

pub(super) async fn run(
    context: &CommandContext,
    command: &ApplyOrDiff,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let kafka = context.kafka()?;
    let admin = Admin::new(&kafka)?;
    // The topics are not read again after a change: another broker may not know of it yet.
    let (changed, left): (Vec<_>, Vec<_>) = match command {
        ApplyOrDiff::Apply => {
            let differences = admin.apply().await?.into_iter();
            rules::begin_with_the_newest(&kafka).await?;
            differences.partition(TopicDifference::can_be_changed)
        }
        ApplyOrDiff::Diff => (Vec::new(), admin.diff().await?),
    };
    let lines = |differences: &[TopicDifference]| -> Vec<String> {
        differences.iter().map(ToString::to_string).collect()
    };
    let (changed, left) = (lines(&changed), lines(&left));
    if json {
        let value = serde_json::json!({ "changed": changed, "differs": left });
        println!("{value}");
    } else if changed.is_empty() && left.is_empty() {
        println!("the topics are as declared");
    } else {
        for line in &changed {
            println!("topic {line} (changed)");
        }
        for line in &left {
            println!("topic {line} (differs)");
        }
    }
    Ok(failure::code_of_answer(left.is_empty()))
}
