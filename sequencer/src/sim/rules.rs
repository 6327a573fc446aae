//! Every rule of PROTOCOL S1–S12 is needed: without it the simulation finds a difference.

use super::simulation;
use crate::sabotage::{Rule, drop_rule};

/// Asserts that some seed among the first thousands differs without the rule.
fn is_needed(rule: Rule) {
    const SEEDS: u64 = 3000;
    let _dropped = drop_rule(rule);
    let broken = (0..SEEDS).find(|seed| simulation::run(*seed).is_err());
    assert!(broken.is_some(), "{SEEDS} seeds do without {rule:?}");
}

macro_rules! needed {
    ($($test:ident: $rule:ident,)*) => {
        const RULES: &[Rule] = &[$(Rule::$rule),*];

        $(
            #[test]
            fn $test() {
                is_needed(Rule::$rule);
            }
        )*
    };
}

needed! {
    s1_silence_does_not_move_the_clock: S1Clock,
    s1_no_timer_evicts: S1Timer,
    s1_a_repeat_does_not_refresh: S1Refresh,
    s2_the_clock_is_the_logs: S2Wall,
    s3_dedup_is_per_conversation_and_sender: S3Sender,
    s3_other_contents_are_a_conflict: S3Payload,
    s3_an_entry_ends_with_its_window: S3Window,
    s4_acks_are_clamped: S4Clamp,
    s4_acks_never_go_back: S4Back,
    s5_control_emits: S5Event,
    s5_defaults_are_not_the_binarys: S5Defaults,
    s6_the_first_batch_is_alone: S6Alone,
    s6_a_failed_report_ends_the_process: S6Failed,
    s6_the_producer_itself_is_gapless: S6Gapless,
    s7_dead_letters_come_first: S7,
    s8_progress_is_in_line: S8InLine,
    s8_everything_is_answered_for: S8Answer,
    s9_group_offsets_are_for_lag: S9,
    s10_marks_rise: S10,
    s11_a_foreign_record_ends_the_overlap: S11,
    s12_the_copy_is_of_its_record: S12Copy,
    s12_the_record_is_acknowledged: S12Acknowledged,
    s12_the_offset_is_what_is_known_whole: S12Offset,
    s12_torn_snapshots_are_not_used: S12Checksum,
    s12_the_mark_comes_with_the_data: S12Mark,
}

/// How often each rule's absence shows, for the record: `cargo test -p sequencer -- --ignored --nocapture how_often`.
#[test]
#[ignore = "prints a table"]
fn how_often() {
    for &rule in RULES {
        let _dropped = drop_rule(rule);
        let broken: Vec<u64> = (0..600)
            .filter(|seed| simulation::run(*seed).is_err())
            .collect();
        println!(
            "{rule:?}: {} of 600, first {:?}",
            broken.len(),
            broken.first()
        );
    }
}
