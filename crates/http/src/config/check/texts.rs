//! Texts: log formats and the logs that name them, variables, and what becomes a header field.

use drover_config::{Findings, Located, LogFile};
use drover_service::LogFormatConfig;
use drover_service::check::{LogFormats, variables};

use crate::config::{AccessLog, BUILT_IN_LOG_FORMATS, Http, Location, Return};
use crate::own::KnownNames;

pub(super) fn check(http: &Http, known: &KnownNames, findings: &mut Findings) {
    let formats = LogFormats {
        table: "[http.log_formats]",
        own: formats_of(http),
        built_in: BUILT_IN_LOG_FORMATS,
        example: "$remote_addr $request $status",
    };
    formats.check(findings);
    http.log_formats.iter().for_each(|(name, format)| check_format(name, format, known, findings));
    check_log(&http.access_log, &formats, findings);
    check_when(&http.access_log, known, findings);
    check_types(http, findings);
    for server in &http.servers {
        let answers = server.rules.iter().filter_map(|rule| rule.return_.as_ref());
        answers.for_each(|answer| check_return(answer, known, findings));
        server.locations.iter().for_each(|location| check_location(location, &formats, known, findings));
    }
}

/// The formats by name, with a text of each to point at.
fn formats_of(http: &Http) -> Vec<(&str, &Located<String>)> {
    let formats = http.log_formats.iter();
    formats.filter_map(|(name, format)| Some((name.as_str(), format.texts().next()?))).collect()
}

fn check_location(
    location: &Location,
    formats: &LogFormats<'_>,
    known: &KnownNames,
    findings: &mut Findings,
) {
    if let Some(log) = &location.access_log {
        check_log(log, formats, findings);
        check_when(log, known, findings);
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
    // Lines that go to a syslog daemon go somewhere.
    let file = if log.syslog.is_some() { &LogFile::Stderr } else { &*log.file };
    formats.check_log(file, &log.format, findings);
}

fn check_format(name: &str, format: &LogFormatConfig, known: &KnownNames, findings: &mut Findings) {
    format.texts().for_each(|text| check_text(text, known, findings));
    let place = format.texts().next().and_then(|text| text.place());
    match (&format.text, &format.json) {
        (Some(_), Some(_)) => {
            findings
                .error(place, format!("the log format `{name}` has `text` and `json`"))
                .label("is this the line?")
                .help("remove one of the two");
        }
        (None, None) => {
            findings
                .error(None, format!("the log format `{name}` has nothing in it"))
                .help(format!("{name} = \"$remote_addr $request $status\""));
        }
        _ => {}
    }
}

fn check_when(log: &AccessLog, known: &KnownNames, findings: &mut Findings) {
    for text in log.when.iter().flat_map(|when| [Some(&when.text), when.equals.as_ref()]).flatten() {
        check_text(text, known, findings);
    }
    if let (Some(syslog), false) = (&log.syslog, *log.file == LogFile::Off) {
        findings
            .error(log.file.place(), "`file` and `syslog` contradict each other")
            .label("lines go here")
            .related(syslog.place(), "or there?")
            .help("remove one of the two");
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
