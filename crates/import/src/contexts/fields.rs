//! Fields of responses, and what is shown instead of an error.

use super::{exactly, number};
use crate::convert::{Field, Scope};
use crate::document::{inline_table, list, string};
use crate::mapping::Level::{Http, Location, Server};
use crate::mapping::{How, Level, Row, Verdict};
use crate::tree::Directive;
use crate::values;

const ALL: &[Level] = &[Http, Server, Location];

pub(super) const ROWS: &[Row] = &[
    Row { directive: "add_header", becomes: "headers", levels: ALL, how: How::By(add_header) },
    Row { directive: "expires", becomes: "headers", levels: ALL, how: How::By(expires) },
    Row { directive: "error_page", becomes: "error_pages", levels: ALL, how: How::By(error_page) },
];

fn add_header(scope: &mut Scope, directive: &Directive) -> Verdict {
    match field(directive)? {
        Some(field) => scope.add_field(field),
        None if directive.arguments.get(1).is_some_and(|value| !value.is_empty()) => {
            return Ok(Some("drover says itself where a response ends".to_owned()));
        }
        // An empty value adds nothing, and keeps those outside from being added.
        None => scope.add_no_field(),
    }
    Ok(None)
}

/// The field that is added, if one is.
pub(super) fn field(directive: &Directive) -> Result<Option<Field>, String> {
    let (name, value, always) = match directive.arguments.as_slice() {
        [name, value] => (name, value, false),
        [name, value, always] if always == "always" => (name, value, true),
        _ => return Err("a name and a value are expected, and perhaps `always`".to_owned()),
    };
    let own = ["connection", "content-length", "keep-alive", "trailer", "transfer-encoding", "upgrade"];
    let is_sent = !value.is_empty() && !own.contains(&name.to_ascii_lowercase().as_str());
    Ok(is_sent.then(|| Field { name: name.clone(), value: value.clone(), always }))
}

fn expires(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [value] = exactly(&directive.arguments)?;
    let value = match value.starts_with('$') {
        // The map gives the field's value.
        true if scope.facts.has_map(value) => Some(value.clone()),
        true => return Err("drover has a fixed time here, or one that a map gives".to_owned()),
        false => cache_control(value)?,
    };
    let is_sent = value.is_some();
    scope.set_times(value);
    Ok(is_sent.then(|| "the field Cache-Control is sent, and no field Expires".to_owned()))
}

/// The field Cache-Control that goes with a time of `expires`; none for no field.
pub(super) fn cache_control(value: &str) -> Result<Option<String>, String> {
    Ok(Some(match value {
        "off" => return Ok(None),
        "epoch" => "no-cache".to_owned(),
        "max" => "max-age=315360000".to_owned(),
        time if time.starts_with('-') => "no-cache".to_owned(),
        time => match values::duration(time) {
            Some(time) => format!("max-age={}", time.as_secs()),
            None => return Err(format!("drover has a fixed time here, and `{time}` is none")),
        },
    }))
}

fn error_page(scope: &mut Scope, directive: &Directive) -> Verdict {
    let Some((to, statuses)) = directive.arguments.split_last() else {
        return Err("statuses and a page are expected".to_owned());
    };
    let (statuses, shown) = match statuses.split_last() {
        Some((last, statuses)) if last.starts_with('=') => (statuses, Some(&last[1..])),
        _ => (statuses, None),
    };
    let wrong = || "statuses and a page are expected".to_owned();
    let statuses: Option<Vec<String>> = statuses.iter().map(|status| number(status)).collect();
    let statuses = statuses.filter(|statuses| !statuses.is_empty()).ok_or_else(wrong)?;
    let mut fields = vec![("statuses", list(&statuses)), ("to", string(to))];
    match shown {
        None => {}
        Some("") => fields.push(("status", string("page"))),
        Some(status) => fields.push(("status", number(status).ok_or_else(wrong)?)),
    }
    scope.push("error_pages", inline_table(&fields));
    Ok(None)
}
