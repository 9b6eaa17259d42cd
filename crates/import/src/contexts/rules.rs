//! The rewrite module: `if`, `set`, `rewrite`, `return`, in their order; and maps.

use regex::bytes::RegexBuilder;

use super::exactly;
use super::fields::field;
use crate::convert::Scope;
use crate::document::{inline_table, list, string};
use crate::mapping::Level::{Location, Server};
use crate::mapping::{How, Level, Row, Verdict};
use crate::tree::Directive;

const RULES: &[Level] = &[Server, Location];

pub(super) const ROWS: &[Row] = &[
    Row { directive: "if", becomes: "rules.when", levels: RULES, how: How::By(condition) },
    Row { directive: "set", becomes: "rules.set", levels: RULES, how: How::By(set) },
    Row {
        directive: "rewrite",
        becomes: "rules.rewrite, rules.to, rules.then",
        levels: RULES,
        how: How::By(rewrite),
    },
    Row { directive: "return", becomes: "return, rules.return", levels: RULES, how: How::By(answered) },
    Row {
        directive: "break",
        becomes: "drover's rules end by themselves",
        levels: RULES,
        how: How::By(ended),
    },
    Row { directive: "limit_except", becomes: "rules", levels: &[Location], how: How::By(limit_except) },
    Row { directive: "rewrite_log", becomes: "the debug log tells", levels: RULES, how: How::Nothing },
    Row {
        directive: "uninitialized_variable_warn",
        becomes: "unknown variables are errors",
        levels: RULES,
        how: How::Nothing,
    },
];

/// An expression as TOML, if drover can use it: there is no looking around and no referring back.
pub(super) fn expression(text: &str) -> Result<String, String> {
    match RegexBuilder::new(text).unicode(false).build() {
        // No literal string holds these (TOML 1.0, "String").
        Ok(_) if text.contains(|c: char| c == '\'' || c.is_control()) => Ok(string(text)),
        Ok(_) => Ok(format!("'{text}'")),
        Err(_) => Err(format!("`{text}` is no expression that runs in linear time")),
    }
}

fn rule(when: Option<&str>, parts: Vec<(&str, String)>) -> String {
    let mut fields: Vec<(&str, String)> = when.map(|when| ("when", when.to_owned())).into_iter().collect();
    fields.extend(parts);
    inline_table(&fields)
}

fn set(scope: &mut Scope, directive: &Directive) -> Verdict {
    scope.push("rules", rule(None, set_parts(directive)?));
    Ok(None)
}

fn set_parts(directive: &Directive) -> Result<Vec<(&'static str, String)>, String> {
    let [name, value] = exactly(&directive.arguments)?;
    let name = name.strip_prefix('$').ok_or_else(|| format!("`{name}` is no variable"))?;
    Ok(vec![("set", inline_table(&[(name, string(value))]))])
}

fn rewrite(scope: &mut Scope, directive: &Directive) -> Verdict {
    scope.push("rules", rule(None, rewrite_parts(directive)?));
    Ok(None)
}

fn rewrite_parts(directive: &Directive) -> Result<Vec<(&'static str, String)>, String> {
    let (pattern, to, flag) = match directive.arguments.as_slice() {
        [pattern, to] => (pattern, to, ""),
        [pattern, to, flag] => (pattern, to, flag.as_str()),
        _ => return Err("an expression and a replacement are expected".to_owned()),
    };
    let elsewhere = ["http://", "https://", "$scheme"].iter().any(|start| to.starts_with(start));
    let then = match flag {
        "permanent" => Some("permanent"),
        "redirect" => Some("redirect"),
        _ if elsewhere => Some("redirect"),
        "last" => Some("last"),
        "break" => Some("break"),
        "" => None,
        _ => return Err(format!("`{flag}` is no flag")),
    };
    let mut parts = vec![("rewrite", expression(pattern)?), ("to", string(to))];
    parts.extend(then.map(|then| ("then", string(then))));
    Ok(parts)
}

/// The answer that a `return` gives, as TOML.
fn answer_of(scope: &Scope, directive: &Directive) -> Result<String, String> {
    let (status, text) = match directive.arguments.as_slice() {
        [only] => match only.parse::<u16>() {
            Ok(status) => (status, ""),
            Err(_) => (302, only.as_str()),
        },
        [status, text] => (status.parse().map_err(|_| format!("`{status}` is no status"))?, text.as_str()),
        _ => return Err("a status is expected".to_owned()),
    };
    let mut fields = vec![("status", status.to_string())];
    match status {
        444 => {}
        301 | 302 | 303 | 307 | 308 => fields.push(("location", string(text))),
        200..=599 if text.is_empty() => {}
        200..=599 => {
            fields.push(("body", string(text)));
            let kind = super::content::with_charset(&scope.default_type, scope.charset.as_deref());
            fields.push(("content_type", string(&kind)));
        }
        _ => return Err(format!("{status} is no status of a final response")),
    }
    Ok(inline_table(&fields))
}

/// What a location always answers is its answer; everything else is a step among others.
fn answered(scope: &mut Scope, directive: &Directive) -> Verdict {
    let answer = answer_of(scope, directive)?;
    let has_body = answer.contains("content_type");
    match scope.level == Location && scope.count("rules") == 0 {
        true => scope.set("return", answer),
        false => scope.push("rules", rule(None, vec![("return", answer)])),
    }
    Ok(has_body.then(|| "the type is the default one, whatever the path's extension".to_owned()))
}

/// Rules that follow would be left out.
fn ended(scope: &mut Scope, _: &Directive) -> Verdict {
    match scope.rules_are_over {
        true => Ok(None),
        false => Err("a rule ends the others only where it rewrites or answers".to_owned()),
    }
}

/// Other methods are refused, if nothing else is said of them. GET lets HEAD in, too.
fn limit_except(scope: &mut Scope, directive: &Directive) -> Verdict {
    let inner: Vec<&Directive> = directive.inner().collect();
    let refuses = matches!(inner.as_slice(), [only] if only.name == "deny" && only.arguments == ["all"]);
    if !refuses {
        scope.close();
        return Err("drover refuses other methods to everybody; what it guards is closed".to_owned());
    }
    let mut methods: Vec<&str> = directive.arguments.iter().map(String::as_str).collect();
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    let one_of = string(&format!("^({})$", methods.join("|")));
    let when = [("text", string("$request_method")), ("matches", one_of), ("not", "true".to_owned())];
    scope.push("rules", rule(Some(&inline_table(&when)), vec![("return", "{ status = 403 }".to_owned())]));
    Ok(None)
}

fn condition(scope: &mut Scope, directive: &Directive) -> Verdict {
    if let Some(tried) = tried_files(scope, directive) {
        scope.set("try_files", tried);
        return Ok(None);
    }
    let when_so = when(&directive.arguments, false)?;
    let (mut rules, mut fields) = (Vec::new(), Vec::new());
    for inner in directive.inner() {
        let parts = match inner.name.as_str() {
            "set" => set_parts(inner)?,
            "rewrite" => rewrite_parts(inner)?,
            "return" => vec![("return", answer_of(scope, inner)?)],
            "add_header" => {
                fields.extend(field(inner)?);
                continue;
            }
            name => return Err(format!("a rule of drover has nothing like `{name}` inside of it")),
        };
        rules.push(rule(Some(&when_so), parts));
    }
    if directive.inner().any(|inner| inner.name == "add_header") {
        let when_not = when(&directive.arguments, true)?;
        scope.add_fields_when(when_so, when_not, fields)?;
    }
    rules.into_iter().for_each(|rule| scope.push("rules", rule));
    Ok(None)
}

/// What `if (!-e $request_filename) { rewrite ... last; }` comes to, if that is all that is asked.
fn tried_files(scope: &Scope, directive: &Directive) -> Option<String> {
    let arguments: Vec<&str> = directive.arguments.iter().map(String::as_str).collect();
    let files: &[&str] = match arguments.as_slice() {
        ["(!-e", "$request_filename)"] => &["$uri", "$uri/"],
        ["(!-f", "$request_filename)"] => &["$uri"],
        _ => return None,
    };
    let inner: Vec<&Directive> = directive.inner().filter(|inner| inner.name != "break").collect();
    let [only] = inner.as_slice() else { return None };
    let (pattern, to) = match only.arguments.as_slice() {
        [pattern, to] => (pattern, to),
        [pattern, to, last] if last == "last" => (pattern, to),
        _ => return None,
    };
    let is_all = ["^", ".*", "^.*$", "^(.*)$", "(.*)"].contains(&pattern.as_str());
    let fits =
        scope.level == Location && scope.count("rules") == 0 && only.name == "rewrite" && to.starts_with('/');
    if !fits || !is_all {
        return None;
    }
    let last = to.replace("$1", "$uri");
    let texts: Vec<String> = files.iter().copied().chain([last.as_str()]).map(string).collect();
    Some(list(&texts))
}

/// The condition in brackets, as TOML; or its opposite.
fn when(arguments: &[String], opposite: bool) -> Result<String, String> {
    let text = arguments.join(" ");
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let inner = inner.ok_or_else(|| "a condition in brackets is expected".to_owned())?.trim();
    let mut words = inner.splitn(3, ' ');
    let (variable, sign, operand) = (words.next().unwrap_or(""), words.next(), words.next());
    if !variable.starts_with('$') {
        return Err("drover's conditions look at texts, not at files".to_owned());
    }
    let operand = operand.unwrap_or("").trim_matches('"');
    let compared = |kind: &str, value: String, not: bool| {
        let mut fields = vec![("text", string(variable)), (kind, value)];
        fields.extend((not != opposite).then(|| ("not", "true".to_owned())));
        inline_table(&fields)
    };
    match sign {
        None if opposite => Ok(inline_table(&[("text", string(variable)), ("not", "true".to_owned())])),
        None => Ok(string(variable)),
        Some("=") => Ok(compared("equals", string(operand), false)),
        Some("!=") => Ok(compared("equals", string(operand), true)),
        Some("~") => Ok(compared("matches", expression(operand)?, false)),
        Some("~*") => Ok(compared("matches", expression(&format!("(?i){operand}"))?, false)),
        Some("!~") => Ok(compared("matches", expression(operand)?, true)),
        Some("!~*") => Ok(compared("matches", expression(&format!("(?i){operand}"))?, true)),
        Some(sign) => Err(format!("`{sign}` compares nothing")),
    }
}
