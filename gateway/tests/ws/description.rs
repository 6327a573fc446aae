//! Frames against `/asyncapi.json`.

use std::{collections::HashMap, sync::LazyLock};

use jsonschema::Validator;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::gateway::Gateway;

/// By message: who sends it, and its type.
static MESSAGES: LazyLock<HashMap<String, Validator>> = LazyLock::new(|| {
    let mut description = gateway::asyncapi();
    close(&mut description["components"]);
    let messages = description["components"]["messages"].as_object().unwrap();
    let validator = |(id, message): (&String, &Value)| {
        let mut schema = message["payload"].clone();
        // References lead there.
        schema["components"] = description["components"].clone();
        let options = jsonschema::options().should_validate_formats(true);
        (id.clone(), options.build(&schema).unwrap())
    };
    messages.iter().map(validator).collect()
});

/// What is not described is not sent, whatever a device would pass over.
fn close(schema: &mut Value) {
    if schema["properties"].is_object() {
        schema["additionalProperties"] = false.into();
    }
    match schema {
        Value::Object(members) => members.values_mut().for_each(close),
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// Panics where a frame from the `device`, or the `gateway`, is not as it is described.
pub fn check(from: &str, frame: &Value) {
    let kind = frame["type"].as_str().unwrap_or_default();
    let id = format!("{from}.{kind}");
    let validator = MESSAGES.get(&id);
    let validator = validator.unwrap_or_else(|| panic!("{id} is not described: {frame}"));
    if let Err(error) = validator.validate(frame) {
        panic!("not as described: {error}: {frame}");
    }
}

#[test]
fn a_frame_with_a_member_too_many_or_too_few_is_not_as_described() {
    let good = r#"{"type":"event","at":"1:2","read_position":{"uid":"1","peer":"2","device":"pc","mid":3}}"#;
    check("gateway", &serde_json::from_str(good).unwrap());
    for (part, wrong) in [
        (r#""at""#, r#""x":1,"at""#),
        (r#""mid""#, r#""x":1,"mid""#),
        (r#","mid":3"#, ""),
        (r#""at":"1:2","#, ""),
        ("read_position", "message"),
        (r#""peer":"2""#, r#""peer":null"#),
        ("1:2", "1"),
        ("event", "dance"),
    ] {
        let frame = serde_json::from_str(&good.replace(part, wrong)).unwrap();
        let checked = std::panic::catch_unwind(|| check("gateway", &frame));
        assert!(checked.is_err(), "{frame}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_is_served() {
    let gateway = Gateway::start().await;
    let mut connection = TcpStream::connect(gateway.addr).await.unwrap();
    let request = b"GET /asyncapi.json HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    connection.write_all(request).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-type: application/json"), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body, gateway::asyncapi());
}
