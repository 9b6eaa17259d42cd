//! The nearest of the names that would have been right.

/// The candidate that a mistyped `name` most likely meant, if any is near enough.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Nobody mistypes more than this; and the distance takes quadratic time.
    if name.len() > 64 {
        return None;
    }
    let wanted = normal(name);
    let allowed = (wanted.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&wanted, &normal(candidate)), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `keepAliveTimeout`, `keep-alive-timeout` and `keepalive_timeout` are the same mistake away.
fn normal(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let keys = ["worker_connections", "workers", "accept", "use"];
        assert_eq!(nearest("worker_conections", keys), Some("worker_connections"));
        assert_eq!(nearest("worker-connections", keys), Some("worker_connections"));
        assert_eq!(nearest("workerConnections", keys), Some("worker_connections"));
        assert_eq!(nearest("acept", keys), Some("accept"));
        assert_eq!(nearest("colour", keys), None);
    }
}
