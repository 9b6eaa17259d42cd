//! The macros that declare the schema: [`table!`](crate::table!) and [`choice!`](crate::choice!).

/// Declares a struct that is a table of the config.
///
/// Each field is a key. Its documentation is its line in the reference; a field without a default is required;
/// `#[range = ...]` bounds it; `#[key = "..."]` names a key that Rust reserves; `#[example = "..."]` is TOML to
/// show for a key whose default is to have no value. `#[table(inline)]` has the table written on its key's
/// line; `#[table(shorthand)]` lets a single value stand for it, see [`Shorthand`](crate::Shorthand).
/// `Default` is implemented if no key is required.
///
/// ```
/// drover_config::table! {
///     /// The event loop of each worker.
///     pub struct Events {
///         /// Slots of each worker.
///         #[range = 3..=1_000_000]
///         pub worker_connections: u32 = 512,
///         /// Whether to accept as many connections as there are on each wake-up.
///         pub multi_accept: bool = false,
///     }
/// }
///
/// assert_eq!(Events::default().worker_connections, 512);
/// let (_, findings) = drover_config::parse::<Events>("events.toml", "worker_conections = 1");
/// assert_eq!(findings.errors(), 1);
/// assert!(findings.to_string().contains("did you mean `worker_connections`?"));
/// ```
#[macro_export]
macro_rules! table {
    (
        $(#[doc = $table_doc:literal])+
        $(#[table($($style:ident),+)])?
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $doc:literal])+
                $(#[key = $key:literal])?
                $(#[range = $range:expr])?
                $(#[example = $example:literal])?
                pub $field:ident: $type:ty $(= $default:expr)?
            ),+ $(,)?
        }
    ) => {
        $(#[doc = $table_doc])+
        #[derive(Clone, PartialEq, Debug)]
        $vis struct $name {
            $($(#[doc = $doc])+ pub $field: $type,)+
        }

        impl $crate::Table for $name {
            fn table_schema() -> $crate::TableSchema {
                $crate::TableSchema {
                    doc: $crate::doc_text(&[$($table_doc),+]),
                    inline: $crate::table!(@inline $($($style)+)?),
                    keys: vec![$(
                        $crate::Key::new::<$type>($crate::table!(@key $field $($key)?), &[$($doc),+])
                            $(.default::<$type>($default))?
                            $(.range::<<$type as $crate::Ranged>::Bound>($range))?
                            $(.example($example))?
                    ),+],
                }
            }

            fn read_table(table: &mut $crate::TableReader<'_, '_, '_>) -> Option<Self> {
                $(
                    let key = $crate::table!(@key $field $($key)?);
                    let field = $crate::table!(@read table, key, $type $(, $range)?);
                    let $field = $crate::table!(@finish table, key, field $(, $default)?);
                )+
                Some(Self { $($field: $field?),+ })
            }

            fn write_table(&self) -> $crate::Fields {
                vec![$((
                    $crate::table!(@key $field $($key)?).to_owned(),
                    $crate::Value::write(&self.$field),
                )),+]
            }
        }

        $crate::table!(@value $name $($($style)+)?);
        $crate::table!(@default $name [$($field $(= $default)?),+]);
    };

    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };

    (@read $table:ident, $key:ident, $type:ty) => { $table.key::<$type>($key) };
    (@read $table:ident, $key:ident, $type:ty, $range:expr) => { $table.key_within::<$type>($key, $range) };

    (@finish $table:ident, $key:ident, $field:ident) => { $table.required($key, $field) };
    (@finish $table:ident, $key:ident, $field:ident, $default:expr) => { $table.or_default($field, || $default) };

    (@inline inline $($more:ident)?) => { true };
    (@inline $($more:ident)?) => { false };

    (@value $name:ident $(inline)? shorthand) => {
        impl $crate::Value for $name {
            fn type_name() -> String {
                format!("{} or table", <$name as $crate::Shorthand>::TYPE)
            }

            fn shape() -> $crate::Shape {
                $crate::Shape::Table(<$name as $crate::Table>::table_schema())
            }

            fn read(node: &$crate::Node, reader: &mut $crate::Reader<'_>) -> Option<Self> {
                match node.kind {
                    $crate::Kind::Table(_) => $crate::read_table(node, reader),
                    _ => $crate::Shorthand::from_value(node, reader),
                }
            }

            fn write(&self) -> $crate::Output {
                $crate::Shorthand::to_value(self).unwrap_or_else(|| $crate::write_table(self))
            }
        }
    };
    (@value $name:ident $(inline)?) => {
        impl $crate::Value for $name {
            fn type_name() -> String {
                "table".to_owned()
            }

            fn shape() -> $crate::Shape {
                $crate::Shape::Table(<$name as $crate::Table>::table_schema())
            }

            fn read(node: &$crate::Node, reader: &mut $crate::Reader<'_>) -> Option<Self> {
                $crate::read_table(node, reader)
            }

            fn write(&self) -> $crate::Output {
                $crate::write_table(self)
            }
        }
    };

    (@default $name:ident [$($field:ident = $default:expr),+]) => {
        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),+ }
            }
        }
    };
    // A required key: there is no default of the whole.
    (@default $name:ident [$($fields:tt)+]) => {};
}

/// Declares an enum whose values are written as one of a few words.
///
/// ```
/// drover_config::choice! {
///     /// The form of log lines.
///     pub enum Format {
///         /// For people.
///         Text = "text",
///         /// For programs.
///         Json = "json",
///     }
/// }
///
/// assert_eq!(Format::Json.to_string(), "json");
/// ```
#[macro_export]
macro_rules! choice {
    (
        $(#[doc = $enum_doc:literal])+
        $vis:vis enum $name:ident {
            $($(#[doc = $doc:literal])+ $variant:ident = $word:literal),+ $(,)?
        }
    ) => {
        $(#[doc = $enum_doc])+
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        $vis enum $name {
            $($(#[doc = $doc])+ $variant),+
        }

        impl $name {
            const WORDS: &[(&'static str, $name)] = &[$(($word, $name::$variant)),+];
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str(match self { $($name::$variant => $word),+ })
            }
        }

        impl $crate::Value for $name {
            fn type_name() -> String {
                $crate::choice_type($name::WORDS)
            }

            fn read(node: &$crate::Node, reader: &mut $crate::Reader<'_>) -> Option<Self> {
                $crate::read_choice($name::WORDS, node, reader)
            }

            fn write(&self) -> $crate::Output {
                $crate::Output::Inline(format!("\"{self}\""))
            }
        }
    };
}
