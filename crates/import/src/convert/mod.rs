//! From nginx's tree to drover's tables.
//!
//! A directive goes to the table of its own block if drover has the key there. If drover has it only further
//! inside, it is handed down to the blocks that do not say it themselves, which is how nginx inherits: a block
//! that says a directive says all of it, so lists replace and never add up.

mod scope;

use std::collections::HashSet;
use std::rc::Rc;

pub(crate) use scope::{Field, Scope};

use crate::contexts;
use crate::directories::Directories;
use crate::document::{Table, string};
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
    let mut converter = Converter { directories: Rc::new(directories.clone()), ..Converter::default() };
    let mut main = Scope::new(Level::Main, "", &converter.directories);
    let left = converter.block(&mut main, nodes, &[]);
    let mut services = Vec::new();
    for (comments, block) in left.inner {
        match block.name.as_str() {
            "events" => {
                comments.iter().for_each(|text| main.comment(text));
                converter.block(&mut main, block.block.as_deref().unwrap_or_default(), &[]);
                converter.note(block, Outcome::CarriedOver, "");
            }
            _ => services.extend(converter.http(&comments, block)),
        }
    }
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
    directories: Rc<Directories>,
    report: Report,
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
                scope.refusals.note(directive);
                if directive.name == "default_type" {
                    directive.arguments.iter().for_each(|kind| scope.default_type.clone_from(kind));
                }
            }
        }
        for directive in handed.iter().filter(|directive| !says(&directive.name)) {
            self.directive(scope, directive, &mut left);
        }
        for node in nodes {
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
            How::Block => left.inner.push((scope.take_comments(), directive)),
            How::Nothing => self.note(directive, Outcome::NoEffect, row.becomes),
            How::Unsupported => self.unsupported(scope, directive, row.becomes),
            How::Guard if scope.level == Level::Http => left.down.push(directive),
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
        match row.apply(scope, directive) {
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
        scope.comment(&format!("not carried over ({reason}): {}", directive.line()));
    }

    fn http(&mut self, comments: &[String], block: &Directive) -> Vec<Table> {
        let mut scope = Scope::new(Level::Http, "[http]", &self.directories);
        comments.iter().for_each(|text| scope.comment(text));
        let left = self.block(&mut scope, block.block.as_deref().unwrap_or_default(), &[]);
        self.note(block, Outcome::CarriedOver, "");
        let (mut upstreams, mut servers) = (Vec::new(), Vec::new());
        for (comments, inner) in &left.inner {
            match inner.name.as_str() {
                "upstream" => upstreams.push(self.upstream(comments, inner)),
                _ => servers.extend(self.server(&scope, comments, inner, &left.down)),
            }
        }
        let mut tables = scope.finish();
        tables.extend(upstreams.into_iter().flatten());
        tables.extend(servers);
        tables
    }

    fn upstream(&mut self, comments: &[String], block: &Directive) -> Vec<Table> {
        let name = block.arguments.first().map_or("", String::as_str);
        let header = format!("[http.upstreams.{}]", crate::document::key(name));
        let mut scope = Scope::new(Level::Upstream, &header, &self.directories);
        comments.iter().for_each(|text| scope.comment(text));
        self.block(&mut scope, block.block.as_deref().unwrap_or_default(), &[]);
        self.note(block, Outcome::CarriedOver, "");
        scope.finish()
    }

    fn server(
        &mut self,
        http: &Scope,
        comments: &[String],
        block: &Directive,
        handed: &[&Directive],
    ) -> Vec<Table> {
        let mut scope = http.inside(Level::Server, "[[http.servers]]");
        comments.iter().for_each(|text| scope.comment(text));
        let nodes = block.block.as_deref().unwrap_or_default();
        let left = self.block(&mut scope, nodes, handed);
        let mut locations = Vec::new();
        for (comments, inner) in &left.inner {
            locations.extend(self.location(&scope, comments, inner, &left.down, 1));
        }
        if scope.count("listen") == 0 {
            scope.push("listen", string("0.0.0.0:80"));
        }
        let rest = scope.inside(Level::Location, "[[http.servers.locations]]");
        let mut tables = scope.finish();
        let covered = block.inner().any(|inner| inner.name == "location" && inner.arguments == ["/"]);
        if !covered {
            locations.extend(self.rest_of_server(rest, &left.down));
        }
        self.note(block, Outcome::CarriedOver, "");
        tables.extend(locations);
        tables
    }

    /// nginx answers by what the server says where no location matches.
    fn rest_of_server(&mut self, mut scope: Scope, handed: &[&Directive]) -> Vec<Table> {
        scope.set("path", string("/"));
        self.block(&mut scope, &[], handed);
        scope.finish()
    }

    fn location(
        &mut self,
        outer: &Scope,
        comments: &[String],
        block: &Directive,
        handed: &[&Directive],
        depth: usize,
    ) -> Vec<Table> {
        let header = format!("[[http.servers{}]]", ".locations".repeat(depth));
        let mut scope = outer.inside(Level::Location, &header);
        comments.iter().for_each(|text| scope.comment(text));
        match contexts::path(&block.arguments) {
            Ok(path) => scope.set("path", path),
            Err(reason) => {
                self.unsupported(&mut scope, block, &reason);
                return vec![scope.only_comments()];
            }
        }
        self.note(block, Outcome::CarriedOver, "");
        let left = self.block(&mut scope, block.block.as_deref().unwrap_or_default(), handed);
        let mut nested = Vec::new();
        for (comments, inner) in &left.inner {
            nested.extend(self.location(&scope, comments, inner, &left.down, depth + 1));
        }
        let mut tables = scope.finish();
        tables.extend(nested);
        tables
    }
}

/// Whether directives of these names are one list, which is inherited as a whole or not at all.
fn is_one_list(one: &str, other: &str) -> bool {
    let access = ["allow", "deny"];
    one == other || access.contains(&one) && access.contains(&other)
}
