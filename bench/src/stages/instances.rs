//! What it costs to share the work out: 1, 2 and 4 instances of whatever shares out partitions.

use anyhow::Result;
use system_tests::{SHARED_OUT, Settings, TestEnv};

use super::{EVERYTHING, Plan, sequenced};
use crate::{
    load::traffic::Traffic, meter::Meter, progress::everywhere, results::Row, sample::Sample,
};

const RECORDS: u64 = 1_000_000;
const INSTANCES: [usize; 3] = [1, 2, 4];

/// Read positions and contacts are not to come long after everything else.
const SOON: Settings = Settings {
    overrides: &["projector_mysql.reads_interval_ms=500"],
    ..EVERYTHING
};

/// As many messages at once as go through, by as many instances.
pub(super) async fn run(_plan: &Plan) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for instances in INSTANCES {
        let sample = share_out(instances).await?;
        for service in SHARED_OUT {
            let cpu = of_service(&sample, service) / (RECORDS as f64 / 1e6);
            let what = format!("{service}, {instances} of it: CPU for a million messages");
            rows.push(Row::of_one(what, "s", cpu, None));
        }
    }
    Ok(rows)
}

/// What the instances of a service used together, seconds of CPU.
fn of_service(sample: &Sample, service: &str) -> f64 {
    let of_it = |name: &&String| {
        let rest = name.strip_prefix(service);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let names = sample.cpu_s.keys().filter(of_it);
    names.map(|name| sample.cpu_s[name]).sum()
}

async fn share_out(instances: usize) -> Result<Sample> {
    let env = TestEnv::start(SOON).await?;
    for service in SHARED_OUT {
        for _ in 1..instances {
            env.start_another(service).await?;
        }
    }
    env.check_all_partitions().await?;
    let traffic = Traffic::real()?;
    let meter = Meter::start(&env)?;
    sequenced(&env, &traffic, RECORDS).await?;
    everywhere(&env).await?;
    meter.stop(RECORDS)
}

#[cfg(test)]
mod tests {
    use system_tests::SERVICES;

    use super::*;

    #[test]
    fn instances_of_a_service_are_recognised_by_name() {
        let mut sample = Sample::default();
        for name in SERVICES {
            sample.cpu_s.insert(name.to_owned(), 1.0);
        }
        sample.cpu_s.insert("sequencer-2".to_owned(), 2.0);
        assert_eq!(of_service(&sample, "sequencer"), 3.0);
        assert_eq!(of_service(&sample, "projector-mysql"), 1.0);
    }
}
