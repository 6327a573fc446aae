//! A service as a process with authentication: commands that bring what it takes, and secrets that are written nowhere.

use std::{
    fs::{self, File},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use access::test_issuer::{AUD, ISS, SECRET, SigningKey, claims};
use anyhow::{Context as _, Result, ensure};
use schemas::InboundPosition;
use serde_json::{Value, json};
use system_tests::{Servers, TestEnv, new_users, program, run, until};
use tempfile::TempDir;

/// An ingest of its own, beside that of the environment.
struct Ingest {
    process: Child,
    url: String,
    settings: Vec<String>,
    log: PathBuf,
}

impl Ingest {
    fn start(env: &TestEnv, dir: &Path) -> Result<Self> {
        fs::write(dir.join("secret"), SECRET)?;
        let listen = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let settings = [
            format!("ingest.listen={listen}"),
            format!(
                "auth.issuers=[{{ iss = '{ISS}', aud = '{AUD}', algorithms = ['HS256'], secret_file = '{}' }}]",
                dir.join("secret").display()
            ),
            format!("auth.keys_file={}", dir.join("keys.toml").display()),
        ];
        let settings: Vec<String> = settings
            .into_iter()
            .flat_map(|setting| ["--set".to_owned(), setting])
            .collect();
        let log = dir.join("log");
        let file = File::create(&log)?;
        let process = Command::new(program()?)
            .arg("ingest")
            .args(env.config_args())
            .args(&settings)
            .env("RUST_LOG", "debug")
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()?;
        Ok(Self {
            process,
            url: format!("client.ingest_url=http://{listen}"),
            settings,
            log,
        })
    }

    async fn ready(&self) -> Result<()> {
        let ready = async || match fs::read_to_string(&self.log) {
            Ok(log) if log.contains("listening") => Ok(()),
            _ => Err("it does not listen".to_owned()),
        };
        until("ingest", ready).await
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        // Of one that has ended there is nothing left to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn write(dir: &TempDir, name: &str, text: &str) -> Result<String> {
    let path = dir.path().join(name);
    fs::write(&path, text)?;
    Ok(path.to_str().context("a path of ASCII")?.to_owned())
}

#[test]
fn commands_bring_tokens_and_no_secret_is_written_anywhere() {
    run(Servers::Shared, async |env| {
        let dir = tempfile::tempdir()?;
        let keys = write(&dir, "keys.toml", "")?;
        let new = [
            "key", "new", "--name", "mailer", "--scope", "send:any", "--file", &keys,
        ];
        let created = env.tidemark(&new).await?.expect(0)?;
        let key = created.stdout.trim().to_owned();
        ensure!(
            key.starts_with("tmk_") && !created.stderr.contains(&key),
            "{}",
            created.stderr
        );
        let listed = env
            .tidemark(&["key", "list", "--file", &keys])
            .await?
            .expect(0)?;
        ensure!(listed.stdout.contains("mailer") && listed.stdout.contains("send:any"));

        let [me, peer] = new_users();
        let signing = SigningKey::hs256(SECRET.as_bytes());
        let token = signing.token(&claims(me));
        let forged = SigningKey::hs256(b"another secret of 32 bytes or so").token(&claims(me));
        let ingest = Ingest::start(env, dir.path())?;
        let [of_user, of_service, of_forger] = [
            write(&dir, "user", &token)?,
            write(&dir, "service", &format!("{key}\n"))?,
            write(&dir, "forger", &forged)?,
        ];
        let mut said = created.stderr + &listed.stdout;
        let mut send = async |from: i64, with: Option<&str>| -> Result<Option<i32>> {
            let (from, to) = (from.to_string(), peer.to_string());
            let mut line = vec!["send", &from, &to, "hello", "--set", &ingest.url];
            line.extend(with.into_iter().flat_map(|file| ["--token-file", file]));
            let outcome = env.tidemark(&line).await?;
            said += &outcome.stderr;
            said += &outcome.stdout;
            Ok(outcome.code)
        };
        ingest.ready().await?;
        ensure!(send(me, Some(of_user.as_str())).await? == Some(0));
        ensure!(send(me, Some(of_service.as_str())).await? == Some(0));
        for (from, with) in [(peer, Some(&of_user)), (me, Some(&of_forger)), (me, None)] {
            ensure!(send(from, with.map(String::as_str)).await? == Some(1));
        }
        ensure!(said.contains("the subject of the token"), "{said}");
        ensure!(said.contains("signature is not valid"), "{said}");
        ensure!(said.contains("--token-file"), "{said}");

        for format in [
            &["config", "print"][..],
            &["config", "print", "--json"],
            &["config", "check"],
        ] {
            let settings = ingest.settings.iter().map(String::as_str);
            let line: Vec<&str> = format.iter().copied().chain(settings).collect();
            let shown = env.tidemark(&line).await?.expect(0)?;
            said += &(shown.stdout + &shown.stderr);
        }
        said += &fs::read_to_string(&ingest.log)?;
        said += &fs::read_to_string(&keys)?;
        ensure!(
            said.contains("a request was refused"),
            "the log does not say that requests were refused: {said}"
        );
        let secret_of_key = key.rsplit('_').next().unwrap_or(&key);
        for secret in [SECRET, &token, &forged, &key, secret_of_key] {
            ensure!(!said.contains(secret), "{secret} is in:\n{said}");
        }
        Ok(())
    });
}

#[test]
fn without_authentication_a_service_does_not_listen_beyond_loopback() {
    run(Servers::Shared, async |env| {
        for (service, setting) in [
            ("ingest", "ingest.listen"),
            ("query-api", "query_api.listen"),
        ] {
            let listen = format!("{setting}=0.0.0.0:0");
            let allow = "http.allow_non_loopback=true";
            let line = [service, "--set", &listen, "--set", allow];
            let refused = env.tidemark(&line).await?.expect(3)?;
            for words in [setting, "no authentication", "[auth]", "auth.allow_anyone"] {
                ensure!(refused.stderr.contains(words), "{}", refused.stderr);
            }
            let line = ["config", "check", "--set", &listen];
            let refused = env.tidemark(&line).await?.expect(3)?;
            ensure!(
                refused.stderr.contains("[auth] must say who may call"),
                "{}",
                refused.stderr
            );
        }
        Ok(())
    });
}

/// The rules allow 20 in a partition.
#[test]
fn a_user_begins_so_many_conversations_in_a_day_and_a_service_any_number() {
    run(Servers::Shared, async |env| {
        let dir = tempfile::tempdir()?;
        let keys = write(&dir, "keys.toml", "")?;
        let new = [
            "key", "new", "--name", "mailer", "--scope", "send:any", "--file", &keys,
        ];
        let key = env.tidemark(&new).await?.expect(0)?.stdout;
        let [me] = new_users();
        let token = SigningKey::hs256(SECRET.as_bytes()).token(&claims(me));
        let of_user = write(&dir, "user", &token)?;
        let of_service = write(&dir, "service", &key)?;
        let ingest = Ingest::start(env, dir.path())?;
        ingest.ready().await?;

        // All in one partition, and nobody whom another test has.
        let stranger = |n: i64| me + 1_000_000_000 + 64 * n;
        let refused = async |token: &str, first: i64| -> Result<usize> {
            let line = |n| {
                let destid = stranger(n);
                format!(
                    "{{\"message\":{{\"srcid\":\"{me}\",\"destid\":\"{destid}\",\"client_msg_id\":\"{n}\",\"msg\":\"hello\"}}}}\n"
                )
            };
            let lines: String = (first..first + 41).map(line).collect();
            let file = write(&dir, "lines", &lines)?;
            let load = ["load", &file, "--token-file", token, "--set", &ingest.url];
            env.tidemark(&load).await?.expect(0)?;
            // What is behind them in the partition shows that they are decided.
            env.client
                .send(stranger(first), me, &format!("behind {first}"), "hello")
                .await?;
            let after = env
                .client
                .send(stranger(first), me, &format!("last {first}"), "hello")
                .await?;
            env.client.history(me, stranger(first), &[after]).await?;
            let partition = ((me + stranger(0)) % 64).to_string();
            let list = [
                "dlq",
                "list",
                "--json",
                "--reason",
                "too-many-conversations",
                "-p",
                &partition,
            ];
            Ok(env.tidemark(&list).await?.expect(0)?.stdout.lines().count())
        };
        // 41, since a day may end meanwhile.
        let of_user = refused(&of_user, 0).await?;
        ensure!((1..=21).contains(&of_user), "{of_user} refused");
        let of_both = refused(&of_service, 41).await?;
        ensure!(
            of_both == of_user,
            "{} of a service refused",
            of_both - of_user
        );
        env.audit([me, stranger(0)]).await?;
        Ok(())
    });
}

/// One hostile account: it takes nobody's gid, puts nobody back, and makes so many users members in a day.
#[test]
fn a_user_makes_of_others_what_the_rules_allow() {
    run(Servers::Shared, async |env| {
        let dir = tempfile::tempdir()?;
        write(&dir, "keys.toml", "")?;
        let [hostile, victim] = new_users();
        let ingest = Ingest::start(env, dir.path())?;
        ingest.ready().await?;
        let url = ingest.url.trim_start_matches("client.ingest_url=");
        let post = async |by: i64, path: &str, body: Value| -> Result<(u16, Value)> {
            let token = SigningKey::hs256(SECRET.as_bytes()).token(&claims(by));
            let request = reqwest::Client::new().post(format!("{url}{path}"));
            let answer = request.bearer_auth(token).json(&body).send().await?;
            Ok((answer.status().as_u16(), answer.json().await?))
        };
        let decided = async |by: i64, path: &str, body: Value| -> Result<String> {
            let (status, answer) = post(by, path, body).await?;
            ensure!(status == 202, "{answer}");
            let position = InboundPosition {
                partition: answer["partition"]
                    .as_i64()
                    .context("no partition")?
                    .try_into()?,
                offset: answer["offset"].as_i64().context("no offset")?,
            };
            let outcome = env.client.outcome(position).await?;
            Ok(outcome["reason"].as_str().unwrap_or("done").to_owned())
        };
        let own = json!({"client_id": "family", "owner": victim, "name": "Family"});
        let (_, answer) = post(victim, "/v1/groups", own).await?;
        let gid = answer["gid"].as_str().context("no gid")?.to_owned();
        // The same gid in another name.
        let taken = json!({"gid": gid, "owner": hostile, "name": "Family"});
        let (status, answer) = post(hostile, "/v1/groups", taken).await?;
        ensure!(
            status == 403 && answer["errors"][0]["field"] == "gid",
            "{answer}"
        );

        let group = json!({"client_id": "crowd", "owner": hostile, "name": "Crowd", "members": [victim.to_string()]});
        let (_, answer) = post(hostile, "/v1/groups", group).await?;
        let changes = format!(
            "/v1/groups/{}/changes",
            answer["gid"].as_str().context("no gid")?
        );
        let left = decided(victim, &changes, json!({"by": victim, "leave": true})).await?;
        ensure!(left == "done", "{left}");
        let add = json!({"by": hostile, "add": [victim.to_string()]});
        let again = decided(hostile, &changes, add).await?;
        ensure!(again == "has-left", "{again}");

        let crowd: Vec<String> = (0..1_000)
            .map(|n| (hostile + 1_000_000_000 + n).to_string())
            .collect();
        let add = json!({"by": hostile, "add": crowd});
        // The first member of the day was the victim.
        let all = decided(hostile, &changes, add.clone()).await?;
        ensure!(all == "too-many-memberships", "{all}");
        let (status, _) = post(hostile, &changes, add).await?;
        ensure!(
            status == 429,
            "1,000 users were named a moment ago: {status}"
        );
        env.audit([hostile, victim]).await?;
        Ok(())
    });
}
