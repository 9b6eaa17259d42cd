//! What one line of the log looks like, as text or as JSON.
//!
//! Text: `TIME LEVEL PID PROCESS: MESSAGE key=value ...`. JSON: one object with the keys `time`, `level`,
//! `pid`, `process`, `target`, `message` and those of the event. Control bytes are escaped in both, so
//! nothing that a peer sent can forge a line.

use std::fmt::{self, Write as _};
use std::process;

use jiff::ZonedDateTime;
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One object a line.
    Json,
}

/// A line that is no event's, with its line feed. The message has nothing to escape.
pub(crate) fn plain(format: Format, process: &str, level: Level, message: &str) -> String {
    let fields = Fields { format, message: message.to_owned(), rest: String::new() };
    assemble(&fields, &now(), level.as_str(), process, module_path!())
}

/// The line of `event`, with its line feed.
pub(crate) fn render(format: Format, process: &str, event: &Event<'_>) -> String {
    let mut fields = Fields { format, message: String::new(), rest: String::new() };
    event.record(&mut fields);
    let metadata = event.metadata();
    assemble(&fields, &now(), metadata.level().as_str(), process, metadata.target())
}

/// Local time with its offset, to the millisecond.
fn now() -> String {
    ZonedDateTime::now().strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string()
}

fn assemble(fields: &Fields, time: &str, level: &str, process: &str, target: &str) -> String {
    let Fields { format, message, rest } = fields;
    let pid = process::id();
    match format {
        Format::Text => format!("{time} {level:<5} {pid} {process}: {message}{rest}\n"),
        Format::Json => {
            let level = level.to_ascii_lowercase();
            let mut line =
                format!(r#"{{"time":"{time}","level":"{level}","pid":{pid},"process":"{process}","target":"#);
            push_quoted(&mut line, target);
            line.push_str(",\"message\":");
            push_quoted(&mut line, message);
            line.push_str(rest);
            line.push_str("}\n");
            line
        }
    }
}

/// The fields of one event. `message` is escaped for text only; JSON quotes it at the end.
struct Fields {
    format: Format,
    message: String,
    rest: String,
}

impl Fields {
    /// A value that is a JSON number or boolean as it stands.
    fn plain(&mut self, field: &Field, value: impl fmt::Display) {
        let name = field.name();
        // Writing to a string cannot fail.
        let _ = match self.format {
            Format::Text => write!(self.rest, " {name}={value}"),
            Format::Json => write!(self.rest, ",\"{name}\":{value}"),
        };
    }

    fn text(&mut self, field: &Field, value: &str) {
        let Self { format, message, rest } = self;
        match (format, field.name()) {
            (Format::Text, "message") => push_escaped(message, value),
            (Format::Json, "message") => message.push_str(value),
            (Format::Text, name) => {
                rest.push(' ');
                rest.push_str(name);
                rest.push('=');
                push_escaped(rest, value);
            }
            (Format::Json, name) => {
                rest.push_str(",\"");
                rest.push_str(name);
                rest.push_str("\":");
                push_quoted(rest, value);
            }
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.plain(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.plain(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.plain(field, value);
    }

    /// What is recorded with `%` or as format arguments comes here too.
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, &format!("{value:?}"));
    }
}

/// Appends `text` with control characters written as `\n`, `\t` or `\x1b`.
fn push_escaped(line: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            control if control.is_control() => {
                let _ = write!(line, "\\x{:02x}", u32::from(control));
            }
            other => line.push(other),
        }
    }
}

/// Appends `text` as a JSON string.
fn push_quoted(line: &mut String, text: &str) {
    line.push('"');
    for character in text.chars() {
        match character {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            control if control.is_control() => {
                let _ = write!(line, "\\u{:04x}", u32::from(control));
            }
            other => line.push(other),
        }
    }
    line.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Metadata, Subscriber};

    /// Collects rendered lines.
    struct Collector(Format, Arc<Mutex<Vec<String>>>);

    impl Subscriber for Collector {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn event(&self, event: &Event<'_>) {
            self.1.lock().expect("no panic").push(render(self.0, "worker 3", event));
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    fn line(format: Format, log: impl FnOnce()) -> String {
        let lines = Arc::new(Mutex::new(Vec::new()));
        tracing::subscriber::with_default(Collector(format, lines.clone()), log);
        lines.lock().expect("no panic").pop().expect("a line")
    }

    #[test]
    fn text_has_the_message_and_then_the_fields() {
        let line =
            line(Format::Text, || tracing::warn!(connection = 7, peer = %"1.2.3.4:5", "closed {}", "early"));
        let pid = process::id();
        assert!(
            line.ends_with(&format!("WARN  {pid} worker 3: closed early connection=7 peer=1.2.3.4:5\n")),
            "{line}"
        );
    }

    #[test]
    fn nothing_a_peer_sent_starts_a_line_of_its_own() {
        for format in [Format::Text, Format::Json] {
            let line = line(format, || tracing::error!(path = "/\r\nforged\x1b[31m\u{9b}", "bad\nline"));
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert!(!line.trim_end().contains(char::is_control), "{line:?}");
        }
    }

    #[test]
    fn json_is_an_object_with_typed_values() {
        let text = line(Format::Json, || {
            tracing::info!(number = 5_u64, small = -1, yes = true, name = "a\"b\\", "m \"q\"")
        });
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["number"], 5);
        assert_eq!(value["small"], -1);
        assert_eq!(value["yes"], true);
        assert_eq!(value["name"], "a\"b\\");
        assert_eq!(value["message"], "m \"q\"");
        assert_eq!(value["process"], "worker 3");
        assert_eq!(value["level"], "info");
    }
}
