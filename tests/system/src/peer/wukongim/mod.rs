//! WuKongIM v3: one process with its own storage, and devices that speak its own protocol over TCP, and, like its clients, list conversations at each
//! connection and pull the missing messages of each. (The JSON-RPC over WebSocket cannot be used: in the version examined, `connect` ends the
//! connection as an unsupported frame.)

mod device;
mod receiver;
mod server;

use anyhow::{Result, ensure};
use schemas::UserId;
use serde_json::Value;

pub use self::{receiver::Receiver, server::WuKongIm};

/// The reason code of success.
const SUCCESS: u8 = 1;
const GROUP: &str = "all";
/// WuKongIM's channel types.
const PERSON: u8 = 1;
const GROUP_TYPE: u8 = 2;

fn uid_text(uid: UserId) -> String {
    format!("u{uid}")
}

async fn post(http: &reqwest::Client, url: &str, body: &Value) -> Result<Value> {
    let answer = http
        .post(url)
        .header("content-type", "application/json")
        .body(body.to_string())
        .send()
        .await?;
    let (status, text) = (answer.status(), answer.text().await?);
    ensure!(status.is_success(), "{url}: {status}: {text}");
    Ok(serde_json::from_str(&text).unwrap_or_default())
}
