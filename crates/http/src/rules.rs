//! The rules that a request goes through before its location answers, compiled.
//!
//! What they do to a request is in `h1/route.rs`; here is what they are.

use drover_service::TemplateError;

use crate::config::{self, Then};
use crate::own::OwnVariables;
use crate::pattern::Pattern;
use crate::variables::{Facts, Template, Variable};

/// One rule.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) when: Option<Condition>,
    /// Variables by number.
    pub(crate) set: Vec<(u32, Template)>,
    pub(crate) rewrite: Option<Rewrite>,
    /// Number of an answer among the plan's.
    pub(crate) answer: Option<u32>,
}

/// Why a rule cannot be compiled.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RuleError {
    /// A text with a fault.
    #[error(transparent)]
    Text(#[from] TemplateError),
    /// An expression with a fault.
    #[error("{0}")]
    Expression(String),
    /// A rewrite that does not say where to.
    #[error("`rewrite` without `to`")]
    NoTarget,
}

impl Rule {
    pub(crate) fn new(
        config: &config::Rule,
        own: &OwnVariables,
        answer: Option<u32>,
    ) -> Result<Rule, RuleError> {
        let when = config.when.as_ref().map(|when| Condition::new(when, own)).transpose()?;
        let set = config.set.iter().filter_map(|(name, text)| Some((own.set_number(name)?, text)));
        let set = set.map(|(number, text)| Ok((number, own.template(text)?)));
        let set = set.collect::<Result<_, TemplateError>>()?;
        let rewrite = match (&config.rewrite, &config.to) {
            (Some(expression), Some(to)) => Some(Rewrite::new(expression, to, *config.then, own)?),
            (Some(_), None) => return Err(RuleError::NoTarget),
            (None, _) => None,
        };
        Ok(Rule { when, set, rewrite, answer })
    }
}

/// What has to be true of a request.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) text: Template,
    pub(crate) test: Test,
    /// Whether it has to be false.
    pub(crate) not: bool,
}

/// What is asked of a text.
#[derive(Debug)]
pub(crate) enum Test {
    /// Neither empty nor "0".
    IsSet,
    Equals(Template),
    Matches(Box<Pattern>),
}

impl Condition {
    pub(crate) fn new(config: &config::Condition, own: &OwnVariables) -> Result<Condition, RuleError> {
        let test = match (&config.equals, &config.matches) {
            (Some(text), _) => Test::Equals(own.template(text)?),
            (None, Some(expression)) => {
                Test::Matches(Box::new(Pattern::new(expression, own).map_err(RuleError::Expression)?))
            }
            (None, None) => Test::IsSet,
        };
        Ok(Condition { text: own.template(&config.text)?, test, not: config.not })
    }
}

impl Condition {
    /// Whether a variable of its texts fulfils `test`.
    pub(crate) fn uses(&self, test: fn(&Variable) -> bool) -> bool {
        let other = matches!(&self.test, Test::Equals(template) if template.uses(test));
        other || self.text.uses(test)
    }

    /// Whether it is true of a request that is over. Groups of an expression become nothing.
    pub(crate) fn holds(&self, facts: &Facts<'_>) -> bool {
        self.holds_by(|template, out| template.push_plain(facts, out))
    }

    /// The same where `push` appends a text.
    pub(crate) fn holds_by(&self, push: impl Fn(&Template, &mut Vec<u8>)) -> bool {
        let render = |template: &Template| {
            let mut text = Vec::new();
            push(template, &mut text);
            text
        };
        let text = render(&self.text);
        let holds = match &self.test {
            Test::IsSet => is_set(&text),
            Test::Equals(template) => text == render(template),
            Test::Matches(pattern) => pattern.is_match(&text),
        };
        holds != self.not
    }
}

/// Neither empty nor "0", as in nginx.
pub(crate) fn is_set(text: &[u8]) -> bool {
    !text.is_empty() && text != b"0"
}

/// A change of the path.
#[derive(Debug)]
pub(crate) struct Rewrite {
    pub(crate) pattern: Pattern,
    pub(crate) path: Template,
    /// What the query becomes; none where it stays.
    pub(crate) query: Option<Template>,
    /// The old query follows the new one.
    pub(crate) keeps_query: bool,
    pub(crate) then: Then,
}

impl Rewrite {
    fn new(
        expression: &config::Expression,
        to: &str,
        then: Then,
        own: &OwnVariables,
    ) -> Result<Rewrite, RuleError> {
        let redirects = matches!(then, Then::Redirect | Then::Permanent);
        // Where it stands in the config, not in a value, a question mark begins the query.
        let (path, query) = to.split_once('?').map_or((to, None), |(path, query)| (path, Some(query)));
        let path = if redirects { encoded(path, own)? } else { own.template(path)? };
        Ok(Rewrite {
            pattern: Pattern::new(expression, own).map_err(RuleError::Expression)?,
            path,
            query: query.map(|query| encoded(query.strip_suffix('?').unwrap_or(query), own)).transpose()?,
            // As in nginx: "?" at the end keeps the old query away.
            keeps_query: !to.ends_with('?'),
            then,
        })
    }

    /// The status of the redirect that this is, if it is one.
    pub(crate) fn redirect(&self) -> Option<u16> {
        match self.then {
            Then::Redirect => Some(302),
            Then::Permanent => Some(301),
            Then::Next | Then::Last | Then::Break => None,
        }
    }
}

/// A text in which groups stand as they may stand in a URI: paths are matched decoded.
fn encoded(text: &str, own: &OwnVariables) -> Result<Template, TemplateError> {
    own.template_of(text, |variable| match variable {
        Variable::Group(number) => Variable::EncodedGroup(number),
        other => other,
    })
}
