//! From nginx's tree to drover's tables.
//!
//! A directive goes to the table of its own block if drover has the key there. If drover has it only further
//! inside, it is handed down to the blocks that do not say it themselves, which is how nginx inherits: a block
//! that says a directive says all of it, so lists replace and never add up.

mod defaults;
mod facts;
mod fields;
mod hoist;
mod http;
mod scope;
mod stream;
mod upstreams;

use std::collections::HashSet;
use std::rc::Rc;

pub(crate) use facts::Facts;
pub(crate) use fields::Field;
pub(crate) use scope::Scope;
use upstreams::Upstream;
pub(crate) use upstreams::{Pass, Setting, service};

use crate::contexts;
use crate::directories::Directories;
use crate::mapping::{How, Level, Row, find};
use crate::report::{Outcome, Report};
use crate::tree::{Comment, Directive, Node};

/// A configuration in drover's terms.
pub struct Converted {
    /// The config file.
    pub text: String,
    /// What became of each directive.
    pub report: Report,
}

/// Converts what stands in a configuration file.
pub fn convert(nodes: &[Node], directories: &Directories) -> Converted {
    let nodes = &hoist::hoisted(nodes);
    let facts = Rc::new(Facts::of(nodes, directories));
    let mut converter = Converter { facts: Rc::clone(&facts), ..Converter::default() };
    let mut main = Scope::new(Level::Main, "", &facts);
    let left = converter.block(&mut main, nodes, &[]);
    let mut services = Vec::new();
    for (comments, block) in left.inner {
        match block.name.as_str() {
            "events" => {
                comments.iter().for_each(|text| main.comment(text));
                converter.block(&mut main, block.block.as_deref().unwrap_or_default(), &[]);
                converter.note(block, Outcome::CarriedOver, "");
            }
            "stream" => services.extend(converter.stream(&comments, block)),
            _ => services.extend(converter.http(&comments, block)),
        }
    }
    converter.default_process(&mut main);
    converter.note_contradictions();
    converter.note_defaults();
    let mut tables = main.finish();
    tables.extend(services);
    let tables: Vec<String> =
        tables.iter().filter(|table| !table.is_empty()).map(ToString::to_string).collect();
    Converted { text: tables.join("\n"), report: converter.report }
}

/// What a block leaves to those inside of it.
struct Left<'a> {
    /// Directives that only they have keys for.
    down: Vec<&'a Directive>,
    /// The blocks inside, each with the comments above it.
    inner: Vec<(Vec<String>, &'a Directive)>,
}

#[derive(Default)]
struct Converter {
    facts: Rc<Facts>,
    report: Report,
    upstreams: Vec<Upstream>,
    /// Directives that were noted: one that is handed down to several blocks counts once.
    noted: HashSet<*const Directive>,
}

impl Converter {
    /// Puts what stands in a block into its scope, `handed` from outside first.
    fn block<'a>(&mut self, scope: &mut Scope, nodes: &'a [Node], handed: &[&'a Directive]) -> Left<'a> {
        let mut left = Left { down: Vec::new(), inner: Vec::new() };
        let says = |name: &str| {
            nodes.iter().any(|node| matches!(node, Node::Directive(own) if is_one_list(&own.name, name)))
        };
        // These count for all of the block, wherever they stand.
        for node in nodes {
            if let Node::Directive(directive) = node {
                scope.note(directive);
            }
        }
        for directive in handed.iter().filter(|directive| !says(&directive.name)) {
            self.directive(scope, directive, &mut left);
        }
        for (at, node) in nodes.iter().enumerate() {
            scope.rules_are_over = !nodes[at + 1..].iter().any(is_rule);
            match node {
                Node::Comment(Comment { text, behind: true }) => scope.comment_behind(text),
                Node::Comment(Comment { text, behind: false }) => scope.comment(text),
                Node::Directive(directive) => self.directive(scope, directive, &mut left),
            }
        }
        left
    }

    fn directive<'a>(&mut self, scope: &mut Scope, directive: &'a Directive, left: &mut Left<'a>) {
        let Some(row) = find(&directive.name, scope.level) else {
            return self.unsupported(scope, directive, "drover knows no such directive");
        };
        match row.how {
            How::Block if directive.block.is_none() => {
                self.unsupported(scope, directive, "a block is expected");
            }
            How::Block if is_known(directive, left) => {
                self.unsupported(scope, directive, "stands here a second time");
            }
            How::Block => left.inner.push((scope.take_comments(), directive)),
            How::Nothing => self.note(directive, Outcome::NoEffect, row.becomes),
            How::Unsupported => self.unsupported(scope, directive, row.becomes),
            // It is for what no location is for, and is not inherited.
            _ if directive.name == "try_files" && scope.level == Level::Server => {}
            How::Guard if matches!(scope.level, Level::Http | Level::Stream) => left.down.push(directive),
            How::Guard => {
                self.unsupported(scope, directive, &format!("{}; what it guards is closed", row.becomes));
                scope.close();
            }
            _ if row.levels.contains(&scope.level) => self.apply(scope, row, directive),
            _ if row.levels.iter().any(|level| *level > scope.level) => left.down.push(directive),
            _ => self.unsupported(scope, directive, "drover has this for the whole service only"),
        }
    }

    fn apply(&mut self, scope: &mut Scope, row: &Row, directive: &Directive) {
        let applied = contexts::translated(scope.level, directive).and_then(|(translated, remark)| {
            row.apply(scope, &translated).map(|difference| difference.or(remark))
        });
        match applied {
            Ok(None) => self.note(directive, Outcome::CarriedOver, ""),
            Ok(Some(difference)) => self.note(directive, Outcome::Differs, &difference),
            Err(reason) => self.unsupported(scope, directive, &reason),
        }
    }

    fn note(&mut self, directive: &Directive, outcome: Outcome, remark: &str) {
        if self.noted.insert(directive) {
            self.report.note(directive, outcome, remark);
        }
    }

    /// Leaves a comment where the directive stood.
    fn unsupported(&mut self, scope: &mut Scope, directive: &Directive, reason: &str) {
        self.note(directive, Outcome::NotSupported, reason);
        scope.comment_in_place(&format!("not carried over ({reason}): {}", directive.line()));
    }
}

/// Whether a block may stand once only, and does already.
fn is_known(directive: &Directive, left: &Left<'_>) -> bool {
    let of_one_name = directive.name == "upstream";
    let is_same = |(_, known): &(Vec<String>, &Directive)| {
        known.name == directive.name
            && (!of_one_name || known.arguments.first() == directive.arguments.first())
    };
    let once = ["http", "stream", "events", "upstream"].contains(&directive.name.as_str());
    once && left.inner.iter().any(is_same)
}

/// Whether it is a step of the rewrite module.
fn is_rule(node: &Node) -> bool {
    let is_one = |name: &str| ["if", "set", "rewrite", "return"].contains(&name);
    matches!(node, Node::Directive(directive) if is_one(&directive.name))
}

/// Whether directives of these names are one list, which is inherited as a whole or not at all.
fn is_one_list(one: &str, other: &str) -> bool {
    let access = ["allow", "deny"];
    one == other || access.contains(&one) && access.contains(&other)
}
