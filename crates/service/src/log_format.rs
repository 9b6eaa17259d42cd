//! Formats of access logs: a text with variables, or an object in JSON.

use std::collections::BTreeMap;

use drover_config::{Located, Node, Output, Reader, Shorthand, Value};

use crate::template::{Template, TemplateError, Variable};
use crate::text::push_json;

drover_config::table! {
    /// A format of access logs.
    #[table(shorthand)]
    pub struct LogFormatConfig {
        /// The line, with variables.
        #[example = "\"$remote_addr $request $status\""]
        pub text: Option<Located<String>> = None,
        /// Names and texts of an object in JSON, instead of a line of text.
        #[example = "{ status = \"$status\", uri = \"$request_uri\" }"]
        pub json: Option<BTreeMap<String, Located<String>>> = None,
        /// How values in `text` are kept from breaking out of it: for quoted text, for JSON, or not at all.
        pub escape: Escape = Escape::Text,
    }
}

drover_config::choice! {
    /// How values are kept from breaking out of a line.
    pub enum Escape {
        /// `"`, `\` and what is no visible ASCII become `\xHH`; an empty value becomes `-`.
        Text = "text",
        /// As within a string of JSON.
        Json = "json",
        /// Not at all.
        None = "none",
    }
}

impl LogFormatConfig {
    /// A line of text.
    pub fn of_text(text: Located<String>) -> LogFormatConfig {
        LogFormatConfig { text: Some(text), json: None, escape: Escape::Text }
    }

    /// All texts, to check their variables.
    pub fn texts(&self) -> impl Iterator<Item = &Located<String>> {
        self.text.iter().chain(self.json.iter().flat_map(|object| object.values()))
    }
}

/// `by_worker = "$pid $request"`: a line of text.
impl Shorthand for LogFormatConfig {
    const TYPE: &'static str = "string";

    fn from_value(node: &Node, reader: &mut Reader<'_>) -> Option<LogFormatConfig> {
        Located::read(node, reader).map(LogFormatConfig::of_text)
    }

    fn to_value(&self) -> Option<Output> {
        let plain = self.json.is_none() && self.escape == Escape::Text;
        self.text.as_ref().filter(|_| plain).map(|text| text.write())
    }
}

/// A format, compiled.
#[derive(Clone, Debug)]
pub enum LogFormat<V> {
    /// A line of text.
    Text(Template<V>, Escape),
    /// The members of an object: what stands before each value, and the value.
    Json(Vec<(Box<[u8]>, Template<V>)>),
}

impl<V: Variable> LogFormat<V> {
    /// Compiles a format; `template` compiles one of its texts.
    ///
    /// # Errors
    /// The first fault of a text.
    pub fn new(
        config: &LogFormatConfig,
        template: impl Fn(&str) -> Result<Template<V>, TemplateError>,
    ) -> Result<LogFormat<V>, TemplateError> {
        let Some(object) = &config.json else {
            let text = config.text.as_ref().map_or("", |text| text.as_str());
            return Ok(LogFormat::Text(template(text)?, config.escape));
        };
        let mut members: Vec<(Box<[u8]>, Template<V>)> = Vec::with_capacity(object.len());
        for (name, text) in object {
            let mut before = if members.is_empty() { b"{\"".to_vec() } else { b",\"".to_vec() };
            push_json(&mut before, name.as_bytes());
            before.extend_from_slice(b"\":");
            members.push((before.into(), template(text)?));
        }
        Ok(LogFormat::Json(members))
    }

    /// Whether a variable of the format fulfils `test`.
    pub fn uses(&self, test: impl Fn(&V) -> bool + Copy) -> bool {
        match self {
            LogFormat::Text(template, _) => template.uses(test),
            LogFormat::Json(members) => members.iter().any(|(_, template)| template.uses(test)),
        }
    }

    /// Appends the line.
    pub fn push(&self, facts: &V::Facts<'_>, out: &mut Vec<u8>) {
        match self {
            LogFormat::Text(template, Escape::Text) => template.push_for_log(facts, out),
            LogFormat::Text(template, Escape::Json) => template.push_values(facts, out, push_json),
            LogFormat::Text(template, Escape::None) => template.push_plain(facts, out),
            LogFormat::Json(members) => push_object(members, facts, out),
        }
    }
}

/// Numbers stand as such, and a member whose text is empty is `null`.
fn push_object<V: Variable>(members: &[(Box<[u8]>, Template<V>)], facts: &V::Facts<'_>, out: &mut Vec<u8>) {
    if members.is_empty() {
        out.push(b'{');
    }
    for (before, template) in members {
        out.extend_from_slice(before);
        let start = out.len();
        if template.single().is_some_and(V::is_number) {
            template.push_plain(facts, out);
        } else {
            out.push(b'"');
            template.push_through(facts, out, push_json);
            out.push(b'"');
        }
        if matches!(&out[start..], b"" | b"\"\"") {
            out.truncate(start);
            out.extend_from_slice(b"null");
        }
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `$name`, with the text that the test gives it, and `$count`, 7.
    #[derive(Clone, PartialEq, Debug)]
    enum Own {
        Name,
        Count,
    }

    impl Variable for Own {
        type Facts<'a> = &'a [u8];

        fn named(name: &str) -> Option<Own> {
            match name {
                "name" => Some(Own::Name),
                "count" => Some(Own::Count),
                _ => None,
            }
        }

        fn names() -> impl Iterator<Item = &'static str> {
            ["name", "count"].into_iter()
        }

        fn is_number(&self) -> bool {
            *self == Own::Count
        }

        fn push(&self, facts: &&[u8], out: &mut Vec<u8>, text: fn(&mut Vec<u8>, &[u8])) {
            match self {
                Own::Name => text(out, facts),
                Own::Count => out.push(b'7'),
            }
        }
    }

    fn line(config: &str, name: &[u8]) -> String {
        let config = format!("f = {config}");
        let (map, findings) = drover_config::parse::<Formats>("f.toml", &config);
        assert!(findings.is_empty(), "{findings}");
        let config = map.expect("a table").f;
        let format = LogFormat::<Own>::new(&config, Template::parse).expect("templates");
        let mut out = Vec::new();
        format.push(&name, &mut out);
        String::from_utf8(out).expect("text")
    }

    drover_config::table! {
        /// Formats.
        struct Formats {
            /// One.
            pub f: LogFormatConfig,
        }
    }

    #[test]
    fn an_object_has_numbers_strings_and_nothing() {
        let object = r#"{ json = { "a \"b\"" = "$count", b = "$name", c = "n: $count", d = "$name!" } }"#;
        assert_eq!(
            line(object, b"x\"\\\n\x01\xff\xc3\xa9"),
            "{\"a \\\"b\\\"\":7,\"b\":\"x\\\"\\\\\\n\\u0001\u{fffd}\u{e9}\",\"c\":\"n: 7\",\"d\":\"x\\\"\\\\\\n\\u0001\u{fffd}\u{e9}!\"}"
        );
        assert_eq!(line(object, b""), r#"{"a \"b\"":7,"b":null,"c":"n: 7","d":"!"}"#);
        assert_eq!(line("{ json = {} }", b""), "{}");
    }

    #[test]
    fn a_text_is_escaped_as_its_reader_needs() {
        assert_eq!(line("'<$name> \"$count\"'", b"a\"b"), r#"<a\x22b> "7""#);
        assert_eq!(line("{ text = '{\"n\":\"$name\"}', escape = 'json' }", b"a\"b"), r#"{"n":"a\"b"}"#);
        assert_eq!(line("{ text = '$name', escape = 'none' }", b"a\"b"), "a\"b");
    }
}
