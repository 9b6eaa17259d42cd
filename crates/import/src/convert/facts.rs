//! What is known of the whole configuration before any of it is converted.

use std::collections::{HashMap, HashSet};

use crate::directories::Directories;
use crate::mapping::Level;
use crate::tree::{Directive, Node};

/// What a block has to know of others.
#[derive(Default, Debug)]
pub(crate) struct Facts {
    pub(crate) directories: Directories,
    http_upstreams: HashSet<String>,
    stream_upstreams: HashSet<String>,
    /// Blocks `map` of streams.
    pub(crate) stream_maps: Vec<Directive>,
    /// Variables of blocks `map`, and those that `expires` uses, with their sign.
    maps: HashSet<String>,
    times: HashSet<String>,
    /// Variables that `set` gives a value: that, if it is a text without variables and the only one.
    set: HashMap<String, Option<String>>,
    /// Names of all directives that stand somewhere.
    names: HashSet<String>,
}

impl Facts {
    pub(crate) fn of(nodes: &[Node], directories: &Directories) -> Facts {
        let mut facts = Facts { directories: directories.clone(), ..Facts::default() };
        for service in directives(nodes) {
            facts.names.insert(service.name.clone());
            for inner in service.inner() {
                let name = inner.arguments.first().cloned().unwrap_or_default();
                match (service.name.as_str(), inner.name.as_str()) {
                    ("http", "upstream") => _ = facts.http_upstreams.insert(name),
                    ("stream", "upstream") => _ = facts.stream_upstreams.insert(name),
                    ("stream", "map") => facts.stream_maps.push(inner.clone()),
                    _ => {}
                }
            }
            facts.note_names(service);
        }
        facts
    }

    fn note_names(&mut self, block: &Directive) {
        for inner in block.inner() {
            self.names.insert(inner.name.clone());
            self.note(inner);
            self.note_names(inner);
        }
    }

    fn note(&mut self, directive: &Directive) {
        match (directive.name.as_str(), directive.arguments.as_slice()) {
            ("map" | "geo" | "split_clients", [.., name]) => _ = self.maps.insert(name.clone()),
            ("expires", [.., name]) if name.starts_with('$') => _ = self.times.insert(name.clone()),
            ("set", [name, value]) => {
                let constant = (!value.contains('$')).then(|| value.clone());
                let known = self.set.entry(name.clone()).or_insert_with(|| constant.clone());
                if *known != constant {
                    *known = None;
                }
            }
            _ => {}
        }
    }

    /// Whether a variable, with its sign, is that of a map.
    pub(crate) fn has_map(&self, name: &str) -> bool {
        self.maps.contains(name)
    }

    /// Whether a map gives times of `expires`.
    pub(crate) fn is_of_times(&self, name: &str) -> bool {
        self.times.contains(name)
    }

    /// A text with the values of those variables that are always the same.
    pub(crate) fn with_constants(&self, text: &str) -> String {
        let mut names: Vec<&String> = self.set.keys().filter(|name| !self.maps.contains(*name)).collect();
        // `$ab` is not `$a` and a `b`.
        names.sort_by_key(|name| usize::MAX - name.len());
        names.iter().fold(text.to_owned(), |text, name| match &self.set[*name] {
            Some(value) => {
                let braced = format!("${{{}}}", &name[1.min(name.len())..]);
                text.replace(&braced, value).replace(name.as_str(), value)
            }
            None => text,
        })
    }

    /// Whether the service that a level belongs to has an upstream of this name.
    pub(crate) fn has_upstream(&self, level: Level, name: &str) -> bool {
        match level.is_of_streams() {
            true => self.stream_upstreams.contains(name),
            false => self.http_upstreams.contains(name),
        }
    }

    /// The names of the HTTP service's upstreams.
    pub(crate) fn http_upstreams(&self) -> Vec<String> {
        self.http_upstreams.iter().cloned().collect()
    }

    /// Whether the HTTP service has upstreams with names.
    pub(crate) fn has_http_upstreams(&self) -> bool {
        !self.http_upstreams.is_empty()
    }

    /// Whether a directive of this name stands anywhere.
    pub(crate) fn says(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}

fn directives(nodes: &[Node]) -> impl Iterator<Item = &Directive> {
    nodes.iter().filter_map(|node| if let Node::Directive(directive) = node { Some(directive) } else { None })
}
