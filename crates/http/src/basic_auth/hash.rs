//! Hashes of passwords, in the forms that are safe to keep.

use std::sync::Arc;

use bcrypt::HashParts;
use sha_crypt::{PasswordVerifier, ShaCrypt};

/// The costliest hash that is taken: a password takes some seconds.
const MOST_COST: u32 = 16;
const MOST_ROUNDS: u32 = 5_000_000;

/// The hash of one user's password.
#[derive(Clone, Debug)]
pub(crate) enum PasswordHash {
    /// `$2y$`, as `htpasswd -B` makes it.
    Bcrypt(Arc<str>),
    /// `$6$` and `$5$`: SHA-512 and SHA-256 crypt, as `openssl passwd -6` makes it.
    Sha(Arc<str>),
}

impl PasswordHash {
    /// Reads a hash; fails with what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<PasswordHash, &'static str> {
        if ["$2a$", "$2b$", "$2y$"].iter().any(|kind| text.starts_with(kind)) {
            let parts: HashParts = text.parse().map_err(|_| "a bcrypt hash that breaks its form")?;
            return match parts.get_cost() {
                4..=MOST_COST => Ok(PasswordHash::Bcrypt(text.into())),
                _ => Err("a bcrypt hash whose cost is not between 4 and 16"),
            };
        }
        let sha = [("$6$", 86), ("$5$", 43)];
        if let Some((rest, length)) =
            sha.iter().find_map(|(kind, length)| text.strip_prefix(kind).map(|rest| (rest, *length)))
        {
            return match is_sha(rest, length) {
                true => Ok(PasswordHash::Sha(text.into())),
                false => Err("a SHA crypt hash that breaks its form, or has more than 5,000,000 rounds"),
            };
        }
        Err(
            "no bcrypt ($2y$) or SHA-512 crypt ($6$) hash; make one with `htpasswd -B` or `openssl passwd -6`",
        )
    }

    /// Whether this is the hash of `password`. Takes long, and as long whatever the password is.
    pub(crate) fn is_of(&self, password: &[u8]) -> bool {
        match self {
            PasswordHash::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
            PasswordHash::Sha(hash) => ShaCrypt::default().verify_password(password, &**hash).is_ok(),
        }
    }
}

/// `[rounds=N$]salt$hash`
fn is_sha(rest: &str, length: usize) -> bool {
    let parts: Vec<&str> = rest.split('$').collect();
    let (rounds, salt, hash) = match parts[..] {
        [salt, hash] => (None, salt, hash),
        [rounds, salt, hash] => (Some(rounds), salt, hash),
        _ => return false,
    };
    let rounds = rounds.map(|text| text.strip_prefix("rounds=").and_then(|number| number.parse().ok()));
    let is_coded =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"./".contains(&byte));
    !matches!(rounds, Some(None | Some(0..1000 | MOST_ROUNDS..)))
        && (1..=16).contains(&salt.len())
        && is_coded(salt)
        && hash.len() == length
        && is_coded(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the password "secret", by `htpasswd -nbB -C 5`, `openssl passwd -6` and `-5`, and crypt(3) with rounds.
    const OF_SECRET: [&str; 4] = [
        "$2y$05$SFTjnhAfU/ij0XKmxZi37Orm5wTXRy6PFEg2SzgPqTumdsFgfwQ0m",
        "$6$abcdefgh12345678$8qry.al/7S2fAQnDPL..k3GVAXostN0YvxqwHlKr6Jsf/74.qDax5ahH0CISuJF.P2fnhZoX0.4l8IwZUur9t1",
        "$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA",
        "$6$rounds=1000$saltstring$2BkAo106CG84raQcWpAlhyy6TSSkAsL1nfvBCoezLYyerUzY2l8axTvq6NynEt7SQAx3/cdop9ds0po8uaeHq0",
    ];

    #[test]
    fn hashes_of_other_programs_are_known() {
        for text in OF_SECRET {
            let hash = PasswordHash::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
            assert!(hash.is_of(b"secret"), "{text}");
            for wrong in ["Secret", "secre", "secret ", ""] {
                assert!(!hash.is_of(wrong.as_bytes()), "{text} {wrong}");
            }
        }
    }

    #[test]
    fn what_is_unsafe_or_broken_is_refused() {
        let of_sha = &OF_SECRET[1]["$6$".len()..];
        for text in [
            "secret".to_owned(),
            String::new(),
            "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=".to_owned(),
            "$apr1$hZ9Qb0Ik$bVtQTPvVyNwyuz1kGRWu8/".to_owned(),
            "$2y$05$short".to_owned(),
            OF_SECRET[0].replace("$05$", "$31$"),
            format!("$6$rounds=999${of_sha}"),
            format!("$6$rounds=6000000${of_sha}"),
            format!("$6$rounds=x${of_sha}"),
            format!("$6${}", &of_sha[..of_sha.len() - 1]),
            format!("$6${of_sha}$more"),
            "$5$salt$".to_owned(),
        ] {
            assert!(PasswordHash::parse(&text).is_err(), "{text}");
        }
    }
}
