//! The access log of streams in the form that [`Config`](crate::Config) gives it.

use crate::{Directory, eventually};

/// One line: a connection or session that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// The worker that had it.
    pub pid: i32,
    /// `TCP` or `UDP`.
    pub protocol: String,
    /// Bytes from the client.
    pub received: u64,
    /// Bytes to the client.
    pub sent: u64,
    /// Servers that were tried, in their order.
    pub servers: Vec<String>,
    /// The name that a TLS client asked for; `-` without one.
    pub name: String,
    /// Why it ended.
    pub reason: String,
}

/// The lines so far.
///
/// # Panics
///
/// When a line is not of that form.
#[track_caller]
pub fn lines(directory: &Directory) -> Vec<Passed> {
    // The end of the text may be half a line.
    let text = directory.read("stream.log");
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| parse(line).unwrap_or_else(|| panic!("a strange line: {line}"))).collect()
}

/// Waits until there are that many lines, and gives them.
#[track_caller]
pub fn eventually_lines(directory: &Directory, count: usize) -> Vec<Passed> {
    eventually(&format!("{count} lines in the stream log"), || {
        Some(lines(directory)).filter(|lines| lines.len() >= count)
    })
}

/// Waits until there is one line, and gives it.
#[track_caller]
pub fn the_line(directory: &Directory) -> Passed {
    let mut lines = eventually_lines(directory, 1);
    assert_eq!(lines.len(), 1, "one line is expected: {lines:?}");
    lines.remove(0)
}

fn parse(line: &str) -> Option<Passed> {
    let mut words = line.split(' ');
    let (pid, protocol) = (words.next()?.parse().ok()?, words.next()?.to_owned());
    let (received, sent) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let rest: Vec<&str> = words.collect();
    let [servers @ .., name, reason] = rest.as_slice() else { return None };
    Some(Passed {
        pid,
        protocol,
        received,
        sent,
        servers: servers.iter().map(|server| server.trim_end_matches(',').to_owned()).collect(),
        name: (*name).to_owned(),
        reason: (*reason).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_apart() {
        let passed = parse("7 TCP 1 22 127.0.0.1:1, 127.0.0.1:2 a.example finished").expect("a line");
        assert_eq!(passed.servers, ["127.0.0.1:1", "127.0.0.1:2"]);
        assert_eq!((passed.received, passed.sent, passed.pid), (1, 22, 7));
        assert_eq!((passed.name.as_str(), passed.reason.as_str()), ("a.example", "finished"));
        assert_eq!(parse("7 TCP"), None);
    }
}
