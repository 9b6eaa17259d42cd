//! `try_files`: files first, then what happens without them.

use drover_config::{Findings, Located};

use super::texts::check_text;
use crate::config::{Http, Location, PathMatch, Server};
use crate::own::KnownNames;

pub(super) fn check(http: &Http, known: &KnownNames, findings: &mut Findings) {
    for server in &http.servers {
        if let Some(texts) = &server.try_files {
            check_all(texts, server, known, findings);
            if let (None, Some(first)) = (&server.root, texts.first()) {
                without_effect(first, "there is no `root`", findings);
            }
        }
        for location in server.all_locations() {
            let Some(texts) = &location.try_files else { continue };
            check_all(texts, server, known, findings);
            if let (Some(first), Some(_)) = (texts.first(), &location.return_) {
                without_effect(first, "`return` is the answer", findings);
            }
        }
    }
}

fn without_effect(first: &Located<String>, why: &str, findings: &mut Findings) {
    findings.warning(first.place(), "`try_files` has no effect here").label(why);
}

fn check_all(texts: &[Located<String>], server: &Server, known: &KnownNames, findings: &mut Findings) {
    let Some((last, candidates)) = texts.split_last() else { return };
    for text in candidates {
        check_text(text, known, findings);
        if !text.starts_with(['/', '$']) {
            findings
                .error(text.place(), format!("`try_files` cannot try {:?}", text.as_str()))
                .label("must be a path that begins with \"/\" or a variable")
                .help("\"=404\" and \"@name\" are for the end of the list");
        }
    }
    check_last(last, server, known, findings);
    if candidates.is_empty() {
        findings
            .error(last.place(), "`try_files` tries no file")
            .label("what happens when none is there")
            .help("write try_files = [\"$uri\", \"=404\"]");
    }
}

fn check_last(last: &Located<String>, server: &Server, known: &KnownNames, findings: &mut Findings) {
    if let Some(status) = last.strip_prefix('=') {
        if !status.parse().is_ok_and(|status: u16| (200..600).contains(&status)) {
            findings
                .error(last.place(), format!("{:?} is no status", last.as_str()))
                .label("must be 200 to 599")
                .help("write \"=404\"");
        }
    } else if let Some(name) = last.strip_prefix('@') {
        let is_it = |location: &Location| matches!(&*location.path, PathMatch::Named(own) if own == name);
        if !server.locations.iter().any(is_it) {
            findings
                .error(last.place(), format!("the server has no location named `{name}`"))
                .label("no such location")
                .help(format!("a location with path = {{ name = \"{name}\" }}"));
        }
    } else {
        check_text(last, known, findings);
        if !last.starts_with(['/', '$']) {
            findings
                .error(last.place(), format!("`try_files` cannot end with {:?}", last.as_str()))
                .label("must be a path, \"=404\" or \"@name\"");
        }
    }
}
