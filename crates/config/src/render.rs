//! Drawing findings: the message, file, line and column, the line itself with the place marked, and help.

use std::ops::Range;

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Renderer, Snippet};

use crate::finding::{Finding, Findings, Severity, Style};
use crate::place::{Place, Sources, char_boundary};

/// More findings than this are counted and not drawn: nobody reads them, and each costs a pass over the text.
const MAX_DRAWN: usize = 100;

/// Draws the findings, one blank line between them, ending in a line feed unless there are none.
pub(crate) fn render(findings: &Findings, style: Style) -> String {
    let renderer = match style {
        Style::Plain => Renderer::plain(),
        Style::Coloured => Renderer::styled(),
    };
    let sorted = findings.sorted();
    let mut drawn: Vec<String> = sorted
        .iter()
        .take(MAX_DRAWN)
        .map(|finding| renderer.render(&[group(finding, findings.sources())]) + "\n")
        .collect();
    let all = findings.errors() + findings.warnings();
    if all > drawn.len() {
        drawn.push(format!("and {} more\n", all - drawn.len()));
    }
    drawn.join("\n")
}

fn group<'a>(finding: &'a Finding, sources: &'a Sources) -> Group<'a> {
    let level = match finding.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = Group::with_title(level.primary_title(&finding.message));
    if let Some(place) = finding.place {
        group = group.elements(snippets(finding, place, sources));
    }
    group.elements(finding.help.iter().map(|text| Level::HELP.message(text)))
}

/// The place of the finding and the places it refers to, one snippet for each file.
fn snippets<'a>(
    finding: &'a Finding,
    place: Place,
    sources: &'a Sources,
) -> Vec<Snippet<'a, Annotation<'a>>> {
    let primary = Mark { kind: AnnotationKind::Primary, place, label: &finding.label };
    let mut files = vec![vec![primary]];
    for (place, label) in &finding.related {
        let mark = Mark { kind: AnnotationKind::Context, place: *place, label };
        match files.iter_mut().find(|marks| marks[0].place.file() == place.file()) {
            Some(marks) => marks.push(mark),
            None => files.push(vec![mark]),
        }
    }
    files.iter().map(|marks| snippet(marks, sources)).collect()
}

struct Mark<'a> {
    kind: AnnotationKind,
    place: Place,
    label: &'a str,
}

/// The lines from the first to the last of the marks; not the whole file, which the renderer would take apart
/// for every finding again.
fn snippet<'a>(marks: &[Mark<'a>], sources: &'a Sources) -> Snippet<'a, Annotation<'a>> {
    let file = sources.file(marks[0].place);
    let spans: Vec<Range<usize>> = marks.iter().map(|mark| visible(mark.place, sources)).collect();
    let first = spans.iter().map(|span| span.start).min().unwrap_or(0);
    let last = spans.iter().map(|span| span.end).max().unwrap_or(first);
    let start = file.text[..first].rfind('\n').map_or(0, |newline| newline + 1);
    let end = file.text[last..].find('\n').map_or(file.text.len(), |newline| last + newline + 1);
    let line = file.text[..start].matches('\n').count() + 1;
    let annotations = marks.iter().zip(spans).map(|(mark, span)| {
        let label = (!mark.label.is_empty()).then_some(mark.label);
        mark.kind.span(span.start - start..span.end - start).label(label)
    });
    Snippet::source(&file.text[start..end]).path(&file.name).line_start(line).annotations(annotations)
}

/// The part of a place that is drawn: its first line, so that a mark on a long table does not print it all,
/// on character boundaries.
fn visible(place: Place, sources: &Sources) -> Range<usize> {
    let text = sources.file(place).text.as_str();
    let span = place.span();
    let start = char_boundary(text, span.start);
    let end = char_boundary(text, span.end).max(start);
    match text[start..end].find('\n') {
        Some(newline) if newline > 0 => start..start + newline,
        _ => start..end,
    }
}
