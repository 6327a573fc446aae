use proptest::prelude::*;
use unicode_normalization::UnicodeNormalization as _;

use super::*;

fn filter(dictionary: &str) -> WordFilter {
    WordFilter::parse(dictionary).unwrap()
}

fn masked(filter: &WordFilter, text: &str) -> String {
    match filter.check(text) {
        Checked::Masked(masked) => masked,
        other => panic!("{text:?} is {other:?}"),
    }
}

#[test]
fn a_word_is_found_however_it_is_written() {
    let filter = filter("mask darn\nmask café\nmask straße\nmask 混蛋\nmask ﬁlter");
    for (text, expected) in [
        ("Oh DARN it", "Oh **** it"),
        ("ｄａｒｎ!", "****!"),
        ("d\u{200b}a\u{ad}r\u{2060}n.", "*******."),
        ("un cafe\u{301}", "un *****"),
        ("un CAFÉ", "un ****"),
        ("STRASSE 7", "******* 7"),
        ("你这混蛋啊", "你这**啊"),
        ("a FILTER", "a ******"),
        ("darn darn", "**** ****"),
        ("\u{1f30a}darn\u{1f30a}", "\u{1f30a}****\u{1f30a}"),
    ] {
        assert_eq!(masked(&filter, text), expected);
    }
}

#[test]
fn a_word_is_not_found_within_others() {
    let filter = filter("refuse ass\nrefuse cafe\nrefuse 가\nrefuse 1st");
    for text in [
        "class", "assume", "café", "cafés", "각", "11st", "assé", "a s s",
    ] {
        assert_eq!(filter.check(text), Checked::Clean, "{text}");
    }
    for text in ["ass", "(ass)", "ass,", "_ass_", "가나", "a 1st"] {
        assert_eq!(filter.check(text), Checked::Refused, "{text}");
    }
}

#[test]
fn the_strictest_word_counts() {
    let filter = filter("flag refund\nmask darn\nrefuse buy followers\n# mask it\n\nflag darn");
    assert_eq!(filter.words(), 3);
    assert_eq!(filter.check("a refund"), Checked::Flagged);
    assert_eq!(masked(&filter, "a refund, darn"), "a refund, ****");
    assert_eq!(filter.check("darn, Buy Followers"), Checked::Refused);
    assert_eq!(filter.check("buy  followers"), Checked::Refused);
}

#[test]
fn a_dictionary_that_is_wrong_is_refused_by_its_line() {
    for (text, line, problem) in [
        ("mask darn\ndarn", 2, "white space, and a word"),
        ("hide darn", 1, "must begin with"),
        ("# fine\n\nmask \u{200b}", 3, "no character"),
        (&format!("mask {}", "x".repeat(257)), 1, "257 bytes"),
    ] {
        let wrong = WordFilter::parse(text).unwrap_err();
        assert_eq!(wrong.line, line, "{wrong}");
        assert!(wrong.problem.contains(problem), "{wrong}");
        assert!(!wrong.problem.contains("darn"), "{wrong}");
    }
}

#[test]
fn white_space_of_any_length_is_one_space() {
    let filter = filter("mask buy   followers");
    for text in [
        "buy followers",
        "BUY \n\tfollowers",
        "buy\u{3000}followers",
        "buy \u{200b} followers",
    ] {
        let hidden = "*".repeat(text.chars().count());
        assert_eq!(masked(&filter, text), hidden, "{text:?}");
    }
    assert_eq!(filter.check("buyfollowers"), Checked::Clean);
}

#[test]
fn a_file_without_a_word_is_no_dictionary() {
    for text in ["", "\n \n", "# mask darn"] {
        assert_eq!(WordFilter::parse(text).unwrap_err().line, 1, "{text:?}");
    }
}

#[test]
fn dictionaries_that_mean_the_same_have_the_same_version() {
    let version = |text| filter(text).version();
    assert_eq!(
        version("mask a\nflag b"),
        version("flag B\n\nmask Ａ # a"[..].split(" #").next().unwrap())
    );
    assert_ne!(version("mask a\nflag b"), version("mask a\nmask b"));
}

#[test]
fn a_hundred_thousand_words_are_searched_at_once() {
    let words = (0..100_000).map(|n| format!("mask w{n}x\n"));
    let filter = filter(&words.collect::<String>());
    assert_eq!(filter.words(), 100_000);
    assert_eq!(
        masked(&filter, "see w99999x and w100000x"),
        "see ******* and w100000x"
    );
    let bytes = filter.automaton.memory_usage() + size_of_val(filter.words.as_slice());
    // Measured: 8 MB.
    assert!(bytes < 40_000_000, "{bytes}");
}

/// Texts with everything that makes normalising hard.
fn any_text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[a-cA-C \n]{1,4}",
        1 => Just("e\u{301}\u{327}".to_owned()),
        1 => Just("\u{200b}".to_owned()),
        1 => Just("\u{1100}\u{1161}\u{11a8}".to_owned()),
        1 => Just("가".to_owned()),
        1 => Just("ﬁİßς\u{345}".to_owned()),
        1 => Just("混蛋".to_owned()),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    /// Cutting into segments changes nothing.
    #[test]
    fn the_normal_form_is_that_of_the_whole(text in any_text()) {
        let normal = normalise(&text);
        let normal = normal.as_str(&text);
        let with_origins = Normalised::with_origins(&text);
        prop_assert_eq!(with_origins.text(), normal);
        let again = normalise(normal);
        prop_assert_eq!(again.as_str(normal), normal);
        let composed: String = text.nfc().collect();
        let of_composed = normalise(&composed);
        prop_assert_eq!(of_composed.as_str(&composed), normal);
    }

    /// A masked text has as many characters as before, has none of the words, and is unchanged outside of the asterisks.
    #[test]
    fn masking_hides_the_words_and_nothing_else(text in any_text(), word in "[a-c]{1,2}") {
        let filter = filter(&format!("mask {word}\nmask 混蛋"));
        if let Checked::Masked(masked) = filter.check(&text) {
            prop_assert_eq!(filter.check(&masked), Checked::Clean);
            prop_assert_eq!(masked.chars().count(), text.chars().count());
            for (now, before) in masked.chars().zip(text.chars()) {
                prop_assert!(now == before || now == '*');
            }
        }
    }
}
