//! Logs: of the daemon, and of requests.

use crate::convert::Scope;
use crate::document::{inline_table, key, string};
use crate::mapping::Level::{Http, Location, Main, Server, Stream, StreamServer};
use crate::mapping::{How, Row, Verdict};
use crate::tree::Directive;
use crate::values;

pub(super) const ROWS: &[Row] = &[
    Row {
        directive: "error_log",
        becomes: "log.file or log.syslog, log.level",
        levels: &[Main],
        how: How::By(error_log),
    },
    Row {
        directive: "error_log",
        becomes: "drover has one log for the whole daemon",
        levels: &[Http, Server, Location],
        how: How::By(further_error_log),
    },
    Row {
        directive: "log_format",
        becomes: "log_formats",
        levels: &[Http, Stream],
        how: How::By(log_format),
    },
    Row {
        directive: "access_log",
        becomes: "access_log",
        levels: &[Http, Location, Stream, StreamServer],
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
    let (key, value) = match file.as_str() {
        "/dev/null" => ("log.file", string("off")),
        "/dev/stdout" => ("log.file", string("stdout")),
        "/dev/stderr" | "stderr" => ("log.file", string("stderr")),
        file if file.starts_with("memory:") => {
            return Err(format!("drover keeps no log in memory, as in `{file}`"));
        }
        file => match file.strip_prefix("syslog:") {
            Some(options) => ("log.syslog", inline_table(&syslog_of_daemon(options)?)),
            None => {
                let (file, relative) = scope.facts.directories.at_prefix(file);
                remark = relative;
                ("log.file", string(&file))
            }
        },
    };
    let (level, difference) = match level {
        "debug" | "info" | "warn" | "error" => (level, None),
        "notice" => ("info", Some("drover has no level between info and warn")),
        "crit" | "alert" | "emerg" => ("error", Some("drover has no level above error")),
        _ => return Err(format!("`{level}` is no level")),
    };
    scope.set(key, value);
    scope.set("log.level", string(level));
    Ok(remark.or(difference.map(str::to_owned)))
}

/// That of the main level is the daemon's.
pub(super) fn further_error_log(_: &mut Scope, _: &Directive) -> Verdict {
    Ok(Some("drover has one log for the whole daemon".to_owned()))
}

/// The texts of a format stand one behind the other.
fn log_format(scope: &mut Scope, directive: &Directive) -> Verdict {
    let Some((name, rest)) = directive.arguments.split_first() else {
        return Err("a name is expected".to_owned());
    };
    let (escape, texts) = match rest.split_first() {
        Some((first, texts)) if first.starts_with("escape=") => (&first[7..], texts),
        _ => ("default", rest),
    };
    let own = if scope.level.is_of_streams() { "basic" } else { "combined" };
    if name == own {
        return Err("drover has a format with this name already".to_owned());
    }
    let text = string(&texts.concat());
    let format = match escape {
        "default" => text,
        "json" | "none" => inline_table(&[("text", text), ("escape", string(escape))]),
        _ => return Err(format!("`{escape}` is no way to escape")),
    };
    scope.set(&format!("log_formats.{}", key(name)), format);
    let of_failed = texts.iter().any(|text| text.contains("$upstream_status"));
    Ok(of_failed.then(|| "`$upstream_status` of a server that gave none is `-`, not 502 or 504".to_owned()))
}

fn access_log(scope: &mut Scope, directive: &Directive) -> Verdict {
    let Some((file, options)) = directive.arguments.split_first() else {
        return Err("a file is expected".to_owned());
    };
    if file == "off" {
        scope.set("access_log", string("off"));
        return Ok(None);
    }
    if scope.has("access_log") {
        return Err("drover writes one log of requests".to_owned());
    }
    if file.contains('$') {
        return Err("drover's access logs are files with fixed names".to_owned());
    }
    let (file, mut remark) = match (file.as_str(), file.strip_prefix("syslog:")) {
        (_, Some(options)) => (("syslog", inline_table(&syslog(options)?)), None),
        ("/dev/stdout", _) => (("file", string("stdout")), None),
        ("/dev/stderr" | "stderr", _) => (("file", string("stderr")), None),
        (file, _) => {
            let (file, remark) = scope.facts.directories.at_prefix(file);
            (("file", string(&file)), remark)
        }
    };
    let mut fields = vec![file];
    for (place, option) in options.iter().enumerate() {
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
            Some(("if", text)) if !scope.level.is_of_streams() => fields.push(("when", string(text))),
            None | Some(("gzip", _)) if option.starts_with("gzip") => {
                remark = Some("the log is not compressed".to_owned());
            }
            _ => return Err(format!("drover has nothing for `{option}`")),
        }
    }
    let value = match fields.as_slice() {
        [("file", file)] => file.clone(),
        fields => inline_table(fields),
    };
    scope.set("access_log", value);
    Ok(remark)
}

/// `server=ADDRESS,facility=...,tag=...,severity=...,nohostname`, as TOML.
fn syslog(options: &str) -> Result<Vec<(&'static str, String)>, String> {
    let mut fields = Vec::new();
    for option in options.split(',') {
        match option.split_once('=').unwrap_or((option, "")) {
            ("server", to) if to.starts_with("unix:") => fields.push(("to", string(to))),
            ("server", to) => {
                let port = to.rsplit_once(']').map_or(to, |(_, behind)| behind).contains(':');
                let to = if port { to.to_owned() } else { format!("{to}:514") };
                if to.parse::<std::net::SocketAddr>().is_err() {
                    return Err(format!("drover logs to an address, and `{to}` is a name"));
                }
                fields.push(("to", string(&to)));
            }
            ("facility", value) => fields.push(("facility", string(value))),
            ("tag", value) => fields.push(("tag", string(value))),
            ("severity", value) => {
                let value = if value == "warn" { "warning" } else { value };
                fields.push(("severity", string(value)));
            }
            ("nohostname", "") => {}
            _ => return Err(format!("drover has nothing for `{option}`")),
        }
    }
    if !fields.iter().any(|(key, _)| *key == "tag") {
        fields.push(("tag", string("nginx")));
    }
    Ok(fields)
}

/// The same for the log of the daemon, whose lines are as severe as their level says.
fn syslog_of_daemon(options: &str) -> Result<Vec<(&'static str, String)>, String> {
    let mut fields = syslog(options)?;
    fields.retain(|(key, _)| *key != "severity");
    if !fields.iter().any(|(key, _)| *key == "facility") {
        fields.push(("facility", string("local7")));
    }
    Ok(fields)
}
