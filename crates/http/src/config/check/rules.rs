//! Rules, error pages, changes of fields and maps.

use drover_config::{Findings, Located};

use super::texts::{check_field, check_text};
use crate::config::{
    Condition, ErrorPage, HeaderChange, Headers, Http, Location, Map, PageStatus, PathMatch, Rule, Then,
    network,
};
use crate::own::{KnownNames, OwnVariables, is_built_in};

pub(super) fn check(http: &Http, known: &KnownNames, findings: &mut Findings) {
    let mut check = Check { known, findings };
    check.headers(http.headers.as_ref());
    for server in &http.servers {
        let names = location_names(&server.locations);
        server.rules.iter().for_each(|rule| check.rule(rule));
        check.headers(server.headers.as_ref());
        let own = server.error_pages.as_ref().or(http.error_pages.as_ref());
        check.error_pages(own, &names);
        server.locations.iter().for_each(|location| check.location(location, &names));
    }
    http.maps.iter().for_each(|(name, map)| check.map(name, map));
    if !findings.has_errors()
        && let Err(error) = OwnVariables::of(http)
    {
        let place = http.maps.get(&error.map).and_then(|map| map.of.place());
        findings.error(place, format!("the map `{}` cannot be used", error.map)).label(error.fault);
    }
}

/// The names that `"@name"` may be.
fn location_names<'a>(locations: &'a [Location]) -> Vec<&'a str> {
    let name = |location: &'a Location| match &*location.path {
        PathMatch::Named(name) => Some(name.as_str()),
        _ => None,
    };
    locations.iter().filter_map(name).collect()
}

struct Check<'a> {
    known: &'a KnownNames,
    findings: &'a mut Findings,
}

impl Check<'_> {
    fn location(&mut self, location: &Location, names: &[&str]) {
        location.rules.iter().for_each(|rule| self.rule(rule));
        self.headers(location.headers.as_ref());
        self.error_pages(location.error_pages.as_ref(), names);
        location.locations.0.iter().for_each(|inner| self.location(inner, names));
    }

    fn text(&mut self, text: &Located<String>) {
        check_text(text, self.known, self.findings);
    }

    fn rule(&mut self, rule: &Rule) {
        if let Some(condition) = &rule.when {
            self.condition(condition);
        }
        for (name, text) in &rule.set {
            self.name(name, text);
            self.text(text);
        }
        match (&rule.rewrite, &rule.to) {
            (Some(rewrite), None) => {
                self.findings
                    .error(rewrite.place(), "`rewrite` leads nowhere")
                    .label("has no `to`")
                    .help("add to = \"/new/$1\"");
            }
            (None, Some(to)) => {
                self.findings
                    .error(to.place(), "`to` without `rewrite`")
                    .label("there is nothing to replace");
            }
            (None, None) if *rule.then != Then::Next => {
                self.findings
                    .warning(rule.then.place(), "`then` has no effect without `rewrite`")
                    .label("there is nothing that it follows");
            }
            _ => {}
        }
        if let (Some(rewrite), Some(answer)) = (&rule.rewrite, &rule.return_) {
            self.findings
                .error(answer.place(), "`return` and `rewrite` contradict each other")
                .label("the answer")
                .related(rewrite.place(), "or another path?")
                .help("make two rules of it; `when` says when to answer");
        }
        if let Some(to) = &rule.to {
            self.text(to);
            check_field("to", to, self.findings);
            self.target(rule, to);
        }
    }

    fn target(&mut self, rule: &Rule, to: &Located<String>) {
        let redirects = matches!(*rule.then, Then::Redirect | Then::Permanent);
        let url = to.contains("://");
        if url && !redirects {
            self.findings
                .error(to.place(), "`to` is no path")
                .label("a URL can only be what a client is redirected to")
                .help("then = \"redirect\", or \"permanent\"");
        } else if !url && !to.starts_with(['/', '$']) {
            self.findings.error(to.place(), "`to` is no path").label("must begin with \"/\"");
        }
    }

    fn condition(&mut self, condition: &Located<Condition>) {
        self.text(&condition.text);
        if let Some(equals) = &condition.equals {
            self.text(equals);
        }
        if let (Some(equals), Some(matches)) = (&condition.equals, &condition.matches) {
            self.findings
                .error(equals.place(), "`equals` and `matches` contradict each other")
                .label("equal to this")
                .related(matches.place(), "or matched by this?")
                .help("remove one of the two");
        }
    }

    fn name(&mut self, name: &str, text: &Located<String>) {
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !is_name {
            self.findings
                .error(text.place(), format!("`{name}` is no name of a variable"))
                .label("letters, digits and `_`, without `$`");
        } else if is_built_in(name) {
            self.findings
                .error(text.place(), format!("the variable `${name}` is built in"))
                .label("give this one another name");
        }
    }

    fn headers(&mut self, headers: Option<&Headers>) {
        for change in headers.iter().flat_map(|headers| &headers.0) {
            self.header_change(change);
        }
    }

    fn header_change(&mut self, change: &HeaderChange) {
        if let Some(condition) = &change.when {
            self.condition(condition);
        }
        for (name, text) in change.set.iter().chain(&change.add) {
            self.text(text);
            check_field(name, text, self.findings);
            self.field_name(name, text);
        }
        for name in &change.remove {
            self.field_name(name, name);
        }
    }

    fn field_name(&mut self, name: &str, at: &Located<String>) {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) {
            self.findings.error(at.place(), format!("{name:?} is no field name")).label("must be a token");
        }
        // Where a response ends depends on these.
        const OWN: &[&str] =
            &["connection", "content-length", "keep-alive", "trailer", "transfer-encoding", "upgrade"];
        if OWN.contains(&name.to_ascii_lowercase().as_str()) {
            self.findings
                .error(at.place(), format!("the field {name} cannot be changed"))
                .label("says where a response or the connection ends");
        }
    }

    fn error_pages(&mut self, pages: Option<&Vec<ErrorPage>>, names: &[&str]) {
        for page in pages.into_iter().flatten() {
            self.text(&page.to);
            check_field("to", &page.to, self.findings);
            for status in page.statuses.iter().filter(|status| !(300..=599).contains(&***status)) {
                self.findings
                    .error(status.place(), "`statuses` has one that is no error")
                    .label("must be 300 to 599");
            }
            if let PageStatus::Number(204 | 205 | 304) = *page.status {
                self.findings
                    .error(page.status.place(), "`status` is one of responses without a body")
                    .label("a page has one");
            }
            if let Some(name) = page.to.strip_prefix('@')
                && !names.contains(&name)
            {
                let help = match drover_config::nearest(name, names.iter().copied()) {
                    Some(near) => format!("did you mean \"@{near}\"?"),
                    None => format!("define it: path = {{ name = \"{name}\" }}"),
                };
                self.findings
                    .error(page.to.place(), format!("the location `@{name}` is not defined"))
                    .label("the server has no location of this name")
                    .help(help);
            } else if !page.to.starts_with(['/', '@', '$']) && !page.to.contains("://") {
                self.findings
                    .error(page.to.place(), "`to` is neither a path nor a URL")
                    .label("must begin with \"/\", \"@\" or \"https://\"");
            }
        }
    }

    fn map(&mut self, name: &str, map: &Map) {
        self.name(name, &map.of);
        let patterns = map.patterns.iter().map(|pattern| &pattern.value);
        let values = map.values.values().chain(patterns).chain(map.networks.values());
        for text in values.chain([&map.of, &map.default]) {
            self.text(text);
        }
        for (text, value) in &map.networks {
            if let Err(wrong) = network(text) {
                self.findings.error(value.place(), format!("{text:?} is no network")).label(wrong);
            }
        }
    }
}
