//! The protocol's rules as switches: a test drops one and shows that the simulation notices. Outside tests no rule can
//! be dropped, and every question asked here compiles away.

/// A clause of PROTOCOL.md, and what dropping it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Events take the wall's time.
    S2Wall,
    /// A client_msg_id is looked up without its conversation and sender.
    S3Sender,
    /// A known client_msg_id is a repeat, whatever its contents.
    S3Payload,
    /// An entry counts until it is evicted, even past its window.
    S3Window,
    /// A read-ack may pass the last message.
    S4Clamp,
    /// A read-ack may go back.
    S4Back,
    /// Several records are sent before the first is acknowledged.
    S6Alone,
    /// A failed report is passed over.
    S6Failed,
    /// The producer goes on with what is left after a failure, by itself.
    #[cfg(test)]
    S6Gapless,
    /// Records go out while a dead letter with a lower src is not acknowledged.
    S7,
    /// Progress overtakes what waits.
    S8InLine,
    /// What was silent is never answered for.
    S8Answer,
    /// The sequencer folds every record, whatever its src.
    S10,
    /// Foreign records are passed over.
    S11,
    /// A snapshot is copied when its record is acknowledged, not when it was stepped.
    S12Copy,
    /// A snapshot does not wait for its record's acknowledgement.
    S12Acknowledged,
    /// A snapshot's place in the log is behind the writer's own record.
    S12Offset,
    /// Torn and corrupt snapshots are used.
    S12Checksum,
    /// The record before a snapshot's offset is not looked at.
    S12Witness,
    /// The watermark of a snapshot is forgotten.
    S12Mark,
    /// Inbound records may be missing.
    S13Contiguous,
    /// A silent record moves the clock.
    #[cfg(test)]
    S1Clock,
    /// A timer evicts from dedup.
    #[cfg(test)]
    S1Timer,
    /// A repeat refreshes its entry.
    #[cfg(test)]
    S1Refresh,
    /// A control record acts without an event.
    #[cfg(test)]
    S5Event,
    /// Limits come from the binary's defaults.
    #[cfg(test)]
    S5Defaults,
    /// Stepping resumes at the consumer group's offset.
    #[cfg(test)]
    S9,
}

#[cfg(not(test))]
pub(crate) use kept::{after_step, after_tick, dropped, wall};

#[cfg(test)]
pub(crate) use switched::{after_step, after_tick, drop_rule, dropped, set_wall, wall};

#[cfg(not(test))]
mod kept {
    use schemas::TimestampMs;

    use super::Rule;
    use crate::core::{Decision, Inbound, State};

    #[inline(always)]
    pub(crate) const fn dropped(_: Rule) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) const fn wall() -> TimestampMs {
        TimestampMs(0)
    }

    #[inline(always)]
    pub(crate) const fn after_step(_: &mut State, _: &Inbound<'_>, _: &mut Decision) {}

    #[inline(always)]
    pub(crate) const fn after_tick(_: &mut State) {}
}

#[cfg(test)]
mod switched {
    use std::cell::Cell;

    use schemas::{
        TimestampMs,
        command::Command,
        event::{Body, Event},
    };

    use super::Rule;
    use crate::core::{Decision, Inbound, Silent, State};

    thread_local! {
        static DROPPED: Cell<Option<Rule>> = const { Cell::new(None) };
        static WALL: Cell<i64> = const { Cell::new(0) };
    }

    pub(crate) fn dropped(rule: Rule) -> bool {
        DROPPED.get() == Some(rule)
    }

    /// Drops a rule on this thread until the guard goes.
    #[must_use]
    pub(crate) fn drop_rule(rule: Rule) -> impl Drop {
        struct Restore;
        impl Drop for Restore {
            fn drop(&mut self) {
                DROPPED.set(None);
            }
        }
        DROPPED.set(Some(rule));
        Restore
    }

    pub(crate) fn wall() -> TimestampMs {
        TimestampMs(WALL.get())
    }

    pub(crate) fn set_wall(ms: i64) {
        WALL.set(ms);
    }

    /// What S1 and S5 forbid after a step.
    pub(crate) fn after_step(state: &mut State, inbound: &Inbound<'_>, decision: &mut Decision) {
        if dropped(Rule::S5Event)
            && let Decision::Emit(Event {
                body: Body::Control(rules),
                ..
            }) = decision
        {
            state.set_rules(*rules);
            *decision = Decision::Silent(Silent::ReadNothing);
        }
        let silent = matches!(decision, Decision::Silent(_));
        if silent && dropped(Rule::S1Clock) {
            state.move_clock(inbound.ts);
        }
        let repeat = matches!(decision, Decision::Silent(Silent::Repeat { .. }));
        if repeat
            && dropped(Rule::S1Refresh)
            && let Ok(Command::Send(send)) = Command::parse(inbound.value)
        {
            state.refresh(&send, inbound.ts);
        }
    }

    /// What S1 forbids a timer to do.
    pub(crate) fn after_tick(state: &mut State) {
        if dropped(Rule::S1Timer) {
            state.evict_at(wall());
        }
    }
}
