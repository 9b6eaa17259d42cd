//! Locations: their paths, and whether there is something to serve.
//!
//! That something is missing is certain only if everything could be read: it is not said beside errors.

use drover_config::{Findings, Located};

use crate::config::{Http, Location, PathMatch, Return, Server};

pub(super) fn check(http: &Http, findings: &mut Findings) {
    for server in &http.servers {
        check_index(&server.index, findings);
        if server.root.is_none()
            && server.locations.is_empty()
            && server.rules.is_empty()
            && !findings.has_errors()
        {
            findings
                .warning(server.listen.place(), "the server has nothing to serve")
                .label("every request to it is answered with 404")
                .help("give it a `root` or `locations`");
        }
        check_all(&server.locations, None, server, findings);
        check_named(&server.locations, &mut Vec::new(), findings);
    }
}

/// Locations beside each other, inside of `outer`.
fn check_all(locations: &[Location], outer: Option<&Location>, server: &Server, findings: &mut Findings) {
    for (at, location) in locations.iter().enumerate() {
        let inside = outer.map(|outer| location.inside(outer));
        let location = inside.as_ref().unwrap_or(location);
        check_path(location, &locations[..at], findings);
        if let Some(outer) = outer {
            check_inside(location, outer, findings);
        }
        check_content(&locations[at], location, server, findings);
        check_users(location, server, findings);
        check_index(location.index.as_deref().unwrap_or_default(), findings);
        if let (PathMatch::Exact(_) | PathMatch::Named(_), Some(first)) =
            (&*location.path, location.locations.0.first())
        {
            findings
                .error(first.path.place(), "a location that no request can reach")
                .label("is inside of one for a single path")
                .related(location.path.place(), "this one");
        }
        check_all(&location.locations.0, Some(location), server, findings);
    }
}

fn check_path(location: &Location, before: &[Location], findings: &mut Findings) {
    let place = location.path.place();
    if let Some(path) = location.path.path() {
        if !path.starts_with('/') {
            findings
                .error(place, format!("the path {path:?} can match no request"))
                .label("must begin with \"/\"")
                .help(format!("write {:?}", format!("/{path}")));
        } else if path.contains(['?', '#']) || path.split('/').any(|part| part == "." || part == "..") {
            findings
                .error(place, format!("the path {path:?} can match no request"))
                .label("paths are matched decoded, without `.` and `..`, and without the query");
        }
    }
    // Names count in the whole server; `check_named` sees to them.
    let is_named = matches!(*location.path, PathMatch::Named(_));
    if let Some(first) = before.iter().find(|first| !is_named && first.path.is_same(&location.path)) {
        findings
            .error(place, format!("two locations for {}", *location.path))
            .label("the second here")
            .related(first.path.place(), "the first here")
            .help("requests could only ever reach the first; remove one of the two");
    }
}

/// A path that the location around it does not match is never found.
fn check_inside(location: &Location, outer: &Location, findings: &mut Findings) {
    if let PathMatch::Named(_) = *location.path {
        findings
            .error(location.path.place(), "a named location inside of another")
            .label("must stand in the server itself")
            .related(outer.path.place(), "it is inside of this one");
    }
    if let (Some(inner), Some(around)) = (location.path.path(), outer.path.path())
        && !inner.starts_with(around)
    {
        findings
            .error(location.path.place(), "a location that no request can reach")
            .label(format!("must begin with {around:?}"))
            .related(outer.path.place(), "it is inside of this one");
    }
}

fn check_named<'a>(locations: &'a [Location], known: &mut Vec<&'a Location>, findings: &mut Findings) {
    for location in locations {
        let PathMatch::Named(name) = &*location.path else { continue };
        if name.is_empty() || name.starts_with('@') {
            findings
                .error(location.path.place(), "a location's name that cannot be used")
                .label("must be a word, without `@`")
                .help("path = { name = \"fallback\" }, and \"@fallback\" where it is used");
        }
        if let Some(first) = known.iter().find(|first| first.path == location.path) {
            findings
                .error(location.path.place(), format!("two locations named `{name}`"))
                .label("the second here")
                .related(first.path.place(), "the first here");
        }
        known.push(location);
    }
}

/// Who is asked for a password must be known to somebody.
fn check_users(location: &Location, server: &Server, findings: &mut Findings) {
    let realm = location.basic_auth.as_ref().or(server.basic_auth.as_ref());
    let Some(realm) = realm.filter(|own| own.realm().is_some()) else { return };
    if location.basic_auth_users.as_ref().or(server.basic_auth_users.as_ref()).is_none() {
        findings
            .error(realm.place(), "a password that nobody knows")
            .label("needs `basic_auth_users`")
            .help("basic_auth_users = \"users\", a file with lines as `htpasswd -nB NAME` writes them");
    }
}

/// `own` is the location as it is written, `location` with what it has from the one around it.
fn check_content(own: &Location, location: &Location, server: &Server, findings: &mut Findings) {
    let root = own.root.as_ref().map(|root| ("root", root.place()));
    let answer = own.return_.as_ref().map(|answer| ("return", answer.place()));
    let pass = own.proxy_pass.as_ref().map(|pass| ("proxy_pass", pass.place()));
    let alias = own.alias.as_ref().map(|alias| ("alias", alias.place()));
    let status = own.status.as_ref().map(|status| ("status", status.place()));
    let said: Vec<_> = [root, alias, answer, pass, status].into_iter().flatten().collect();
    if let [(first, place), (second, other), ..] = said[..] {
        findings
            .error(place, format!("`{first}` and `{second}` contradict each other"))
            .label("is this to be served")
            .related(other, "or this?")
            .help("remove one of the two");
    }
    if let (Some((_, place)), None) = (alias, own.path.path()) {
        findings
            .error(place, "`alias` stands in place of nothing")
            .label("the location has no path of its own")
            .help("write `root`, beneath which the whole path is looked for");
    }
    let index = own.index.as_ref().and_then(|index| index.first()).map(Located::place);
    let precompressed = own.precompressed.as_ref().and_then(|codings| codings.first()).map(Located::place);
    for (key, place) in [("index", index), ("precompressed", precompressed)] {
        if let (Some(place), Some((_, elsewhere))) = (place, answer.or(pass).or(status)) {
            findings
                .warning(place, format!("`{key}` has no effect here"))
                .label("no file is looked for")
                .related(elsewhere, "as this is the answer");
        }
    }
    if said.is_empty()
        && location.root.is_none()
        && server.root.is_none()
        && location.rules.is_empty()
        && location.locations.0.is_empty()
        && !findings.has_errors()
    {
        findings
            .warning(location.path.place(), "the location has nothing to serve")
            .label("every request to it is answered with 404")
            .help("give it a `root`, a `return`, a `proxy_pass` or a `status`, or its server a `root`");
    }
}

pub(super) fn check_return(answer: &Located<Return>, findings: &mut Findings) {
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
