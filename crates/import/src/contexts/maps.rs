//! Variables whose values are looked up.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};

use super::exactly;
use super::fields::cache_control;
use super::rules::expression;
use crate::convert::Scope;
use crate::document::{Table, inline_table, key, string};
use crate::mapping::Level::Http;
use crate::mapping::{How, Row, Verdict};
use crate::tree::Directive;

pub(super) const ROWS: &[Row] = &[
    Row { directive: "map", becomes: "maps", levels: &[Http], how: How::By(map) },
    Row { directive: "geo", becomes: "maps", levels: &[Http], how: How::By(geo) },
    Row { directive: "split_clients", becomes: "maps", levels: &[Http], how: How::By(split_clients) },
];

/// What a map is made of, as it is gathered.
#[derive(Default)]
struct Entries {
    default: Option<String>,
    values: Vec<(String, String)>,
    /// Expressions as TOML.
    patterns: Vec<(String, String)>,
    /// Names with an asterisk at their beginning, and those with one at their end: without it.
    beginnings: Vec<(String, String)>,
    ends: Vec<(String, String)>,
}

fn map(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [of, name] = exactly(&directive.arguments)?;
    let hostnames = directive.inner().any(|entry| entry.name == "hostnames");
    let is_of_times = scope.facts.is_of_times(name);
    let mut entries = Entries::default();
    for entry in directive.inner().filter(|entry| !["hostnames", "volatile"].contains(&entry.name.as_str())) {
        let Ok([value]) = exactly(&entry.arguments) else {
            return Err(format!("drover's maps have nothing like `{}`", entry.line()));
        };
        let value = if is_of_times { cache_control(value)?.unwrap_or_default() } else { value.clone() };
        entries.add(&entry.name, value, hostnames)?;
    }
    let mut fields = Vec::new();
    fields.extend(entries.default.take().map(|value| ("default", string(&value))));
    let patterns = entries.patterns();
    if !patterns.is_empty() {
        fields.push(("patterns", format!("[{}]", patterns.join(", "))));
    }
    let mut values = Table::new("");
    entries.values.iter().for_each(|(text, value)| values.set(&key(text), string(value)));
    write_map(scope, name, of, fields, "values", values)
}

impl Entries {
    fn add(&mut self, text: &str, value: String, hostnames: bool) -> Result<(), String> {
        match text {
            "default" => self.default = Some(value),
            text if text.starts_with('~') => {
                let pattern = match text[1..].strip_prefix('*') {
                    Some(pattern) => format!("(?i){pattern}"),
                    None => text[1..].to_owned(),
                };
                self.patterns.push((expression(&pattern)?, value));
            }
            text if hostnames && text.starts_with("*.") => {
                self.beginnings.push((text[2..].to_owned(), value))
            }
            text if hostnames && text.ends_with(".*") => {
                self.ends.push((text[..text.len() - 2].to_owned(), value))
            }
            text if hostnames && text.starts_with('.') => {
                self.values.push((text[1..].to_owned(), value.clone()));
                self.beginnings.push((text[1..].to_owned(), value));
            }
            text => self.values.push((text.strip_prefix('\\').unwrap_or(text).to_owned(), value)),
        }
        Ok(())
    }

    /// In the order in which they are tried: names with an asterisk at their beginning, the longest first, then those
    /// with one at their end, then expressions.
    fn patterns(&mut self) -> Vec<String> {
        let longest_first =
            |names: &mut Vec<(String, String)>| names.sort_by_key(|(name, _)| usize::MAX - name.len());
        longest_first(&mut self.beginnings);
        longest_first(&mut self.ends);
        let pattern =
            |pattern: String, value: &str| inline_table(&[("matches", pattern), ("value", string(value))]);
        let escaped = |name: &str| regex::escape(name).replace("\\-", "-");
        let literal = |text: &str| expression(text).unwrap_or_else(|_| string(text));
        let beginnings = self
            .beginnings
            .iter()
            .map(|(name, value)| pattern(literal(&format!("(?i)\\.{}$", escaped(name))), value));
        let ends = self
            .ends
            .iter()
            .map(|(name, value)| pattern(literal(&format!("(?i)^{}\\.", escaped(name))), value));
        let expressions = self.patterns.iter().map(|(text, value)| pattern(text.clone(), value));
        beginnings.chain(ends).chain(expressions).collect()
    }
}

fn geo(scope: &mut Scope, directive: &Directive) -> Verdict {
    let (of, name) = match directive.arguments.as_slice() {
        [name] => ("$remote_addr", name),
        [of, name] => (of.as_str(), name),
        _ => return Err("a variable is expected".to_owned()),
    };
    let (mut entries, mut networks) = (Vec::new(), Table::new(""));
    for entry in directive.inner().filter(|entry| entry.name != "ranges") {
        let [value] = exactly(&entry.arguments)?;
        if entry.name == "default" {
            entries.push(("default", string(value)));
            continue;
        }
        for network in networks_of(&entry.name)? {
            networks.set(&key(&network), string(value));
        }
    }
    write_map(scope, name, of, entries, "networks", networks)
}

fn split_clients(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [of, name] = exactly(&directive.arguments)?;
    let mut shares = Vec::new();
    for entry in directive.inner() {
        let [value] = exactly(&entry.arguments)?;
        let value = ("value", string(value));
        shares.push(match entry.name.as_str() {
            "*" => inline_table(&[value]),
            share => inline_table(&[("share", string(share)), value]),
        });
    }
    write_map(scope, name, of, vec![("shares", format!("[{}]", shares.join(", ")))], "values", Table::new(""))
}

/// The networks that an address, a network or a range of addresses is made of.
fn networks_of(text: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("drover's maps have nothing like `{text}`");
    if let Some((first, last)) = text.split_once('-') {
        if let (Ok(first), Ok(last)) = (first.parse::<Ipv4Addr>(), last.parse::<Ipv4Addr>()) {
            return Ok(Ipv4Subnets::new(first, last, 0).map(|network| network.to_string()).collect());
        }
        if let (Ok(first), Ok(last)) = (first.parse::<Ipv6Addr>(), last.parse::<Ipv6Addr>()) {
            return Ok(Ipv6Subnets::new(first, last, 0).map(|network| network.to_string()).collect());
        }
        return Err(wrong());
    }
    match text.parse::<IpNet>().is_ok() || text.parse::<IpAddr>().is_ok() {
        true => Ok(vec![text.to_owned()]),
        false => Err(wrong()),
    }
}

fn write_map(
    scope: &mut Scope,
    name: &str,
    of: &str,
    entries: Vec<(&str, String)>,
    kind: &str,
    listed: Table,
) -> Verdict {
    let name = name.strip_prefix('$').ok_or_else(|| format!("`{name}` is no variable"))?;
    let mut table = Table::new(&format!("[http.maps.{}]", key(name)));
    scope.take_comments().iter().for_each(|text| table.comment(text));
    table.set("of", string(of));
    entries.into_iter().for_each(|(key, value)| table.set(key, value));
    scope.push_table(table)?;
    if !listed.is_empty() {
        scope.push_table(listed.under(&format!("[http.maps.{}.{kind}]", key(name))))?;
    }
    Ok(None)
}
