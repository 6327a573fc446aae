//! Redis loses everything in the middle of a load.

use system_tests::{Load, Servers, Settings, run};

#[test]
fn the_first_read_after_a_flush_is_exact() {
    run(Servers::Own(Settings::default()), async |env| {
        let mut load = Load::start(env, 8);
        for _ in 0..4 {
            load.grows_by(500).await?;
            env.redis.flush_all().await?;
            load.check().await?;
        }
        load.grows_by(300).await?;
        env.redis.flush_all().await?;
        load.finish().await?.judge(env).await
    });
}
