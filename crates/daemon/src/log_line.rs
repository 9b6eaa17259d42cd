//! What one line of the log looks like, as text or as JSON.
//!
//! Text: `TIME LEVEL PID PROCESS: MESSAGE key=value ...`. JSON: one object with the keys `time`, `level`,
//! `pid`, `process`, `target`, `message` and those of the event. Control characters are escaped in both, so
//! nothing that a peer sent can forge a line. The log's layer formats its events with a [`Look`].

use std::fmt::{self, Write};
use std::process;
use std::sync::Arc;

use jiff::ZonedDateTime;
use tracing::field::{Field, Visit};
use tracing::{Event, Level};
use tracing_subscriber::Registry;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{DefaultFields, FormatEvent, Writer};

/// The field that a macro's text is recorded as, before all others.
const MESSAGE: &str = "message";

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One object a line.
    Json,
    /// For a syslog daemon, which knows time, level and process by itself.
    Syslog,
    /// For the journal: its fields, a row each.
    Journal,
}

/// The format, and the process that every line names.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    pub(crate) format: Format,
    /// "master", "worker 0".
    pub(crate) process: Arc<str>,
}

impl Look {
    /// A line that is no event's, with its line feed.
    pub(crate) fn plain(&self, level: Level, message: &str) -> String {
        let mut line = String::new();
        // Writing to a string cannot fail.
        let _ = self.begin(&mut line, level, module_path!());
        Fields::new(self.format, &mut line).text(MESSAGE, format_args!("{message}"));
        line.push_str(self.end());
        line
    }

    /// What is the same in all lines: local time with its offset, to the millisecond, and who writes.
    fn begin(&self, line: &mut dyn Write, level: Level, target: &str) -> fmt::Result {
        let Self { format, process } = self;
        let now = ZonedDateTime::now();
        let time = now.strftime("%Y-%m-%dT%H:%M:%S%.3f%:z");
        let pid = process::id();
        match format {
            Format::Text => write!(line, "{time} {:<5} {pid} {process}: ", level.as_str()),
            Format::Json => {
                let level = level.as_str().to_ascii_lowercase();
                write!(line, r#"{{"time":"{time}","level":"{level}","pid":{pid},"process":"{process}""#)?;
                line.write_str(r#","target":"#)?;
                write_quoted(line, target)
            }
            Format::Syslog => write!(line, "{process}: "),
            Format::Journal => {
                let priority = priority(level);
                write!(line, "PRIORITY={priority}\nSYSLOG_IDENTIFIER=drover\nDROVER_PROCESS={process}\n")?;
                write!(line, "DROVER_TARGET={target}\nMESSAGE={process}: ")
            }
        }
    }

    fn end(&self) -> &'static str {
        match self.format {
            Format::Text | Format::Syslog | Format::Journal => "\n",
            Format::Json => "}\n",
        }
    }
}

impl FormatEvent<Registry, DefaultFields> for Look {
    fn format_event(
        &self,
        _: &FmtContext<'_, Registry, DefaultFields>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        self.begin(&mut line, *metadata.level(), metadata.target())?;
        let mut fields = Fields::new(self.format, &mut line);
        // Who reads the objects finds the key in each.
        if self.format == Format::Json && metadata.fields().field(MESSAGE).is_none() {
            fields.text(MESSAGE, format_args!(""));
        }
        event.record(&mut fields);
        line.write_str(self.end())?;
        if self.format == Format::Journal {
            event.record(&mut Rows(&mut line));
        }
        Ok(())
    }
}

/// Writes the fields of one event.
///
/// The line is a string in memory, so only a value that fails to describe itself can fail; it is left as far
/// as it came, and the line is written all the same.
struct Fields<'a> {
    format: Format,
    line: &'a mut dyn Write,
    /// What goes before a field of text.
    separator: &'static str,
}

impl<'a> Fields<'a> {
    fn new(format: Format, line: &'a mut dyn Write) -> Self {
        Self { format, line, separator: "" }
    }

    /// A value that is a JSON number or boolean as it stands.
    fn plain(&mut self, name: &str, value: impl fmt::Display) {
        self.name(name);
        let _ = write!(self.line, "{value}");
    }

    fn text(&mut self, name: &str, value: fmt::Arguments<'_>) {
        self.name(name);
        let _ = match self.format {
            Format::Text | Format::Syslog | Format::Journal => write!(Printable(self.line), "{value}"),
            Format::Json => {
                let mut text = String::new();
                let _ = text.write_fmt(value);
                write_quoted(self.line, &text)
            }
        };
    }

    fn name(&mut self, name: &str) {
        let separator = std::mem::replace(&mut self.separator, " ");
        let _ = match self.format {
            Format::Json => write!(self.line, ",\"{name}\":"),
            _ if name == MESSAGE => self.line.write_str(separator),
            _ => write!(self.line, "{separator}{name}="),
        };
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field.name(), format_args!("{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.plain(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.plain(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.plain(field.name(), value);
    }

    /// What is recorded with `%` or as format arguments comes here too.
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field.name(), format_args!("{value:?}"));
    }
}

/// Writes the fields of one event as fields of the journal.
struct Rows<'a>(&'a mut dyn Write);

impl Visit for Rows<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() != MESSAGE {
            let _ = write!(self.0, "DROVER_{}=", field.name().to_ascii_uppercase());
            let _ = write!(Printable(self.0), "{value:?}");
            let _ = self.0.write_char('\n');
        }
    }
}

/// What syslog and the journal have for a level.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

/// Writes control characters as `\n`, `\t` or `\x1b`.
struct Printable<'a>(&'a mut dyn Write);

impl Write for Printable<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|character| match character {
            '\n' | '\r' | '\t' => write!(self.0, "{}", character.escape_default()),
            control if control.is_control() => write!(self.0, "\\x{:02x}", u32::from(control)),
            other => self.0.write_char(other),
        })
    }
}

/// Writes `text` as a JSON string, with the control characters escaped that JSON lets through: terminals obey
/// those too.
fn write_quoted(line: &mut dyn Write, text: &str) -> fmt::Result {
    let quoted = serde_json::to_string(text).map_err(|_| fmt::Error)?;
    quoted.chars().try_for_each(|character| match character {
        control if control.is_control() => write!(line, "\\u{:04x}", u32::from(control)),
        other => line.write_char(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::Mutex;
    use tracing_subscriber::layer::SubscriberExt as _;

    /// Collects what is written.
    #[derive(Default)]
    struct Collector(Mutex<Vec<u8>>);

    impl io::Write for &Collector {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn line(format: Format, log: impl FnOnce()) -> String {
        let lines = Arc::new(Collector::default());
        let look = Look { format, process: "worker 3".into() };
        let layer = tracing_subscriber::fmt::layer().event_format(look).with_writer(Arc::clone(&lines));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), log);
        let lines = lines.0.lock().expect("no panic");
        String::from_utf8(lines.clone()).expect("text")
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

    #[test]
    fn the_journal_has_a_row_for_each_field() {
        let text = line(Format::Journal, || tracing::warn!(connection = 7, peer = %"a\nb", "closed"));
        assert!(
            text.starts_with("PRIORITY=4\nSYSLOG_IDENTIFIER=drover\nDROVER_PROCESS=worker 3\n"),
            "{text}"
        );
        let message = "\nMESSAGE=worker 3: closed connection=7 peer=a\\nb\n";
        assert!(text.ends_with(&format!("{message}DROVER_CONNECTION=7\nDROVER_PEER=a\\nb\n")), "{text}");
    }

    #[test]
    fn json_has_its_keys_in_one_order_and_always_a_message() {
        let text = line(Format::Json, || tracing::info!(target: "here", name = "\u{9b}\u{1}"));
        let rest = text.split_once("\"level\"").expect("a level").1;
        let pid = process::id();
        assert_eq!(
            rest,
            format!(
                r#":"info","pid":{pid},"process":"worker 3","target":"here","message":"","name":"\u009b\u0001"}}"#
            ) + "\n"
        );
    }

    #[test]
    fn lines_that_are_no_events_look_the_same() {
        let look = Look { format: Format::Json, process: "master".into() };
        let value: serde_json::Value =
            serde_json::from_str(&look.plain(Level::WARN, "3 lost")).expect("JSON");
        assert_eq!((&value["message"], &value["level"]), (&"3 lost".into(), &"warn".into()));
        let look = Look { format: Format::Text, ..look };
        assert!(look.plain(Level::WARN, "3 lost").ends_with(" master: 3 lost\n"));
    }
}
