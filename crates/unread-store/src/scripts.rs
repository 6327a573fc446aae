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

/// A script on a user's keys, with the files that it uses in front.
macro_rules! on_a_user {
    ($($file:literal),+) => {
        concat!(include_str!("../lua/user.lua"), $(include_str!(concat!("../lua/", $file, ".lua"))),+)
    };
}

scripts! {
    APPLY = on_a_user!("peer", "lease", "apply");
    BEGIN_REBUILD = on_a_user!("lease", "begin_rebuild");
    RENEW_REBUILD = on_a_user!("lease", "renew_rebuild");
    COMPLETE_REBUILD = on_a_user!("peer", "whole", "lease", "complete_rebuild");
    BEGIN_BESIDE = on_a_user!("lease", "begin_beside");
    COMPLETE_BESIDE = on_a_user!("peer", "whole", "lease", "complete_beside");
    READ = on_a_user!("read");
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
