//! Where the config comes from: a file of drover's own, or an nginx.conf that is converted in memory.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use drover_config::Findings;
use drover_import::report::{Outcome, Report};
use drover_import::tree::{self, ReadError};
use drover_import::{Converted, Directories};
use toml::de::DeTable;

use super::{Config, System};
use crate::cli::{ConfigFile, NginxConf};
use crate::text::counted;

/// Who nginx's workers are where nobody says it (its `NGX_USER`).
const NGINX_USER: &str = "nobody";

/// Where the config comes from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A file of drover's own.
    Toml(PathBuf),
    /// An nginx.conf; its paths are absolute.
    Nginx {
        file: PathBuf,
        /// Where relative paths start.
        prefix: PathBuf,
        /// What cannot be carried over is no error.
        lenient: bool,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Toml(path) => path.display().fmt(formatter),
            Source::Nginx { file, .. } => file.display().fmt(formatter),
        }
    }
}

impl Source {
    /// What the command line names.
    ///
    /// # Errors
    /// When the working directory is gone that relative paths start at.
    pub(crate) fn of(arguments: &ConfigFile) -> io::Result<Source> {
        let NginxConf { file, prefix, lenient } = &arguments.nginx;
        let Some(file) = file else {
            return Ok(Source::Toml(arguments.path.clone()));
        };
        let (file, prefix) = with_prefix(file, prefix.as_deref())?;
        Ok(Source::Nginx { file, prefix, lenient: *lenient })
    }

    /// The same, to be read from any directory.
    ///
    /// # Errors
    /// When the working directory is gone that relative paths start at.
    pub(crate) fn absolute(self) -> io::Result<Source> {
        match self {
            Source::Toml(path) => Ok(Source::Toml(std::path::absolute(path)?)),
            nginx @ Source::Nginx { .. } => Ok(nginx),
        }
    }

    /// The arguments of a command that names it.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        match self {
            Source::Toml(path) => vec!["-c".into(), path.into()],
            Source::Nginx { file, prefix, lenient } => {
                let mut arguments = vec!["--nginx-conf".into(), file.into(), "-p".into(), prefix.into()];
                arguments.extend(lenient.then(|| "--lenient".into()));
                arguments
            }
        }
    }

    /// Reads it, checks everything, and fills in the defaults that depend on the system. With the config come the
    /// findings that are warnings; without, everything that is wrong.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub(crate) fn load(&self, system: &System) -> Result<(Config, Findings), Box<Findings>> {
        match self {
            Source::Toml(path) => {
                let (config, findings) = drover_config::load::<Config>(path);
                Config::checked(config, findings, system)
            }
            Source::Nginx { file, prefix, lenient } => {
                let nodes = tree::read(file).map_err(|error| Box::new(unreadable(&error)))?;
                let Converted { text, report } =
                    drover_import::convert(&nodes, &Directories::of(file, Some(prefix)));
                let name = format!("{} in drover's terms", file.display());
                let (mut config, mut findings) = drover_config::parse::<Config>(&name, &text);
                note(&report, *lenient, &mut findings);
                if let Some(config) = &mut config {
                    settle(config, system);
                }
                Config::checked(config, findings, system)
            }
        }
    }

    /// The runtime directory, as far as a file tells it that is broken at the moment: that is when the daemon's
    /// opinion is asked for.
    pub(crate) fn runtime_dir_in_broken(&self) -> Option<PathBuf> {
        match self {
            Source::Toml(path) => {
                let text = std::fs::read_to_string(path).ok()?;
                let (tables, _) = DeTable::parse_recoverable(&text);
                let process = tables.get_ref().get("process")?.get_ref().as_table()?;
                let directory = process.get("runtime_dir")?.get_ref().as_str()?;
                Some(std::path::absolute(path).ok()?.parent()?.join(directory))
            }
            Source::Nginx { file, prefix, .. } => {
                let text = std::fs::read_to_string(file).ok()?;
                let named = |line: &str| {
                    let mut words = line.split_whitespace();
                    (words.next() == Some("pid")).then(|| words.next().map(str::to_owned)).flatten()
                };
                let pid_file = text.lines().find_map(named)?;
                Some(beside(&prefix.join(pid_file.trim_end_matches(';'))))
            }
        }
    }
}

/// The nginx.conf and its prefix as nginx understands them: with a prefix, the file starts there too.
///
/// # Errors
/// When the working directory is gone.
pub(crate) fn with_prefix(file: &Path, prefix: Option<&Path>) -> io::Result<(PathBuf, PathBuf)> {
    match prefix {
        Some(prefix) => {
            let prefix = std::path::absolute(prefix)?;
            Ok((prefix.join(file), prefix))
        }
        None => {
            let file = std::path::absolute(file)?;
            let prefix = file.parent().map(Path::to_path_buf).unwrap_or_default();
            Ok((file, prefix))
        }
    }
}

/// What nginx has by default where drover asks to be told.
fn settle(config: &mut Config, system: &System) {
    let process = &mut config.process;
    if process.user.is_none() && system.is_root() {
        process.user = Some(NGINX_USER.to_owned().into());
    }
    // As many daemons can run as there are pid files.
    if let (None, Some(pid_file)) = (&process.runtime_dir, &process.pid_file) {
        process.runtime_dir = Some(beside(pid_file));
    }
}

/// The runtime directory that goes with a pid file.
fn beside(pid_file: &Path) -> PathBuf {
    pid_file.with_extension("drover")
}

fn unreadable(error: &ReadError) -> Findings {
    let mut findings = Findings::new();
    match error {
        ReadError::Syntax { place, reason } => {
            let place = line_of(&mut findings, place);
            findings.error(place, reason.clone()).label("nginx would not read on here");
        }
        error => {
            findings.error(None, error.to_string());
        }
    }
    findings
}

/// What was not carried over, and that there is something to know about the rest.
fn note(report: &Report, lenient: bool, findings: &mut Findings) {
    for entry in report.entries().iter().filter(|entry| entry.outcome == Outcome::NotSupported) {
        let place = line_of(findings, &entry.place);
        let message = format!("not carried over: {}", entry.directive);
        let finding = match lenient {
            true => findings.warning(place, message),
            false => findings.error(place, message),
        };
        finding.label(entry.remark.clone());
    }
    let differences = report.count(Outcome::Differs);
    if differences > 0 {
        findings
            .warning(None, format!("not quite the same in drover: {}", counted(differences, "directive")))
            .help("`drover import --report` says where, and what the difference is");
    }
}

fn line_of(findings: &mut Findings, place: &tree::Place) -> drover_config::Place {
    let text = || String::from_utf8_lossy(&std::fs::read(&place.file).unwrap_or_default()).into_owned();
    findings.line_of(&place.file.to_string_lossy(), text, place.line as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_config_still_tells_where_its_daemon_is() {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("drover-broken-{}.toml", std::process::id()));
        for (directory, expected) in
            [("/run/here", PathBuf::from("/run/here")), ("here", folder.join("here"))]
        {
            let text = format!("[process]\nruntime_dir = \"{directory}\"\nworkers = \"many\"\n[nonsense\n");
            std::fs::write(&path, text).expect("file");
            assert_eq!(Source::Toml(path.clone()).runtime_dir_in_broken(), Some(expected));
        }
        std::fs::write(&path, "user www;\npid logs/nginx.pid;\nhttp {\n").expect("file");
        let nginx = Source::Nginx { file: path.clone(), prefix: "/srv/nginx".into(), lenient: false };
        assert_eq!(nginx.runtime_dir_in_broken(), Some("/srv/nginx/logs/nginx.drover".into()));
        std::fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn paths_start_at_the_prefix() {
        let given = with_prefix(Path::new("conf/nginx.conf"), Some(Path::new("/srv"))).expect("paths");
        assert_eq!(given, ("/srv/conf/nginx.conf".into(), "/srv".into()));
        let alone = with_prefix(Path::new("/etc/nginx/nginx.conf"), None).expect("paths");
        assert_eq!(alone, ("/etc/nginx/nginx.conf".into(), "/etc/nginx".into()));
    }
}
