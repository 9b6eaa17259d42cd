//! Upstreams, and the settings that nginx has where requests are passed on and drover has in the upstream.

use super::{Converter, Scope};
use crate::document::{Table, inline_table, key, list, string};
use crate::mapping::Level;
use crate::report::Outcome;
use crate::tree::Directive;

/// What a block passes on to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pass {
    /// The name of an upstream, or an address with its port.
    pub(crate) server: String,
    /// What stands before and behind it in `proxy_pass`.
    pub(crate) around: (&'static str, String),
}

impl Pass {
    fn text(&self, server: &str) -> String {
        format!("{}{server}{}", self.around.0, self.around.1)
    }
}

/// A setting of an upstream, asked for where something is passed on to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Setting {
    pub(crate) key: &'static str,
    /// As TOML.
    pub(crate) value: String,
}

/// An upstream that is on its way.
pub(super) struct Upstream {
    name: String,
    is_of_streams: bool,
    servers: usize,
    tables: Vec<Table>,
    settings: Vec<Setting>,
}

impl Converter {
    pub(super) fn upstream(&mut self, level: Level, comments: &[String], block: &Directive) {
        let name = block.arguments.first().map_or("", String::as_str);
        let header = format!("[{}.upstreams.{}]", service(level), key(name));
        let mut scope = Scope::new(level, &header, &self.facts);
        comments.iter().for_each(|text| scope.comment(text));
        self.block(&mut scope, block.block.as_deref().unwrap_or_default(), &[]);
        self.note(block, Outcome::CarriedOver, "");
        let (servers, settings) = (scope.count("servers"), std::mem::take(&mut scope.of_upstream));
        self.upstreams.push(Upstream {
            name: name.to_owned(),
            is_of_streams: level.is_of_streams(),
            servers,
            tables: scope.finish(),
            settings,
        });
    }

    /// Hands the settings of a block that passes on to its upstream. An address becomes one where there are any.
    pub(super) fn settle_pass(&mut self, scope: &mut Scope) {
        if !scope.passes.is_empty() {
            self.settle_passes(scope);
        }
        let Some(pass) = scope.pass.clone() else { return };
        if !scope.level.is_of_streams() {
            settle_path(scope);
            settle_host(scope);
        }
        let settings = scope.of_upstream.clone();
        let is_of_streams = scope.level.is_of_streams();
        if scope.facts.has_upstream(scope.level, &pass.server) {
            let known = |upstream: &&mut Upstream| {
                upstream.name == pass.server && upstream.is_of_streams == is_of_streams
            };
            if let Some(upstream) = self.upstreams.iter_mut().find(known) {
                upstream.settings.extend(settings);
            }
            return;
        }
        // What a variable decides is settled already.
        if settings.is_empty() || !scope.passes.is_empty() {
            return;
        }
        let name = self.name_for(&pass.server, &settings, is_of_streams);
        scope.set("proxy_pass", string(&pass.text(&name)));
    }

    /// The same where a variable decides among several.
    fn settle_passes(&mut self, scope: &Scope) {
        if scope.of_upstream.is_empty() {
            return;
        }
        let is_of_streams = scope.level.is_of_streams();
        let is_one = |upstream: &Upstream, name: &str| {
            upstream.name == name && upstream.is_of_streams == is_of_streams
        };
        let mut names = scope.passes.clone();
        names.sort();
        names.dedup();
        for name in names {
            match self.upstreams.iter_mut().find(|upstream| is_one(upstream, &name)) {
                Some(upstream) => upstream.settings.extend(scope.of_upstream.iter().cloned()),
                None => {
                    let keys: Vec<&str> = scope.of_upstream.iter().map(|setting| setting.key).collect();
                    self.report.say(format!("{name}, an address, has no {} of its own", keys.join(", ")));
                }
            }
        }
    }

    /// The name of an upstream for an address with these settings.
    fn name_for(&mut self, server: &str, settings: &[Setting], is_of_streams: bool) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        let stem: String = server.trim_start_matches("unix:").chars().map(plain).collect();
        let stem = stem.trim_matches('-').to_owned();
        let mut name = stem.clone();
        for number in 2.. {
            let known = self
                .upstreams
                .iter()
                .find(|known| known.name == name && known.is_of_streams == is_of_streams);
            match known {
                Some(known) if known.servers == 0 && known.settings == settings => return name,
                Some(_) => name = format!("{stem}-{number}"),
                None => break,
            }
        }
        let service = if is_of_streams { "stream" } else { "http" };
        let mut table = Table::new(&format!("[{service}.upstreams.{}]", key(&name)));
        table.set("servers", list(&[string(server)]));
        self.upstreams.push(Upstream {
            name: name.clone(),
            is_of_streams,
            servers: 0,
            tables: vec![table],
            settings: settings.to_vec(),
        });
        name
    }

    /// The tables of all upstreams of a service.
    pub(super) fn finish_upstreams(&mut self, of_streams: bool) -> Vec<Table> {
        let mut tables = Vec::new();
        for upstream in self.upstreams.iter_mut().filter(|upstream| upstream.is_of_streams == of_streams) {
            if let Some(table) = upstream.tables.first_mut() {
                for Setting { key, value } in &upstream.settings {
                    table.set(key, value.clone());
                }
                // nginx tries all of them.
                if upstream.servers > USUAL_TRIES && !upstream.settings.iter().any(|one| one.key == "tries") {
                    table.set("tries", upstream.servers.to_string());
                }
            }
            tables.append(&mut upstream.tables);
        }
        tables
    }

    /// Whether blocks ask one upstream for different things, of which it can do the last only.
    pub(super) fn note_contradictions(&mut self) {
        let mut remarks = Vec::new();
        for upstream in &self.upstreams {
            for (at, setting) in upstream.settings.iter().enumerate() {
                let differs = |other: &&Setting| other.key == setting.key && other.value != setting.value;
                if upstream.settings[..at].iter().any(|other| differs(&other)) {
                    remarks.push(format!(
                        "`{}` of the upstream {} is {} for all that pass on to it",
                        setting.key, upstream.name, setting.value
                    ));
                }
            }
        }
        remarks.dedup();
        remarks.into_iter().for_each(|remark| self.report.say(remark));
    }
}

/// The last rule of the location changes the path to what is passed on.
fn settle_path(scope: &mut Scope) {
    let Some(to) = scope.passed_path.take() else { return };
    let expression = scope.expression.clone().unwrap_or_else(|| string("^"));
    let rule = [("rewrite", expression), ("to", string(&to)), ("then", string("break"))];
    scope.push("rules", inline_table(&rule));
}

/// nginx tells servers their own name unless it is told another. drover passes on what the client says.
fn settle_host(scope: &mut Scope) {
    let host = string(&scope.proxy_host);
    for (_, value) in &mut scope.request_fields {
        *value = value.replace("$proxy_host", &scope.proxy_host);
    }
    let is_host = |(name, _): &(String, String)| name.eq_ignore_ascii_case("host");
    match scope.request_fields.iter().position(is_host) {
        Some(at) if scope.request_fields[at].1 == string("$http_host") => _ = scope.request_fields.remove(at),
        Some(_) => {}
        None => {
            scope.request_fields.insert(0, ("Host".to_owned(), host));
            // A server that is told its own name sends clients to it.
            if scope.redirects_by_default && !scope.proxy_host.starts_with('$') {
                let pair = default_redirect(scope);
                scope.redirects.push(pair);
            }
        }
    }
    scope.write_request_fields();
    if !scope.redirects.is_empty() {
        let pairs: Vec<(&str, String)> =
            scope.redirects.iter().map(|(from, to)| (from.as_str(), string(to))).collect();
        scope.set("proxy.redirects", inline_table(&pairs));
    }
}

/// What is passed on to, and the location's path in its place.
fn default_redirect(scope: &Scope) -> (String, String) {
    let path = scope.pass.as_ref().map_or("", |pass| &pass.around.1);
    match path {
        "" => (format!("http://{}/", scope.proxy_host), "/".to_owned()),
        path => (format!("http://{}{path}", scope.proxy_host), scope.plain_path.clone()),
    }
}

/// Servers that drover tries unless told otherwise.
const USUAL_TRIES: usize = 3;

/// The name of the service's table.
pub(crate) fn service(level: Level) -> &'static str {
    if level.is_of_streams() { "stream" } else { "http" }
}
