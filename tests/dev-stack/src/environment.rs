//! The environment that the processes of the stack inherit: everything but the user's locale. Kafka writes the numbers in the names of its files in
//! the digits of the locale, and ignores files that are named in other digits.

use std::env;
use std::ffi::OsStr;
use std::process::Command;

/// A locale that every system has, and in which names of files are UTF-8.
const LOCALE: &str = "C.UTF-8";

/// Options in these reach every virtual machine of Java; those of the last one count more than its command line.
const JAVA_OPTIONS: [&str; 3] = ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"];

/// The options that change a locale, or the encoding of names.
const LOCALE_PROPERTIES: [&str; 8] = [
    "user.language",
    "user.country",
    "user.region",
    "user.script",
    "user.variant",
    "user.extensions",
    "file.encoding",
    "sun.jnu.encoding",
];

/// Gives a command the fixed locale in place of the user's.
pub(crate) fn fix_locale(command: &mut Command) {
    for (name, value) in env::vars_os() {
        if is_of_locale(&name, &value) {
            command.env_remove(name);
        }
    }
    command.env("LC_ALL", LOCALE);
}

fn is_of_locale(name: &OsStr, value: &OsStr) -> bool {
    let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
    if JAVA_OPTIONS.contains(&&*name) {
        return LOCALE_PROPERTIES
            .iter()
            .any(|property| value.contains(property));
    }
    name == "LANG" || name == "LANGUAGE" || name.starts_with("LC_")
}

/// The fixed locale, as options of Java.
pub(crate) const JAVA_LOCALE: [&str; 2] = ["-Duser.language=en", "-Duser.country=US"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_the_locale_is_not_inherited() {
        let is_of_locale = |name: &str, value: &str| is_of_locale(name.as_ref(), value.as_ref());
        for (name, value) in [
            ("LANG", "tr_TR.UTF-8"),
            ("LANGUAGE", "ar:en"),
            ("LC_NUMERIC", "ar_EG.UTF-8"),
            ("JAVA_TOOL_OPTIONS", "-Xss1m -Duser.language.format=ar"),
            ("_JAVA_OPTIONS", "-Dfile.encoding=ISO-8859-1"),
        ] {
            assert!(is_of_locale(name, value), "{name}");
        }
        for (name, value) in [
            ("PATH", "/usr/bin"),
            ("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1"),
            ("LCD", "ar_EG"),
        ] {
            assert!(!is_of_locale(name, value), "{name}");
        }
    }

    #[test]
    fn a_child_has_the_fixed_locale() {
        let mut command = Command::new("env");
        command.env("LC_ALL", "ar_EG.UTF-8");
        fix_locale(&mut command);
        let mut set = command.get_envs();
        let fixed = (OsStr::new("LC_ALL"), Some(OsStr::new("C.UTF-8")));
        assert!(set.any(|one| one == fixed), "{command:?}");
    }
}
