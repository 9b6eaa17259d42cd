//! Names of servers: their form, and the pairs of address and name that two servers claim.

use std::collections::HashMap;

use drover_config::{Findings, ListenAddress, Place};
use drover_service::names;

use crate::config::{Http, Server, expression_of_name};

pub(super) fn check(http: &Http, findings: &mut Findings) {
    let mut claimed: HashMap<(&ListenAddress, String), (usize, Option<Place>)> = HashMap::new();
    for (number, server) in http.servers.iter().enumerate() {
        check_form(server, findings);
        for (listen, (name, place)) in pairs(server) {
            let Some((first, first_place)) = claimed.get(&(listen, name.clone())) else {
                claimed.insert((listen, name), (number, place));
                continue;
            };
            if *first == number {
                continue;
            }
            let who = match name.is_empty() {
                true => "without a name".to_owned(),
                false => format!("named {name:?}"),
            };
            findings
                .error(place, format!("two servers {who} on {listen}"))
                .label("the second here")
                .related(*first_place, "the first here")
                .help("requests could only ever reach the first; give the second another name or address");
        }
    }
}

/// Every address with every name of a server; a server without names has the empty one.
fn pairs(server: &Server) -> Vec<(&ListenAddress, (String, Option<Place>))> {
    let mut pairs = Vec::new();
    for listen in server.listen.iter() {
        if server.server_names.is_empty() {
            pairs.push((&listen.address, (String::new(), listen.place())));
        }
        for name in &server.server_names {
            let same = if name.starts_with('~') { name.to_string() } else { name.to_ascii_lowercase() };
            pairs.push((&listen.address, (same, name.place())));
        }
    }
    pairs
}

fn check_form(server: &Server, findings: &mut Findings) {
    for (at, name) in server.server_names.iter().enumerate() {
        if let Some(wrong) = wrong_name(name) {
            findings
                .error(name.place(), "`server_names` has a name that no request can have")
                .label(wrong)
                .help("names are \"example.org\", \"*.example.org\", \"www.example.*\" or '~^expression$'");
        }
        let same = |first: &&drover_config::Located<String>| first.eq_ignore_ascii_case(name);
        if let Some(first) = server.server_names[..at].iter().find(same) {
            findings
                .warning(name.place(), format!("the server is named {:?} twice", name.as_str()))
                .label("no effect")
                .related(first.place(), "named first here");
        }
    }
}

fn wrong_name(name: &str) -> Option<String> {
    if let Some(expression) = expression_of_name(name) {
        return expression.err();
    }
    names::wrong_name(name).map(str::to_owned)
}
