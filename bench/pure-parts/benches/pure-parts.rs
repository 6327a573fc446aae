//! Times of the pure parts.

use criterion::{Criterion, Throughput};
use pure_parts::{COUNT, Part};

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("pure");
    group.throughput(Throughput::Elements(COUNT as u64));
    for mut part in Part::all() {
        group.bench_function(part.name, |bencher| bencher.iter(|| part.run()));
    }
    group.finish();
    criterion.final_summary();
}
