//! Texts: log formats and the logs that name them, variables, and what becomes a header field.

use drover_config::{Findings, Located};
use drover_service::check::{LogFormats, variables};

use crate::config::{AccessLog, BUILT_IN_LOG_FORMATS, Http, Location, Return};
use crate::own::KnownNames;

pub(super) fn check(http: &Http, known: &KnownNames, findings: &mut Findings) {
    let formats = LogFormats {
        table: "[http.log_formats]",
        own: http.log_formats.iter().map(|(name, text)| (name.as_str(), text)).collect(),
        built_in: BUILT_IN_LOG_FORMATS,
        example: "$remote_addr $request $status",
    };
    formats.check(findings);
    http.log_formats.values().for_each(|text| check_text(text, known, findings));
    check_log(&http.access_log, &formats, findings);
    check_types(http, findings);
    for server in &http.servers {
        let answers = server.rules.iter().filter_map(|rule| rule.return_.as_ref());
        answers.for_each(|answer| check_return(answer, known, findings));
        server.locations.iter().for_each(|location| check_location(location, &formats, known, findings));
    }
}

fn check_location(
    location: &Location,
    formats: &LogFormats<'_>,
    known: &KnownNames,
    findings: &mut Findings,
) {
    if let Some(log) = &location.access_log {
        check_log(log, formats, findings);
    }
    let answers = location.rules.iter().filter_map(|rule| rule.return_.as_ref());
    for answer in answers.chain(&location.return_) {
        check_return(answer, known, findings);
    }
    location.locations.0.iter().for_each(|inner| check_location(inner, formats, known, findings));
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
    variables(text, |text| known.check(text), findings);
}

fn check_log(log: &AccessLog, formats: &LogFormats<'_>, findings: &mut Findings) {
    formats.check_log(&log.file, &log.format, findings);
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
