//! Locations: their paths, and whether there is something to serve.
//!
//! That something is missing is certain only if everything could be read: it is not said beside errors.

use drover_config::{Findings, Located};

use crate::config::{Http, Location, Return, Server};

pub(super) fn check(http: &Http, findings: &mut Findings) {
    for server in &http.servers {
        check_index(&server.index, findings);
        if server.root.is_none() && server.locations.is_empty() && !findings.has_errors() {
            findings
                .warning(server.listen.place(), "the server has nothing to serve")
                .label("every request to it is answered with 404")
                .help("give it a `root` or `locations`");
        }
        for (at, location) in server.locations.iter().enumerate() {
            check_path(location, &server.locations[..at], findings);
            check_content(location, server, findings);
            check_index(location.index.as_deref().unwrap_or_default(), findings);
        }
    }
}

fn check_path(location: &Location, before: &[Location], findings: &mut Findings) {
    let path = location.path.as_str();
    if !path.starts_with('/') {
        findings
            .error(location.path.place(), format!("the path {path:?} can match no request"))
            .label("must begin with \"/\"")
            .help(format!("write {:?}", format!("/{path}")));
    } else if path.contains(['?', '#']) || path.split('/').any(|part| part == "." || part == "..") {
        findings
            .error(location.path.place(), format!("the path {path:?} can match no request"))
            .label("paths are matched decoded, without `.` and `..`, and without the query");
    }
    if let Some(first) = before.iter().find(|first| first.path == location.path) {
        findings
            .error(location.path.place(), format!("two locations for {}", *location.path))
            .label("the second here")
            .related(first.path.place(), "the first here")
            .help("requests could only ever reach the first; remove one of the two");
    }
}

fn check_content(location: &Location, server: &Server, findings: &mut Findings) {
    let answer = location.return_.as_ref().map(|answer| ("return", answer.place()));
    let pass = location.proxy_pass.as_ref().map(|pass| ("proxy_pass", pass.place()));
    let root = location.root.as_ref().map(|root| ("root", root.place()));
    let said: Vec<_> = [root, answer, pass].into_iter().flatten().collect();
    if let [(first, place), (second, other), ..] = said[..] {
        findings
            .error(place, format!("`{first}` and `{second}` contradict each other"))
            .label("is this to be served")
            .related(other, "or this?")
            .help("remove one of the two");
    }
    let elsewhere = answer.or(pass);
    if let (Some((_, place)), Some(index)) =
        (elsewhere, location.index.as_ref().and_then(|index| index.first()))
    {
        findings
            .warning(index.place(), "`index` has no effect here")
            .label("no file is looked for")
            .related(place, "as this answers");
    }
    if said.is_empty() && server.root.is_none() && !findings.has_errors() {
        findings
            .warning(location.path.place(), "the location has nothing to serve")
            .label("every request to it is answered with 404")
            .help("give it a `root`, a `return` or a `proxy_pass`, or its server a `root`");
    }
    if let Some(answer) = &location.return_ {
        check_return(answer, findings);
    }
}

fn check_return(answer: &Located<Return>, findings: &mut Findings) {
    let status = answer.status;
    let redirects = matches!(status, 301 | 302 | 303 | 307 | 308);
    match &answer.location {
        None if redirects => {
            findings
                .warning(answer.place(), format!("the redirect {status} leads nowhere"))
                .label("has no `location`")
                .help("add location = \"https://example.org$request_uri\"");
        }
        Some(location) if !redirects && status != 201 => {
            findings
                .warning(location.place(), format!("`location` has no effect with the status {status}"))
                .label("clients follow it with 301, 302, 303, 307 and 308");
        }
        _ => {}
    }
    // RFC 9110, 6.4.1: responses with these statuses have no content.
    if let (Some(body), 204 | 205 | 304) = (&answer.body, status) {
        findings
            .warning(body.place(), format!("`body` has no effect with the status {status}"))
            .label("such a response has no body");
    }
    if let (Some(content_type), None) = (&answer.content_type, &answer.body) {
        findings
            .warning(content_type.place(), "`content_type` has no effect without `body`")
            .label("there is no content");
    }
}

fn check_index(index: &[Located<String>], findings: &mut Findings) {
    for name in index {
        if name.is_empty() || name.contains(['/', '\0']) || matches!(name.as_str(), "." | "..") {
            findings
                .error(name.place(), "`index` has a name that no file can have")
                .label("must be the name of a file in the directory, without `/`");
        }
    }
}
