//! Encodings: each once, and types that a file can have.

use drover_config::{Findings, Located, Size};

use crate::config::{Coding, Http};
use crate::encoding::compression::levels;

pub(super) fn check(http: &Http, findings: &mut Findings) {
    check_encodings("encodings", &http.compression.encodings, findings);
    check_memory(http, findings);
    for kind in &http.compression.types {
        check_type(kind, findings);
    }
    for server in &http.servers {
        check_encodings("precompressed", &server.precompressed, findings);
        for location in server.all_locations() {
            for (key, codings) in
                [("precompressed", &location.precompressed), ("compression", &location.compression)]
            {
                if let Some(codings) = codings {
                    check_encodings(key, codings, findings);
                }
            }
        }
    }
}

fn check_encodings(key: &str, codings: &[Located<Coding>], findings: &mut Findings) {
    for (at, coding) in codings.iter().enumerate() {
        if let Some(first) = codings[..at].iter().find(|first| **first == *coding) {
            findings
                .warning(coding.place(), format!("`{key}` has \"{}\" twice", **coding))
                .label("no effect")
                .related(first.place(), "the first here");
        }
    }
}

/// An encoding that there is never memory for.
fn check_memory(http: &Http, findings: &mut Findings) {
    let compression = &http.compression;
    for coding in &compression.encodings {
        let needed = Size::from_bytes(levels(compression).memory(**coding) as u64);
        if compression.max_memory < needed {
            findings
                .warning(coding.place(), format!("nothing is ever encoded with \"{}\"", **coding))
                .label(format!("its encoder takes {needed} of memory"))
                .help(format!("`max_memory` is {}", compression.max_memory));
        }
    }
}

fn check_type(kind: &Located<String>, findings: &mut Findings) {
    let (main, sub) = kind.split_once('/').unwrap_or_default();
    let token = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.+_".contains(&byte));
    if main.is_empty() || sub.is_empty() || !token(main) || !(token(sub) || sub == "*") {
        findings
            .error(kind.place(), format!("{:?} is no media type", kind.as_str()))
            .label("no response can have it")
            .help("types are \"text/html\" or, for all that begin so, \"text/*\"; parameters do not count");
    }
}
