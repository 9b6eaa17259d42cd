//! The upstreams of a config: those with a name, and one for each address that `proxy_pass` names.

use std::collections::BTreeMap;
use std::rc::Rc;

use drover_config::{Located, ServerAddress};
use drover_service::TemplateError;
use drover_upstream::Plan;
use drover_upstream::config::{Server, Upstream};

use crate::own::OwnVariables;
use crate::plan::PlanError;
use crate::variables::Template;

/// Upstreams by number, as they come to be needed.
pub(crate) struct Upstreams {
    workers: u32,
    plans: Vec<Plan>,
    keys: Vec<Option<Rc<Template>>>,
}

impl Upstreams {
    /// Plans all those that have a name: also one that no location uses is to be checked for its health.
    pub(crate) fn new(
        config: &BTreeMap<String, Located<Upstream>>,
        workers: u32,
        own: &OwnVariables,
    ) -> Result<Upstreams, PlanError> {
        let mut upstreams = Upstreams { workers, plans: Vec::new(), keys: Vec::new() };
        for (name, upstream) in config {
            upstreams.add(name, upstream, own)?;
        }
        Ok(upstreams)
    }

    /// The number of the upstream of this name or address, and the key by which it chooses.
    pub(crate) fn find(
        &mut self,
        server: &str,
        own: &OwnVariables,
    ) -> Result<(usize, Option<Rc<Template>>), PlanError> {
        let number = match self.plans.iter().position(|plan| plan.name() == server) {
            Some(number) => number,
            None => {
                let address =
                    address(server).ok_or_else(|| PlanError::UnknownUpstream { name: server.to_owned() })?;
                self.add(server, &Upstream::new(vec![Server::new(address)]), own)?
            }
        };
        Ok((number, self.keys[number].clone()))
    }

    fn add(&mut self, name: &str, upstream: &Upstream, own: &OwnVariables) -> Result<usize, PlanError> {
        let wrong = |source: TemplateError| PlanError::Hash { name: name.to_owned(), source };
        let key = upstream.hash.as_ref().map(|text| own.template(text)).transpose().map_err(wrong)?;
        self.plans.push(Plan::new(name, upstream, self.workers)?);
        self.keys.push(key.map(Rc::new));
        Ok(self.plans.len() - 1)
    }

    /// All of them.
    pub(crate) fn plans(self) -> Vec<Plan> {
        self.plans
    }
}

/// The address that a text names; port 80 where an internet address has none. None for the name of an upstream.
pub(crate) fn address(server: &str) -> Option<ServerAddress> {
    if let Ok(ip) = server.trim_matches(['[', ']']).parse::<std::net::IpAddr>() {
        return Some(ServerAddress::Internet((ip, 80).into()));
    }
    ServerAddress::parse(server).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_names() {
        for (text, want) in [
            ("127.0.0.1", Some("127.0.0.1:80")),
            ("127.0.0.1:81", Some("127.0.0.1:81")),
            ("[::1]", Some("[::1]:80")),
            ("app.example:8080", Some("app.example:8080")),
            ("unix:/run/x", Some("unix:/run/x")),
            ("app", None),
        ] {
            assert_eq!(address(text).map(|address| address.to_string()).as_deref(), want, "{text}");
        }
    }
}
