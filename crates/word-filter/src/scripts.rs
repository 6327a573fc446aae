//! Scripts whose letters form words between spaces.

/// Whether a character is a letter or digit of a script with spaces between words: in such a script a word ends if the next character is not one.
pub(crate) fn is_letter_between_spaces(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric();
    }
    c.is_alphanumeric() && !is_written_without_spaces(c)
}

/// Chinese and Japanese, Thai, Lao, Khmer, Myanmar, Tibetan, Yi; and Korean, in whose words particles are at the end.
fn is_written_without_spaces(c: char) -> bool {
    matches!(u32::from(c),
        0x0e00..=0x0eff | 0x0f00..=0x0fff | 0x1000..=0x109f | 0x1100..=0x11ff | 0x1780..=0x17ff
        | 0x19e0..=0x19ff | 0x2e80..=0x31ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xa000..=0xa4cf
        | 0xa960..=0xa97f | 0xa9e0..=0xa9ff | 0xaa60..=0xaa7f | 0xac00..=0xd7ff | 0xf900..=0xfaff
        | 0xff66..=0xffdc | 0x1b000..=0x1b2ff | 0x20000..=0x3ffff)
}
