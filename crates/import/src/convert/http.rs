//! The block `http` with its servers and locations.

use super::{Converter, Scope};
use crate::contexts;
use crate::document::{Table, string};
use crate::mapping::Level;
use crate::report::Outcome;
use crate::tree::Directive;

impl Converter {
    pub(super) fn http(&mut self, comments: &[String], block: &Directive) -> Vec<Table> {
        let mut scope = Scope::new(Level::Http, "[http]", &self.facts);
        comments.iter().for_each(|text| scope.comment(text));
        let left = self.block(&mut scope, block.block.as_deref().unwrap_or_default(), &[]);
        self.note(block, Outcome::CarriedOver, "");
        contexts::write_charsets(&mut scope);
        self.default_http(&mut scope);
        let mut servers = Vec::new();
        for (comments, inner) in left.inner.iter().filter(|(_, inner)| inner.name == "upstream") {
            self.upstream(Level::Upstream, comments, inner);
        }
        for (comments, inner) in left.inner.iter().filter(|(_, inner)| inner.name == "server") {
            servers.extend(self.server(&scope, comments, inner, &left.down));
        }
        let mut tables = scope.finish();
        tables.extend(self.finish_upstreams(false));
        tables.extend(servers);
        tables
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
            // Where none of its addresses can be had, an empty list waits for a hand.
            let says_some = block.inner().any(|inner| inner.name == "listen");
            scope.set("listen", if says_some { "[]" } else { "[\"0.0.0.0:80\"]" }.to_owned());
        }
        let rest = scope.inside(Level::Location, "[[http.servers.locations]]");
        let mut tables = scope.finish();
        let rest_handed: Vec<&Directive> = left
            .down
            .iter()
            .copied()
            .chain(block.inner().filter(|inner| inner.name == "try_files"))
            .collect();
        let answers = block.inner().any(|inner| inner.name == "return");
        let covered =
            answers || block.inner().any(|inner| inner.name == "location" && inner.arguments == ["/"]);
        if !covered {
            locations.extend(self.rest_of_server(rest, &rest_handed));
        }
        self.note(block, Outcome::CarriedOver, "");
        tables.extend(locations);
        tables
    }

    /// nginx answers by what the server says where no location matches.
    fn rest_of_server(&mut self, mut scope: Scope, handed: &[&Directive]) -> Vec<Table> {
        scope.set("path", string("/"));
        self.block(&mut scope, &[], handed);
        scope.without_proxy();
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
            Ok(path) => {
                scope.expression = contexts::expression_of(&block.arguments);
                scope.plain_path = block.arguments.last().cloned().unwrap_or_default();
                scope.path.clone_from(&path);
                scope.set("path", path);
            }
            Err(reason) => {
                let Some(path) = contexts::wider_path(block) else {
                    self.unsupported(&mut scope, block, &reason);
                    return vec![scope.only_comments()];
                };
                self.unsupported(&mut scope, block, &format!("{reason}; it is closed without looking ahead"));
                scope.set("path", path);
            }
        }
        self.note(block, Outcome::CarriedOver, "");
        let left = self.block(&mut scope, block.block.as_deref().unwrap_or_default(), handed);
        self.settle_pass(&mut scope);
        let mut nested = Vec::new();
        for (comments, inner) in &left.inner {
            nested.extend(self.location(&scope, comments, inner, &left.down, depth + 1));
        }
        if scope.pass.is_none() && nested.is_empty() {
            scope.without_proxy();
        }
        let mut tables = scope.finish();
        tables.extend(nested);
        tables
    }
}
