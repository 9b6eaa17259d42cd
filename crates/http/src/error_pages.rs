//! What clients are shown instead of a bare error, compiled.

use drover_service::TemplateError;

use crate::config::{self, PageStatus};
use crate::own::OwnVariables;
use crate::variables::Template;

/// The error pages of a location, in the order of the config.
#[derive(Debug, Default)]
pub(crate) struct ErrorPages(Vec<ErrorPage>);

/// What is shown for some errors.
#[derive(Debug)]
pub(crate) struct ErrorPage {
    statuses: Box<[u16]>,
    pub(crate) to: PageTarget,
    pub(crate) status: PageStatus,
}

/// Where an error leads.
#[derive(Debug)]
pub(crate) enum PageTarget {
    /// A path, with its query if it has one.
    Path(Template, Option<Template>),
    /// A named location, by number among the plan's.
    Named(u32),
    /// Where the client is sent.
    Url(Template),
}

impl ErrorPages {
    /// `named` gives the number of a named location.
    pub(crate) fn new(
        configs: &[config::ErrorPage],
        own: &OwnVariables,
        named: impl Fn(&str) -> Option<u32>,
    ) -> Result<ErrorPages, ErrorPageError> {
        let page = |config: &config::ErrorPage| {
            let text = config.to.as_str();
            let to = match text.strip_prefix('@') {
                Some(name) => {
                    PageTarget::Named(named(name).ok_or_else(|| ErrorPageError::NoLocation(name.to_owned()))?)
                }
                None if text.starts_with('/') => {
                    let (path, query) = text.split_once('?').map_or((text, None), |(p, q)| (p, Some(q)));
                    PageTarget::Path(own.template(path)?, query.map(|text| own.template(text)).transpose()?)
                }
                None => PageTarget::Url(own.template(text)?),
            };
            let statuses = config.statuses.iter().map(|status| **status).collect();
            Ok(ErrorPage { statuses, to, status: *config.status })
        };
        configs.iter().map(page).collect::<Result<_, _>>().map(ErrorPages)
    }

    /// Number of the page for a status.
    pub(crate) fn find(&self, status: u16) -> Option<usize> {
        self.0.iter().position(|page| page.statuses.contains(&status))
    }

    pub(crate) fn get(&self, number: usize) -> &ErrorPage {
        &self.0[number]
    }
}

/// Why error pages cannot be compiled.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ErrorPageError {
    /// A text with a fault.
    #[error(transparent)]
    Text(#[from] TemplateError),
    /// A named location that the server does not have.
    #[error("the server has no location named `{0}`")]
    NoLocation(String),
}
