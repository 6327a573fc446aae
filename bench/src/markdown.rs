//! Results as people read them.

use std::{collections::BTreeMap, fmt};

use crate::{
    curve::{Curve, Point},
    results::{Bound, Figure, Found, Results, Row},
    sample::Spread,
};

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = &self.machine;
        writeln!(
            f,
            "{}, commit {}, `{}`: {} ({} cores), {:.0} GiB, Linux {}. Rates a second, as min / median / max of the runs.\n",
            machine.date,
            machine.commit,
            machine.command,
            machine.cpu,
            machine.cores,
            machine.memory_gib,
            machine.kernel,
        )?;
        writeln!(
            f,
            "| what | figure | compared with | ratio | at least | CPU s per 10,000 | |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|")?;
        write!(f, "{}", self.found)?;
        if !self.failed.is_empty() {
            writeln!(
                f,
                "\nFailed, and so without figures: {}.",
                self.failed.join(", ")
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            writeln!(f, "{row}")?;
        }
        for curve in &self.curves {
            write!(f, "{curve}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}\n", self.what)?;
        writeln!(
            f,
            "| offered/s | accepted/s | p50 ms | p90 ms | p99 ms | p99.9 ms |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|")?;
        for Point {
            offered,
            accepted,
            waited,
        } in &self.points
        {
            let (offered, accepted) = (grouped(*offered), grouped(*accepted));
            writeln!(
                f,
                "| {offered} | {accepted} | {} | {} | {} | {} |",
                number(waited.p50),
                number(waited.p90),
                number(waited.p99),
                number(waited.p999)
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpu = of_processes(&self.cpu_s_per_10_000);
        if !self.baseline_cpu_s_per_10_000.is_empty() {
            cpu += &format!("; raw: {}", of_processes(&self.baseline_cpu_s_per_10_000));
        }
        let verdict = if self.is_reached() { "" } else { "missed" };
        let what = &self.what;
        match &self.figure {
            Figure::Ratio {
                baseline,
                ours_a_second,
                baseline_a_second,
                ratio,
                at_least,
            } => write!(
                f,
                "| {what} | {} | {baseline}: {} | {} | {at_least} | {cpu} | {verdict} |",
                rates(ours_a_second),
                rates(baseline_a_second),
                spread(ratio, 2),
            ),
            Figure::Value { unit, value, bound } => {
                let bound = match bound {
                    Some(Bound::AtLeast(least)) => format!("{least}"),
                    Some(Bound::AtMost(most)) => format!("at most {most}"),
                    None => String::new(),
                };
                let value = spread(value, 2);
                write!(
                    f,
                    "| {what} | {value} {unit} | | | {bound} | {cpu} | {verdict} |"
                )
            }
        }
    }
}

/// With one digit, if there is such a value.
fn number(value: f64) -> String {
    if value.is_nan() {
        return "–".to_owned();
    }
    format!("{value:.1}")
}

fn spread(spread: &Spread, digits: usize) -> String {
    let Spread { min, median, max } = spread;
    if min == max {
        return format!("**{median:.digits$}**");
    }
    format!("{min:.digits$} / **{median:.digits$}** / {max:.digits$}")
}

/// Those that use anything worth telling.
fn of_processes(cpu: &BTreeMap<String, f64>) -> String {
    let worth_telling = cpu.iter().filter(|(_, spent)| **spent >= 0.001);
    let each: Vec<String> = worth_telling
        .map(|(name, spent)| format!("{name} {spent:.3}"))
        .collect();
    each.join(", ")
}

fn rates(rates: &Spread) -> String {
    if rates.min == rates.max {
        return format!("**{}**", grouped(rates.median));
    }
    let [min, median, max] = [rates.min, rates.median, rates.max].map(grouped);
    format!("{min} / **{median}** / {max}")
}

/// `12,345`.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (i, digit) in digits.char_indices() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(grouped(999.4), "999");
        assert_eq!(grouped(1_234_567.0), "1,234,567");
    }
}
