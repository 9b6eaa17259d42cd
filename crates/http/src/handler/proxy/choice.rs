//! Which upstream a request is passed on to, and by which key that chooses a server.

use std::collections::BTreeMap;
use std::rc::Rc;

use drover_upstream::hash_key;
use tracing::warn;

use crate::h1::asked::Asked;
use crate::response::Fate;
use crate::variables::Template;

/// An upstream: its number among the worker's, and the key by which it chooses, where it chooses by one.
pub(crate) type Chosen = (usize, Option<Rc<Template>>);

/// What upstream requests are passed on to.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    One(Chosen),
    /// The one of these whose name the text gives.
    ByName(Template, Rc<BTreeMap<Box<[u8]>, Chosen>>),
}

impl Choice {
    /// The upstream for a request; none where a text names none.
    #[inline]
    pub(super) fn of(&self, asked: &Asked<'_>, fate: Fate) -> Option<&Chosen> {
        match self {
            Choice::One(chosen) => Some(chosen),
            Choice::ByName(template, known) => by_name(template, known, asked, fate),
        }
    }
}

#[cold]
fn by_name<'a>(
    template: &Template,
    known: &'a BTreeMap<Box<[u8]>, Chosen>,
    asked: &Asked<'_>,
    fate: Fate,
) -> Option<&'a Chosen> {
    let name = rendered(template, asked, fate);
    let chosen = known.get(&*name);
    if chosen.is_none() {
        let connection = asked.on.stream.number();
        warn!(connection, "no upstream is called \"{}\", answered 502", name.escape_ascii());
    }
    chosen
}

/// The key by which an upstream chooses.
pub(super) fn key(template: Option<&Template>, asked: &Asked<'_>, fate: Fate) -> u64 {
    template.map_or(0, |template| hash_key(&rendered(template, asked, fate)))
}

fn rendered(template: &Template, asked: &Asked<'_>, fate: Fate) -> Vec<u8> {
    let mut text = Vec::new();
    asked.with_request(fate, |asked| (asked.render)(template, &mut text));
    text
}
