//! A schema of all kinds of keys.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use drover_config::{ListenAddress, Located, LogFile, Size};

drover_config::table! {
    /// Everything.
    pub struct Farm {
        /// The herd.
        pub herd: Herd = Herd::default(),
        /// A field.
        pub fields: Vec<Field> = Vec::new(),
    }
}

drover_config::table! {
    /// The herd.
    pub struct Herd {
        /// Number of animals.
        #[range = 1..=100]
        pub animals: u32 = 10,
        /// Time between meals.
        #[range = Duration::from_secs(1)..=Duration::from_secs(3600)]
        pub meal_interval: Duration = Duration::from_secs(60),
        /// Water in the trough.
        pub water: Size = Size::kilobytes(8),
        /// What they are.
        pub kind: Kind = Kind::Sheep,
        /// Whether there is a dog.
        pub dog: bool = true,
        /// Where the diary is.
        pub diary: Option<LogFile> = None,
        /// Names of animals.
        pub names: BTreeMap<String, Located<String>> = BTreeMap::new(),
    }
}

drover_config::table! {
    /// A field.
    pub struct Field {
        /// Its gate.
        pub gate: Located<ListenAddress>,
        /// Its trees.
        pub trees: Vec<String> = Vec::new(),
        /// Its map.
        pub map: Option<PathBuf> = None,
        /// Its fence.
        pub fence: Option<Fence> = None,
    }
}

drover_config::table! {
    /// A fence.
    #[table(inline)]
    pub struct Fence {
        /// Height in centimetres.
        #[range = 50..=250]
        pub height: u16,
    }
}

drover_config::choice! {
    /// Animals.
    pub enum Kind {
        /// Wool.
        Sheep = "sheep",
        /// Milk.
        Cattle = "cattle",
    }
}
