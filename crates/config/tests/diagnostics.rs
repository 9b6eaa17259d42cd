//! What findings look like, and that one pass finds them all.
//!
//! The drawn findings are in `golden/`; with `DROVER_BLESS=1` they are written anew, to be read before they are
//! committed.
#![allow(clippy::unwrap_used)] // A test that fails is to end.

mod common;

use std::path::Path;

use drover_config::{Style, parse};

use common::Farm;

fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let (_, findings) = parse::<Farm>("farm.toml", text);
    let drawn = findings.render(Style::Plain);
    if std::env::var_os("DROVER_BLESS").is_some() {
        std::fs::write(&path, &drawn).unwrap();
    }
    assert_eq!(drawn, std::fs::read_to_string(&path).unwrap(), "differs from {}", path.display());
    assert_ne!(findings.render(Style::Coloured), drawn);
}

#[test]
fn unknown_keys() {
    golden(
        "unknown_keys.txt",
        r#"
animals = 4
colour = "red"

[herd]
animal = 5
meal-interval = "5s"
trees = []
zebra = 1

[[fields]]
gate = "127.0.0.1:80"
fence = { height = 100, hieght = 50 }

[hred]
"#,
    );
}

#[test]
fn wrong_values() {
    golden(
        "wrong_values.txt",
        r#"
fields = [
    { gate = 80 },
    { gate = "localhost:80" },
    { gate = "::1" },
    { gate = "unix:" },
    { gate = "127.0.0.1:80", trees = "oak" },
    { gate = "127.0.0.1:80", trees = ["oak", 1, "élm", 2.5] },
    { gate = "127.0.0.1:80", fence = { height = 40 } },
    { gate = "127.0.0.1:80", fence = {} },
    {},
    5,
]

[herd]
animals = -1
meal_interval = "2h"
water = "8"
kind = "cattel"
dog = "yes"
diary = 1979-05-27
names.first = ["Ann"]
"#,
    );
}

#[test]
fn wrong_syntax_hides_nothing_else() {
    golden(
        "syntax.txt",
        r#"
[herd]
animals = ten
water =
kind = "sheep"
kind = "cattle"
meal_interval = 5
"#,
    );
}

#[test]
fn order_does_not_matter() {
    let (forth, _) = parse::<Farm>("a", "[herd]\nanimals = 3\ndog = false\n[[fields]]\ngate = \"[::]:1\"");
    let (back, _) = parse::<Farm>("b", "[[fields]]\ngate = \"[::]:1\"\n[herd]\ndog = false\nanimals = 3");
    assert_eq!(forth, back);
    assert!(forth.is_some());
}

#[test]
fn places_are_counted_in_lines_and_characters() {
    let (_, findings) = parse::<Farm>("a", "[herd]\nnames = { \"é\" = \"ü\", x = 5 }\n");
    let finding = findings.iter().next().unwrap();
    assert_eq!(findings.sources().line_and_column(finding.place().unwrap()), (2, 26));
}
