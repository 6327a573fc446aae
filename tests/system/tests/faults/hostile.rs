//! What accounts within every limit can cost others: each way of `make hostile`, for a moment.

use std::time::Duration;

use system_tests::{
    Servers, Settings,
    hostile::{self, Options},
    run,
};

const AUTHENTICATED: Settings = Settings {
    authenticated: true,
    ..Settings::USUAL
};

fn tried(names: &[&str]) {
    let ways = hostile::WAYS.iter();
    let ways: Vec<_> = ways.filter(|way| names.contains(&way.name)).collect();
    assert_eq!(ways.len(), names.len(), "a way of {names:?} is gone");
    run(Servers::Own(AUTHENTICATED), async |env| {
        let options = Options {
            length: Duration::from_secs(8),
            together: None,
            timed: false,
        };
        hostile::run_on(env, &ways, options).await
    });
}

#[test]
fn nobody_takes_the_places_of_others() {
    tried(&[
        "bodies",
        "batches",
        "silent-connections",
        "waits",
        "presence",
    ]);
}

#[test]
fn nobody_makes_others_wait_for_what_is_on_the_log() {
    tried(&["hides", "members", "memberships", "dead-letters", "ring"]);
}

#[test]
fn nobody_holds_up_a_gateway() {
    tried(&["resumes", "devices", "group-changes"]);
}

#[test]
fn devices_are_answered_without_mysql_and_come_back_after_a_restart() {
    tried(&["hello-without-mysql", "gateway-restart"]);
}
