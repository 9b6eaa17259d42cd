//! Any text as an nginx.conf: it is read or refused, and what is written for it is TOML.
#![no_main]

use drover_config::{Style, parse};
use drover_http::config::Http;
use drover_import::tree::{self, Node};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(nodes) = tree::parse("fuzz.conf", text) else { return };
    for node in &nodes {
        // A directive without a block is written so that it reads back as itself.
        if let Node::Directive(directive) = node
            && directive.block.is_none()
        {
            let again = tree::parse("fuzz.conf", &directive.line());
            assert_eq!(again.expect("it reads back"), [Node::Directive(at_line_1(directive))]);
        }
    }
    let converted = drover_import::convert(&nodes, &drover_import::Directories::default());
    // Whether it can be used is another question.
    let (_, findings) = parse::<Http>("fuzz.toml", &converted.text);
    let shown = findings.render(Style::Plain);
    assert!(!shown.contains("this is not TOML"), "{shown}\n{}", converted.text);
});

fn at_line_1(directive: &tree::Directive) -> tree::Directive {
    let mut directive = directive.clone();
    directive.place.line = 1;
    directive
}
