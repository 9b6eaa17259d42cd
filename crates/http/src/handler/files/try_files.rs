//! `try_files`: the first of some files that is there, else something else.

use drover_service::TemplateError;

use super::store::{FileStore, Found};
use super::{Files, redirect_to_directory};
use crate::exchange::{self, Answer, Elsewhere, Request};
use crate::own::OwnVariables;
use crate::path;
use crate::variables::Template;

/// What is tried, compiled.
#[derive(Debug)]
pub(crate) struct TryFiles {
    candidates: Vec<Candidate>,
    last: Last,
}

#[derive(Debug)]
struct Candidate {
    /// The path; none for that of the request.
    path: Option<Template>,
    /// Only a directory counts, else only a file.
    is_directory: bool,
}

/// What happens where nothing is there.
#[derive(Debug)]
enum Last {
    Status(u16),
    /// The request goes on at this path, with this query or none.
    Path(Template, Option<Template>),
    /// At a named location, by number among the plan's.
    Named(u32),
}

/// Why `try_files` cannot be compiled.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TryFilesError {
    /// A text with a fault.
    #[error(transparent)]
    Text(#[from] TemplateError),
    /// A named location that the server does not have.
    #[error("the server has no location named `{0}`")]
    NoLocation(String),
    /// What follows `=` is no status.
    #[error("`{0}` is no status")]
    Status(String),
    /// Nothing stands there.
    #[error("nothing is to be tried")]
    Empty,
}

impl TryFiles {
    /// Compiles the texts of `try_files`. `named` gives the number of a named location.
    pub(crate) fn new<'a>(
        texts: impl DoubleEndedIterator<Item = &'a str>,
        own: &OwnVariables,
        named: impl Fn(&str) -> Option<u32>,
    ) -> Result<TryFiles, TryFilesError> {
        let mut texts = texts;
        let last = texts.next_back().ok_or(TryFilesError::Empty)?;
        let last = if let Some(status) = last.strip_prefix('=') {
            Last::Status(status.parse().map_err(|_| TryFilesError::Status(status.to_owned()))?)
        } else if let Some(name) = last.strip_prefix('@') {
            Last::Named(named(name).ok_or_else(|| TryFilesError::NoLocation(name.to_owned()))?)
        } else {
            let (path, query) =
                last.split_once('?').map_or((last, None), |(path, query)| (path, Some(query)));
            Last::Path(own.template(path)?, query.map(|query| own.template(query)).transpose()?)
        };
        let candidate = |text: &str| {
            let is_directory = text.ends_with('/');
            let path = match text.trim_end_matches('/') {
                "$uri" | "${uri}" => None,
                _ => Some(own.template(text)?),
            };
            Ok(Candidate { path, is_directory })
        };
        Ok(TryFiles { candidates: texts.map(candidate).collect::<Result<_, TemplateError>>()?, last })
    }

    /// Answers with the first that is there.
    pub(super) fn answer(
        &self,
        files: &Files,
        request: &Request<'_>,
        store: &FileStore,
        out: &mut Vec<u8>,
    ) -> Answer {
        for candidate in &self.candidates {
            let mut path = Vec::new();
            match &candidate.path {
                None => path.extend_from_slice(request.path()),
                Some(template) => {
                    let mut text = Vec::new();
                    (request.render)(template, &mut text);
                    // A value may lead above the root: nothing is there.
                    if path::normalise_decoded(&text, &mut path).is_err() {
                        continue;
                    }
                }
            }
            if let Some(answer) = candidate.answer(path, files, request, store, out) {
                return answer;
            }
        }
        match &self.last {
            Last::Status(status) => exchange::page(request, *status, b"", out),
            Last::Path(path, query) => {
                let render = |template: &Template| {
                    let mut text = Vec::new();
                    (request.render)(template, &mut text);
                    text
                };
                Answer::elsewhere(404, Elsewhere::Path(render(path), query.as_ref().map(render)))
            }
            Last::Named(number) => Answer::elsewhere(404, Elsewhere::Named(*number)),
        }
    }
}

impl Candidate {
    /// The answer with what is at `path`; none if nothing of the kind is there.
    fn answer(
        &self,
        mut path: Vec<u8>,
        files: &Files,
        request: &Request<'_>,
        store: &FileStore,
        out: &mut Vec<u8>,
    ) -> Option<Answer> {
        if !self.is_directory {
            // A path that ends with a slash is that of a directory.
            let found = if path.ends_with(b"/") { Err(404) } else { store.find(files, &path, request.now) };
            return match found {
                Ok(Found::File(file)) => Some(file.answer(request, store, out)),
                Ok(Found::Directory) | Err(403 | 404) => None,
                Err(status) => Some(exchange::page(request, status, b"", out)),
            };
        }
        if !path.ends_with(b"/") {
            if path == request.path()
                && let Ok(Found::Directory) = store.find(files, &path, request.now)
            {
                return Some(redirect_to_directory(request, out));
            }
            path.push(b'/');
        }
        match store.find(files, &path, request.now) {
            Ok(Found::File(file)) => Some(file.answer(request, store, out)),
            Ok(Found::Directory) | Err(404) => None,
            Err(status) => Some(exchange::page(request, status, b"", out)),
        }
    }
}
