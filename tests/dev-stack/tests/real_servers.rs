//! Starts, breaks and stops real servers.

#![expect(clippy::unwrap_used, reason = "a failed step of a test ends the test")]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use dev_stack::{
    FreshServers, ProcessState, ProcessStatus, ServiceSpec, Stack, StackConfig, StackError,
    Started, exec_with_fresh_servers, find_free_ports,
};

fn alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn of<'a>(started: &'a [Started], name: &str) -> &'a Started {
    started.iter().find(|one| one.name == name).unwrap()
}

fn status_of(servers: &FreshServers, name: &str) -> ProcessStatus {
    let all = servers.stack().status();
    all.into_iter().find(|one| one.name == name).unwrap()
}

fn redis_command(port: u16, command: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "{command}\r\nQUIT\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn sql(port: u16, statement: &str) -> String {
    let output = Command::new("mariadb")
        .args([
            "--no-defaults",
            "--host=127.0.0.1",
            "--batch",
            "--skip-column-names",
        ])
        .args(["--user=tidemark", "--password=tidemark"])
        .arg(format!("--port={port}"))
        .args(["--execute", statement])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn run_dir(servers: &FreshServers) -> &Path {
    &servers.stack().config().run_dir
}

#[test]
fn servers_start_survive_a_crash_and_stop() {
    let servers = FreshServers::start().unwrap();
    let stack = servers.stack();
    let first = stack.start_servers().unwrap();
    assert!(first.iter().all(|one| one.was_running), "{first:?}");
    let ports = &stack.config().ports;

    redis_command(ports.redis, "SET kept 1");
    settings_are_as_declared(ports.redis, ports.mariadb);

    // As a crash would: behind the stack's back, with its pid file left over.
    let redis_pid = of(&first, "redis").pid;
    assert!(
        Command::new("kill")
            .args(["-9", &redis_pid.to_string()])
            .status()
            .unwrap()
            .success()
    );
    // Its first thread may be gone while others still end: until then it is there, though not ready.
    wait_until("redis has died", || {
        status_of(&servers, "redis").state == ProcessState::Died
    });

    let second = stack.start_servers().unwrap();
    assert!(!of(&second, "redis").was_running);
    assert_ne!(of(&second, "redis").pid, redis_pid);
    for name in ["kafka", "mariadb"] {
        assert_eq!(of(&second, name).pid, of(&first, name).pid);
    }
    // One second of writes may be lost by a crash of the machine, none by a crash of the process.
    assert!(redis_command(ports.redis, "GET kept").contains("$1\r\n1"));

    let stopped = stack.stop().unwrap();
    assert_eq!(stopped, ["kafka", "redis", "mariadb"]);
    assert!(second.iter().all(|one| !alive(one.pid)));
    assert!(!run_dir(&servers).join("kafka.pid").exists());
    assert_eq!(status_of(&servers, "kafka").state, ProcessState::Stopped);

    let third = stack.start_servers().unwrap();
    assert!(third.iter().all(|one| !one.was_running));
    assert_eq!(stack.clean().unwrap().len(), 3);
    assert!(!run_dir(&servers).join("data").exists());
}

fn settings_are_as_declared(redis: u16, mariadb: u16) {
    assert!(redis_command(redis, "CONFIG GET maxmemory-policy").contains("noeviction"));
    assert!(redis_command(redis, "CONFIG GET appendonly").contains("yes"));
    let settings = "SELECT @@global.time_zone, @@event_scheduler, @@max_allowed_packet, \
                    @@character_set_server, @@innodb_flush_log_at_trx_commit, @@sync_binlog, @@log_bin";
    assert_eq!(
        sql(mariadb, settings),
        "+00:00\tOFF\t67108864\tutf8mb4\t0\t0\t1\n"
    );
    sql(
        mariadb,
        "CREATE DATABASE may_create; DROP DATABASE may_create",
    );
    let others = "SELECT COUNT(*) FROM mysql.global_priv WHERE User = ''";
    assert_eq!(sql(mariadb, others), "0\n");
}

#[test]
fn everything_dies_with_the_process_and_leaves_nothing() {
    // The test calls itself as the process that is killed.
    if std::env::var_os("NATIVE_STACK_TEST_VICTIM").is_some() {
        let servers = FreshServers::start().unwrap();
        let status = servers.stack().status();
        let pids = status
            .iter()
            .filter_map(|one| one.pid.map(|pid| pid.to_string()));
        println!(
            "victim {}|{}",
            pids.collect::<Vec<_>>().join(" "),
            run_dir(&servers).display()
        );
        loop {
            std::thread::park();
        }
    }
    let victim = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "everything_dies_with_the_process_and_leaves_nothing",
            "--nocapture",
        ])
        .env("NATIVE_STACK_TEST_VICTIM", "1")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut victim = KilledOnDrop(victim);
    let line = victim_line(victim.0.stdout.take().unwrap());
    let (pids, dir) = line.trim_start_matches("victim ").split_once('|').unwrap();
    let pids: Vec<u32> = pids.split(' ').map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 3);
    assert!(pids.iter().all(|pid| alive(*pid)));

    drop(victim);
    wait_until("all servers are gone", || {
        pids.iter().all(|pid| !alive(*pid))
    });
    wait_until("the directory is gone", || !Path::new(dir).exists());
}

/// A failed assertion must not leave the victim and its servers running.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn victim_line(stdout: impl Read) -> String {
    use std::io::{BufRead, BufReader};
    BufReader::new(stdout)
        .lines()
        .map(Result::unwrap)
        .find_map(|line| Some(line[line.find("victim ")?..].to_owned()))
        .expect("the victim prints its line before it closes its output")
}

#[test]
fn three_brokers_find_each_other() {
    let config = StackConfig {
        kafka_nodes: 3,
        ..StackConfig::default()
    };
    let servers = FreshServers::start_with(&config).unwrap();
    let names: Vec<String> = servers
        .stack()
        .status()
        .into_iter()
        .filter(|one| one.state == ProcessState::Ready)
        .map(|one| one.name)
        .collect();
    assert_eq!(names, ["kafka", "kafka-2", "kafka-3", "redis", "mariadb"]);
    assert_eq!(servers.endpoints().kafka_brokers.split(',').count(), 3);
    servers.stack().kill_one("kafka-2").unwrap();
    servers.stack().start_servers().unwrap();
    assert_eq!(status_of(&servers, "kafka-2").state, ProcessState::Ready);
}

/// A stack without servers, whose services are run by the given program.
fn stack_of_services(dir: &Path, program: &Path) -> Stack {
    let mut config = StackConfig {
        run_dir: dir.to_owned(),
        service_program: Some(program.to_owned()),
        ..StackConfig::default()
    };
    config.ports.ingest = free_port();
    Stack::new(config).unwrap()
}

fn ingest(stack: &Stack, args: &[&str], env: (&str, String)) -> ServiceSpec {
    let ready = format!("http://127.0.0.1:{}/readyz", stack.config().ports.ingest);
    ServiceSpec {
        name: "ingest".to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: vec![(env.0.to_owned(), env.1)],
        program: None,
        ready: ready.parse().unwrap(),
    }
}

#[test]
fn a_service_that_fails_is_shown_with_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let stack = stack_of_services(dir.path(), Path::new("/bin/sh"));
    let reason = ("REASON", "no luck".to_owned());
    let failing = ingest(&stack, &["-c", "echo cannot go on: $REASON >&2"], reason);
    match stack.start_services(&[failing]).unwrap_err() {
        StackError::Exited { name, tail, .. } => {
            assert_eq!(
                (name.as_str(), tail.as_str()),
                ("ingest", "  cannot go on: no luck\n")
            );
        }
        other => panic!("{other}"),
    }
    assert_eq!(stack.pid("ingest"), None);
}

#[test]
fn a_service_starts_once_and_stops() {
    const SERVICE_PORT: &str = "NATIVE_STACK_TEST_SERVICE_PORT";
    // The test calls itself as the service.
    if let Ok(port) = std::env::var(SERVICE_PORT) {
        let listener = TcpListener::bind(("127.0.0.1", port.parse().unwrap())).unwrap();
        for stream in listener.incoming() {
            stream
                .unwrap()
                .write_all(b"HTTP/1.0 200 OK\r\n\r\n")
                .unwrap();
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let stack = stack_of_services(dir.path(), &std::env::current_exe().unwrap());
    let port = stack.config().ports.ingest;
    let args = ["--exact", "a_service_starts_once_and_stops"];
    let service = ingest(&stack, &args, (SERVICE_PORT, port.to_string()));

    let first = stack
        .start_services(std::slice::from_ref(&service))
        .unwrap();
    assert!(!first[0].was_running);
    let second = stack.start_services(&[service]).unwrap();
    assert!(second[0].was_running);
    assert_eq!(second[0].pid, first[0].pid);
    assert_eq!(stack.stop().unwrap(), ["ingest"]);
    assert!(!alive(first[0].pid));
}

#[test]
fn a_service_whose_pid_file_is_lost_is_found_again() {
    const SERVICE_PORT: &str = "NATIVE_STACK_TEST_LOST_PORT";
    // The test calls itself as the service.
    if let Ok(port) = std::env::var(SERVICE_PORT) {
        serve(port.parse().unwrap(), std::iter::repeat(200));
    }
    let dir = tempfile::tempdir().unwrap();
    let stack = stack_of_services(dir.path(), &std::env::current_exe().unwrap());
    let port = stack.config().ports.ingest;
    let args = ["--exact", "a_service_whose_pid_file_is_lost_is_found_again"];
    let service = ingest(&stack, &args, (SERVICE_PORT, port.to_string()));
    let services = std::slice::from_ref(&service);
    let pid = stack.start_services(services).unwrap()[0].pid;

    let pid_file = dir.path().join("ingest.pid");
    fs::remove_file(&pid_file).unwrap();
    let status = stack.status();
    let seen = status.iter().find(|one| one.name == "ingest").unwrap();
    assert_eq!((seen.pid, seen.state), (Some(pid), ProcessState::Ready));
    let again = stack.start_services(services).unwrap();
    assert_eq!((again[0].pid, again[0].was_running), (pid, true));
    assert_eq!(
        fs::read_to_string(&pid_file).unwrap().trim(),
        pid.to_string()
    );

    fs::write(&pid_file, "garbage").unwrap();
    assert_eq!(stack.stop().unwrap(), ["ingest"]);
    assert!(!alive(pid));
}

#[test]
fn a_service_that_does_not_stay_ready_is_waited_for() {
    const SERVICE_PORT: &str = "NATIVE_STACK_TEST_UNSTEADY_PORT";
    // The test calls itself as the service.
    if let Ok(port) = std::env::var(SERVICE_PORT) {
        let statuses = [503, 200, 503, 503].into_iter();
        serve(
            port.parse().unwrap(),
            statuses.chain(std::iter::repeat(200)),
        );
    }
    let dir = tempfile::tempdir().unwrap();
    let stack = stack_of_services(dir.path(), &std::env::current_exe().unwrap());
    let port = stack.config().ports.ingest;
    let args = [
        "--nocapture",
        "--exact",
        "a_service_that_does_not_stay_ready_is_waited_for",
    ];
    let service = ingest(&stack, &args, (SERVICE_PORT, port.to_string()));
    stack.start_services(&[service]).unwrap();
    let log = fs::read_to_string(dir.path().join("log/ingest.log")).unwrap();
    let answers: Vec<&str> = log
        .lines()
        .filter_map(|line| line.strip_prefix("answer "))
        .collect();
    assert_eq!(answers, ["503", "200", "503", "503", "200", "200"]);
    stack.stop().unwrap();
}

/// Answers one request after the other with these statuses, and says so.
fn serve(port: u16, statuses: impl Iterator<Item = u16>) -> ! {
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    println!();
    for (stream, status) in listener.incoming().zip(statuses) {
        println!("answer {status}");
        let mut stream = stream.unwrap();
        // A connection that is closed with something unread is reset.
        let _ = stream.read(&mut [0; 512]).unwrap();
        write!(stream, "HTTP/1.0 {status} -\r\n\r\n").unwrap();
    }
    unreachable!("listeners do not end, nor do the statuses")
}

#[test]
fn a_command_gets_servers_and_its_exit_code_comes_back() {
    let script = "[ -n \"$TIDEMARK_TEST_KAFKA$TIDEMARK_TEST_REDIS\" ] && [ -n \"$TIDEMARK_TEST_MYSQL\" ] && exit 7";
    let command = ["sh", "-c", script].map(Into::into);
    assert_eq!(exec_with_fresh_servers(&command).unwrap(), 7);
}

#[test]
fn a_taken_port_is_named_and_nothing_is_started() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut config = StackConfig {
        run_dir: dir.path().to_owned(),
        ..StackConfig::default()
    };
    let taken = listener.local_addr().unwrap().port();
    config.ports.kafka = free_port();
    config.ports.kafka_controller = free_port();
    config.ports.mariadb = free_port();
    config.ports.redis = taken;
    let stack = Stack::new(config).unwrap();
    let error = stack.start_servers().unwrap_err();
    let message = error.to_string();
    let named = format!(
        "port {taken} of redis is taken by pid {} (",
        std::process::id()
    );
    assert!(message.starts_with(&named), "{message}");
    assert_eq!(stack.check_ports().unwrap_err().to_string(), message);
    assert!(stack.status().iter().all(|one| one.pid.is_none()));
    assert!(!dir.path().join("data").exists());
}

fn free_port() -> u16 {
    find_free_ports(1)[0]
}

#[test]
fn a_stale_pid_file_never_kills_a_stranger() {
    let dir = tempfile::tempdir().unwrap();
    let mut stranger = Command::new("sleep").arg("600").spawn().unwrap();
    fs::write(dir.path().join("redis.pid"), format!("{}\n", stranger.id())).unwrap();
    fs::create_dir(dir.path().join("identity")).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    fs::write(
        dir.path().join("identity/redis"),
        format!("{} 1 {boot}", stranger.id()),
    )
    .unwrap();

    let stack = Stack::new(StackConfig {
        run_dir: dir.path().to_owned(),
        ..StackConfig::default()
    })
    .unwrap();
    assert_eq!(stack.pid("redis"), None);
    assert!(stack.stop().unwrap().is_empty());
    assert!(
        stranger.try_wait().unwrap().is_none(),
        "the stranger was killed"
    );
    assert!(!dir.path().join("redis.pid").exists());
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn servers_do_not_inherit_the_users_locale_and_start_below_any_folder() {
    let dir = tempfile::tempdir().unwrap();
    let temporary = dir.path().join("d\u{e9}p\u{f4}t \u{1f30a}");
    fs::create_dir(&temporary).unwrap();
    // Whoever has no such locale has its effect on Java by the option.
    let mut generate = Command::new("localedef");
    generate.args(["-i", "ar_EG", "-f", "UTF-8"]);
    let _ = generate.arg(dir.path().join("ar_EG.UTF-8")).output();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "names_of_files_are_ascii", "--ignored"])
        .env("TMPDIR", &temporary)
        .env("LOCPATH", dir.path())
        .env("LC_ALL", "ar_EG.UTF-8")
        .env("JAVA_TOOL_OPTIONS", "-Duser.language=ar -Duser.country=EG")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "in the environment of another test"]
fn names_of_files_are_ascii() {
    let servers = FreshServers::start().unwrap();
    let stack = servers.stack();
    let create = ["--create", "--topic", "t", "--partitions", "1"];
    stack.kafka_tool("TopicCommand", &create).unwrap();
    let data = stack.data_dir("kafka");
    assert!(data.starts_with(std::env::temp_dir()), "{}", data.display());
    // The broker makes it once it has read of the topic.
    let first = data.join("t-0/00000000000000000000.log");
    wait_until(&first.display().to_string(), || first.is_file());
    // Nor has anything been written beside the folder.
    let beside = fs::read_dir(std::env::temp_dir().parent().unwrap()).unwrap();
    let beside: Vec<_> = beside.map(|entry| entry.unwrap().file_name()).collect();
    assert!(beside.len() <= 2, "{beside:?}");
    stack.stop().unwrap();
}
