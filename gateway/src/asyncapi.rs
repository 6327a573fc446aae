//! What `/asyncapi.json` says: AsyncAPI 3.0 of `/v1/connect`.

mod frame;

use api::{ClientFrame, ServerFrame};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use self::frame::{Frame, frames, leave_out_null};
use crate::socket::{CloseCode, SUBPROTOCOL};

/// The path of the schemas, in an AsyncAPI document as in an OpenAPI one.
const SCHEMAS: &str = "#/components/schemas/";

const DESCRIPTION: &str = "One WebSocket for each device. Its first frame is `hello`; a ping is answered with `pong`. \
    Members and types that a device does not know are of a later version, and are passed over. \
    An upgrade is refused as calls of HTTP are, with a problem (RFC 9457): 400, 401, 403, 426, 429, and 503 where this gateway takes no connections. \
    A wrong member of a frame with a `ref` is answered with `refused` and `invalid-field`, where the `ref` can be read; what else is no frame with `error`, the eleventh of which in a minute ends the connection, and the first where it answers the first frame. `x-close-codes` has the codes with which the gateway closes.";

/// The description of the gateway's WebSocket. Schemas of frames come from the frames' types.
#[must_use]
pub fn asyncapi() -> Value {
    let mut schemas = named_schemas();
    let mut from_device = frames::<ClientFrame>("device", &schemas);
    let mut to_device = frames::<ServerFrame<'_>>("gateway", &schemas);
    from_device.iter_mut().for_each(Frame::close);
    to_device.iter_mut().for_each(Frame::leave_out_null);
    schemas.values_mut().for_each(leave_out_null);
    let messages = from_device.iter().chain(&to_device);
    let messages: Map<String, Value> = messages
        .map(|frame| (frame.id.clone(), frame.message()))
        .collect();
    drop_unused(&mut schemas, &messages);
    let ids = messages.keys().map(|id| (id.clone(), reference(id)));
    json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "Tidemark gateway",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
        },
        "defaultContentType": "application/json",
        "channels": {"connect": {
            "address": "/v1/connect",
            "title": "A device's connection",
            "messages": ids.collect::<Map<_, _>>(),
            "bindings": {"ws": upgrade()},
        }},
        "operations": {
            "receive": operation("receive", "What a device sends", &from_device),
            "send": operation("send", "What a device gets", &to_device),
        },
        "components": {
            "messages": messages,
            "schemas": schemas,
            "securitySchemes": {"bearer": {
                "type": "http",
                "scheme": "bearer",
                "bearerFormat": "JWT",
                "description": "As for calls of HTTP. A browser offers it as a second subprotocol, `bearer.<token>` or `bearer.base64url.<base64url of the token>`, and no other credential beside it.",
            }},
        },
        "x-close-codes": CloseCode::ALL.iter().map(close_code).collect::<Vec<_>>(),
    })
}

fn reference(id: &str) -> Value {
    json!({ "$ref": format!("#/components/messages/{id}") })
}

fn operation(action: &str, title: &str, frames: &[Frame]) -> Value {
    let messages = frames.iter().map(|frame| {
        let id = &frame.id;
        json!({ "$ref": format!("#/channels/connect/messages/{id}") })
    });
    json!({
        "action": action,
        "title": title,
        "channel": {"$ref": "#/channels/connect"},
        "messages": messages.collect::<Vec<_>>(),
        "security": [{"$ref": "#/components/securitySchemes/bearer"}],
    })
}

/// The request that is upgraded.
fn upgrade() -> Value {
    let uid = "Whose device it is, where the caller is no user.";
    json!({
        "method": "GET",
        "query": {"type": "object", "properties": {
            "uid": {"type": "string", "pattern": "^[1-9][0-9]{0,18}$", "description": uid},
        }},
        "headers": {"type": "object", "properties": {
            "Sec-WebSocket-Protocol": {"type": "string", "enum": [SUBPROTOCOL]},
        }},
        "bindingVersion": "0.1.0",
    })
}

fn close_code(code: &CloseCode) -> Value {
    json!({"code": *code as u16, "reason": code.reason(), "comes_back": code.comes_back()})
}

fn named_schemas() -> Map<String, Value> {
    let mut schemas = Vec::new();
    ClientFrame::schemas(&mut schemas);
    ServerFrame::schemas(&mut schemas);
    let json = |(name, schema)| (name, serde_json::to_value(schema).unwrap_or_default());
    schemas.into_iter().map(json).collect()
}

/// Drops the schemas that no message refers to: those of frame parts, which the messages contain themselves.
fn drop_unused(schemas: &mut Map<String, Value>, messages: &Map<String, Value>) {
    loop {
        let (text, count) = (json!([schemas, messages]).to_string(), schemas.len());
        schemas.retain(|name, _| text.contains(&format!("\"{SCHEMAS}{name}\"")));
        if schemas.len() == count {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
