//! The Lua scripts. Redis runs each of them atomically.

use std::sync::LazyLock;

use redis::{Cmd, Pipeline, RedisResult, Script, aio::MultiplexedConnection};

/// How many peers of a user one call reads or writes at most: during a call Redis serves no other client. A user with more peers takes several calls.
pub(crate) const PEERS_PER_CALL: usize = 500;

/// Declares the scripts, and the pipeline that loads all of them.
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

/// A script on a user's keys, after the files that it uses.
macro_rules! user_script {
    ($($file:literal),+) => {
        concat!(include_str!("../lua/now.lua"), include_str!("../lua/user.lua"), $(include_str!(concat!("../lua/", $file, ".lua"))),+)
    };
}

/// A script on a user's presence, after the files that it uses.
macro_rules! presence_script {
    ($file:literal) => {
        concat!(
            include_str!("../lua/now.lua"),
            include_str!("../lua/gateway_lease.lua"),
            include_str!("../lua/presence.lua"),
            include_str!(concat!("../lua/", $file, ".lua"))
        )
    };
}

scripts! {
    APPLY = user_script!("peer", "lease", "apply");
    BEGIN_REBUILD = user_script!("lease", "built", "begin_rebuild");
    RENEW_REBUILD = user_script!("lease", "renew_rebuild");
    ADD_PAGE = user_script!("peer", "lease", "built", "full_state", "add_page");
    MOVE_EVENTS = user_script!("peer", "lease", "built", "full_state", "move_events");
    COMPLETE_REBUILD = user_script!("peer", "lease", "built", "full_state", "complete_rebuild");
    BEGIN_SHADOW = user_script!("lease", "built", "begin_shadow");
    READ = user_script!("peer", "read");
    INITIALISE_POSITIONS = include_str!("../lua/initialise_positions.lua");
    REPAIR_POSITIONS = include_str!("../lua/repair_positions.lua");
    MOVE_POSITIONS = include_str!("../lua/move_positions.lua");
    SET_PROFILE = include_str!("../lua/set_profile.lua");
    HOLD_LEASE = concat!(
        include_str!("../lua/now.lua"),
        include_str!("../lua/gateway_lease.lua"),
        include_str!("../lua/hold_lease.lua")
    );
    ADD_CONNECTION = presence_script!("add_connection");
    REMOVE_CONNECTION = presence_script!("remove_connection");
    READ_PRESENCE = presence_script!("read_presence");
}

/// Loads all scripts into the server; those that it has already stay.
pub(crate) async fn load(redis: &mut MultiplexedConnection) -> RedisResult<()> {
    load_all().query_async(redis).await
}

/// The command that runs a script; the caller adds the arguments.
pub(crate) fn call(script: &Script, keys: &[String]) -> Cmd {
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(script.get_hash()).arg(keys.len()).arg(keys);
    cmd
}
