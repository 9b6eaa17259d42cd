//! Texts with variables, compiled when the config is read: to literal text and variables.

use crate::config::WrongVariable;
use crate::text::push_escaped;
use crate::variables::{Facts, Variable, variable_names};

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(Box<[u8]>),
    Variable(Variable),
}

/// A text with variables, compiled.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Template {
    parts: Vec<Part>,
}

/// Why a text is no template.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TemplateError {
    /// A variable that does not exist.
    #[error("unknown variable `${name}`")]
    Unknown {
        /// The name, without `$`.
        name: String,
        /// The byte at which the `$` stands.
        offset: usize,
    },
    /// `${` without its `}`.
    #[error("`${{` without `}}`")]
    Unclosed {
        /// The byte at which the `$` stands.
        offset: usize,
    },
    /// `$` that no name follows. `$$` stands for the sign itself.
    #[error("`$` without a name; write `$$` for the sign itself")]
    Nameless {
        /// The byte at which the `$` stands.
        offset: usize,
    },
}

impl TemplateError {
    /// Where in the text the fault is, in bytes.
    pub fn offset(&self) -> usize {
        match self {
            TemplateError::Unknown { offset, .. }
            | TemplateError::Unclosed { offset }
            | TemplateError::Nameless { offset } => *offset,
        }
    }

    /// How many bytes the fault takes.
    pub fn length(&self) -> usize {
        match self {
            TemplateError::Unknown { name, .. } => name.len() + 1,
            TemplateError::Unclosed { .. } => 2,
            TemplateError::Nameless { .. } => 1,
        }
    }
}

/// Checks the variables of a text: what the check of a config asks for.
///
/// # Errors
/// The first fault, with its place in the text.
pub fn check_variables(text: &str) -> Result<(), WrongVariable> {
    let Err(error) = Template::parse(text) else { return Ok(()) };
    let help = match &error {
        TemplateError::Unknown { name, .. } => match drover_config::nearest(name, variable_names()) {
            Some(near) => Some(format!("did you mean `${near}`?")),
            None => Some("write `$$` for a dollar sign".to_owned()),
        },
        TemplateError::Unclosed { .. } => Some("write `${name}`".to_owned()),
        TemplateError::Nameless { .. } => None,
    };
    Err(WrongVariable { message: error.to_string(), offset: error.offset(), length: error.length(), help })
}

impl Template {
    /// Compiles `text`: `$name` or `${name}` is a variable, `$$` a dollar sign.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        let mut template = Template::default();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            literal.push_str(&rest[..at]);
            let offset = text.len() - rest.len() + at;
            let after = &rest[at + 1..];
            if let Some(next) = after.strip_prefix('$') {
                literal.push('$');
                rest = next;
                continue;
            }
            let (name, next) = name(after, offset)?;
            let variable = Variable::named(name)
                .ok_or_else(|| TemplateError::Unknown { name: name.to_owned(), offset })?;
            template.push_text(&mut literal);
            template.parts.push(Part::Variable(variable));
            rest = next;
        }
        literal.push_str(rest);
        template.push_text(&mut literal);
        Ok(template)
    }

    fn push_text(&mut self, literal: &mut String) {
        if !literal.is_empty() {
            self.parts.push(Part::Text(std::mem::take(literal).into_bytes().into()));
        }
    }

    /// The text, if no variable is in it.
    pub(crate) fn as_literal(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [] => Some(b""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    fn uses(&self, test: impl Fn(&Variable) -> bool) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Variable(variable) if test(variable)))
    }

    /// Whether the connection's local address must be asked for.
    pub(crate) fn needs_local(&self) -> bool {
        self.uses(|variable| matches!(variable, Variable::ServerAddr | Variable::ServerPort))
    }

    /// Whether the answer's head must be kept.
    pub(crate) fn needs_sent_head(&self) -> bool {
        self.uses(|variable| matches!(variable, Variable::SentHttp(_)))
    }

    /// Whether local time must be worked out.
    pub(crate) fn needs_local_time(&self) -> bool {
        self.uses(|variable| matches!(variable, Variable::TimeLocal | Variable::TimeIso8601))
    }

    /// Appends the text for a log: values are escaped, and an empty one becomes `-`.
    pub(crate) fn push_for_log(&self, facts: &Facts<'_>, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Variable(variable) => {
                    let start = out.len();
                    variable.push(facts, out, push_escaped);
                    if out.len() == start {
                        out.push(b'-');
                    }
                }
            }
        }
    }

    /// Appends the text with all values as they are.
    pub(crate) fn push_plain(&self, facts: &Facts<'_>, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Variable(variable) => {
                    variable.push(facts, out, |out, text| out.extend_from_slice(text))
                }
            }
        }
    }
}

/// The name that `after`, which follows a `$`, begins with, and what follows the name.
fn name(after: &str, offset: usize) -> Result<(&str, &str), TemplateError> {
    if let Some(braced) = after.strip_prefix('{') {
        return braced.split_once('}').ok_or(TemplateError::Unclosed { offset });
    }
    let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
    if end == 0 { Err(TemplateError::Nameless { offset }) } else { Ok(after.split_at(end)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    use crate::h1::head::{Head, Limits, Status};

    const REQUEST: &[u8] =
        b"GET /a%20b?c=d HTTP/1.1\r\nHost: EXAMPLE.org:8080\r\nUser-Agent: x\"y\r\nX-Id: 7\r\n\r\n";

    fn with_facts(test: impl Fn(&Facts<'_>)) {
        let mut head = Head::default();
        let limits = Limits { size: 1000, max_headers: 10, keep_odd_names: false };
        assert_eq!(head.parse(REQUEST, &limits), Ok(Status::Complete(REQUEST.len())));
        test(&Facts {
            head: Some(&head),
            bytes: REQUEST,
            remote: Some(SocketAddr::from(([10, 0, 0, 1], 1234))),
            local: Some(SocketAddr::from(([10, 0, 0, 2], 80))),
            pid: 42,
            worker: 3,
            connection: 17,
            connection_requests: 2,
            server_name: b"srv",
            status: 200,
            bytes_sent: 150,
            body_bytes_sent: 3,
            request_length: 99,
            sent_head: b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n",
            request_time: 12,
            unix_millis: 1_136_214_245_007,
            time_local: "02/Jan/2006:15:04:05 +0000",
            time_iso8601: "2006-01-02T15:04:05+00:00",
        });
    }

    fn log(format: &str) -> String {
        let template = Template::parse(format).expect("a template");
        let line = std::cell::RefCell::new(Vec::new());
        with_facts(|facts| template.push_for_log(facts, &mut line.borrow_mut()));
        String::from_utf8(line.into_inner()).expect("escaped text is ASCII")
    }

    #[test]
    fn every_variable_has_its_value() {
        for (format, want) in [
            ("$remote_addr:$remote_port", "10.0.0.1:1234"),
            ("$server_addr:$server_port $server_name", "10.0.0.2:80 srv"),
            ("$pid $worker $connection $connection_requests", "42 3 17 2"),
            ("\"$request\"", "\"GET /a%20b?c=d HTTP/1.1\""),
            ("$request_method $request_uri $uri $args $is_args$query_string", "GET /a%20b?c=d /a b c=d ?c=d"),
            ("$status $body_bytes_sent $bytes_sent $request_length", "200 3 150 99"),
            ("$request_time $msec", "0.012 1136214245.007"),
            ("$time_local $time_iso8601", "02/Jan/2006:15:04:05 +0000 2006-01-02T15:04:05+00:00"),
            ("$host $scheme $server_protocol", "example.org http HTTP/1.1"),
            ("$http_user_agent $http_x_id $http_none", "x\\x22y 7 -"),
            ("$sent_http_content_type $sent_http_none", "text/plain -"),
            ("$remote_user", "-"),
            ("${pid}0 $$5 %", "420 $5 %"),
        ] {
            assert_eq!(log(format), want, "{format}");
        }
    }

    #[test]
    fn faults_say_where() {
        for (text, message, offset, length) in [
            ("a $nope", "unknown variable `$nope`", 2, 5),
            ("é ${pid", "`${` without `}`", 3, 2),
            ("$pid $", "`$` without a name; write `$$` for the sign itself", 5, 1),
            ("$http_", "unknown variable `$http_`", 0, 6),
        ] {
            let error = Template::parse(text).expect_err(text);
            assert_eq!(
                (error.to_string().as_str(), error.offset(), error.length()),
                (message, offset, length)
            );
        }
    }

    #[test]
    fn a_check_says_what_would_be_right() {
        assert_eq!(check_variables("$pid"), Ok(()));
        let wrong = check_variables("x $stauts").expect_err("no such variable");
        assert_eq!((wrong.offset, wrong.length), (2, 7));
        assert_eq!(wrong.help.as_deref(), Some("did you mean `$status`?"));
    }

    #[test]
    fn a_refused_head_still_has_a_request_line() {
        let template = Template::parse("$request|$uri|$host|$http_a").expect("a template");
        with_facts(|facts| {
            let refused = Facts { head: None, bytes: b"GET /\x01 HTTP/1.1\r\nHost", ..*facts };
            let mut out = Vec::new();
            template.push_for_log(&refused, &mut out);
            assert_eq!(out, br"GET /\x01 HTTP/1.1|-|srv|-");
        });
    }

    #[test]
    fn all_names_are_variables() {
        for name in variable_names() {
            assert!(Variable::named(&name.replace("NAME", "x")).is_some(), "{name}");
        }
    }
}
