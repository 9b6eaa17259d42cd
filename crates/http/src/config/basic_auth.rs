//! `basic_auth`: whether clients are asked for a name and a password.

use drover_config::Leaf;

/// What a location asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BasicAuth {
    /// Nothing.
    Off,
    /// A name and a password for this realm.
    Realm(String),
}

impl BasicAuth {
    /// What the password is for, if there is to be one.
    pub fn realm(&self) -> Option<&str> {
        match self {
            BasicAuth::Off => None,
            BasicAuth::Realm(realm) => Some(realm),
        }
    }
}

impl Leaf for BasicAuth {
    const TYPE: &'static str = r#""off" or text"#;
    const HELP: &'static str = "what the password is for, such as \"Staff\", or \"off\"";

    fn parse(text: &str) -> Result<BasicAuth, String> {
        match text {
            "off" => Ok(BasicAuth::Off),
            "" => Err("is empty".to_owned()),
            text if text.chars().any(char::is_control) => Err("has control characters".to_owned()),
            text => Ok(BasicAuth::Realm(text.to_owned())),
        }
    }

    fn text(&self) -> String {
        self.realm().unwrap_or("off").to_owned()
    }
}
