//! Directives that every server says alike, for keys that drover has for the whole service.

use crate::mapping::{How, Level, find};
use crate::tree::{Comment, Directive, Node};

/// The configuration with such directives in the block around the servers, with the comments that belong to them.
pub(super) fn hoisted(nodes: &[Node]) -> Vec<Node> {
    let mut nodes = nodes.to_vec();
    let is_log = |node: &Node| matches!(node, Node::Directive(directive) if directive.name == "error_log");
    let has_log = nodes.iter().any(is_log);
    let mut logs = Vec::new();
    for node in &mut nodes {
        if let Node::Directive(directive) = node
            && directive.name == "http"
        {
            hoist(directive);
            // Where none stands outside, it is the daemon's.
            if !has_log {
                logs.extend(take(directive, &["error_log".to_owned()]));
            }
        }
    }
    nodes.extend(logs);
    nodes
}

fn hoist(http: &mut Directive) {
    let servers: Vec<&Directive> = http.inner().filter(|inner| inner.name == "server").collect();
    let Some((first, others)) = servers.split_first() else { return };
    let said = |server: &Directive, name: &str| -> Vec<Vec<String>> {
        let named = server.inner().filter(|inner| inner.name == name && inner.block.is_none());
        named.map(|inner| inner.arguments.clone()).collect()
    };
    let mut names: Vec<String> = Vec::new();
    for inner in first.inner().filter(|inner| is_of_the_service(&inner.name)) {
        let is_said_outside = http.inner().any(|outer| outer.name == inner.name);
        let alike = others.iter().all(|other| said(other, &inner.name) == said(first, &inner.name));
        if alike && !is_said_outside && !names.contains(&inner.name) {
            names.push(inner.name.clone());
        }
    }
    let Some(block) = &mut http.block else { return };
    let mut moved = Vec::new();
    let mut place = None;
    for (at, node) in block.iter_mut().enumerate() {
        let Node::Directive(server) = node else { continue };
        if server.name != "server" {
            continue;
        }
        let taken = take(server, &names);
        if place.is_none() {
            (place, moved) = (Some(at), taken);
        }
    }
    let Some(mut at) = place else { return };
    // What stands above the server stays there.
    while at > 0 && matches!(&block[at - 1], Node::Comment(Comment { behind: false, .. })) {
        at -= 1;
    }
    block.splice(at..at, moved);
}

/// Whether drover has the key for the whole service, or for each location, and not for a server.
fn is_of_the_service(name: &str) -> bool {
    find(name, Level::Server).is_some_and(|row| {
        let settles = !matches!(row.how, How::Nothing | How::Unsupported | How::Block | How::Guard);
        settles && row.levels.contains(&Level::Http) && !row.levels.contains(&Level::Server)
    })
}

/// Takes directives out of a block, with the comments above and behind them.
fn take(server: &mut Directive, names: &[String]) -> Vec<Node> {
    let Some(block) = &mut server.block else { return Vec::new() };
    let (mut left, mut taken, mut above) = (Vec::new(), Vec::new(), Vec::new());
    let mut was_taken = false;
    for node in std::mem::take(block) {
        match node {
            Node::Comment(Comment { behind: false, .. }) => above.push(node),
            Node::Comment(_) if was_taken => taken.push(node),
            Node::Comment(_) => left.append(&mut push(&mut above, node)),
            Node::Directive(ref directive) => {
                was_taken = names.contains(&directive.name) && directive.block.is_none();
                let to = if was_taken { &mut taken } else { &mut left };
                to.append(&mut push(&mut above, node));
            }
        }
    }
    left.append(&mut above);
    *block = left;
    taken
}

/// The comments and what stands below them.
fn push(above: &mut Vec<Node>, node: Node) -> Vec<Node> {
    let mut all = std::mem::take(above);
    all.push(node);
    all
}
