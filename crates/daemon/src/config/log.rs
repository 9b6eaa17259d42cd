//! `[log]`: the log of the daemon itself.

use std::collections::BTreeMap;
use std::path::PathBuf;

use drover_config::{Findings, ListenAddress, Located, LogFile};
use drover_service::Syslog;
use drover_service::syslog::{Facility, Severity};

drover_config::table! {
    /// The log of the daemon itself.
    pub(crate) struct Log {
        /// The least severe level that is logged.
        pub level: Level = Level::Info,
        /// The same for parts of drover by name, such as "http", or a module inside: "http::handler".
        #[example = "event = \"debug\""]
        pub levels: BTreeMap<String, Located<Level>> = BTreeMap::new(),
        /// Lines a second that one place in the code may log, beside debug; the rest is counted. 0 for no limit.
        #[range = 0..=1_000_000]
        pub rate: u32 = 100,
        /// Where the lines go.
        pub file: Located<LogFile> = LogFile::Stderr.into(),
        /// A syslog daemon that the lines go to instead, as severe as their level says.
        #[example = "{ to = \"unix:/dev/log\", facility = \"daemon\" }"]
        pub syslog: Option<Located<LogSyslog>> = None,
        /// The socket of systemd's journal, to which the lines go instead, with their fields.
        #[example = "\"/run/systemd/journal/socket\""]
        pub journal: Option<Located<PathBuf>> = None,
        /// The form of the lines.
        pub format: Format = Format::Text,
    }
}

drover_config::table! {
    /// A syslog daemon.
    #[table(inline)]
    pub(crate) struct LogSyslog {
        /// Where it listens: "unix:/dev/log", or address and port of UDP.
        pub to: ListenAddress,
        /// What kind of program the lines are of.
        pub facility: Facility = Facility::Daemon,
        /// The name that stands before each line.
        pub tag: String = "drover".to_owned(),
    }
}

drover_config::choice! {
    /// How severe a log line is.
    pub(crate) enum Level {
        /// Something failed.
        Error = "error",
        /// Something is not as it should be.
        Warn = "warn",
        /// What happens to the daemon.
        Info = "info",
        /// What happens in a worker's loop.
        Debug = "debug",
        /// Every step.
        Trace = "trace",
    }
}

drover_config::choice! {
    /// The form of log lines.
    pub(crate) enum Format {
        /// For people.
        Text = "text",
        /// For programs: one object a line.
        Json = "json",
    }
}

/// The parts of drover by their names in the config, and the paths that their events have.
const PARTS: [(&str, &str); 8] = [
    ("config", "drover_config"),
    ("daemon", "drover"),
    ("event", "drover_event"),
    ("http", "drover_http"),
    ("import", "drover_import"),
    ("service", "drover_service"),
    ("stream", "drover_stream"),
    ("upstream", "drover_upstream"),
];

impl Log {
    /// The levels of modules, by the paths that their events have.
    pub(crate) fn levels_by_path(&self) -> impl Iterator<Item = (String, Level)> {
        self.levels.iter().filter_map(|(module, level)| Some((path_of(module)?, **level)))
    }

    /// Where the lines go.
    pub(crate) fn target(&self) -> Target {
        match (&self.syslog, &self.journal) {
            (Some(syslog), _) => {
                let LogSyslog { to, facility, tag } = (**syslog).clone();
                Target::Syslog(Syslog { to, facility, severity: Severity::Info, tag })
            }
            (None, Some(journal)) => Target::Journal((**journal).clone()),
            (None, None) => Target::File((*self.file).clone()),
        }
    }

    pub(super) fn check(&self, in_background: bool, findings: &mut Findings) {
        self.check_levels(findings);
        if let (Some(_), Some(journal)) = (&self.syslog, &self.journal) {
            findings.error(journal.place(), "the log goes to one place").label("`syslog` is another");
        }
        let lost = matches!(self.target(), Target::File(LogFile::Stderr | LogFile::Stdout));
        if in_background && lost {
            findings
                .warning(self.file.place(), "log lines will be lost")
                .label(format!("a daemon in the background has no {}", *self.file))
                .help("[log] file = \"/var/log/drover/drover.log\"");
        }
    }

    fn check_levels(&self, findings: &mut Findings) {
        for (module, level) in self.levels.iter().filter(|(module, _)| path_of(module).is_none()) {
            let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
            findings
                .error(level.place(), format!("no part of drover is called \"{module}\""))
                .label("its level would change nothing")
                .help(format!(
                    "the parts are {}; a module inside is named as in \"http::handler\"",
                    names.join(", ")
                ));
        }
    }
}

/// Where the log goes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Target {
    /// Appended to a file.
    File(LogFile),
    /// A datagram a line.
    Syslog(Syslog),
    /// To systemd's journal, by its own protocol.
    Journal(PathBuf),
}

/// "http::handler" has the path `drover_http::handler`.
fn path_of(module: &str) -> Option<String> {
    let (part, inside) =
        module.split_once("::").map_or((module, ""), |(part, _)| (part, &module[part.len()..]));
    let (_, path) = PARTS.iter().find(|(name, _)| *name == part)?;
    Some(format!("{path}{inside}"))
}

impl From<Level> for tracing::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
            Level::Trace => Self::TRACE,
        }
    }
}
