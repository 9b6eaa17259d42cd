//! `[log]`: the log of the daemon itself.

use std::collections::BTreeMap;

use drover_config::{Findings, Located, LogFile};

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
        /// The form of the lines.
        pub format: Format = Format::Text,
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

    pub(super) fn check_levels(&self, findings: &mut Findings) {
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
