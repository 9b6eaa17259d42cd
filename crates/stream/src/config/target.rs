//! Where something is passed on to: the name of an upstream, or an address.

use std::fmt;

use drover_config::{Kind, Node, Output, Reader, ServerAddress, Value};

/// The value of `proxy_pass` and of names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Target {
    /// An upstream, by its name.
    Upstream(String),
    /// A server that stands for itself.
    Address(ServerAddress),
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Upstream(name) => name.fmt(out),
            Target::Address(address) => address.fmt(out),
        }
    }
}

/// An address has a colon in it, and the name of an upstream has none.
impl Value for Target {
    fn type_name() -> String {
        "upstream or address".into()
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Target> {
        match &node.kind {
            Kind::String(text) if !text.contains(':') => Some(Target::Upstream(text.clone())),
            Kind::String(_) => ServerAddress::read(node, reader).map(Target::Address),
            _ => reader.expected(node, &Self::type_name()),
        }
    }

    fn write(&self) -> Output {
        self.to_string().write()
    }
}
