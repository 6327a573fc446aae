//! Whatever `/openapi.json` describes, called with values that fit the description and with values that do not: the answer is one of those
//! that it describes.

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::{Map, Value, json};
use system_tests::{Servers, Settings, TestEnv, run};

const SEED: u64 = 0x7157_0a11;
const CALLS_OF_EACH: usize = 250;
const AT_A_TIME: usize = 8;

#[test]
fn every_answer_is_one_that_the_description_has() {
    // Its own: the examples of the descriptions are users of other tests.
    run(Servers::Own(Settings::USUAL), async |env| {
        for base in [env.client.ingest_url(), env.client.query_url()] {
            let document = env
                .client
                .send_to("GET", &format!("{base}/openapi.json"), None)
                .await?;
            let document: Value = serde_json::from_str(&document.text)?;
            let calls = calls(&document, &base)?;
            ensure!(calls.len() > 4 * CALLS_OF_EACH, "{base} describes little");
            let count = calls.len();
            let answered = stream::iter(calls).map(|call| answer_fits(env, call));
            let statuses: Vec<u16> = answered.buffer_unordered(AT_A_TIME).try_collect().await?;
            // Values that are all refused would show little.
            let good = statuses.iter().filter(|status| **status < 300).count();
            ensure!(
                good > count / 5 && good < count,
                "{good} of {count} calls of {base} were good"
            );
        }
        Ok(())
    });
}

/// One request, and the answers that are described.
struct Call {
    method: String,
    url: String,
    body: Option<(String, Vec<u8>)>,
    answers: Map<String, Value>,
}

async fn answer_fits(env: &TestEnv, call: Call) -> Result<u16> {
    let Call {
        method,
        url,
        body,
        answers,
    } = call;
    let shown: String = format!(
        "{method} {url} {:?}",
        body.as_ref()
            .map(|(kind, body)| (kind, String::from_utf8_lossy(body)))
    )
    .chars()
    .take(600)
    .collect();
    let answer = env
        .client
        .send_to(&method, &url, body)
        .await
        .with_context(|| format!("{shown} is not answered"))?;
    let described = answers.get(&answer.status.to_string());
    let described = described.with_context(|| {
        format!(
            "{shown}: {} is not described: {}",
            answer.status, answer.text
        )
    })?;
    let content = described["content"].as_object();
    let media_type = answer.content_type.split(';').next().unwrap_or_default();
    let is_described = content.is_none_or(|content| content.contains_key(media_type));
    ensure!(
        is_described,
        "{shown}: {} as {media_type} is not described",
        answer.status
    );
    if answer.status >= 400 && media_type == "application/problem+json" {
        let problem: Value = serde_json::from_str(&answer.text)?;
        ensure!(problem["status"] == answer.status, "{shown}: {problem}");
        ensure!(
            problem["title"].is_string() && problem["detail"].is_string(),
            "{shown}: {problem}"
        );
    }
    ensure!(
        answer.status < 500 || matches!(answer.status, 503 | 504),
        "{shown}: {}",
        answer.text
    );
    Ok(answer.status)
}

fn calls(document: &Value, base: &str) -> Result<Vec<Call>> {
    let mut values = Values {
        document,
        rng: StdRng::seed_from_u64(SEED),
    };
    let mut calls = Vec::new();
    for (path, operations) in document["paths"].as_object().context("no paths")? {
        for (method, operation) in operations.as_object().context("no operations")? {
            for _ in 0..CALLS_OF_EACH {
                calls.push(values.call(base, path, method, operation)?);
            }
        }
    }
    Ok(calls)
}

/// Draws values for schemas.
struct Values<'a> {
    document: &'a Value,
    rng: StdRng,
}

impl Values<'_> {
    fn call(&mut self, base: &str, path: &str, method: &str, operation: &Value) -> Result<Call> {
        let mut path = path.to_owned();
        let mut query = Vec::new();
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"]
                .as_str()
                .context("a parameter without a name")?;
            let required = parameter["required"] == true;
            let value = self.parameter(&parameter["schema"]);
            if parameter["in"] == "path" {
                path = path.replace(&format!("{{{name}}}"), &value);
            } else if required && !self.rng.random_bool(0.1) || self.rng.random_bool(0.4) {
                query.push(format!("{name}={value}"));
            }
        }
        // Nothing waits long for what never comes.
        if operation.to_string().contains("timeout_ms") && self.rng.random_bool(0.8) {
            query.retain(|pair| !pair.starts_with("timeout_ms="));
            query.push("timeout_ms=50".to_owned());
        }
        let joint = if query.is_empty() { "" } else { "?" };
        Ok(Call {
            method: method.to_ascii_uppercase(),
            url: format!("{base}{path}{joint}{}", query.join("&")),
            body: self.body(&operation["requestBody"]["content"]),
            answers: operation["responses"]
                .as_object()
                .context("no responses")?
                .clone(),
        })
    }

    /// As text, percent-encoded, never empty: that would be another path.
    fn parameter(&mut self, schema: &Value) -> String {
        let value = if self.rng.random_bool(0.7) {
            self.fitting(schema, 0)
        } else {
            self.any_value()
        };
        let text = match value {
            Value::String(text) => text,
            Value::Array(items) => items
                .first()
                .map(ToString::to_string)
                .unwrap_or_default()
                .replace('"', ""),
            other => other.to_string(),
        };
        let text = if text.is_empty() || text.bytes().all(|byte| byte == b'.') {
            "x".to_owned()
        } else {
            text
        };
        text.chars()
            .take(300)
            .collect::<String>()
            .bytes()
            .map(|byte| format!("%{byte:02X}"))
            .collect()
    }

    fn body(&mut self, content: &Value) -> Option<(String, Vec<u8>)> {
        let kinds: Vec<(&String, &Value)> = content.as_object()?.iter().collect();
        let (kind, described) = *kinds.choose(&mut self.rng)?;
        let schema = &described["schema"];
        let mut body = match kind.as_str() {
            "application/x-protobuf" => (0..self.rng.random_range(0..40))
                .map(|_| self.rng.random())
                .collect(),
            "application/x-ndjson" => (0..self.rng.random_range(0..5))
                .map(|_| self.json(schema) + "\n")
                .collect::<String>()
                .into_bytes(),
            _ => self.json(schema).into_bytes(),
        };
        if self.rng.random_bool(0.1) && !body.is_empty() {
            let at = self.rng.random_range(0..body.len());
            body[at] = self.rng.random();
        }
        let strange = [
            "text/plain",
            "application/json; charset=latin1",
            "x",
            "application/json/json",
        ];
        let kind = if self.rng.random_bool(0.1) {
            (*strange.choose(&mut self.rng)?).to_owned()
        } else {
            kind.clone()
        };
        Some((kind, body))
    }

    /// A text that fits the schema, or one that does not in one member, or anything.
    fn json(&mut self, schema: &Value) -> String {
        let mut value = self.fitting(schema, 0);
        match self.rng.random_range(0..10) {
            0 => value = self.any_value(),
            1..=4 => self.spoil(&mut value),
            _ => {}
        }
        value.to_string()
    }

    /// Changes, drops or adds one member.
    fn spoil(&mut self, value: &mut Value) {
        let Some(members) = value.as_object_mut() else {
            *value = self.any_value();
            return;
        };
        let names: Vec<String> = members.keys().cloned().collect();
        let Some(name) = names.choose(&mut self.rng) else {
            return;
        };
        match self.rng.random_range(0..5) {
            0 => drop(members.remove(name)),
            1 => drop(members.insert("not described".to_owned(), Value::Null)),
            2 if members[name].is_object() => self.spoil(&mut members[name]),
            _ => members[name] = self.any_value(),
        }
    }

    fn any_value(&mut self) -> Value {
        let values = [
            json!(null),
            json!(true),
            json!(0),
            json!(-1),
            json!(1.5),
            json!(1e300),
            json!(u64::MAX),
            json!(i64::MIN),
            json!([]),
            json!({}),
            json!([[[[]]]]),
            json!({ "a": { "a": 1 } }),
            json!(""),
            json!("0"),
            json!("-1"),
            json!("+1"),
            json!("01"),
            json!(" 1"),
            json!("1\0"),
            json!("' OR 1=1 --"),
            json!("a\r\nb"),
            json!("\u{feff}1"),
            json!("9223372036854775808"),
            json!("😀"),
            json!("%"),
            json!("x".repeat(300)),
            json!("17:42"),
            json!("17:-1"),
            json!("64:0"),
            json!("latest"),
            json!("x".repeat(70_000)),
        ];
        values.choose(&mut self.rng).cloned().unwrap_or_default()
    }

    fn fitting(&mut self, schema: &Value, depth: u8) -> Value {
        if let Some(reference) = schema["$ref"].as_str() {
            let target = self.document.pointer(reference.trim_start_matches('#'));
            return target
                .cloned()
                .map_or(Value::Null, |target| self.fitting(&target, depth));
        }
        for choice in ["oneOf", "anyOf", "enum"] {
            let Some(choices) = schema[choice].as_array() else {
                continue;
            };
            let Some(chosen) = choices.choose(&mut self.rng).cloned() else {
                continue;
            };
            return if choice == "enum" {
                chosen
            } else {
                self.fitting(&chosen, depth)
            };
        }
        if schema["example"].is_string() && self.rng.random_bool(0.5) {
            return schema["example"].clone();
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds.choose(&mut self.rng).cloned().unwrap_or_default(),
            kind => kind.clone(),
        };
        match kind.as_str() {
            Some("object") => self.object(schema, depth),
            Some("array") => (0..self.rng.random_range(0..3))
                .map(|_| self.fitting(&schema["items"], depth + 1))
                .collect(),
            Some("integer" | "number") => self.number(schema),
            Some("boolean") => self.rng.random_bool(0.5).into(),
            Some("string") => self.text(schema),
            _ => Value::Null,
        }
    }

    fn object(&mut self, schema: &Value, depth: u8) -> Value {
        let required: Vec<&str> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut members = Map::new();
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            if required.contains(&name.as_str()) || depth < 4 && self.rng.random_bool(0.6) {
                members.insert(name.clone(), self.fitting(member, depth + 1));
            }
        }
        members.into()
    }

    fn number(&mut self, schema: &Value) -> Value {
        let low = schema["minimum"].as_i64().unwrap_or(0);
        let high = schema["maximum"].as_i64().unwrap_or(i64::MAX);
        let near = [
            low,
            low.saturating_add(1),
            low.saturating_add(self.rng.random_range(0..100)),
            high,
        ];
        (*near.choose(&mut self.rng).unwrap_or(&low))
            .min(high)
            .into()
    }

    fn text(&mut self, schema: &Value) -> Value {
        let longest = schema["maxLength"].as_u64().unwrap_or(40);
        let shortest = schema["minLength"].as_u64().unwrap_or(0);
        let texts = [
            "1000",
            "1001",
            "a",
            "pc",
            "17:42",
            "hello",
            "中文 😀",
            "\"quoted\" \\ '",
            "é\u{301}",
        ];
        let text = *texts.choose(&mut self.rng).unwrap_or(&"a");
        if let Some(pattern) = schema["pattern"].as_str() {
            return self.matching(pattern);
        }
        if self.rng.random_bool(0.1) {
            return "y".repeat(longest.min(200) as usize).into();
        }
        if (text.len() as u64) < shortest {
            "z".repeat(shortest as usize).into()
        } else {
            text.into()
        }
    }

    /// The descriptions have two patterns: alternatives, and whole numbers.
    fn matching(&mut self, pattern: &str) -> Value {
        let inner = pattern.trim_start_matches("^(").trim_end_matches(")$");
        let alternatives: Vec<&str> = inner.split('|').collect();
        match alternatives.as_slice() {
            [_] => self.rng.random_range(1..=i64::MAX).to_string().into(),
            several => several
                .choose(&mut self.rng)
                .copied()
                .unwrap_or_default()
                .into(),
        }
    }
}
