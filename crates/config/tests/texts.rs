//! No text does harm: it is read or there are findings, and the findings can be drawn.
#![allow(clippy::unwrap_used)] // A test that fails is to end.

mod common;

use drover_config::{Style, effective, parse};
use proptest::prelude::*;

use common::Farm;

fn try_text(text: &str) {
    let (farm, findings) = parse::<Farm>("text", text);
    findings.render(Style::Plain);
    if let Some(farm) = farm.filter(|_| !findings.has_errors()) {
        let written = effective(&farm);
        let (again, findings) = parse::<Farm>("written", &written);
        assert!(findings.is_empty(), "{findings}");
        assert_eq!(again.unwrap(), farm);
    }
}

/// Pieces that make up something near a config.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("[herd]\n".to_owned()),
        Just("[[fields]]\n".to_owned()),
        Just("gate = \"127.0.0.1:80\"\n".to_owned()),
        Just("trees = [\n".to_owned()),
        Just("names = { a = \"b\" }\n".to_owned()),
        "[a-z_]{1,8} = (1|true|\"[a-z0-9:]{0,6}\"|\\[\\]|\\{\\}|)\n",
        "(animals|water|dog|kind|diary|fence) = (-?[0-9]{1,30}|\"[0-9]{1,3}[a-z]{0,2}\"|sheep|'cattle')\n",
        "\\PC{0,10}",
    ]
}

proptest! {
    #[test]
    fn any_text(text in "(?s).{0,200}") {
        try_text(&text);
    }

    #[test]
    fn almost_a_config(pieces in prop::collection::vec(piece(), 0..12)) {
        try_text(&pieces.concat());
    }

    #[test]
    fn any_string_reads_back(value: String, key: String) {
        let mut farm = Farm { herd: Default::default(), fields: Vec::new() };
        farm.herd.names.insert(key, value.into());
        let (again, findings) = parse::<Farm>("written", &effective(&farm));
        prop_assert!(findings.is_empty(), "{}", findings);
        prop_assert_eq!(again.unwrap(), farm);
    }
}
