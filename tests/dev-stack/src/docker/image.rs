//! The container of each server: the image, and the settings of the native server in the image's own terms.

use testcontainers_modules::kafka::apache::Kafka;
use testcontainers_modules::mariadb::Mariadb;
use testcontainers_modules::redis::Redis;
use testcontainers_modules::testcontainers::{ContainerRequest, ImageExt};

use crate::Memory;

// The tags of compose/docker-compose.yml, so that one download serves both.
const KAFKA_TAG: &str = "4.3.1";
const REDIS_TAG: &str = "7";
const MARIADB_TAG: &str = "10.11";

// The ports of the servers inside their containers.
pub(super) const KAFKA_PORT: u16 = 9092;
pub(super) const REDIS_PORT: u16 = 6379;
pub(super) const MARIADB_PORT: u16 = 3306;

const MARIADB_USER: &str = include_str!("../../../../compose/mariadb-user.sql");

pub(super) fn kafka() -> ContainerRequest<Kafka> {
    // testcontainers sets these, since it adds a listener for itself.
    const OF_THE_IMAGE: [&str; 6] = [
        "process.roles",
        "controller.listener.names",
        "listener.security.protocol.map",
        "inter.broker.listener.name",
        "listeners",
        "advertised.listeners",
    ];
    let config = crate::kafka::CONFIG
        .replace("{{replication}}", "1")
        .replace("{{min_insync}}", "1");
    let heap = format!("-Xmx{}m", Memory::for_tests().kafka_heap_mib);
    let request = Kafka::default()
        .with_jvm_image()
        .with_tag(KAFKA_TAG)
        .with_env_var("KAFKA_HEAP_OPTS", heap);
    settings(&config, &OF_THE_IMAGE).fold(request, |request, (name, value)| {
        let variable = format!("KAFKA_{}", name.to_uppercase().replace('.', "_"));
        request.with_env_var(variable, value)
    })
}

pub(super) fn redis() -> ContainerRequest<Redis> {
    const OF_THE_IMAGE: [&str; 4] = ["bind", "protected-mode", "daemonize", "logfile"];
    let options = settings(crate::redis::CONFIG, &OF_THE_IMAGE)
        .flat_map(|(name, value)| [format!("--{name}"), value.to_owned()]);
    Redis::default()
        .with_tag(REDIS_TAG)
        .with_cmd(["redis-server".to_owned()].into_iter().chain(options))
}

pub(super) fn mariadb() -> ContainerRequest<Mariadb> {
    const OF_THE_IMAGE: [&str; 3] = ["socket", "pid-file", "bind-address"];
    let memory = Memory::for_tests();
    let config = crate::mariadb::CONFIG
        .replace(
            "{{buffer_pool_mib}}",
            &memory.mariadb_buffer_pool_mib.to_string(),
        )
        .replace("{{redo_log_mib}}", &memory.mariadb_redo_log_mib.to_string());
    let options = settings(&config, &OF_THE_IMAGE).map(|(name, value)| match value {
        "" => format!("--{name}"),
        value => format!("--{name}={value}"),
    });
    Mariadb::default()
        .with_init_sql(MARIADB_USER.as_bytes().to_vec())
        .with_tag(MARIADB_TAG)
        .with_cmd(options.collect::<Vec<_>>())
}

/// The settings of a native server's template that also hold in a container: all except those of the image, and those with a port or a path that is
/// still to be filled in.
fn settings<'a>(
    config: &'a str,
    of_the_image: &'a [&str],
) -> impl Iterator<Item = (&'a str, &'a str)> {
    config
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with(['#', '[']) && !line.contains("{{"))
        .map(|line| {
            let (name, value) = line.split_once(['=', ' ']).unwrap_or((line, ""));
            (name, value.trim_matches('"'))
        })
        .filter(|(name, _)| !of_the_image.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compose_uses_the_same_images() {
        let compose = include_str!("../../../../compose/docker-compose.yml");
        let images = [
            kafka().descriptor(),
            redis().descriptor(),
            mariadb().descriptor(),
        ];
        for image in images {
            assert!(compose.contains(&format!("image: {image}\n")), "{image}");
        }
    }

    #[test]
    fn settings_leave_out_ports_paths_and_what_the_image_decides() {
        let config =
            "# comment\n[section]\nport={{port}}\nbind=127.0.0.1\n\nalone\nsize=3M\nsave \"\"\n";
        let kept: Vec<_> = settings(config, &["bind"]).collect();
        assert_eq!(kept, [("alone", ""), ("size", "3M"), ("save", "")]);
    }
}
