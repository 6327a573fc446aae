//! What the vectors of devices take for answers of the API (`tests/device-vectors`) is described in `/openapi.json`.

use std::collections::{HashMap, HashSet};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::{deployment::Deployment, service::Service};

/// By kind of step: what a call answers with that is well.
const SCHEMAS: [(&str, &str); 3] = [
    ("sync", "SyncAnswer"),
    ("messages", "MessagesPage"),
    ("changes", "ChangesPage"),
];

/// What is not described is not answered. A schema that is a part of others is left open: it would refuse their members.
fn close(schemas: &mut Value) {
    let schemas = schemas.as_object_mut().unwrap();
    let all_of = schemas
        .values()
        .filter_map(|schema| schema["allOf"].as_array());
    let references = all_of.flatten().filter_map(|part| part["$ref"].as_str());
    let parts: HashSet<String> = references.map(str::to_owned).collect();
    for (name, schema) in schemas {
        if !parts.contains(&reference(name)) {
            schema["unevaluatedProperties"] = false.into();
        }
    }
}

fn reference(name: &str) -> String {
    format!("#/components/schemas/{name}")
}

fn validator(components: &Value, name: &str) -> Validator {
    let schema = json!({"$ref": reference(name), "components": components});
    let options = jsonschema::options().should_validate_formats(true);
    options.build(&schema).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_in_a_vector_is_as_described() {
    let service = Service::start(&Deployment::shared().await.config).await;
    let mut components = service.ok("/openapi.json").await["components"].take();
    close(&mut components["schemas"]);
    let validators = SCHEMAS.map(|(kind, name)| (kind, validator(&components, name)));
    let devices = include_str!("../../../tests/device-vectors/simulated.json");
    let devices: Vec<Value> = serde_json::from_str(devices).unwrap();
    let mut checked: HashMap<&str, usize> = HashMap::new();
    for (at, device) in devices.iter().enumerate() {
        for step in device["steps"].as_array().into_iter().flatten() {
            for (kind, validator) in &validators {
                let Some(answer) = step.get(kind) else {
                    continue;
                };
                let wrong = validator.iter_errors(answer).next();
                assert!(
                    wrong.is_none(),
                    "device {at}, {kind}: {wrong:?} in {answer}"
                );
                *checked.entry(kind).or_default() += 1;
            }
        }
    }
    let kinds = SCHEMAS.map(|(kind, _)| checked.get(kind).copied());
    assert!(kinds.iter().all(|count| *count >= Some(100)), "{checked:?}");
}
