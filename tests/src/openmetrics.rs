//! A strict reader of OpenMetrics text, version 1.0
//! (<https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md>): whatever the standard
//! forbids is a fault, also what lenient readers let pass. Exemplars and time stamps, which drover does not send,
//! are not known.

use std::collections::{BTreeMap, BTreeSet};

/// One family of samples.
#[derive(Debug, Clone, Default)]
pub struct Family {
    /// Its type.
    pub kind: String,
    /// What it means.
    pub help: String,
    /// Its samples in their order.
    pub samples: Vec<Sample>,
}

/// One sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Its name, with the suffix.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

impl Family {
    /// The value of the only sample with these labels, and others.
    pub fn value(&self, labels: &[(&str, &str)]) -> Option<f64> {
        let fits = |sample: &&Sample| {
            labels.iter().all(|(name, value)| sample.labels.get(*name).map(String::as_str) == Some(*value))
        };
        let mut found = self.samples.iter().filter(fits);
        let value = found.next()?.value;
        found.next().is_none().then_some(value)
    }
}

/// The families of a text by their names.
///
/// # Errors
/// The first fault, with its line.
pub fn parse(text: &str) -> Result<BTreeMap<String, Family>, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("the text does not end with # EOF and a line feed")?;
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for (number, line) in body.lines().enumerate() {
        let fault = |what: &str| format!("line {}: {what}: {line}", number + 1);
        if line.contains('\r') || line.is_empty() {
            return Err(fault("an empty line, or a carriage return"));
        }
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (keyword, name, rest) = (words.next(), words.next(), words.next());
            let (Some(name), Some(rest)) = (name, rest) else { return Err(fault("no name, or no text")) };
            if keyword == Some("TYPE") {
                if families.contains_key(name) {
                    return Err(fault("the family was there already"));
                }
                check_name(name).map_err(|what| fault(&what))?;
                name.clone_into(&mut current);
            } else if name != current {
                return Err(fault("a family begins with its TYPE"));
            }
            let family = families.entry(name.to_owned()).or_default();
            match keyword {
                _ if !family.samples.is_empty() => return Err(fault("stands after a sample")),
                Some("TYPE") if KINDS.contains(&rest) => rest.clone_into(&mut family.kind),
                Some("HELP") if family.help.is_empty() && !rest.is_empty() => {
                    rest.clone_into(&mut family.help)
                }
                _ => return Err(fault("not TYPE, UNIT or HELP as it has to be")),
            }
            continue;
        }
        let sample = sample(line).map_err(|what| fault(&what))?;
        let family = families.get_mut(&current).ok_or_else(|| fault("no TYPE before it"))?;
        check_sample(&current, family, &sample).map_err(|what| fault(&what))?;
        family.samples.push(sample);
    }
    for (name, family) in &families {
        check_family(name, family).map_err(|what| format!("{name}: {what}"))?;
    }
    check_names(&families)?;
    Ok(families)
}

const KINDS: [&str; 5] = ["gauge", "counter", "histogram", "info", "stateset"];

/// The suffixes that samples of a type may have.
fn suffixes(kind: &str) -> &'static [&'static str] {
    match kind {
        "counter" => &["_total", "_created"],
        "histogram" => &["_bucket", "_count", "_sum", "_created"],
        "info" => &["_info"],
        _ => &[""],
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let reserved = ["_total", "_created", "_bucket", "_count", "_sum", "_info"];
    match name.chars().next() {
        Some(first) if !first.is_ascii_digit() && name.chars().all(allowed) => {}
        _ => return Err(format!("{name:?} is no name")),
    }
    match reserved.iter().find(|suffix| name.ends_with(**suffix)) {
        Some(suffix) => Err(format!("a family's name must not end with {suffix}")),
        None => Ok(()),
    }
}

fn sample(line: &str) -> Result<Sample, String> {
    let name_ends = line.find(['{', ' ']).ok_or("no value")?;
    let (name, rest) = line.split_at(name_ends);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    let value = rest.strip_prefix(' ').ok_or("no space before the value")?;
    if value.contains(' ') || value.is_empty() {
        return Err("more than a value, or none".into());
    }
    let allowed = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    let is_number = value.chars().all(allowed) || matches!(value, "NaN" | "+Inf" | "-Inf");
    let parsed = value.replace("Inf", "inf").parse().map_err(|_| format!("{value:?} is no number"))?;
    if !is_number {
        return Err(format!("{value:?} is no number"));
    }
    Ok(Sample { name: name.to_owned(), labels, value: parsed })
}

/// `a="b",c="d"}`, and what follows it.
fn labels(mut rest: &str) -> Result<(BTreeMap<String, String>, &str), String> {
    let mut labels = BTreeMap::new();
    loop {
        let (name, after) = rest.split_once("=\"").ok_or("a label without a value")?;
        check_name(name)?;
        let (mut value, mut chars) = (String::new(), after.char_indices());
        let end = loop {
            match chars.next().ok_or("a label's value does not end")? {
                (at, '"') => break at,
                (_, '\\') => match chars.next().ok_or("a label's value does not end")?.1 {
                    'n' => value.push('\n'),
                    escaped @ ('\\' | '"') => value.push(escaped),
                    other => return Err(format!("\\{other} is no escape")),
                },
                (_, other) => value.push(other),
            }
        };
        if labels.insert(name.to_owned(), value).is_some() {
            return Err(format!("the label {name} stands twice"));
        }
        rest = &after[end + 1..];
        match rest.split_at_checked(1) {
            Some((",", next)) => rest = next,
            Some(("}", after)) => return Ok((labels, after)),
            _ => return Err("neither a comma nor the end after a label".into()),
        }
    }
}

fn check_sample(family: &str, of: &Family, sample: &Sample) -> Result<(), String> {
    let suffix = sample.name.strip_prefix(family).ok_or("not of the family at hand")?;
    if !suffixes(&of.kind).contains(&suffix) {
        return Err(format!("a {} has no sample with {suffix:?}", of.kind));
    }
    if of.samples.iter().any(|other| other.name == sample.name && other.labels == sample.labels) {
        return Err("the same sample stands twice".into());
    }
    let never_negative = matches!(of.kind.as_str(), "counter" | "histogram");
    if never_negative && (sample.value.is_nan() || sample.value < 0.0) {
        return Err("a count that is negative, or no number".into());
    }
    let flag = matches!(of.kind.as_str(), "info" | "stateset");
    if flag && sample.value != 1.0 && (of.kind == "info" || sample.value != 0.0) {
        return Err("neither 1 nor, in a stateset, 0".into());
    }
    if of.kind == "stateset" && !sample.labels.contains_key(family) {
        return Err(format!("a state without the label {family}"));
    }
    Ok(())
}

fn check_family(name: &str, family: &Family) -> Result<(), String> {
    if family.help.is_empty() {
        return Err("no HELP".into());
    }
    if family.kind != "histogram" {
        return Ok(());
    }
    let of = |suffix: &str| {
        let name = format!("{name}{suffix}");
        family.samples.iter().filter(move |sample| sample.name == name)
    };
    let mut before = (f64::NEG_INFINITY, 0.0);
    for bucket in of("_bucket") {
        let end = bucket.labels.get("le").ok_or("a bucket without an end")?;
        if *end != canonical(end)? {
            return Err(format!("{end} is not written as {}", canonical(end)?));
        }
        let end: f64 = end.replace("Inf", "inf").parse().map_err(|_| format!("{end} is no number"))?;
        if end <= before.0 || bucket.value < before.1 {
            return Err("buckets have to grow".into());
        }
        before = (end, bucket.value);
    }
    if before.0 != f64::INFINITY || of("_count").any(|count| count.value != before.1) {
        return Err("the last bucket has everything, and is what the count says".into());
    }
    if of("_count").count() != of("_sum").count() {
        return Err("a count and a sum go together".into());
    }
    Ok(())
}

/// A bucket's end as the standard wants it: as Go writes it with `%g`, and whole numbers with `.0`.
fn canonical(end: &str) -> Result<String, String> {
    if end == "+Inf" {
        return Ok(end.to_owned());
    }
    let value: f64 = end.parse().map_err(|_| format!("{end} is no number"))?;
    if value >= 1e-4 {
        return Ok(format!("{value:?}"));
    }
    let (mantissa, exponent) = format!("{value:e}")
        .split_once("e-")
        .map(|(m, e)| (m.to_owned(), e.to_owned()))
        .ok_or("no exponent")?;
    Ok(format!("{mantissa}e-{exponent:0>2}"))
}

/// No sample's name is that of another family's.
fn check_names(families: &BTreeMap<String, Family>) -> Result<(), String> {
    let mut taken = BTreeSet::new();
    for (name, family) in families {
        for suffix in suffixes(&family.kind) {
            if !taken.insert(format!("{name}{suffix}")) {
                return Err(format!("{name}{suffix} belongs to two families"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# TYPE a_seconds histogram\n# HELP a_seconds What it is.\n\
        a_seconds_bucket{le=\"2.048e-06\"} 1\na_seconds_bucket{le=\"0.5\"} 2\na_seconds_bucket{le=\"+Inf\"} 2\n\
        a_seconds_count 2\na_seconds_sum 0.25\n# TYPE b counter\n# HELP b With \\\"quotes\\\".\nb_total{x=\"a\\\"b\\n\",y=\"\"} 3.5e+02\n# EOF\n";

    #[test]
    fn what_is_right_is_read() {
        let families = parse(GOOD).expect("right");
        assert_eq!(families["b"].value(&[("x", "a\"b\n")]), Some(350.0));
        assert_eq!(families["a_seconds"].samples.len(), 5);
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for (right, wrong) in [
            ("# EOF\n", ""),
            ("# EOF\n", "# EOF"),
            ("_total", ""),
            ("_total", "_sum"),
            (" 3.5e+02", " -1"),
            (" 3.5e+02", " x"),
            (" 3.5e+02", ""),
            (" 3.5e+02", " 1 1"),
            ("# HELP b With \\\"quotes\\\".\n", ""),
            ("# TYPE b counter\n", ""),
            ("b counter", "b number"),
            ("# TYPE b", "# TYPE a_seconds"),
            ("+Inf", "1.0"),
            ("\"0.5\"", "\"0.50\""),
            ("\"0.5\"", "\"1e-07\""),
            ("2.048e-06", "2.048e-6"),
            ("le=\"0.5\"} 2", "le=\"0.5\"} 0"),
            ("_count 2", "_count 3"),
            ("a_seconds_sum 0.25\n", ""),
            ("x=\"a\\\"b\\n\"", "x=\"a\\q\""),
            ("y=\"\"", "x=\"\""),
            ("y=\"\"", "y=\"\","),
        ] {
            let text = GOOD.replacen(right, wrong, 1);
            assert_ne!(text, GOOD);
            assert!(parse(&text).is_err(), "{right:?} as {wrong:?}");
        }
        let twice = GOOD.replace("# EOF", "b_total{x=\"a\\\"b\\n\",y=\"\"} 1\n# EOF");
        assert!(parse(&twice).is_err());
    }
}
