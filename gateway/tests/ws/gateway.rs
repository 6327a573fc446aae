//! A gateway of the test's own on a free port.

use std::{net::SocketAddr, time::Duration};

use access::Access;
use gateway::Config;
use schemas::UserId;
use serde_json::Value;
use service_runtime::{Health, Supervisor, middleware};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::{
    client::IntoClientRequest as _, http::HeaderValue, http::Request,
};

use crate::{
    deployment::{Deployment, PATIENCE},
    device::Device,
    redis_server::RedisServer,
};

pub struct Gateway {
    pub addr: SocketAddr,
    pub deployment: &'static Deployment,
    pub supervisor: Supervisor,
}

impl Gateway {
    pub async fn start() -> Self {
        Self::start_with(|_| ()).await
    }

    pub async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        Self::start_on(Deployment::shared().await, change).await
    }

    /// Starts one on logs of its own.
    pub async fn start_alone(change: impl FnOnce(&mut Config)) -> Self {
        Self::start_on(Box::leak(Box::new(Deployment::new().await)), change).await
    }

    /// Starts one that has a Redis of a test's own.
    pub async fn start_with_redis(redis: &RedisServer, cluster: bool) -> Self {
        let change = |config: &mut Config| {
            config.redis.url = redis.url();
            config.redis.cluster = cluster;
        };
        Self::start_with(change).await
    }

    /// What `GET /v1/presence` says of users.
    pub async fn presence(&self, uids: &[UserId]) -> Value {
        let uids: Vec<String> = uids.iter().map(ToString::to_string).collect();
        let url = format!("http://{}/v1/presence?uid={}", self.addr, uids.join(","));
        let answer: Value = reqwest::get(url).await.unwrap().json().await.unwrap();
        answer["items"].clone()
    }

    /// Starts one that does not know where to read from.
    pub async fn start_without_mysql() -> Self {
        let nowhere = "mysql://root:none@127.0.0.1:1".parse().unwrap();
        let change = |config: &mut Config| config.mysql.servers = vec![nowhere];
        Self::begin_on(Deployment::shared().await, change).await.0
    }

    /// Starts one and waits until it reads.
    async fn start_on(deployment: &'static Deployment, change: impl FnOnce(&mut Config)) -> Self {
        let (gateway, health) = Self::begin_on(deployment, change).await;
        let started = tokio::time::Instant::now();
        while !health.readiness().ready {
            assert!(started.elapsed() < PATIENCE, "the gateway is not ready");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        gateway
    }

    /// Starts one, and does not wait for it.
    pub async fn begin_on(
        deployment: &'static Deployment,
        change: impl FnOnce(&mut Config),
    ) -> (Self, Health) {
        let mut config = deployment.config.clone();
        change(&mut config);
        let supervisor = Supervisor::new("test", Duration::from_secs(5));
        let health = Health::new();
        let access = Access::start(&config.auth, &supervisor).unwrap();
        let router = gateway::start(config, &access, &supervisor, &health);
        let router = router.await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, middleware(router)).await });
        let gateway = Self {
            addr,
            deployment,
            supervisor,
        };
        (gateway, health)
    }

    /// Stops it, and waits until it has.
    pub async fn stop(mut self) {
        let none = Supervisor::new("stopped", Duration::ZERO);
        let supervisor = std::mem::replace(&mut self.supervisor, none);
        supervisor.shutdown().begin();
        supervisor.run(std::future::pending).await.unwrap();
    }

    pub fn request(&self, uid: UserId) -> Request<()> {
        let url = format!("ws://{}/v1/connect?uid={uid}", self.addr);
        let mut request = url.into_client_request().unwrap();
        let protocol = HeaderValue::from_static("tidemark.v1.json");
        request
            .headers_mut()
            .insert("sec-websocket-protocol", protocol);
        request
    }

    /// A connection before its hello.
    pub async fn connect(&self, uid: UserId) -> Device {
        Device::connect(self.request(uid)).await.unwrap()
    }

    /// A connection with a stream from this token on.
    pub async fn stream(&self, uid: UserId, id: &str, since: &str) -> Device {
        let mut device = self.connect(uid).await;
        device.hello(id, Some(Some(since))).await;
        let welcome = device.frame().await;
        assert_eq!(welcome["type"], "welcome", "{welcome}");
        device
    }
}

/// Its readers are threads, for which the test's runtime would wait.
impl Drop for Gateway {
    fn drop(&mut self) {
        self.supervisor.shutdown().force();
    }
}
