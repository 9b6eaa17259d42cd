//! The status for those who ask by HTTP: from the scoreboard that a worker has mapped anyway.

use drover_http::StatusSource;
use drover_http::config::StatusForm;

use super::{Now, json, openmetrics, table};
use crate::scoreboard::Readout;

/// A worker's view of the scoreboard.
pub(crate) struct OwnScoreboard(Readout);

impl OwnScoreboard {
    /// The status is what `readout` says when it is asked for.
    pub(crate) fn new(readout: Readout) -> Self {
        Self(readout)
    }
}

impl StatusSource for OwnScoreboard {
    fn status(&self, form: StatusForm) -> Vec<u8> {
        let (snapshot, now) = (self.0.snapshot(), Now::read());
        let text = match form {
            StatusForm::Json => json(&snapshot, now).to_string() + "\n",
            StatusForm::OpenMetrics => openmetrics(&snapshot, now),
            StatusForm::Page => page(&table(&snapshot, now), &json(&snapshot, now).to_string()),
        };
        text.into_bytes()
    }
}

/// The page with what it shows first, and for those without scripts the table.
fn page(table: &str, json: &str) -> String {
    let table = table.replace('&', "&amp;").replace('<', "&lt;");
    // Nothing in it may end the element that it stands in.
    let json = json.replace('<', "\\u003c");
    include_str!("page.html").replacen("{{table}}", &table, 1).replacen("{{json}}", &json, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_shown_ends_its_element() {
        let page = page("a </pre><script>", r#"{"message":"</script><script>alert(1)"}"#);
        assert!(page.contains("a &lt;/pre>&lt;script>"));
        assert!(page.contains(r#"{"message":"\u003c/script>\u003cscript>alert(1)"}"#));
        assert!(!page.contains("{{"));
    }
}
