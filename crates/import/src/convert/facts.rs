//! What is known of the whole configuration before any of it is converted.

use std::collections::HashSet;

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
            self.note_names(inner);
        }
    }

    /// Whether the service that a level belongs to has an upstream of this name.
    pub(crate) fn has_upstream(&self, level: Level, name: &str) -> bool {
        match level.is_of_streams() {
            true => self.stream_upstreams.contains(name),
            false => self.http_upstreams.contains(name),
        }
    }

    /// Whether a directive of this name stands anywhere.
    pub(crate) fn says(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}

fn directives(nodes: &[Node]) -> impl Iterator<Item = &Directive> {
    nodes.iter().filter_map(|node| if let Node::Directive(directive) = node { Some(directive) } else { None })
}
