//! Frames as messages of an AsyncAPI document, made from the schemas of their types.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use utoipa::PartialSchema;

use super::SCHEMAS;

/// A frame of one type.
pub(super) struct Frame {
    /// The sender and the type.
    pub(super) id: String,
    kind: String,
    /// An object; several if the frame has one of several bodies.
    payloads: Vec<Value>,
}

impl Frame {
    /// Allows no members but these.
    pub(super) fn close(&mut self) {
        for payload in &mut self.payloads {
            payload["additionalProperties"] = false.into();
        }
    }

    pub(super) fn leave_out_null(&mut self) {
        self.payloads.iter_mut().for_each(leave_out_null);
    }

    pub(super) fn message(&self) -> Value {
        let payload = match self.payloads.as_slice() {
            [one] => one.clone(),
            several => json!({ "oneOf": several }),
        };
        let summary = &self.payloads[0]["description"];
        json!({"name": self.kind, "summary": summary, "payload": payload})
    }
}

/// The frames of an enum with a tag `type`.
pub(super) fn frames<T: PartialSchema>(from: &str, schemas: &Map<String, Value>) -> Vec<Frame> {
    let schema = serde_json::to_value(T::schema()).unwrap_or_default();
    let mut payloads: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for payload in objects(&schema, schemas) {
        let kind = payload["properties"]["type"]["enum"][0].as_str();
        let kind = kind.unwrap_or_default().to_owned();
        payloads.entry(kind).or_default().push(payload);
    }
    let frame = |(kind, payloads)| Frame {
        id: format!("{from}.{kind}"),
        kind,
        payloads,
    };
    payloads.into_iter().map(frame).collect()
}

/// Optional members of an object are left out if absent, and are never null.
pub(super) fn leave_out_null(object: &mut Value) {
    let required = object["required"].clone();
    let is_required = |name: &str| {
        required
            .as_array()
            .is_some_and(|all| all.contains(&name.into()))
    };
    let properties = object.get_mut("properties").and_then(Value::as_object_mut);
    for (name, value) in properties.into_iter().flatten() {
        if is_required(name) {
            continue;
        }
        let choice = value.get_mut("oneOf").and_then(Value::as_array_mut);
        if let Some(choice) = choice {
            choice.retain(|one| one["type"] != "null");
            if let [one] = choice.as_slice() {
                *value = one.clone();
            }
        } else if let Some(types) = value.get_mut("type").and_then(Value::as_array_mut) {
            types.retain(|one| one != "null");
            if let [one] = types.as_slice() {
                value["type"] = one.clone();
            }
        }
    }
}

/// The objects that a schema allows. The parts of `allOf` become one object: as they stand, each would refuse the members of the others.
fn objects(schema: &Value, schemas: &Map<String, Value>) -> Vec<Value> {
    if let Some(name) = schema["$ref"].as_str() {
        return objects(&schemas[name.trim_start_matches(SCHEMAS)], schemas);
    }
    if let Some(one_of) = schema["oneOf"].as_array() {
        return one_of
            .iter()
            .flat_map(|one| objects(one, schemas))
            .collect();
    }
    let Some(all_of) = schema["allOf"].as_array() else {
        return vec![schema.clone()];
    };
    let mut merged = vec![json!({"description": schema["description"]})];
    for part in all_of {
        let parts = objects(part, schemas);
        merged = merged
            .iter()
            .flat_map(|one| parts.iter().map(|part| merge(one, part)))
            .collect();
    }
    merged
}

fn merge(one: &Value, other: &Value) -> Value {
    let mut merged = one.clone();
    for (name, value) in other.as_object().into_iter().flatten() {
        match (&mut merged[name], value) {
            (Value::Object(all), Value::Object(more)) => all.extend(more.clone()),
            (Value::Array(all), Value::Array(more)) => all.extend(more.clone()),
            (known @ Value::Null, value) => *known = value.clone(),
            _ => {}
        }
    }
    merged
}
