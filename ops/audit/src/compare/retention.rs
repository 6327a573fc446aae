//! Compares `retention` with the log: no month after that of the newest message is dropped.

use message_store::{Month, RetentionRow};

use crate::{AuditError, Check, Finding, Kind, Sources};

/// Compares the rows of all databases. `newest` is the month of the newest message; if a row is above it, it is read again, since months may have
/// been dropped because of a later message.
pub(crate) async fn compare_retention(
    sources: &Sources,
    mut newest: Option<Month>,
    newest_now: impl AsyncFn() -> Result<Option<Month>, AuditError>,
    check: &mut Check,
) -> Result<(), AuditError> {
    let store = &sources.messages;
    for shard in store.layout().shards() {
        for row in store.retention(shard).await? {
            check.compared += 1;
            if Some(row.kept_from) > newest {
                newest = newest.max(newest_now().await?);
            }
            if let Some((kind, what)) = wrong(&row, newest) {
                let what = format!("retention in database {}: {what}", shard.get());
                check.add(Finding::new(kind, what));
            }
        }
    }
    Ok(())
}

fn wrong(row: &RetentionRow, newest: Option<Month>) -> Option<(Kind, String)> {
    let RetentionRow {
        what,
        kept_from,
        day,
    } = row;
    if what != RetentionRow::MESSAGES {
        return Some((Kind::Extra, format!("the row of {what:?}")));
    }
    if *day != 1 {
        let what = format!("kept_from is day {day} of {kept_from}, the first of a month is right");
        return Some((Kind::Different, what));
    }
    if Some(*kept_from) <= newest {
        return None;
    }
    let newest = newest.map_or_else(
        || "there is no message".to_owned(),
        |newest| format!("the newest message is of {newest}"),
    );
    let what = format!("kept_from is {kept_from}, although {newest}: nothing is dropped above it");
    Some((Kind::Different, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_above_the_newest_message_was_dropped() {
        let wrong = |what: &str, kept_from: &str, day, newest: Option<&str>| {
            let row = RetentionRow {
                what: what.to_owned(),
                kept_from: kept_from.parse().unwrap(),
                day,
            };
            let newest = newest.map(|newest| newest.parse().unwrap());
            wrong(&row, newest).map(|(kind, _)| kind)
        };
        let different = Some(Kind::Different);
        assert_eq!(wrong("chat_msg", "2026-11", 1, Some("2026-11")), None);
        assert_eq!(wrong("chat_msg", "2026-10", 1, Some("2026-11")), None);
        assert_eq!(wrong("chat_msg", "2026-12", 1, Some("2026-11")), different);
        assert_eq!(wrong("chat_msg", "2026-11", 1, None), different);
        assert_eq!(wrong("chat_msg", "2026-11", 2, Some("2026-11")), different);
        assert_eq!(
            wrong("chat_msg ", "2026-10", 1, Some("2026-11")),
            Some(Kind::Extra)
        );
    }
}
