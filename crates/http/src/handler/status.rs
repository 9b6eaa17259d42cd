//! `status`: how the daemon is, as the daemon itself tells it.
//!
//! What is told comes from outside of this crate, by a [`StatusSource`] that a worker brings.

use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;

use crate::config::StatusForm;
use crate::exchange::{self, Answer, Request};
use crate::h1::method::Method;

/// Where the status comes from.
pub trait StatusSource {
    /// The status as JSON, as OpenMetrics text, or as a page that shows `?json` of its own address again and again.
    fn status(&self, form: StatusForm) -> Vec<u8>;
}

/// The source of a worker, once it has one.
#[derive(Clone, Default)]
pub(crate) struct Source(Rc<OnceCell<Box<dyn StatusSource>>>);

impl Source {
    /// Sets the source; one that was set before stays.
    pub(crate) fn set(&self, source: Box<dyn StatusSource>) {
        let _ = self.0.set(source);
    }
}

/// A status of one form.
pub(crate) struct Status {
    form: StatusForm,
    source: Source,
}

impl fmt::Debug for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Status").field(&self.form).finish()
    }
}

impl Status {
    pub(crate) fn new(form: StatusForm, source: Source) -> Status {
        Status { form, source }
    }

    #[cold]
    pub(crate) fn answer(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Answer {
        if !matches!(request.head.method, Method::Get | Method::Head) {
            return exchange::page(request, 405, b"Allow: GET, HEAD\r\n", out);
        }
        let Some(source) = self.source.0.get() else {
            return exchange::page(request, 503, b"", out);
        };
        let query = request.head.target.query.map(|query| query.of(request.bytes));
        let form = match (self.form, query) {
            (StatusForm::Page, Some(b"json")) => StatusForm::Json,
            (form, _) => form,
        };
        exchange::with_body(request, 200, fields(form), content_type(form), &source.status(form), out)
    }
}

fn content_type(form: StatusForm) -> &'static str {
    match form {
        StatusForm::Json => "application/json",
        StatusForm::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        StatusForm::Page => "text/html; charset=utf-8",
    }
}

/// It is out of date at once, and the page loads nothing from elsewhere.
fn fields(form: StatusForm) -> &'static [u8] {
    match form {
        StatusForm::Json | StatusForm::OpenMetrics => b"Cache-Control: no-store\r\n",
        StatusForm::Page => {
            b"Cache-Control: no-store\r\nContent-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; \
              script-src 'unsafe-inline'; connect-src 'self'\r\n"
        }
    }
}
