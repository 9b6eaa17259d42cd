//! Reading TOML configuration: spans, sizes, durations, addresses and diagnostics.
//!
//! A crate that has tables declares them with [`table!`]; [`load()`] reads a file and all that it includes into
//! them and finds everything that is wrong, not the first thing. What goes across keys is checked by the
//! tables' owner, who adds to the same [`Findings`]; values that such a check needs are [`Located`].
//!
//! Serde's derived readers stop at the first error and cannot say which other table has a key, so the tables
//! are read from `toml`'s tree of values with spans by this crate's own [`Value`] trait.
//!
//! [`parse`] does the same with a text and touches no file: it is what a fuzz target calls, with any tables.
//!
//! Architecture invariant: this crate knows no table of any other crate, and opens no file but those of the
//! config.

mod address;
mod choice;
mod duration;
mod finding;
mod load;
mod log_file;
mod macros;
mod node;
mod output;
mod place;
mod reader;
mod reference;
mod render;
mod schema;
mod server_address;
mod size;
mod suggest;
mod table_reader;
mod value;

pub use address::{ListenAddress, MAX_UNIX_PATH};
pub use choice::{choice_type, read_choice};
pub use finding::{Finding, Findings, Severity, Style};
pub use load::{MAX_FILES, load, parse};
pub use log_file::LogFile;
pub use node::{Entries, Entry, Kind, Node};
pub use output::{Fields, Output, write_table};
pub use place::{Located, MAX_FILE_SIZE, Place, Sources};
pub use reader::Reader;
pub use reference::{commented, effective, reference};
pub use schema::{Key, Shape, Shorthand, Table, TableSchema, doc_text};
pub use server_address::ServerAddress;
pub use size::Size;
pub use suggest::nearest;
pub use table_reader::{Field, TableReader, read_table};
pub use value::{Leaf, Ranged, Value};
