//! A block on its way: the table that it becomes, and what can be written only once all of it is known.

use std::rc::Rc;

use super::fields::{Field, Fields};
use crate::contexts::limits::Refusals;
use crate::convert::{Facts, Pass, Setting};
use crate::document::{Table, inline_table, list, string};
use crate::mapping::Level;
use crate::tree::Directive;

/// Lists whose values stand on lines of their own.
const LONG_LISTS: &[&str] = &["rules", "error_pages", "servers"];

/// One block of nginx's, and one table of drover's.
pub(crate) struct Scope {
    pub(crate) level: Level,
    pub(crate) table: Table,
    /// The media type of what has no other.
    pub(crate) default_type: String,
    pub(crate) refusals: Refusals,
    /// Where proxies say whom they connect for, and whether what those say who are trusted themselves is passed over.
    pub(crate) real_ip_header: Option<String>,
    pub(crate) real_ip_recursive: bool,
    /// What texts are encoded in, if it is said.
    pub(crate) charset: Option<String>,
    /// The location's path, and as TOML.
    pub(crate) plain_path: String,
    pub(crate) path: String,
    /// The location's expression, as TOML.
    pub(crate) expression: Option<String>,
    /// What servers call themselves where they send clients, and what stands in its place.
    pub(crate) redirects: Vec<(String, String)>,
    /// nginx's own such pair counts.
    pub(crate) redirects_by_default: bool,
    /// The path that takes the place of the request's where it is passed on.
    pub(crate) passed_path: Option<String>,
    /// No step of the rewrite module follows the directive at hand.
    pub(crate) rules_are_over: bool,
    pub(crate) facts: Rc<Facts>,
    /// What the block passes on to.
    pub(crate) pass: Option<Pass>,
    /// All that it may pass on to, where a variable decides: upstreams and addresses.
    pub(crate) passes: Vec<String>,
    /// What nginx calls `$proxy_host`.
    pub(crate) proxy_host: String,
    /// What is asked of the upstream that it passes on to.
    pub(crate) of_upstream: Vec<Setting>,
    /// Nobody is let in, and drover has no key to say so.
    pub(crate) is_closed: bool,
    /// Comments that wait for the line they stand above.
    pending: Vec<String>,
    /// The table of the main level that was written to last.
    last: Option<usize>,
    fields: Fields,
    pub(crate) request_fields: Vec<(String, String)>,
    /// Lists that several directives add to, by key; as TOML.
    lists: Vec<(&'static str, Vec<String>)>,
    /// Tables that stand behind this one.
    behind: Vec<Table>,
}

impl Scope {
    pub(crate) fn new(level: Level, header: &str, facts: &Rc<Facts>) -> Scope {
        Scope {
            level,
            table: Table::new(header),
            // What nginx takes where nothing is said.
            default_type: "text/plain".to_owned(),
            refusals: Refusals::default(),
            real_ip_header: None,
            real_ip_recursive: false,
            charset: None,
            plain_path: String::new(),
            path: String::new(),
            expression: None,
            redirects: Vec::new(),
            redirects_by_default: true,
            passed_path: None,
            rules_are_over: false,
            facts: Rc::clone(facts),
            pass: None,
            passes: Vec::new(),
            proxy_host: String::new(),
            of_upstream: Vec::new(),
            is_closed: false,
            pending: Vec::new(),
            last: None,
            fields: Fields::default(),
            request_fields: Vec::new(),
            lists: Vec::new(),
            behind: Vec::new(),
        }
    }

    /// A block inside of this one.
    pub(crate) fn inside(&self, level: Level, header: &str) -> Scope {
        Scope {
            default_type: self.default_type.clone(),
            refusals: self.refusals,
            fields: self.fields.inside(),
            charset: self.charset.clone(),
            of_upstream: self.of_upstream.clone(),
            ..Scope::new(level, header, &self.facts)
        }
    }

    /// Takes note of what counts for all of a block, wherever it stands.
    pub(crate) fn note(&mut self, directive: &Directive) {
        self.refusals.note(directive);
        let [value] = directive.arguments.as_slice() else { return };
        match directive.name.as_str() {
            "charset" => self.charset = (value != "off").then(|| value.clone()),
            "default_type" => self.default_type.clone_from(value),
            "real_ip_header" => self.real_ip_header = Some(value.clone()),
            "real_ip_recursive" => self.real_ip_recursive = value == "on",
            _ => {}
        }
    }

    /// Sets a key of the table. The keys of the main level have the table's name in front.
    pub(crate) fn set(&mut self, key: &str, value: String) {
        let comments = std::mem::take(&mut self.pending);
        let (table, key) = match (self.level, key.split_once('.')) {
            (Level::Main, Some((name, key))) => (self.main_table(name), key),
            _ => (&mut self.table, key),
        };
        comments.iter().for_each(|text| table.comment(text));
        table.set(key, value);
    }

    fn main_table(&mut self, name: &str) -> &mut Table {
        let header = format!("[{name}]");
        let known = self.behind.iter().position(|table| table.header() == header);
        let place = known.unwrap_or_else(|| {
            self.behind.push(Table::new(&header));
            self.behind.len() - 1
        });
        self.last = Some(place);
        &mut self.behind[place]
    }

    /// Sets a key to what nobody said.
    pub(crate) fn set_default(&mut self, key: &str, value: String, why: &str) {
        let pending = std::mem::take(&mut self.pending);
        self.set(key, value);
        self.comment_behind(why);
        self.pending = pending;
    }

    /// Leaves out how requests are passed on, where none are.
    pub(crate) fn without_proxy(&mut self) {
        self.table.unset_beneath("proxy.");
    }

    /// Whether a key of the table is set.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.has(key)
    }

    /// Adds a table that stands behind this one. Fails where there is one of this name.
    pub(crate) fn push_table(&mut self, table: Table) -> Result<(), String> {
        if self.behind.iter().any(|known| known.header() == table.header()) {
            return Err(format!("there is a table {} already", table.header()));
        }
        self.behind.push(table);
        Ok(())
    }

    /// Adds to a list.
    pub(crate) fn push(&mut self, key: &'static str, value: String) {
        let place = self.lists.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            self.lists.push((key, Vec::new()));
            self.lists.len() - 1
        });
        self.lists[place].1.push(value);
        let text = match LONG_LISTS.contains(&key) {
            true => lines(&self.lists[place].1),
            false => list(&self.lists[place].1),
        };
        self.set(key, text);
    }

    /// Lets nobody in.
    pub(crate) fn close(&mut self) {
        if self.level == Level::StreamServer {
            self.is_closed = true;
            return;
        }
        self.lists.retain(|(key, _)| *key != "access");
        self.push("access", string("deny all"));
    }

    /// How many values a list has.
    pub(crate) fn count(&self, key: &str) -> usize {
        self.lists.iter().find(|(known, _)| *known == key).map_or(0, |(_, values)| values.len())
    }

    /// Asks the upstream that the block passes on to for a setting; the last word counts.
    pub(crate) fn ask_upstream(&mut self, key: &'static str, value: String) -> Option<String> {
        self.of_upstream.retain(|known| known.key != key);
        self.of_upstream.push(Setting { key, value });
        None
    }

    /// Adds a field to responses.
    pub(crate) fn add_field(&mut self, field: Field) {
        self.fields.add(field);
        self.write_fields();
    }

    /// Adds none, which is a word of its own: those outside are not added either.
    pub(crate) fn add_no_field(&mut self) {
        self.add_field(Field { name: String::new(), value: String::new(), always: true });
    }

    /// Has other fields added where a condition holds; both are TOML.
    pub(crate) fn add_fields_when(
        &mut self,
        when: String,
        when_not: String,
        fields: Vec<Field>,
    ) -> Result<(), String> {
        self.fields.add_when(when, when_not, fields)?;
        self.write_fields();
        Ok(())
    }

    /// Takes a field out of responses.
    pub(crate) fn hide_field(&mut self, name: &str) {
        self.fields.hide(name);
        self.write_fields();
    }

    /// Sets the field Cache-Control of responses, or leaves it as it is.
    pub(crate) fn set_times(&mut self, times: Option<String>) {
        self.fields.set_times(times);
        self.write_fields();
    }

    fn write_fields(&mut self) {
        let text = match self.fields.changes().as_slice() {
            [change] => change.clone(),
            changes => lines(changes),
        };
        self.set("headers", text);
    }

    /// Sets a field of requests that are passed on; of several of one name the last counts.
    pub(crate) fn set_request_field(&mut self, name: &str, value: &str) {
        self.request_fields.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.request_fields.push((name.to_owned(), string(value)));
        self.write_request_fields();
    }

    /// Writes the fields of requests.
    pub(crate) fn write_request_fields(&mut self) {
        const KEY: &str = "proxy.request_headers";
        let fields: Vec<(&str, String)> =
            self.request_fields.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        match fields.is_empty() {
            true => self.table.unset(KEY),
            false => self.set(KEY, inline_table(&[("set", inline_table(&fields))])),
        }
    }

    /// A comment that stands above what comes next.
    pub(crate) fn comment(&mut self, text: &str) {
        self.pending.push(text.to_owned());
    }

    /// A comment that belongs to the block and not to what comes next in it.
    pub(crate) fn comment_in_place(&mut self, text: &str) {
        self.comment(text);
        if self.level != Level::Main || self.last.is_some() {
            self.settle_comments();
        }
    }

    /// A comment behind the last line.
    pub(crate) fn comment_behind(&mut self, text: &str) {
        let table = match self.last {
            Some(last) => &mut self.behind[last],
            None => &mut self.table,
        };
        match self.pending.is_empty() && !table.is_empty() {
            true => table.comment_behind(text),
            false => self.comment(text),
        }
    }

    /// Takes the comments that belong above a block.
    pub(crate) fn take_comments(&mut self) -> Vec<String> {
        std::mem::take(&mut self.pending)
    }

    fn settle_comments(&mut self) {
        let table = match self.last {
            Some(last) => &mut self.behind[last],
            None => &mut self.table,
        };
        self.pending.drain(..).for_each(|text| table.comment(&text));
    }

    /// What is left of a block that was not carried over.
    pub(crate) fn only_comments(mut self) -> Table {
        self.settle_comments();
        self.table.without_header()
    }

    /// The tables that the block became.
    pub(crate) fn finish(mut self) -> Vec<Table> {
        self.settle_comments();
        let mut tables = vec![self.table];
        tables.append(&mut self.behind);
        tables
    }
}

/// A list with a line for each element where there are several.
fn lines(values: &[String]) -> String {
    match values {
        [value] => format!("[{value}]"),
        [] => "[]".to_owned(),
        values => {
            let lines: String = values.iter().map(|value| format!("    {value},\n")).collect();
            format!("[\n{lines}]")
        }
    }
}
