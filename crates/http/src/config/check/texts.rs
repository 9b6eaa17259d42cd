//! Texts: log formats and the logs that name them, variables, and what becomes a header field.

use drover_config::{Findings, Located, LogFile, nearest};

use crate::config::{AccessLog, BUILT_IN_LOG_FORMATS, Http, Location, Return};
use crate::own::KnownNames;

pub(super) fn check(http: &Http, known: &KnownNames, findings: &mut Findings) {
    for (name, text) in http.log_formats.iter() {
        check_text(text, known, findings);
        if BUILT_IN_LOG_FORMATS.iter().any(|(built_in, _)| built_in == name) {
            findings
                .error(text.place(), format!("the log format `{name}` is built in"))
                .label("give this one another name");
        }
    }
    check_log(&http.access_log, http, findings);
    check_types(http, findings);
    for server in &http.servers {
        let answers = server.rules.iter().filter_map(|rule| rule.return_.as_ref());
        answers.for_each(|answer| check_return(answer, known, findings));
        server.locations.iter().for_each(|location| check_location(location, http, known, findings));
    }
}

fn check_location(location: &Location, http: &Http, known: &KnownNames, findings: &mut Findings) {
    if let Some(log) = &location.access_log {
        check_log(log, http, findings);
    }
    let answers = location.rules.iter().filter_map(|rule| rule.return_.as_ref());
    for answer in answers.chain(&location.return_) {
        check_return(answer, known, findings);
    }
    location.locations.0.iter().for_each(|inner| check_location(inner, http, known, findings));
}

fn check_return(answer: &Located<Return>, known: &KnownNames, findings: &mut Findings) {
    super::location::check_return(answer, findings);
    for text in [&answer.body, &answer.location].into_iter().flatten() {
        check_text(text, known, findings);
    }
    if let Some(text) = &answer.location {
        check_field("location", text, findings);
    }
    if let Some(text) = &answer.content_type {
        check_field("content_type", text, findings);
    }
}

/// The variables of a text.
pub(super) fn check_text(text: &Located<String>, known: &KnownNames, findings: &mut Findings) {
    let Err(wrong) = known.check(text) else { return };
    let place = findings.part_of(text.place(), text, wrong.offset, wrong.length);
    let finding = findings.error(place, "the text has a variable that is wrong").label(wrong.message);
    if let Some(help) = wrong.help {
        finding.help(help);
    }
}

fn check_log(log: &AccessLog, http: &Http, findings: &mut Findings) {
    let name = log.format.as_str();
    let names = || {
        let built_in = BUILT_IN_LOG_FORMATS.iter().map(|(name, _)| *name);
        built_in.chain(http.log_formats.keys().map(String::as_str))
    };
    if !names().any(|known| known == name) {
        let help = match nearest(name, names()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("define it: [http.log_formats] {name} = \"$remote_addr $request $status\""),
        };
        findings
            .error(log.format.place(), format!("the log format `{name}` is not defined"))
            .label("no such format in [http.log_formats]")
            .help(help);
    } else if *log.file == LogFile::Off && log.format != AccessLog::default().format {
        findings
            .warning(log.format.place(), "`format` has no effect here")
            .label("the log is off")
            .help("say where the lines go: file = \"stderr\" or the path of a file");
    }
}

fn check_types(http: &Http, findings: &mut Findings) {
    check_field("default_type", &http.default_type, findings);
    for (extension, text) in http.types.iter() {
        check_field(extension, text, findings);
        if extension.is_empty() || extension.contains(['.', '/']) {
            findings
                .error(text.place(), format!("`{extension}` is no file extension"))
                .label("the last part of a file's name, without the dot");
        }
    }
}

/// RFC 9110, 5.5: a field's value has no control characters; a line end in it would begin another field.
pub(super) fn check_field(key: &str, text: &Located<String>, findings: &mut Findings) {
    if text.chars().any(|c| c.is_control() && c != '\t') {
        findings
            .error(text.place(), format!("`{key}` cannot be sent"))
            .label("has a line end or another control character in it");
    }
}
