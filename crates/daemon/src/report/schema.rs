//! What `drover status --json` prints, as a JSON Schema (draft 2020-12): each key with its type and meaning.
//!
//! Counters, gauges, phases and reasons come from the lists that the workers count by, so none can be missing.

use drover_event::{CloseReason, Counter, Gauge, Phase};
use serde_json::{Map, Value, json};

use super::findings::About;
use super::{WINDOWS, shown_gauges};

/// The schema.
pub(crate) fn schema() -> Value {
    let mut schema = object(
        "The state of a drover, read from its scoreboard",
        [
            ("version", string("The version of drover that printed this")),
            ("at_ms", count("When, in milliseconds of Unix time")),
            ("master", master()),
            ("workers", array("The workers that live, of all generations", worker())),
            ("waiting", array("Numbers of workers that are to be started again", count("A number"))),
            ("listeners", array("Where connections are taken from", listener())),
            ("upstreams", array("The upstreams of the generation that serves", super::servers::schema())),
            ("totals", totals()),
            (
                "accept_skew",
                nullable(
                    "number",
                    "Accepts of the busiest worker over the mean of those that accept: 1 is even",
                ),
            ),
            ("findings", array("What to look at", finding())),
        ],
    );
    if let Value::Object(schema) = &mut schema {
        schema.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    }
    schema
}

fn master() -> Value {
    let exits = [
        ("asked", count("Those that were asked to")),
        ("clean", count("Those that ended with 0, unasked")),
        ("failed", count("Those that ended with another code")),
        ("killed", count("Those that a signal ended")),
    ];
    let mut verdict = object(
        "The verdict on the last reload; null before the first",
        [
            ("accepted", boolean("Whether the new generation serves")),
            ("message", string("What serves, or why the config was refused")),
            ("at_ms", count("When, in milliseconds of Unix time")),
        ],
    );
    verdict["type"] = json!(["object", "null"]);
    object(
        "The master",
        [
            ("pid", count("Its process")),
            ("state", string("starting, serving, reloading, parked or stopping")),
            ("generation", count("The generation that serves, from 1")),
            ("workers", count("How many workers it is to have")),
            ("started_ms", count("When it started, in milliseconds of Unix time")),
            ("reloads", count("Reloads that have begun")),
            ("last_reload", verdict),
            ("worker_exits", object("Workers that have ended, by cause", exits)),
        ],
    )
}

fn worker() -> Value {
    let counters = Counter::ALL.iter().map(|counter| (counter.name(), count(counter.describe())));
    let gauges = shown_gauges().map(|gauge| match gauge {
        Gauge::Descriptors => (gauge.name(), count("Descriptors that are open")),
        gauge => (gauge.name(), count(gauge.describe())),
    });
    let phases = Phase::ALL.iter().map(|phase| (phase.name(), count("Connections in this phase")));
    let own = [
        ("worker", count("Its number within its generation, from 0")),
        ("pid", count("Its process")),
        ("generation", count("Its generation")),
        ("state", string("starting, serving or draining")),
        ("started_ms", count("When it started, in milliseconds of Unix time")),
        ("slots", count("Its slots: worker_connections")),
        ("connections", count("Connections with peers that are open")),
        ("phases", object("What its connections are busy with", phases)),
        ("closes", closes("Connections that have ended, by reason")),
        ("accepts_by_listener", by_name("Connections accepted, by the address of the listener")),
        ("lag", lag()),
    ];
    object("A worker", counters.chain(gauges).chain(own))
}

fn lag() -> Value {
    let durations = |what| {
        object(
            what,
            [
                ("p99_us", count("99 of 100 were shorter than this; at most half as much again")),
                ("max_us", count("The longest")),
            ],
        )
    };
    let window = |seconds| {
        object(
            format!("The last {seconds} s, and up to a second before"),
            [
                ("lag", durations("How long what is ready may have waited until the worker looked")),
                ("turn", durations("How long turns took")),
            ],
        )
    };
    let now = ("now_us", count("How long it has been inside the turn it is in; zero for one that sleeps"));
    let windows = WINDOWS.map(|(name, seconds)| (name, window(seconds)));
    object("Lag and lengths of turns, in microseconds", [now].into_iter().chain(windows))
}

fn listener() -> Value {
    object(
        "A listener",
        [
            ("address", string("Where it listens")),
            ("transport", string("tcp, udp or unix")),
            ("strategy", string("Its accept strategy")),
            ("serves", boolean("Whether the generation that serves has it")),
            ("sockets", count("How many sockets it has: one, or with reuseport one for each worker")),
            ("accepts", count("Connections accepted, or sessions begun, by all workers there ever were")),
            ("backlog", nullable("integer", "The backlog that is configured; null for datagrams")),
            (
                "backlog_granted",
                nullable(
                    "integer",
                    "The backlog that the kernel grants each socket; null for datagrams or if unknown",
                ),
            ),
            (
                "waiting",
                nullable("integer", "Connections that wait to be accepted; null for datagrams or if unknown"),
            ),
            (
                "waiting_bytes",
                nullable(
                    "integer",
                    "Memory of the datagrams that wait to be received; null for connections or if unknown",
                ),
            ),
            (
                "overflows",
                count(
                    "Connections or datagrams that the kernel turned away, nearly always because a queue was full",
                ),
            ),
        ],
    )
}

fn totals() -> Value {
    let counters = Counter::ALL.iter().map(|counter| (counter.name(), count(counter.describe())));
    let closes = ("closes", closes("Connections that have ended, by reason"));
    object("Sums over all workers there are and have been, which never fall", counters.chain([closes]))
}

fn finding() -> Value {
    let mut about = string("What it is about");
    about["enum"] = About::ALL.iter().map(|about| about.name()).collect();
    object(
        "A finding",
        [
            ("about", about),
            ("worker", nullable("integer", "The number of the worker that it is about; null for none")),
            ("text", string("A sentence for people, with the figure behind it and what to do")),
        ],
    )
}

fn closes(description: &str) -> Value {
    object(description, CloseReason::ALL.iter().map(|reason| (reason.name(), count(reason.describe()))))
}

/// An object that has all of these keys and no others.
pub(super) fn object<'a>(
    description: impl Into<String>,
    properties: impl IntoIterator<Item = (&'a str, Value)>,
) -> Value {
    let properties: Map<String, Value> =
        properties.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    json!({
        "description": description.into().trim(),
        "type": "object",
        "required": properties.keys().collect::<Vec<_>>(),
        "additionalProperties": false,
        "properties": properties,
    })
}

/// An object whose keys are names that the config gives.
fn by_name(description: &str) -> Value {
    json!({
        "description": description,
        "type": "object",
        "additionalProperties": { "type": "integer", "minimum": 0 },
    })
}

pub(super) fn array(description: &str, items: Value) -> Value {
    json!({ "description": description, "type": "array", "items": items })
}

pub(super) fn count(description: &str) -> Value {
    json!({ "description": description.trim(), "type": "integer", "minimum": 0 })
}

pub(super) fn string(description: &str) -> Value {
    json!({ "description": description, "type": "string" })
}

pub(super) fn boolean(description: &str) -> Value {
    json!({ "description": description, "type": "boolean" })
}

fn nullable(kind: &str, description: &str) -> Value {
    json!({ "description": description, "type": [kind, "null"] })
}
