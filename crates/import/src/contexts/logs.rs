//! Logs: of the daemon, and of requests.

use crate::convert::Scope;
use crate::document::{inline_table, key, string};
use crate::mapping::Level::{Http, Location, Main};
use crate::mapping::{How, Row, Verdict};
use crate::tree::Directive;
use crate::values;

pub(super) const ROWS: &[Row] = &[
    Row { directive: "error_log", becomes: "log.file, log.level", levels: &[Main], how: How::By(error_log) },
    Row {
        directive: "error_log",
        becomes: "drover has one log for the whole daemon",
        levels: &[Http],
        how: How::Unsupported,
    },
    Row { directive: "log_format", becomes: "log_formats", levels: &[Http], how: How::By(log_format) },
    Row {
        directive: "access_log",
        becomes: "access_log",
        levels: &[Http, Location],
        how: How::By(access_log),
    },
    Row {
        directive: "log_subrequest",
        becomes: "drover makes no requests within requests",
        levels: &[Http],
        how: How::Nothing,
    },
    Row {
        directive: "open_log_file_cache",
        becomes: "log files stay open",
        levels: &[Http],
        how: How::Nothing,
    },
];

fn error_log(scope: &mut Scope, directive: &Directive) -> Verdict {
    let (file, level) = match directive.arguments.as_slice() {
        [file] => (file, "error"),
        [file, level] => (file, level.as_str()),
        _ => return Err("a file and perhaps a level are expected".to_owned()),
    };
    let mut remark = None;
    let file = match file.as_str() {
        "/dev/null" => "off".to_owned(),
        "/dev/stdout" => "stdout".to_owned(),
        "/dev/stderr" | "stderr" => "stderr".to_owned(),
        file if file.starts_with("syslog:") || file.starts_with("memory:") => {
            return Err(format!("the daemon's log is a file, not `{file}`"));
        }
        file => {
            let (file, relative) = scope.directories.at_prefix(file);
            remark = relative;
            file
        }
    };
    let (level, difference) = match level {
        "debug" | "info" | "warn" | "error" => (level, None),
        "notice" => ("info", Some("drover has no level between info and warn")),
        "crit" | "alert" | "emerg" => ("error", Some("drover has no level above error")),
        _ => return Err(format!("`{level}` is no level")),
    };
    scope.set("log.file", string(&file));
    scope.set("log.level", string(level));
    Ok(remark.or(difference.map(str::to_owned)))
}

/// The texts of a format stand one behind the other.
fn log_format(scope: &mut Scope, directive: &Directive) -> Verdict {
    let Some((name, rest)) = directive.arguments.split_first() else {
        return Err("a name is expected".to_owned());
    };
    let (escape, texts) = match rest.split_first() {
        Some((first, texts)) if first.starts_with("escape=") => (Some(&first[7..]), texts),
        _ => (None, rest),
    };
    if name == "combined" {
        return Err("drover has a format with this name already".to_owned());
    }
    scope.set(&format!("log_formats.{}", key(name)), string(&texts.concat()));
    Ok(escape
        .filter(|escape| *escape != "default")
        .map(|escape| format!("values are escaped as in nginx's default, not as with `{escape}`")))
}

fn access_log(scope: &mut Scope, directive: &Directive) -> Verdict {
    let Some((file, rest)) = directive.arguments.split_first() else {
        return Err("a file is expected".to_owned());
    };
    if file == "off" {
        scope.set("access_log", string("off"));
        return Ok(None);
    }
    if file.starts_with("syslog:") || file.contains('$') {
        return Err("drover's access logs are files with fixed names".to_owned());
    }
    let (file, remark) = match file.as_str() {
        "/dev/stdout" => ("stdout".to_owned(), None),
        "/dev/stderr" => ("stderr".to_owned(), None),
        file => scope.directories.at_prefix(file),
    };
    let mut fields = vec![("file", string(&file))];
    for (place, option) in rest.iter().enumerate() {
        match option.split_once('=') {
            None if place == 0 => fields.push(("format", string(option))),
            Some(("buffer", size)) => {
                let size = values::size_text(size).ok_or_else(|| format!("`{size}` is not a size"))?;
                fields.push(("buffer", size));
            }
            Some(("flush", time)) => {
                let time = values::duration_text(time).ok_or_else(|| format!("`{time}` is not a time"))?;
                fields.push(("flush", time));
            }
            _ => return Err(format!("drover has nothing for `{option}`")),
        }
    }
    scope.set("access_log", inline_table(&fields));
    Ok(remark)
}
