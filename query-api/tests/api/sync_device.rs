//! What a device makes of the answers of a sync.

use std::collections::BTreeMap;

use schemas::{SyncToken, UserId};
use serde_json::Value;

use crate::service::Service;

#[derive(Clone, Debug)]
pub struct Device {
    pub uid: UserId,
    /// `next` of the last answer.
    pub token: Option<String>,
    pub conversations: BTreeMap<String, Value>,
    pub groups: BTreeMap<String, Value>,
    /// In the middle of an answer.
    is_under_way: bool,
    /// The answer returns everything.
    is_full: bool,
}

impl Device {
    pub fn new(uid: UserId) -> Self {
        Self {
            uid,
            token: None,
            conversations: BTreeMap::new(),
            groups: BTreeMap::new(),
            is_under_way: false,
            is_full: false,
        }
    }

    pub fn path(&self, query: &str) -> String {
        let since = self.token.as_ref().map(|token| format!("&since={token}"));
        let since = since.unwrap_or_default();
        format!("/v1/users/{}/sync?{query}{since}", self.uid)
    }

    pub fn at(&self) -> SyncToken {
        self.token.as_ref().unwrap().parse().unwrap()
    }

    /// One page; the answer.
    pub async fn page(&mut self, service: &Service, limit: usize) -> Value {
        let answer = service.ok(&self.path(&format!("limit={limit}"))).await;
        self.take(&answer);
        answer
    }

    /// A page, unless a store is behind what the device knows; whether there is another.
    pub async fn try_page(&mut self, service: &Service, limit: usize) -> bool {
        let path = self.path(&format!("timeout_ms=50&limit={limit}"));
        let answer = service.get(&path).await;
        match answer.status {
            200 => self.take(&answer.body),
            504 => return false,
            _ => panic!("{}", answer.body),
        }
        self.is_under_way
    }

    /// All pages; their answers.
    pub async fn sync(&mut self, service: &Service, limit: usize) -> Vec<Value> {
        let mut answers = vec![self.page(service, limit).await];
        while self.is_under_way {
            answers.push(self.page(service, limit).await);
        }
        answers
    }

    fn take(&mut self, answer: &Value) {
        let is_full = answer["full"] == true;
        if is_full && !(self.is_under_way && self.is_full) {
            self.conversations.clear();
            self.groups.clear();
        }
        self.is_full = is_full;
        for row in rows(answer, "conversations") {
            let peer = row["peer"].as_str().unwrap().to_owned();
            self.conversations.insert(peer, row.clone());
        }
        for row in rows(answer, "groups") {
            let gid = row["gid"].as_str().unwrap().to_owned();
            self.groups.insert(gid, row.clone());
        }
        for gid in rows(answer, "left") {
            self.groups.remove(gid.as_str().unwrap());
        }
        self.is_under_way = answer["more"].as_bool().unwrap();
        self.token = Some(answer["next"].as_str().unwrap().to_owned());
    }
}

pub fn rows<'a>(answer: &'a Value, name: &str) -> &'a [Value] {
    answer[name].as_array().unwrap()
}

/// How many rows an answer has.
pub fn count(answer: &Value) -> usize {
    ["conversations", "groups", "left"]
        .iter()
        .map(|name| rows(answer, name).len())
        .sum()
}
