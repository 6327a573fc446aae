//! Faults of processes of services.

use anyhow::Result;
use futures::future::try_join_all;
use rustix::process::Signal;

use super::victim::Victim;
use crate::SERVICES;

const KILLS: u64 = 3;

pub(super) async fn kill(victim: &mut Victim<'_>, service: &str) -> Result<u64> {
    for _ in 0..KILLS {
        let name = victim.either(service);
        victim.kill(&name).await?;
        victim.meanwhile().await?;
        victim.env.start_services(&[&name]).await?;
    }
    Ok(KILLS)
}

pub(super) async fn kill_all(victim: &mut Victim<'_>) -> Result<u64> {
    let names = both(&SERVICES);
    try_join_all(names.iter().map(|name| victim.kill(name))).await?;
    start_all(victim, &names).await?;
    Ok(names.len() as u64)
}

pub(super) async fn pause(victim: &mut Victim<'_>, service: &str) -> Result<u64> {
    let name = victim.either(service);
    victim.pause(&name).await?;
    Ok(1)
}

pub(super) async fn restart(victim: &mut Victim<'_>, services: &[&str]) -> Result<u64> {
    let names = both(services);
    for name in &names {
        victim.env.end(name, Signal::TERM).await?;
        victim.meanwhile().await?;
        victim.env.start_services(&[name]).await?;
    }
    Ok(names.len() as u64)
}

/// Each process changes between this program and the previous version, if one is given: an upgrade, or its undoing.
pub(super) async fn upgrade(victim: &mut Victim<'_>) -> Result<u64> {
    let names = both(&SERVICES);
    for name in &names {
        victim.env.end(name, Signal::TERM).await?;
        if let Some(before) = &victim.condition.before {
            victim.env.change_program(name, before);
        }
        victim.env.start_services(&[name]).await?;
        victim.meanwhile().await?;
    }
    Ok(names.len() as u64)
}

/// The names of both processes of each service.
pub(super) fn both(services: &[&str]) -> Vec<String> {
    let pairs = services
        .iter()
        .map(|service| [(*service).to_owned(), format!("{service}-2")]);
    pairs.flatten().collect()
}

pub(super) async fn start_all(victim: &Victim<'_>, names: &[String]) -> Result<()> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    victim.env.start_services(&names).await
}
