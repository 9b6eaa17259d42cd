//! `headers`: changes to the fields of responses.

use std::collections::BTreeMap;

use super::Condition;
use drover_config::{Kind, Located, Node, Output, Reader, Shape, Table, Value};

drover_config::table! {
    /// Changes to the fields of responses.
    #[table(inline)]
    pub struct HeaderChange {
        /// Only responses to requests of which this is true are changed.
        #[example = "{ text = \"$request_method\", equals = \"OPTIONS\" }"]
        pub when: Option<Located<Condition>> = None,
        /// Fields by name, and the texts that become their values instead of those that are there.
        #[example = "{ Cache-Control = \"no-store\" }"]
        pub set: BTreeMap<String, Located<String>> = BTreeMap::new(),
        /// Fields by name that are added to those that are there.
        #[example = "{ X-Request-Id = \"$request_id\" }"]
        pub add: BTreeMap<String, Located<String>> = BTreeMap::new(),
        /// Names of fields that are taken out.
        pub remove: Vec<Located<String>> = Vec::new(),
        /// Statuses of the responses that are changed; else all are.
        #[example = "[200, 301, 302]"]
        pub statuses: Option<Vec<u16>> = None,
    }
}

/// One change, or several that are made in their order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Headers(pub Vec<HeaderChange>);

impl Value for Headers {
    fn type_name() -> String {
        "table or list of tables".into()
    }

    fn shape() -> Shape {
        Shape::Table(HeaderChange::table_schema())
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Headers> {
        match node.kind {
            Kind::Table(_) => HeaderChange::read(node, reader).map(|change| Headers(vec![change])),
            _ => Vec::read(node, reader).map(Headers),
        }
    }

    fn write(&self) -> Output {
        match self.0.as_slice() {
            [change] => change.write(),
            changes => changes.to_vec().write(),
        }
    }
}
