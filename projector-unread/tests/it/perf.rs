use std::time::{Duration, Instant};
use schemas::DeviceClass;
use crate::world::{World, users};

#[tokio::test(flavor = "multi_thread")]
#[ignore]
async fn latency() {
    let mut world = World::new().await;
    let projector = world.project().await;
    let [a, b] = users(2)[..] else { unreachable!() };
    world.story.message(a, b).await;
    world.shows(DeviceClass::Pc, b).await;
    let client = redis::Client::open(world.redis.url()).unwrap();
    let mut c = client.get_multiplexed_async_connection().await.unwrap();
    let mut lat = vec![];
    for n in 2..500i64 {
        let t = Instant::now();
        world.story.message(a, b).await;
        let acked = t.elapsed();
        loop {
            let v: Option<i64> = redis::cmd("HGET").arg(format!("pc-{b}")).arg(a.get()).query_async(&mut c).await.unwrap();
            if v == Some(n) { break }
            tokio::time::sleep(Duration::from_micros(300)).await;
        }
        lat.push(t.elapsed());
        if n < 5 { eprintln!("{acked:?} {:?}", t.elapsed()); }
        tokio::time::sleep(Duration::from_millis((n % 7) as u64 * 5)).await;
    }
    lat.sort();
    eprintln!("append+visible p50 {:?} p90 {:?} p99 {:?} max {:?}", lat[lat.len()/2], lat[lat.len()*9/10], lat[lat.len()*99/100], lat.last());
    projector.stop().await;
}
