//! The process and its event loop.

use super::exactly;
use crate::convert::Scope;
use crate::document::{list, string};
use crate::mapping::Level::Main;
use crate::mapping::{How, Row, Verdict};
use crate::tree::Directive;

const fn row(directive: &'static str, becomes: &'static str, how: How) -> Row {
    Row { directive, becomes, levels: &[Main], how }
}

pub(super) const ROWS: &[Row] = &[
    row("events", "the tables `[events]` and `[process]`", How::Block),
    row("http", "the table `[http]`", How::Block),
    row("user", "process.user", How::By(user)),
    row("worker_processes", "process.workers", How::By(workers)),
    row("worker_cpu_affinity", "process.cpu_affinity", How::By(affinity)),
    row("worker_priority", "process.nice", How::Integer),
    row("worker_rlimit_nofile", "process.rlimit_nofile", How::Integer),
    row("worker_shutdown_timeout", "process.shutdown_timeout", How::Duration),
    row("pid", "process.pid_file", How::Path),
    row("daemon", "process.daemon", How::Flag),
    row("master_process", "process.master", How::Flag),
    row("timer_resolution", "events.timer_resolution", How::Duration),
    row("worker_connections", "events.worker_connections", How::Integer),
    row("use", "events.use", How::By(backend)),
    row("accept_mutex", "events.accept", How::By(accept_mutex)),
    row("accept_mutex_delay", "events.accept_mutex_delay", How::Duration),
    row("multi_accept", "events.multi_accept", How::Flag),
    row("epoll_events", "events.epoll_events", How::Integer),
    row("debug_connection", "events.debug_connections", How::By(debug_connection)),
    row("worker_aio_requests", "files are sent by the kernel", How::Nothing),
    row("lock_file", "the accept mutex stands in shared memory", How::Nothing),
    row("pcre_jit", "expressions run in linear time without it", How::Nothing),
    row("thread_pool", "threads are started as they are needed", How::Nothing),
    row("worker_rlimit_core", "systemd's LimitCORE= sets it", How::Nothing),
    row("working_directory", "systemd's WorkingDirectory= sets it", How::Nothing),
    row("env", "systemd's Environment= sets it; workers keep all of it", How::Nothing),
    row("load_module", "what drover has is built in", How::Nothing),
    row("debug_points", "it is for developers of nginx", How::Nothing),
    row("ssl_engine", "drover does not speak TLS", How::Unsupported),
    row("stream", "the table `[stream]`", How::Block),
    row("mail", "drover has no such service", How::Unsupported),
];

fn user(scope: &mut Scope, directive: &Directive) -> Verdict {
    let (name, group) = match directive.arguments.as_slice() {
        [name] => (name, None),
        [name, group] => (name, Some(group)),
        _ => return Err("a user and perhaps a group are expected".to_owned()),
    };
    scope.set("process.user", string(name));
    Ok(group
        .filter(|group| *group != name)
        .map(|group| format!("workers have the user's groups, not `{group}`")))
}

fn workers(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [count] = exactly(&directive.arguments)?;
    let value = match count.parse::<u32>() {
        Ok(count) => count.to_string(),
        Err(_) if count == "auto" => string("auto"),
        Err(_) => return Err(format!("`{count}` is not a number")),
    };
    scope.set("process.workers", value);
    Ok(None)
}

/// Masks of ones and zeros, the first CPU last; one for each worker.
fn affinity(scope: &mut Scope, directive: &Directive) -> Verdict {
    if directive.arguments.first().is_some_and(|first| first == "auto") {
        scope.set("process.cpu_affinity", string("auto"));
        return Ok(
            (directive.arguments.len() > 1).then(|| "all CPUs that drover may use are used".to_owned())
        );
    }
    let cpu = |mask: &String| {
        let ones: Vec<usize> =
            mask.bytes().rev().enumerate().filter(|(_, digit)| *digit == b'1').map(|(cpu, _)| cpu).collect();
        match ones.as_slice() {
            [cpu] => Ok(cpu.to_string()),
            _ => Err("a worker of drover stays on one CPU".to_owned()),
        }
    };
    let cpus: Vec<String> = directive.arguments.iter().map(cpu).collect::<Result<_, _>>()?;
    scope.set("process.cpu_affinity", list(&cpus));
    Ok(None)
}

fn backend(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [name] = exactly(&directive.arguments)?;
    if !["epoll", "poll", "select"].contains(&name.as_str()) {
        return Err(format!("`{name}` is not a method of Linux"));
    }
    scope.set("events.use", string(name));
    Ok(None)
}

fn accept_mutex(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [value] = exactly(&directive.arguments)?;
    match value.as_str() {
        "on" => {
            scope.set("events.accept", string("mutex"));
            Ok(None)
        }
        "off" => {
            scope.set("events.accept", string("exclusive"));
            Ok(Some("workers share the socket with EPOLLEXCLUSIVE: not all of them are woken".to_owned()))
        }
        _ => Err(format!("`{value}` is not on or off")),
    }
}

fn debug_connection(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [network] = exactly(&directive.arguments)?;
    scope.push("events.debug_connections", string(network));
    Ok(None)
}
