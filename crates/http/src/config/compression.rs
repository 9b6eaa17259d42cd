//! `[http.compression]`: encoding responses on their way.

use drover_config::{Located, Size};

pub use crate::encoding::Coding;

drover_config::table! {
    /// Encoding of responses on their way, files as well as those of servers, as far as the client accepts it.
    pub struct Compression {
        /// Encodings to offer, in the order of preference where the client has none; [] encodes nothing.
        pub encodings: Vec<Located<Coding>> = Vec::new(),
        /// Media types to encode; "text/*" stands for all that begin so.
        pub types: Vec<Located<String>> = default_types(),
        /// Bodies that are known to be smaller go as they are.
        pub min_length: Size = Size::from_bytes(1000),
        /// How hard gzip tries.
        #[range = 1..=9]
        pub gzip_level: u32 = 4,
        /// How hard Brotli tries; more than this would hold up others.
        #[range = 0..=6]
        pub br_level: u32 = 4,
        /// How hard Zstandard tries.
        #[range = 1..=12]
        pub zstd_level: i32 = 3,
        /// Memory that each worker's encoders may take together; where it is used up, responses go as they are. At the
        /// default levels one takes 384 KiB (gzip), 2176 KiB (Zstandard) or 2304 KiB (Brotli), at higher ones up to 6.4 MiB.
        #[range = Size::from_bytes(0)..=Size::megabytes(1024 * 1024)]
        pub max_memory: Size = Size::megabytes(128),
    }
}

/// Types that become a good deal smaller.
fn default_types() -> Vec<Located<String>> {
    [
        "text/*",
        "application/javascript",
        "application/json",
        "application/manifest+json",
        "application/wasm",
        "application/xml",
        "application/xhtml+xml",
        "application/rss+xml",
        "application/atom+xml",
        "font/ttf",
        "font/otf",
        "image/svg+xml",
        "image/x-icon",
    ]
    .map(|kind| kind.to_owned().into())
    .to_vec()
}
