//! Accounts: users with tokens and connections of their own, and the ports that they call.

use access::test_issuer::{SECRET, SigningKey, claims};
use anyhow::Result;
use client::device::{Device, DeviceSettings, DeviceState, MAX_MSG_BYTES, Outbox};
use schemas::{DeviceClass, DeviceId, UserId};
use serde_json::Value;

use crate::{TestEnv, new_users};

/// The ports that accounts call, and the users of the measurement.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) ingest: u16,
    pub(super) query: u16,
    pub(super) gateway: u16,
    /// The user to whom the measuring account writes, and who reads and has a device.
    pub(super) friend: i64,
    pub(super) measuring: i64,
}

impl Stage {
    pub(super) fn new(env: &TestEnv) -> Result<Self> {
        let [measuring, friend] = new_users();
        Ok(Self {
            ingest: env.port("ingest")?,
            query: env.port("query-api")?,
            gateway: env.port("gateway")?,
            friend,
            measuring,
        })
    }
}

/// A logged-in user.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) uid: i64,
    pub(super) token: String,
    http: reqwest::Client,
    stage: Stage,
}

impl Account {
    /// An account of a new user.
    pub(super) fn new(stage: &Stage) -> Result<Self> {
        let [uid] = new_users();
        Self::of(stage, uid)
    }

    /// An account of that user.
    pub(super) fn of(stage: &Stage, uid: i64) -> Result<Self> {
        Ok(Self {
            uid,
            token: SigningKey::hs256(SECRET.as_bytes()).token(&claims(uid)),
            http: reqwest::Client::builder().build()?,
            stage: stage.clone(),
        })
    }

    /// Posts JSON to ingest. Returns the status and the body, which is null if it is not JSON.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<(u16, Value)> {
        let url = format!("http://127.0.0.1:{}{path}", self.stage.ingest);
        self.call(self.http.post(url).json(body)).await
    }

    /// Posts a batch of one line. The body of the answer is null, since it has several lines.
    pub(super) async fn post_line(&self, path: &str, line: &Value) -> Result<(u16, Value)> {
        let url = format!("http://127.0.0.1:{}{path}", self.stage.ingest);
        let request = self.http.post(url).body(format!("{line}\n"));
        self.call(request.header("content-type", "application/x-ndjson"))
            .await
    }

    /// Queries query-api.
    pub(super) async fn get(&self, path: &str) -> Result<(u16, Value)> {
        self.get_at(self.stage.query, path).await
    }

    /// Queries the service on a port.
    pub(super) async fn get_at(&self, port: u16, path: &str) -> Result<(u16, Value)> {
        self.call(self.http.get(format!("http://127.0.0.1:{port}{path}")))
            .await
    }

    async fn call(&self, request: reqwest::RequestBuilder) -> Result<(u16, Value)> {
        let response = request.bearer_auth(&self.token).send().await?;
        let status = response.status().as_u16();
        let body = response.bytes().await?;
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }

    /// A device that knows nothing yet.
    pub(super) fn device(&self, id: &str) -> Result<Device> {
        let [ingest, query] =
            [self.stage.ingest, self.stage.query].map(|port| format!("http://127.0.0.1:{port}"));
        let client = client::Client::builder(&ingest, &query)
            .token(&self.token)
            .build()?;
        let settings = DeviceSettings {
            gateways: vec![format!("ws://127.0.0.1:{}", self.stage.gateway)],
            device: DeviceId::try_from(id.to_owned())?,
            class: DeviceClass::Pc,
            name: String::new(),
            token: Some(self.token.clone()),
            max_msg_bytes: MAX_MSG_BYTES,
        };
        let state = DeviceState::new(UserId::try_from(self.uid)?);
        Ok(Device::new(client, settings, state, Outbox::default())?)
    }
}
