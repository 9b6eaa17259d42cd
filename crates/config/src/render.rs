//! Drawing findings: the message, file, line and column, the line itself with the place marked, and help.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

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
    if sorted.len() > MAX_DRAWN {
        drawn.push(format!("and {} more\n", sorted.len() - MAX_DRAWN));
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
) -> Vec<Snippet<'a, annotate_snippets::Annotation<'a>>> {
    let label = (!finding.label.is_empty()).then_some(finding.label.as_str());
    let mark = AnnotationKind::Primary.span(visible(place, sources)).label(label);
    let mut snippets = vec![(place.file(), snippet(place, sources).annotation(mark))];
    for (related, text) in &finding.related {
        let mark = AnnotationKind::Context.span(visible(*related, sources)).label(text);
        match snippets.iter_mut().find(|(file, _)| *file == related.file()) {
            Some((_, snippet)) => *snippet = snippet.clone().annotation(mark),
            None => snippets.push((related.file(), snippet(*related, sources).annotation(mark))),
        }
    }
    snippets.into_iter().map(|(_, snippet)| snippet).collect()
}

fn snippet<'a>(place: Place, sources: &'a Sources) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let file = sources.file(place);
    Snippet::source(file.text.as_str()).path(file.name.as_str())
}

/// The part of a place that is drawn: its first line, so that a mark on a long table does not print it all,
/// on character boundaries.
fn visible(place: Place, sources: &Sources) -> std::ops::Range<usize> {
    let text = sources.file(place).text.as_str();
    let span = place.span();
    let start = char_boundary(text, span.start);
    let end = char_boundary(text, span.end).max(start);
    match text[start..end].find('\n') {
        Some(newline) if newline > 0 => start..start + newline,
        _ => start..end,
    }
}
