//! Whether the examples would reveal a field that is read from another field's place.

use std::collections::{BTreeMap, BTreeSet};

use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage as _,
    Value,
};

/// Every message in the examples, by the name of its type.
#[derive(Default)]
struct Seen {
    messages: BTreeMap<String, Vec<DynamicMessage>>,
    numbers: BTreeMap<String, BTreeSet<i32>>,
}

/// The fields and enum values that no example has, and pairs of fields of the same kind that no example tells apart.
pub(super) fn gaps(root: &MessageDescriptor, examples: &[DynamicMessage]) -> Vec<String> {
    let mut seen = Seen::default();
    for example in examples {
        seen.add(example);
    }
    let mut gaps = Vec::new();
    let mut left = vec![root.clone()];
    let mut done = BTreeSet::new();
    while let Some(descriptor) = left.pop() {
        if done.insert(descriptor.full_name().to_owned()) {
            gaps.extend(seen.gaps_in(&descriptor));
            left.extend(nested(&descriptor));
        }
    }
    gaps
}

fn nested(descriptor: &MessageDescriptor) -> impl Iterator<Item = MessageDescriptor> {
    descriptor.fields().filter_map(|field| match field.kind() {
        Kind::Message(message) => Some(message),
        _ => None,
    })
}

impl Seen {
    fn add(&mut self, message: &DynamicMessage) {
        let name = message.descriptor().full_name().to_owned();
        self.messages.entry(name).or_default().push(message.clone());
        for (field, value) in message.fields() {
            match value {
                Value::List(values) => values.iter().for_each(|value| self.look_at(&field, value)),
                value => self.look_at(&field, value),
            }
        }
    }

    fn look_at(&mut self, field: &FieldDescriptor, value: &Value) {
        match (field.kind(), value) {
            (_, Value::Message(message)) => self.add(message),
            (Kind::Enum(of), Value::EnumNumber(number)) => {
                let numbers = self.numbers.entry(of.full_name().to_owned());
                numbers.or_default().insert(*number);
            }
            _ => {}
        }
    }

    fn gaps_in(&self, descriptor: &MessageDescriptor) -> Vec<String> {
        let none = Vec::new();
        let messages = self.messages.get(descriptor.full_name()).unwrap_or(&none);
        let fields: Vec<FieldDescriptor> = descriptor.fields().collect();
        let is_unset = |field: &&FieldDescriptor| !messages.iter().any(|one| one.has_field(field));
        let unset = fields.iter().filter(is_unset);
        let unset = unset.map(|field| format!("{} is never set", field.full_name()));
        let pairs = fields.iter().enumerate();
        let pairs = pairs.flat_map(|(at, one)| fields[at + 1..].iter().map(move |two| (one, two)));
        let are_alike = |one: &FieldDescriptor, two: &FieldDescriptor| {
            let differ = |m: &DynamicMessage| value_in(m, one) != value_in(m, two);
            one.kind() == two.kind() && !messages.iter().any(differ)
        };
        let alike = pairs.filter(|(one, two)| are_alike(one, two));
        let alike = alike.map(|(one, two)| format!("{} is as {}", one.full_name(), two.name()));
        let unused = fields.iter().filter_map(|field| match field.kind() {
            Kind::Enum(of) => self.unused(&of),
            _ => None,
        });
        unset.chain(alike).chain(unused).collect()
    }

    /// The first value other than 0 that no example has.
    fn unused(&self, of: &EnumDescriptor) -> Option<String> {
        let used = self.numbers.get(of.full_name());
        let is_used = |number: i32| used.is_some_and(|used| used.contains(&number));
        of.values()
            .find(|value| value.number() != 0 && !is_used(value.number()))
            .map(|value| format!("{} is never used", value.full_name()))
    }
}

/// `None` if the field is absent, which for some fields differs from the default.
fn value_in(message: &DynamicMessage, field: &FieldDescriptor) -> Option<Value> {
    let is_there = message.has_field(field) || !field.supports_presence();
    is_there.then(|| message.get_field(field).into_owned())
}

#[test]
fn a_field_that_no_example_tells_from_another_is_named() {
    use serde_json::json;

    let gaps_of = |examples: &[serde_json::Value]| {
        let example = |fields| super::message("ReadAck", fields);
        let examples: Vec<DynamicMessage> = examples.iter().map(example).collect();
        gaps(&super::descriptor("ReadAck"), &examples)
    };
    let on_pc = json!({"uid": 1, "peer": 1, "device": "DEVICE_CLASS_PC", "mid": 3});
    let expected = [
        "chat.v1.ReadAck.gid is never set",
        "chat.v1.ReadAck.uid is as peer",
        "chat.v1.DEVICE_CLASS_MOBILE is never used",
    ];
    assert_eq!(gaps_of(std::slice::from_ref(&on_pc)), expected);
    let in_group = json!({"uid": 1, "gid": 2, "device": "DEVICE_CLASS_MOBILE"});
    assert_eq!(gaps_of(&[on_pc, in_group]), [""; 0]);
}
