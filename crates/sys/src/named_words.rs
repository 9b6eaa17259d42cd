//! Names for the words of a block: see [`named_words!`](crate::named_words!).

/// Declares an enum whose variants name the words of a block, each with the name that programs read and
/// a line that says what it means.
///
/// ```
/// drover_sys::named_words! {
///     /// The words of a farm.
///     Farm {
///         /// Cows in the barn.
///         Cows = "cows",
///         /// Eggs laid since the morning.
///         Eggs = "eggs",
///     }
/// }
///
/// assert_eq!(Farm::ALL.len(), 2);
/// assert_eq!((Farm::Eggs as usize, Farm::Eggs.name()), (1, "eggs"));
/// ```
#[macro_export]
macro_rules! named_words {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $doc:literal])+ $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(usize)]
        pub enum $name { $($(#[doc = $doc])+ $variant,)+ }

        impl $name {
            /// All of them, in the order of their words.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The name used by `drover status --json` and in metrics.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }

            /// What it means, in one line.
            pub const fn describe(self) -> &'static str {
                match self { $($name::$variant => concat!($($doc),+),)+ }
            }
        }
    };
}
