//! The Lua scripts, each one step that nothing comes between.

use std::sync::LazyLock;

use redis::{Cmd, Pipeline, RedisResult, Script, aio::MultiplexedConnection};

/// Declares the scripts and how to load all of them.
macro_rules! scripts {
    ($($name:ident = $code:expr;)*) => {
        $(pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| Script::new($code));)*

        fn load_all() -> Pipeline {
            let mut pipe = redis::pipe();
            $(pipe.cmd("SCRIPT").arg("LOAD").arg($code).ignore();)*
            pipe
        }
    };
}

/// A script on a user's keys, with what all of those share in front.
macro_rules! on_a_user {
    ($file:literal) => {
        concat!(include_str!("../lua/state.lua"), include_str!($file))
    };
}

scripts! {
    APPLY = on_a_user!("../lua/apply.lua");
    BEGIN_REBUILD = on_a_user!("../lua/begin_rebuild.lua");
    RENEW_REBUILD = on_a_user!("../lua/renew_rebuild.lua");
    COMPLETE_REBUILD = on_a_user!("../lua/complete_rebuild.lua");
    BEGIN_BESIDE = on_a_user!("../lua/begin_beside.lua");
    COMPLETE_BESIDE = on_a_user!("../lua/complete_beside.lua");
    READ = on_a_user!("../lua/read.lua");
    INITIALISE_MARKS = include_str!("../lua/initialise_marks.lua");
    REPAIR_MARKS = include_str!("../lua/repair_marks.lua");
    MOVE_MARKS = include_str!("../lua/move_marks.lua");
}

/// Makes all scripts known to the server; those that it knows already are not changed.
pub(crate) async fn load(redis: &mut MultiplexedConnection) -> RedisResult<()> {
    load_all().query_async(redis).await
}

/// One run of a script; its arguments are to follow.
pub(crate) fn call(script: &Script, keys: &[String]) -> Cmd {
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(script.get_hash()).arg(keys.len()).arg(keys);
    cmd
}
