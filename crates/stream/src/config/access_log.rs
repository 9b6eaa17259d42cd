//! `access_log` and the formats it can name.

use std::time::Duration;

use drover_config::{Located, LogFile, Node, Output, Reader, Shorthand, Size, Value};
use drover_service::Syslog;

use super::LONGEST;

/// Formats that need not be defined: name and text.
pub const BUILT_IN_LOG_FORMATS: &[(&str, &str)] = &[(
    "basic",
    "$remote_addr [$time_local] $protocol $server_port $bytes_received $bytes_sent $session_time \
     $upstream_addr $upstream_connect_time $close_reason",
)];

drover_config::table! {
    /// The log of connections and sessions: a line for each, when it ends.
    #[table(shorthand)]
    pub struct AccessLog {
        /// Where the lines go; "off" for nowhere.
        pub file: Located<LogFile> = LogFile::Off.into(),
        /// A syslog daemon that the lines go to instead.
        #[example = "{ to = \"unix:/dev/log\" }"]
        pub syslog: Option<Located<Syslog>> = None,
        /// The name of a format in [stream.log_formats], or "basic".
        pub format: Located<String> = "basic".to_owned().into(),
        /// Lines are gathered up to this size before they are written; "0b" writes each at once.
        #[range = Size::from_bytes(0)..=Size::megabytes(16)]
        pub buffer: Size = Size::kilobytes(64),
        /// Time after which gathered lines are written anyway.
        #[range = Duration::from_millis(1)..=LONGEST]
        pub flush: Duration = Duration::from_secs(1),
    }
}

/// `access_log = "off"` or the path of a file.
impl Shorthand for AccessLog {
    const TYPE: &'static str = r#""off" or "stderr" or "stdout" or path"#;

    fn from_value(node: &Node, reader: &mut Reader<'_>) -> Option<AccessLog> {
        Located::read(node, reader).map(|file| AccessLog { file, ..AccessLog::default() })
    }

    fn to_value(&self) -> Option<Output> {
        None
    }
}
