use crate::support::{Fixture, NOW, message, ordinal};
use message_store::MessageRow;
use schemas::Partition;
use sqlx::{AssertSqlSafe, Connection as _};
use std::time::Instant;

fn rows(pairs: &[(schemas::UserId, schemas::UserId)], first: i64, count: i64) -> Vec<MessageRow> {
    (first..first + count).map(|i| {
        let mut row = message(pairs[(i as usize * 7919) % pairs.len()], i);
        row.message.msg = format!("{i} the quick brown fox jumps over the lazy dog and runs away into the forest, it's late");
        row.message.n = ordinal(i);
        row
    }).collect()
}

fn cpu(pid: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let f: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    (f[11].parse::<f64>().unwrap() + f[12].parse::<f64>().unwrap()) / 100.0
}

#[tokio::test]
#[ignore]
async fn bench() {
    let mut c0 = Fixture::shared().await.admin().await;
    let dir: (String, String) =
        sqlx::query_as("select cast(@@datadir as char), cast(@@pid_file as char)")
            .fetch_one(&mut c0)
            .await
            .unwrap();
    let path = if dir.1.starts_with('/') {
        dir.1
    } else {
        format!("{}{}", dir.0, dir.1)
    };
    let pid = std::fs::read_to_string(path).unwrap().trim().to_owned();
    for batch in [16000_i64] {
        let mut fixture = Fixture::without_schema().await; fixture.config.connections_per_server = std::env::var("CN").map_or(8, |v| v.parse().unwrap()); fixture.store = message_store::MessageStore::connect(&fixture.config);
        fixture.store.apply_schema(NOW).await.unwrap();
        let shard = fixture.store.layout().shards().next().unwrap();
        let parts: Vec<Partition> = fixture.store.layout().partitions_of(shard).collect();
        let pairs: Vec<_> = (0..1000)
            .map(|i| fixture.users(parts[i % 16].get()))
            .collect();
        let total = 320_000;
        let began = Instant::now();
        let mut build = std::time::Duration::ZERO;
        let (s0, m0) = (cpu(&pid), cpu("self"));
        for first in (0..total).step_by(batch as usize) {
            let t = Instant::now();
            let rows = rows(&pairs, first + 1, batch);
            build += t.elapsed();
            fixture
                .store
                .write_messages(shard, &fixture.topic, &rows, &[])
                .await
                .unwrap();
        }
        println!(
            "text, batch {batch}: {:.0} rows/s, CPU s per million: server {:.1} client {:.1}",
            total as f64 / (began.elapsed() - build).as_secs_f64(),
            (cpu(&pid) - s0) * 1e6 / total as f64,
            (cpu("self") - m0 - build.as_secs_f64()) * 1e6 / total as f64
        );

        let mut c = fixture.admin().await; if let Ok(rc) = std::env::var("RC") { sqlx::raw_sql(AssertSqlSafe(rc)).execute(&mut c).await.unwrap(); }
        for chunk in [64_usize] {
            let began = Instant::now();
            let mut build = std::time::Duration::ZERO;
            let (s0, m0) = (cpu(&pid), cpu("self"));
            for first in (0..total).step_by(batch as usize) {
                let t = Instant::now();
                let mut rows = rows(&pairs, (chunk as i64) * 10_000_000 + first + 1, batch);
                rows.sort_by_key(|r| Partition::of(r.message.conversation()));
                build += t.elapsed();
                let mut tx = c.begin().await.unwrap();
                for group in rows.chunk_by(|a, b| {
                    Partition::of(a.message.conversation())
                        == Partition::of(b.message.conversation())
                }) {
                    let p = Partition::of(group[0].message.conversation());
                    let mut rest = group;
                    while !rest.is_empty() {
                        let size = if rest.len() >= chunk {
                            chunk
                        } else {
                            1 << rest.len().ilog2()
                        };
                        let (now, later) = rest.split_at(size);
                        rest = later;
                        let mut sql = format!(
                            "INSERT INTO {} (id,srcid,destid,mid,msg,ts,hashvalue,client_msg_id,n) VALUES ",
                            fixture.table("chat_msg", p)
                        );
                        sql.push_str(&vec!["(?,?,?,?,?,?,?,?,?)"; size].join(","));
                        let mut q = sqlx::query(AssertSqlSafe(sql));
                        for r in now {
                            let at = time::OffsetDateTime::from_unix_timestamp_nanos(
                                i128::from(r.ts.0) * 1_000_000,
                            )
                            .unwrap();
                            q = q
                                .bind(r.id)
                                .bind(r.message.srcid.get())
                                .bind(r.message.destid.get())
                                .bind(r.message.mid.get())
                                .bind(&*r.message.msg)
                                .bind(time::PrimitiveDateTime::new(at.date(), at.time()))
                                .bind(p.get())
                                .bind(r.message.client_msg_id.as_str())
                                .bind(r.message.n.get());
                        }
                        q.execute(&mut *tx).await.unwrap();
                    }
                }
                tx.commit().await.unwrap();
            }
            println!(
                "prepared <= {chunk}, batch {batch}: {:.0} rows/s, CPU s per million: server {:.1} client {:.1}",
                total as f64 / (began.elapsed() - build).as_secs_f64(),
                (cpu(&pid) - s0) * 1e6 / total as f64,
                (cpu("self") - m0 - build.as_secs_f64()) * 1e6 / total as f64
            );
        }
        let began = Instant::now();
        let mut build = std::time::Duration::ZERO;
        let (s0, m0) = (cpu(&pid), cpu("self"));
        for first in (0..total).step_by(batch as usize) {
            let t = Instant::now();
            let rows = rows(&pairs, 9_000_000_000 + first + 1, batch);
            build += t.elapsed();
            fixture
                .store
                .write_messages(shard, &fixture.topic, &rows, &[])
                .await
                .unwrap();
        }
        println!(
            "text again, batch {batch}: {:.0} rows/s, CPU s per million: server {:.1} client {:.1}",
            total as f64 / (began.elapsed() - build).as_secs_f64(),
            (cpu(&pid) - s0) * 1e6 / total as f64,
            (cpu("self") - m0 - build.as_secs_f64()) * 1e6 / total as f64
        );

        let row: (i64,) = sqlx::query_as("select cast(memory_used as signed) from information_schema.processlist where id = connection_id()").fetch_one(&mut c).await.unwrap();
        println!("memory of the prepared connection: {} KiB", row.0 / 1024);
    }
}
