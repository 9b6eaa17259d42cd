//! Which server and which location answers.

mod paths;
mod tree;

use drover_service::Names;

use crate::config;
use crate::own::OwnVariables;
use crate::pattern::Pattern;
use crate::values::Values;

pub(crate) use paths::{Entry, Match, Paths};

/// Finds a server by the host that was asked for: by its [name](Names), else by the first expression that matches
/// it, else the default.
#[derive(Debug)]
pub(crate) struct Hosts {
    names: Names,
    /// In the order of the config.
    expressions: Vec<(Pattern, usize)>,
    default: usize,
}

/// Longer hosts are none, as far as the domain name system goes (RFC 1035, 2.3.4).
const LONGEST_HOST: usize = 255;

impl Hosts {
    /// `servers` are numbers with their names, in the order of the config; of two with one name the first
    /// has it. Fails with what is wrong with an expression among the names.
    pub(crate) fn new<'a>(
        servers: impl IntoIterator<Item = (usize, &'a str)>,
        default: usize,
        own: &OwnVariables,
    ) -> Result<Hosts, String> {
        let (mut names, mut expressions) = (Vec::new(), Vec::new());
        for (server, name) in servers {
            match config::expression_of_name(name) {
                Some(expression) => expressions.push((Pattern::new(&expression?, own)?, server)),
                None => names.push((name, server)),
            }
        }
        Ok(Hosts { names: Names::new(names), expressions, default })
    }

    /// The server for a Host as received, which may carry a port and is asked for only where names matter.
    #[inline]
    pub(crate) fn find<'a>(&self, host: impl FnOnce() -> Option<&'a [u8]>, values: &mut Values) -> usize {
        if self.names.is_empty() && self.expressions.is_empty() {
            return self.default;
        }
        let Some(host) = host() else { return self.default };
        let (host, _) = crate::h1::target::split_port(host);
        self.names.find(host).or_else(|| self.find_by_expression(host, values)).unwrap_or(self.default)
    }

    fn find_by_expression(&self, host: &[u8], values: &mut Values) -> Option<usize> {
        let host = host.strip_suffix(b".").unwrap_or(host);
        let mut lower = [0; LONGEST_HOST];
        let lower = lower.get_mut(..host.len())?;
        lower.copy_from_slice(host);
        lower.make_ascii_lowercase();
        let values = values.use_them();
        self.expressions.iter().find(|(pattern, _)| pattern.find(lower, values)).map(|(_, server)| *server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_by_name_then_by_expression() {
        let servers = [
            (0, "~^(?<sub>.+)\\.example\\.org$"),
            (1, "www.example.org"),
            (2, "*.deep.example.org"),
            (3, "~^shop[0-9]$"),
            (4, "~shop"),
        ];
        let own = OwnVariables::named(&["sub"]);
        let hosts = Hosts::new(servers, 9, &own).expect("the expressions are right");
        for (host, want, sub) in [
            ("www.example.org", 1, ""),
            ("A.Example.ORG:8080", 0, "a"),
            ("x.deep.example.org.", 2, ""),
            ("y.example.org.", 0, "y"),
            ("shop1", 3, ""),
            ("shopx", 4, ""),
            ("other", 9, ""),
            ("", 9, ""),
        ] {
            let mut values = Values::default();
            assert_eq!(hosts.find(|| Some(host.as_bytes()), &mut values), want, "{host}");
            assert_eq!(values.get(0), sub.as_bytes(), "{host}");
        }
        assert_eq!(hosts.find(|| None, &mut Values::default()), 9);
        assert_eq!(hosts.find(|| Some(&[b'x'; 300]), &mut Values::default()), 9);
        assert!(Hosts::new([(0, "~(")], 0, &own).is_err());
    }
}
