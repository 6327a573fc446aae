//! The service under test on a free port, and what it answers.

use std::{net::SocketAddr, time::Duration};

use access::Access;
use query_api::Config;
use reqwest::{Client, Response};
use serde_json::Value;
use service_runtime::{Health, Supervisor, middleware};
use tokio::{net::TcpListener, time::Instant};

use crate::deployment::{Deployment, PATIENCE};

/// The deployment that the tests share, and a service on it.
pub async fn env() -> (&'static Deployment, Service) {
    let deployment = Deployment::shared().await;
    (deployment, Service::start(&deployment.config).await)
}

pub struct Service {
    pub addr: SocketAddr,
    client: Client,
    pub health: Health,
    _supervisor: Supervisor,
}

impl Service {
    pub async fn start(config: &Config) -> Self {
        let supervisor = Supervisor::new("test", Duration::from_secs(1));
        let health = Health::new();
        let access = Access::start(&config.auth, &supervisor).unwrap();
        let api = query_api::start(config.clone(), &access, &supervisor, &health);
        let router = api
            .await
            .unwrap()
            .fallback(problem::fallback)
            .method_not_allowed_fallback(problem::method_not_allowed);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, middleware(router)).await });
        Self {
            addr,
            client: Client::new(),
            health,
            _supervisor: supervisor,
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        let url = format!("http://{}{path}", self.addr);
        Answer::of(self.client.get(url).send().await.unwrap()).await
    }

    /// With a token or a service key.
    pub async fn get_as(&self, token: &str, path: &str) -> Answer {
        let url = format!("http://{}{path}", self.addr);
        let request = self.client.get(url).bearer_auth(token);
        Answer::of(request.send().await.unwrap()).await
    }

    pub async fn post(&self, path: &str) -> Answer {
        let url = format!("http://{}{path}", self.addr);
        Answer::of(self.client.post(url).send().await.unwrap()).await
    }

    /// The body of an answer that must be 200.
    pub async fn ok(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    /// Asks until the answer is right.
    pub async fn until(&self, path: &str, is_right: impl Fn(&Answer) -> bool) -> Answer {
        Self::asked_until(path, async || self.get(path).await, is_right).await
    }

    /// The same with a token or a service key.
    pub async fn until_as(
        &self,
        token: &str,
        path: &str,
        is_right: impl Fn(&Answer) -> bool,
    ) -> Answer {
        Self::asked_until(path, async || self.get_as(token, path).await, is_right).await
    }

    async fn asked_until(
        path: &str,
        ask: impl AsyncFn() -> Answer,
        is_right: impl Fn(&Answer) -> bool,
    ) -> Answer {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = ask().await;
            if is_right(&answer) {
                return answer;
            }
            assert!(Instant::now() < deadline, "{path}: {}", answer.body);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub retry_after: Option<String>,
    pub body: Value,
}

impl Answer {
    /// Every answer is JSON, and every refusal a problem that repeats its status.
    async fn of(response: Response) -> Self {
        let status = response.status().as_u16();
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            Some(value.to_str().unwrap().to_owned())
        };
        let (content_type, retry_after) = (header("content-type"), header("retry-after"));
        let body: Value = response.json().await.unwrap();
        if status == 200 {
            assert_eq!(content_type.as_deref(), Some("application/json"));
        } else {
            assert_eq!(content_type.as_deref(), Some("application/problem+json"));
            assert_eq!(body["status"], status, "{body}");
        }
        Self {
            status,
            retry_after,
            body,
        }
    }

    pub fn detail(&self) -> &str {
        self.body["detail"].as_str().unwrap()
    }

    /// The field at fault of a 400.
    pub fn field(&self) -> &str {
        assert_eq!(self.status, 400, "{}", self.body);
        self.body["errors"][0]["field"].as_str().unwrap()
    }
}
