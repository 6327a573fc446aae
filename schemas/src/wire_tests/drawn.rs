//! Messages with drawn values, a different one in every field: reading and writing keeps them.

use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage as _,
    Value,
};

use super::{coverage::gaps, descriptor, is_written, read_command, read_event};

const DRAWN: u64 = 1_000;

fn all(name: &str) -> Vec<DynamicMessage> {
    let draw = |seed| Draw { seed, last: 0 }.message(&descriptor(name));
    (0..DRAWN).map(draw).collect()
}

#[test]
fn a_command_is_written_as_it_was_read() {
    let drawn = all("InboundCommand");
    for wire in &drawn {
        is_written(&read_command(wire).encode(), wire);
    }
    assert_eq!(gaps(&descriptor("InboundCommand"), &drawn), [""; 0]);
}

#[test]
fn an_event_is_written_as_it_was_read() {
    let drawn = all("SequencedEvent");
    for wire in &drawn {
        is_written(&read_event(wire).encode(), wire);
    }
    assert_eq!(gaps(&descriptor("SequencedEvent"), &drawn), [""; 0]);
}

/// Draws a valid message. The same seed draws the same.
struct Draw {
    seed: u64,
    /// The number that was given to a field last.
    last: i64,
}

impl Draw {
    fn message(&mut self, descriptor: &MessageDescriptor) -> DynamicMessage {
        let mut message = DynamicMessage::new(descriptor.clone());
        for field in descriptor.fields() {
            if !is_in_oneof(&field) && (!is_optional(&field) || self.choose(3) > 0) {
                message.set_field(&field, self.value(&field));
            }
        }
        for oneof in descriptor.oneofs().filter(|oneof| !oneof.is_synthetic()) {
            let fields: Vec<FieldDescriptor> = oneof.fields().collect();
            let field = &fields[self.choose(fields.len())];
            message.set_field(field, self.value(field));
        }
        self.make_valid(&mut message);
        message
    }

    /// Of fields that exclude one another, one is kept; if one is required, one is set.
    fn make_valid(&mut self, message: &mut DynamicMessage) {
        let descriptor = message.descriptor();
        let has = |field| descriptor.get_field_by_name(field).is_some();
        let peer = ["peer", "destid"].into_iter().find(|field| has(field));
        if let Some(peer) = peer.filter(|_| has("gid")) {
            let is_group = self.choose(2) == 0;
            message.clear_field_by_name(if is_group { peer } else { "gid" });
            // A group has no ordinals.
            if is_group && has("n") {
                message.clear_field_by_name("n");
            }
        }
        let kind = message.get_field_by_name("kind").filter(|_| has("msg"));
        // An edit and a reaction.
        let has_text = [Value::EnumNumber(3), Value::EnumNumber(6)];
        if kind.is_some_and(|kind| !has_text.contains(&kind)) {
            message.clear_field_by_name("msg");
        }
        let one_of = match descriptor.name() {
            "ChangeContact" => &["deleted", "favourite", "pinned", "muted", "blocked"][..],
            "SetGroupOptions" => &["open", "whole_history"],
            _ => return,
        };
        if !one_of.iter().any(|field| message.has_field_by_name(field)) {
            message.set_field_by_name(one_of[0], Value::Bool(true));
        }
    }

    fn value(&mut self, field: &FieldDescriptor) -> Value {
        if field.is_list() {
            let values = 1 + self.choose(3);
            return Value::List((0..values).map(|_| self.one(field)).collect());
        }
        self.one(field)
    }

    fn one(&mut self, field: &FieldDescriptor) -> Value {
        let number = self.number();
        match (field.name(), field.kind()) {
            ("rule_version", _) => Value::U32(1 + (number % 5) as u32),
            ("avatar", _) => Value::String(format!("https://example.com/{number}")),
            ("extra", _) => Value::String(format!(r#"{{"number": {number}}}"#)),
            (_, Kind::Bytes) => Value::Bytes([number as u8; 16].to_vec().into()),
            (_, Kind::String) => Value::String(format!("text {number}")),
            (_, Kind::Int64) => Value::I64(number),
            (_, Kind::Int32) => Value::I32(number as i32),
            (_, Kind::Uint32 | Kind::Fixed32) => Value::U32(number as u32),
            (_, Kind::Fixed64) => Value::U64(number.cast_unsigned()),
            (_, Kind::Bool) => Value::Bool(self.choose(2) == 0),
            (_, Kind::Enum(of)) => Value::EnumNumber(self.value_of(&of)),
            (_, Kind::Message(of)) => Value::Message(self.message(&of)),
            (name, kind) => panic!("{name}: a value of {kind:?} is to be drawn"),
        }
    }

    /// Any value but 0.
    fn value_of(&mut self, of: &EnumDescriptor) -> i32 {
        let numbers = of.values().map(|value| value.number());
        let numbers: Vec<i32> = numbers.filter(|number| *number != 0).collect();
        numbers[self.choose(numbers.len())]
    }

    /// A different number for each field, half of them of many bytes.
    fn number(&mut self) -> i64 {
        self.last += 1;
        match self.choose(2) {
            0 => self.last,
            _ => i64::MAX - self.last,
        }
    }

    /// A number below `count`; splitmix64.
    fn choose(&mut self, count: usize) -> usize {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % count as u64) as usize
    }
}

/// Whether the field is one of several of which exactly one is present.
fn is_in_oneof(field: &FieldDescriptor) -> bool {
    let oneof = field.containing_oneof();
    oneof.is_some_and(|oneof| !oneof.is_synthetic())
}

/// Whether a valid message may lack the field.
fn is_optional(field: &FieldDescriptor) -> bool {
    field.supports_presence() && !["src", "settings"].contains(&field.name())
}
