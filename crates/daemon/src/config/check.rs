//! What is checked across the tables. `check` knows the system by its facts alone; `check_files` looks at the
//! file system too, and neither opens anything that disturbs a running daemon.

use drover_config::{Findings, ListenAddress, LogFile, Place};
use drover_service::Listener;

use super::system::System;
use super::{Affinity, Backend, Config, Workers};

/// Descriptors of a worker beside its slots: standard ones, logs, backend, notifiers, shared memory.
const OTHER_DESCRIPTORS: u64 = 16;

impl Config {
    /// Adds findings about everything that goes across keys and tables.
    pub(super) fn check(&self, system: &System, findings: &mut Findings) {
        self.http.check(findings);
        self.stream.check(findings);
        let listeners = self.listeners();
        drover_service::check::listeners(&listeners, *self.events.accept, findings);
        self.check_slots(&listeners, findings);
        self.check_accept(&listeners, system, findings);
        self.check_backlog(system, findings);
        self.check_descriptors(system, findings);
        self.check_process(system, findings);
        if listeners.is_empty() && !findings.has_errors() {
            findings
                .warning(None, "nothing listens: there are neither [[http.servers]] nor [[stream.servers]]")
                .help("[[http.servers]] listen = [\"127.0.0.1:8080\"], root = \"/srv/www\"");
        }
    }

    /// Every listener, the channel and at least one client need a slot.
    fn check_slots(&self, listeners: &[Listener], findings: &mut Findings) {
        let channel = u32::from(*self.process.master);
        let minimum = listeners.len() as u32 + channel + 1;
        let slots = &self.events.worker_connections;
        if **slots >= minimum {
            return;
        }
        findings
            .error(slots.place(), "`worker_connections` leaves no slot for a client")
            .label(format!("must be at least {minimum}"))
            .help(format!(
                "each worker needs a slot for each of {} listeners, {channel} for the channel and 1 for a client",
                listeners.len()
            ));
    }

    fn check_accept(&self, listeners: &[Listener], system: &System, findings: &mut Findings) {
        let mut said: Vec<Option<Place>> = Vec::new();
        for listener in listeners {
            let in_force = self.accept_in_force(listener, system);
            let Some(reason) = in_force.reason else { continue };
            let wanted = listener.accept.unwrap_or(*self.events.accept);
            let place = match listener.accept {
                Some(_) => listener.place,
                None => self.events.accept.place(),
            };
            if said.contains(&place) {
                continue;
            }
            findings
                .warning(place, format!("{listener} uses `{}` instead of `{wanted}`", in_force.accept))
                .label(reason);
            said.push(place);
        }
    }

    fn check_backlog(&self, system: &System, findings: &mut Findings) {
        let Some(most) = system.somaxconn else { return };
        for listener in self.listeners() {
            let Some(backlog) = listener.backlog.filter(|backlog| *backlog > most) else { continue };
            findings
                .warning(listener.place, format!("`backlog` is more than the kernel grants: {backlog}"))
                .label(format!("the queue will hold {most}"))
                .help(format!("sysctl net.core.somaxconn={backlog}"));
        }
    }

    fn check_descriptors(&self, system: &System, findings: &mut Findings) {
        let slots = &self.events.worker_connections;
        let needed = u64::from(**slots) + OTHER_DESCRIPTORS;
        let configured = self.process.rlimit_nofile.as_ref();
        let limit = configured.map_or(system.nofile, |limit| u64::from(**limit));
        if let Some(limit) =
            configured.filter(|limit| u64::from(***limit) > system.nofile_hard && !system.is_root())
        {
            findings
                .warning(limit.place(), "`rlimit_nofile` is more than this user may have")
                .label(format!("the hard limit is {}", system.nofile_hard))
                .help("start drover as root, or raise the limit (LimitNOFILE= in systemd)");
        }
        if needed > limit {
            findings
                .warning(slots.place(), "`worker_connections` is more than the descriptors allow")
                .label(format!("takes {needed} descriptors of {limit}"))
                .related(configured.and_then(|limit| limit.place()), "the limit")
                .help(format!("[process] rlimit_nofile = {needed}"));
        }
        let watchable = drover_sys::select::LIMIT as u64;
        if self.events.backend == Backend::Select && needed > watchable {
            findings
                .warning(slots.place(), "`worker_connections` is more than `select` can watch")
                .label(format!("takes {needed} descriptors, of which it sees the first {watchable}"))
                .help("use = \"poll\", or \"epoll\"; others are closed as soon as they are accepted");
        }
    }

    fn check_process(&self, system: &System, findings: &mut Findings) {
        let process = &self.process;
        if let Some(user) = &process.user {
            if !system.is_root() {
                findings
                    .warning(user.place(), "`user` has no effect")
                    .label("only root can change to another user");
            } else if !system.has_user(user) {
                findings
                    .error(user.place(), format!("there is no user `{}`", user.as_str()))
                    .label("not found");
            }
        }
        if let (Workers::Count(2..), false) = (*process.workers, *process.master) {
            findings
                .warning(process.workers.place(), "`workers` has no effect")
                .label("there is one process")
                .related(process.master.place(), "as there is no master");
        }
        if let Affinity::Cpus(cpus) = &*process.cpu_affinity
            && let Some(cpu) = cpus.iter().find(|cpu| !system.cpus.contains(cpu))
        {
            let allowed: Vec<String> = system.cpus.iter().map(u32::to_string).collect();
            findings
                .error(process.cpu_affinity.place(), format!("no worker can stay on CPU {cpu}"))
                .label("the daemon may not use it")
                .help(format!("it may use {}", allowed.join(", ")));
        }
        self.log.check(process.daemon, findings);
    }

    /// Adds findings about files and directories that the config names.
    pub(super) fn check_files(&self, findings: &mut Findings) {
        let roots = self.http.servers.iter().flat_map(|server| {
            let locations = server.all_locations();
            server.root.iter().chain(locations.into_iter().filter_map(|location| location.root.as_ref()))
        });
        for root in roots.filter(|root| !root.is_dir()) {
            findings
                .warning(root.place(), "`root` is not there")
                .label(format!("{} is no directory", root.display()));
        }
        for listener in self.listeners() {
            let ListenAddress::Unix(path) = &listener.address else { continue };
            if !path.parent().is_some_and(|directory| directory.is_dir()) {
                findings
                    .error(listener.place, format!("{} cannot be made", path.display()))
                    .label("its directory does not exist");
            }
        }
        let logs = self.http.servers.iter().flat_map(|server| &server.locations);
        let logs = logs.filter_map(|location| location.access_log.as_ref()).chain([&self.http.access_log]);
        let logs = logs.map(|log| &log.file).chain(self.stream.log_files()).chain([&self.log.file]);
        for file in logs {
            let LogFile::Path(path) = &**file else { continue };
            if !path.parent().is_some_and(|directory| directory.is_dir()) {
                findings
                    .error(file.place(), format!("{} cannot be opened", path.display()))
                    .label("its directory does not exist");
            }
        }
    }
}
