//! Variables whose values are looked up: `[http.maps]`.

use std::net::IpAddr;
use std::rc::Rc;

use foldhash::HashMap;

use crate::config;
use crate::networks::Networks;
use crate::own::OwnVariables;
use crate::pattern::{Groups, Pattern};
use crate::variables::{Facts, Template, Variable};

/// A map, compiled.
#[derive(Debug)]
pub(crate) struct Map {
    of: Template,
    /// By text in lower case.
    values: HashMap<Box<[u8]>, Template>,
    patterns: Vec<(Pattern, Template)>,
    networks: Networks<Template>,
    /// Where each share ends among the values of the hash.
    shares: Vec<(u64, Template)>,
    default: Template,
}

/// A variable that a map gives its value.
#[derive(Clone, Debug)]
pub(crate) struct MapVariable(Rc<Map>);

impl PartialEq for MapVariable {
    fn eq(&self, other: &MapVariable) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

/// Longest text that is looked up in lower case without allocating.
const SHORT: usize = 128;

impl MapVariable {
    /// Compiles a map; `template` compiles one of its texts. Fails with what is wrong.
    pub(crate) fn new(
        config: &config::Map,
        mut template: impl FnMut(&str) -> Result<Template, String>,
    ) -> Result<MapVariable, String> {
        let of = template(&config.of)?;
        let mut values = HashMap::default();
        for (text, value) in &config.values {
            values.insert(text.to_ascii_lowercase().into_bytes().into(), template(value)?);
        }
        let mut patterns = Vec::with_capacity(config.patterns.len());
        for pattern in &config.patterns {
            // Their groups are for the value alone.
            let expression = Pattern::new(&pattern.matches, &OwnVariables::default())?;
            patterns.push((expression, template(&pattern.value)?));
        }
        let mut networks = Networks::default();
        for (text, value) in &config.networks {
            networks.insert(config::network(text)?, template(value)?);
        }
        let (mut shares, mut end) = (Vec::with_capacity(config.shares.len()), 0);
        for share in &config.shares {
            let part =
                share.share.map(|share| u64::from(share.0) * u64::from(u32::MAX) / u64::from(config::WHOLE));
            end = part.map_or(1 << 32, |part| end + part);
            shares.push((end, template(&share.value)?));
        }
        let default = template(&config.default)?;
        Ok(MapVariable(Rc::new(Map { of, values, patterns, networks, shares, default })))
    }

    /// Whether a variable that the map looks at fulfils `test`.
    pub(crate) fn uses(&self, test: fn(&Variable) -> bool) -> bool {
        let Map { of, values, patterns, networks, shares, default } = &*self.0;
        let templates = values.values().chain(patterns.iter().map(|(_, value)| value));
        let templates = templates.chain(shares.iter().map(|(_, value)| value));
        templates.chain(networks.values()).chain([of, default]).any(|template| template.uses(test))
    }

    /// Appends the value through `text`.
    pub(crate) fn push(&self, facts: &Facts<'_>, out: &mut Vec<u8>, text: fn(&mut Vec<u8>, &[u8])) {
        let map = &*self.0;
        let mut key = Vec::new();
        map.of.push_plain(facts, &mut key);
        if let Some(value) = map.value(&key) {
            return value.push_through(facts, out, text);
        }
        let mut groups = Groups::default();
        for (pattern, value) in &map.patterns {
            if pattern.find_groups(&key, &mut groups) {
                return value.push_through(&Facts { groups: &groups, ..*facts }, out, text);
            }
        }
        map.by_network(&key)
            .or_else(|| map.by_share(&key))
            .unwrap_or(&map.default)
            .push_through(facts, out, text);
    }
}

impl Map {
    fn value(&self, key: &[u8]) -> Option<&Template> {
        if self.values.is_empty() {
            return None;
        }
        let mut short = [0; SHORT];
        match short.get_mut(..key.len()) {
            Some(lower) => {
                lower.copy_from_slice(key);
                lower.make_ascii_lowercase();
                self.values.get(&*lower)
            }
            None => self.values.get(key.to_ascii_lowercase().as_slice()),
        }
    }

    fn by_share(&self, key: &[u8]) -> Option<&Template> {
        if self.shares.is_empty() {
            return None;
        }
        let hash = u64::from(murmur2(key));
        self.shares.iter().find(|(end, _)| hash < *end).map(|(_, value)| value)
    }

    fn by_network(&self, key: &[u8]) -> Option<&Template> {
        if self.networks.is_empty() {
            return None;
        }
        let address: IpAddr = std::str::from_utf8(key).ok()?.parse().ok()?;
        self.networks.find(address)
    }
}

/// MurmurHash2 of 32 bits, by which nginx splits too: whoever moves over keeps their share.
fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> 24;
        hash = hash.wrapping_mul(M) ^ word.wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u32::from_le_bytes(last)).wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_nginx() {
        // What ngx_murmur_hash2() gives.
        for (text, want) in [("", 0), ("a", 0x9268_5f5e), ("abcd", 0x2687_3021), ("abcdefg", 0xf9a1_cef3)] {
            assert_eq!(murmur2(text.as_bytes()), want, "{text}");
        }
    }
}
