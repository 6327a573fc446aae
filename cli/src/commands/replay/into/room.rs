//! Whether the disks of MySQL's servers have room for a scratch.

use std::{net::IpAddr, path::Path};

use message_store::ServerDisk;
use schemas::topics::Topic;

use crate::{context::CommandContext, failure::Failure};

/// # Errors
/// A server that runs on this machine has less room than the scratch would take. The room of a server elsewhere is not known.
pub(super) async fn check(live: &CommandContext, scratch: &CommandContext) -> anyhow::Result<()> {
    let share = share(live, scratch).await?;
    for disk in live.messages()?.disks().await? {
        if let Some(free) = free_bytes(&disk) {
            check_server(&disk, share, free)?;
        }
    }
    Ok(())
}

/// The share of the log from which a scratch is made.
async fn share(live: &CommandContext, scratch: &CommandContext) -> anyhow::Result<f64> {
    let mut records = [0.0; 2];
    for (context, records) in [scratch, live].into_iter().zip(&mut records) {
        let ends = context.log_reader()?.ends(Topic::Events).await?;
        *records = ends.iter().map(|(_, end)| *end as f64).sum();
    }
    let [of_scratch, of_live] = records;
    Ok(if of_live > 0.0 {
        of_scratch / of_live
    } else {
        0.0
    })
}

/// How many bytes are free where a server keeps its data, if that is a folder of this machine.
fn free_bytes(disk: &ServerDisk) -> Option<u64> {
    let is_here = disk.host == "localhost"
        || disk
            .host
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback());
    if !is_here {
        return None;
    }
    let disk = rustix::fs::statvfs(Path::new(&disk.folder)).ok()?;
    Some(disk.f_bavail * disk.f_frsize)
}

fn check_server(disk: &ServerDisk, share: f64, free: u64) -> Result<(), Failure> {
    let needed = (disk.bytes as f64 * share) as u64;
    if needed < free {
        return Ok(());
    }
    let [needed, free] = [needed, free].map(|bytes| bytes >> 20);
    Err(Failure::Usage(format!(
        "MySQL at {} has {free} MiB free in {}, and this takes about {needed}: drop a scratch, or make room",
        disk.host,
        disk.folder.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_needs_its_share_of_what_is_live() {
        let disk = ServerDisk {
            host: "127.0.0.1".to_owned(),
            folder: "/".into(),
            bytes: 1 << 30,
        };
        assert!(check_server(&disk, 0.5, 600 << 20).is_ok());
        let full = check_server(&disk, 0.5, 500 << 20).unwrap_err().to_string();
        assert!(
            full.contains("500 MiB free in /, and this takes about 512"),
            "{full}"
        );
        assert!(free_bytes(&disk).is_some_and(|free| free > 0));
        let elsewhere = ServerDisk {
            host: "db.example".to_owned(),
            ..disk
        };
        assert_eq!(free_bytes(&elsewhere), None);
    }
}
