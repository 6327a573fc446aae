use std::collections::BTreeSet;

use problem::ProblemKind;
use schemas::dead_letter::Reason;

use super::*;

#[test]
fn every_reference_leads_somewhere() {
    let description = asyncapi();
    let text = description.to_string();
    let references: Vec<&str> = text.split("\"$ref\":\"#").skip(1).collect();
    assert!(references.len() > 50);
    for reference in references {
        let pointer = reference.split('"').next().unwrap();
        assert!(description.pointer(pointer).is_some(), "{pointer}");
    }
}

/// In a row of the first column of a table there are one or several frames.
fn types_in_readme(section: &str) -> BTreeSet<String> {
    let readme = include_str!("../../README.md");
    let table = readme.split_once(section).unwrap().1;
    let rows = table.lines().skip(1).take_while(|row| !row.is_empty());
    let cells = rows.filter_map(|row| row.split(" | ").next());
    let frames = cells.flat_map(|cell| cell.split(r#"{"type":""#).skip(1));
    let kinds = frames.filter_map(|rest| rest.split('"').next());
    kinds.map(str::to_owned).collect()
}

#[test]
fn the_frames_described_are_those_of_the_readme() {
    let description = asyncapi();
    let messages = description["components"]["messages"].as_object().unwrap();
    for (from, section) in [
        ("device.", "| from the device |"),
        ("gateway.", "| to the device |"),
    ] {
        let described = messages.keys().filter_map(|id| id.strip_prefix(from));
        let described: BTreeSet<String> = described.map(str::to_owned).collect();
        assert_eq!(described, types_in_readme(section));
    }
}

#[test]
fn null_is_described_only_where_it_means_something() {
    let description = asyncapi();
    let device = &description["components"]["messages"];
    let hello = &device["device.hello"]["payload"]["properties"]["since"]["type"];
    assert_eq!(hello, &json!(["string", "null"]));
    let member = &description["components"]["schemas"]["MemberBody"];
    assert_eq!(
        member["properties"]["role"]["type"],
        json!(["string", "null"])
    );
    let ping = &description["components"]["messages"]["gateway.ping"]["payload"];
    assert_eq!(ping["properties"]["token"]["type"], "string");
}

/// What devices do at each code is in a table with which both of our devices are tested.
#[test]
fn every_close_code_says_whether_the_device_comes_back() {
    let operations = include_str!("../../../docs/OPERATIONS.md");
    let table = operations
        .split_once("| code | why | the device |")
        .unwrap()
        .1;
    let rows = table.lines().skip(2).take_while(|row| !row.is_empty());
    let cells = rows.filter_map(|row| row.trim_start_matches("| ").split(" | ").next());
    let documented: BTreeSet<&str> = cells.flat_map(|cell| cell.split(", ")).collect();
    let codes: BTreeSet<String> = CloseCode::ALL
        .iter()
        .map(|code| (*code as u16).to_string())
        .collect();
    assert_eq!(
        codes.iter().map(String::as_str).collect::<BTreeSet<_>>(),
        documented
    );
    let devices = include_str!("../../../tests/device-vectors/connection.json");
    let devices: Value = serde_json::from_str(devices).unwrap();
    for code in CloseCode::ALL {
        let number = (*code as u16).to_string();
        let expected = match code.comes_back() {
            true => "reconnect",
            false => "end",
        };
        assert_eq!(devices["closes"][&number], expected, "{number}");
    }
}

#[test]
fn the_reasons_of_a_refusal_are_those_of_the_log_and_of_calls() {
    let description = asyncapi();
    let refused = &description["components"]["messages"]["gateway.refused"]["payload"];
    let text = refused["properties"]["reason"]["description"].as_str();
    let named: BTreeSet<&str> = text.unwrap().split('`').skip(1).step_by(2).collect();
    for name in [
        "blocked",
        "not-a-member",
        "too-many-under-way",
        "unknown-outcome",
    ] {
        assert!(named.contains(name), "{name}");
    }
    let members = ["client_msg_id", "retry", "too-many-under-way"];
    let of_calls = ProblemKind::ALL.map(ProblemKind::name);
    for name in named {
        let is_known = members.contains(&name) || of_calls.contains(&name);
        assert!(is_known || name.parse::<Reason>().is_ok(), "{name}");
    }
}

#[test]
fn what_a_schema_cannot_say_is_described() {
    let messages = &asyncapi()["components"]["messages"];
    for (pointer, part) in [
        ("device.send/payload/properties/msg", "16,384 bytes"),
        ("device.send/payload/properties/client_msg_id", "64 bytes"),
        ("device.send/payload", "One of `to` and `gid`"),
        ("device.read/payload", "One of `peer` and `gid`"),
        ("device.typing/payload", "One of `to` and `gid`"),
        ("device.focus/payload", "At most one of `peer` and `gid`"),
    ] {
        let described = messages.pointer(&format!("/{pointer}/description"));
        let described = described.and_then(Value::as_str).unwrap_or_default();
        assert!(described.contains(part), "{pointer}: {described}");
    }
}
