//! The variables that a config makes: those of `maps`, of `set`, and of named groups in expressions.

use std::collections::BTreeMap;

use drover_service::{TemplateError, Variable as _, WrongVariable};

use crate::config::{Http, Location, PathMatch, Rule};
use crate::map::MapVariable;
use crate::variables::{Template, Variable};

/// The variables that a config makes, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnVariables {
    /// The number among a request's values.
    set: BTreeMap<String, u32>,
    maps: BTreeMap<String, MapVariable>,
}

/// A map that cannot be compiled.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("map `{map}`: {fault}")]
pub struct MapError {
    /// Its name.
    pub map: String,
    /// What is wrong.
    pub fault: String,
}

impl OwnVariables {
    /// Those of a config.
    ///
    /// # Errors
    /// The first map with a fault. Maps may use each other, but not in a circle.
    pub(crate) fn of(http: &Http) -> Result<OwnVariables, MapError> {
        let mut own = OwnVariables::default();
        set_names(http).iter().for_each(|name| own.add_set(name));
        for name in http.maps.keys() {
            own.compile_map(http, name, &mut Vec::new())?;
        }
        Ok(own)
    }

    #[cfg(test)]
    pub(crate) fn named(names: &[&str]) -> OwnVariables {
        let mut own = OwnVariables::default();
        names.iter().for_each(|name| own.add_set(name));
        own
    }

    fn add_set(&mut self, name: &str) {
        let next = self.set.len() as u32;
        self.set.entry(name.to_owned()).or_insert(next);
    }

    /// Compiles a map, and before it those that it uses. `around` are those that are being compiled.
    fn compile_map(&mut self, http: &Http, name: &str, around: &mut Vec<String>) -> Result<(), MapError> {
        let Some(config) = http.maps.get(name).filter(|_| !self.maps.contains_key(name)) else {
            return Ok(());
        };
        let error = |fault| MapError { map: name.to_owned(), fault };
        if around.iter().any(|outer| outer == name) {
            return Err(error("looks itself up, over other maps or not".to_owned()));
        }
        around.push(name.to_owned());
        let mut inner = Ok(());
        let map = MapVariable::new(config, |text| {
            for used in drover_service::variables_in(text) {
                if let Err(fault) = self.compile_map(http, used, around) {
                    inner = Err(fault);
                    return Err(String::new());
                }
            }
            self.template(text).map_err(|fault| fault.to_string())
        });
        around.pop();
        inner?;
        self.maps.insert(name.to_owned(), map.map_err(error)?);
        Ok(())
    }

    /// The number of a variable that `set` or a named group gives its value.
    pub(crate) fn set_number(&self, name: &str) -> Option<u32> {
        self.set.get(name).copied()
    }

    /// Compiles a text.
    ///
    /// # Errors
    /// The first fault, with its place in the text.
    pub(crate) fn template(&self, text: &str) -> Result<Template, TemplateError> {
        self.template_of(text, |variable| variable)
    }

    /// The same with each variable as `change` makes it.
    pub(crate) fn template_of(
        &self,
        text: &str,
        change: fn(Variable) -> Variable,
    ) -> Result<Template, TemplateError> {
        Template::parse_with(text, |name| {
            let own = || self.maps.get(name).map(|map| Variable::Map(map.clone()));
            let set = || self.set.get(name).map(|number| Variable::Set(*number));
            Variable::named(name).or_else(own).or_else(set).map(change)
        })
    }
}

/// Whether a variable of this name is there whatever the config says.
pub(crate) fn is_built_in(name: &str) -> bool {
    Variable::named(name).is_some()
}

/// Which names a config may use: what its check has to know, also where maps are wrong.
pub(crate) struct KnownNames(Vec<String>);

impl KnownNames {
    pub(crate) fn of(http: &Http) -> KnownNames {
        let mut names = set_names(http);
        names.extend(http.maps.keys().cloned());
        KnownNames(names)
    }

    /// Checks the variables of a text.
    pub(crate) fn check(&self, text: &str) -> Result<(), WrongVariable> {
        let known = |name: &str| Variable::named(name).is_some() || self.0.iter().any(|own| own == name);
        let built_in: Vec<&str> = Variable::names().collect();
        let names = built_in.into_iter().chain(self.0.iter().map(String::as_str));
        drover_service::check_variables_with(text, known, names)
    }
}

/// The variables that `set` or a named group gives their values.
fn set_names(http: &Http) -> Vec<String> {
    let mut names = Vec::new();
    for server in &http.servers {
        for name in server.server_names.iter().filter_map(|name| crate::config::expression_of_name(name)) {
            names.extend(name.map(|expression| expression.group_names()).unwrap_or_default());
        }
        add_rules(&server.rules, &mut names);
        server.locations.iter().for_each(|location| add_location(location, &mut names));
    }
    names
}

fn add_location(location: &Location, names: &mut Vec<String>) {
    if let PathMatch::Expression(expression) = &*location.path {
        names.extend(expression.group_names());
    }
    add_rules(&location.rules, names);
    location.locations.0.iter().for_each(|inner| add_location(inner, names));
}

fn add_rules(rules: &[Rule], names: &mut Vec<String>) {
    for rule in rules {
        names.extend(rule.set.keys().cloned());
        let matches = rule.when.as_ref().and_then(|when| when.matches.as_ref());
        for expression in rule.rewrite.iter().chain(matches) {
            names.extend(expression.group_names());
        }
    }
}
