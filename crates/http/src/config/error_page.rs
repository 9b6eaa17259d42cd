//! `error_pages`: what clients are shown instead of a bare error.

use drover_config::{Kind, Located, Node, Output, Ranged, Reader, Value};

drover_config::table! {
    /// What is shown for some errors.
    #[table(inline)]
    pub struct ErrorPage {
        /// Statuses of the errors.
        pub statuses: Vec<Located<u16>>,
        /// The path of a page, "@name" of a location, or a URL that the client is sent to; with variables.
        pub to: Located<String>,
        /// Status of the response: "error" for the error's own, "page" for the page's, or a number; of a redirect, 302.
        #[range = 200..=599]
        pub status: Located<PageStatus> = PageStatus::Error.into(),
    }
}

/// The status that an error page is shown with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageStatus {
    /// That of the error.
    Error,
    /// That of what answers for the page.
    Page,
    /// This one.
    Number(u16),
}

impl Value for PageStatus {
    fn type_name() -> String {
        "\"error\" or \"page\" or integer".into()
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<PageStatus> {
        match &node.kind {
            Kind::String(text) if text == "error" => Some(PageStatus::Error),
            Kind::String(text) if text == "page" => Some(PageStatus::Page),
            Kind::Integer(_) => u16::read(node, reader).map(PageStatus::Number),
            _ => reader.expected(node, &Self::type_name()),
        }
    }

    fn write(&self) -> Output {
        match self {
            PageStatus::Error => "error".to_owned().write(),
            PageStatus::Page => "page".to_owned().write(),
            PageStatus::Number(status) => status.write(),
        }
    }
}

impl Ranged for PageStatus {
    type Bound = u16;

    fn bounded(&self) -> Option<&u16> {
        match self {
            PageStatus::Number(status) => Some(status),
            PageStatus::Error | PageStatus::Page => None,
        }
    }
}
