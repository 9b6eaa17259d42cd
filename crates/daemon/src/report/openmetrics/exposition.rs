//! How families and samples are written.

use std::fmt::{Display, Write};

use drover_event::{BUCKETS, Histogram, bucket_end};

/// Each fourth bucket of a histogram is shown: a bucket for each factor of four.
const BUCKET_STEP: usize = 4;

/// The text as far as it is written.
#[derive(Default)]
pub(super) struct Exposition(String);

impl Exposition {
    /// The whole text.
    pub(super) fn finish(self) -> String {
        self.0 + "# EOF\n"
    }

    /// Begins a family. Its samples follow before the next one begins.
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# TYPE {name} {kind}"));
        self.line(format_args!("# HELP {name} {}", escaped(help.trim())));
    }

    /// A family with one sample.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    /// A family with one sample, which only grows.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "counter", help);
        self.sample(&format!("{name}_total"), &[], value);
    }

    /// A histogram in seconds, with the sum of what was counted where that is known.
    pub(super) fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram, sum: Option<f64>) {
        self.family(name, "histogram", help);
        let mut count = 0;
        for bucket in 0..BUCKETS {
            count += histogram.count_in(bucket);
            match bucket_end(bucket) {
                Some(end) if bucket % BUCKET_STEP == BUCKET_STEP - 1 => {
                    let end = canonical(end.as_secs_f64());
                    self.sample(&format!("{name}_bucket"), &[("le", &end)], count);
                }
                Some(_) => {}
                None => self.sample(&format!("{name}_bucket"), &[("le", "+Inf")], count),
            }
        }
        // The standard wants both or neither.
        if let Some(sum) = sum {
            self.sample(&format!("{name}_count"), &[], count);
            self.sample(&format!("{name}_sum"), &[], sum);
        }
    }

    /// A sample of the family that was begun last.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        match labels.is_empty() {
            true => self.line(format_args!("{name} {value}")),
            false => self.line(format_args!("{name}{{{}}} {value}", labels.join(","))),
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{line}");
    }
}

/// The end of a bucket as the standard wants it: a small number with an exponent of two digits.
fn canonical(seconds: f64) -> String {
    match format!("{seconds:e}").split_once("e-") {
        Some((mantissa, exponent)) if seconds < 1e-4 => format!("{mantissa}e-{exponent:0>2}"),
        _ => format!("{seconds:?}"),
    }
}

/// As a label's value or a help text has to be written.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
