//! The block `stream`: TCP and UDP passed on.

use super::{Converter, Scope};
use crate::document::Table;
use crate::mapping::Level;
use crate::report::Outcome;
use crate::tree::Directive;

impl Converter {
    pub(super) fn stream(&mut self, comments: &[String], block: &Directive) -> Vec<Table> {
        let mut scope = Scope::new(Level::Stream, "[stream]", &self.facts);
        comments.iter().for_each(|text| scope.comment(text));
        let left = self.block(&mut scope, block.block.as_deref().unwrap_or_default(), &[]);
        self.note(block, Outcome::CarriedOver, "");
        let mut servers = Vec::new();
        for (comments, inner) in left.inner.iter().filter(|(_, inner)| inner.name == "upstream") {
            self.upstream(Level::StreamUpstream, comments, inner);
        }
        for (comments, inner) in left.inner.iter().filter(|(_, inner)| inner.name == "server") {
            servers.extend(self.stream_server(&scope, comments, inner, &left.down));
        }
        let mut tables = scope.finish();
        tables.extend(self.finish_upstreams(true));
        tables.extend(servers);
        tables
    }

    fn stream_server(
        &mut self,
        stream: &Scope,
        comments: &[String],
        block: &Directive,
        handed: &[&Directive],
    ) -> Vec<Table> {
        let mut scope = stream.inside(Level::StreamServer, "[[stream.servers]]");
        comments.iter().for_each(|text| scope.comment(text));
        self.block(&mut scope, block.block.as_deref().unwrap_or_default(), handed);
        if scope.is_closed {
            return vec![scope.only_comments()];
        }
        self.note(block, Outcome::CarriedOver, "");
        self.settle_pass(&mut scope);
        scope.finish()
    }
}
