//! Real servers: Debian's redis, PostgreSQL and nginx, each in a directory of its own and on a port of loopback, with
//! the load generator that comes with it. The claims watch them, and so do the figures (`mote-bench servers`).
//!
//! A [`Home`] is a server that is set up; a [`Server`] is one that runs. None is a service of the system. They end with
//! the value, and with the thread that started them, however that ends.

mod home;
mod load;

pub(crate) use home::Home;
pub(crate) use load::Load;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to come, and to go.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One thread works; `appendfsync always`.
    Redis,
    /// A process for each connection; `synchronous_commit` is on.
    Postgres,
    /// A master and one worker.
    Nginx,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Kind; 3] = [Kind::Redis, Kind::Postgres, Kind::Nginx];

    /// Its name, for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Redis => "redis",
            Kind::Postgres => "postgres",
            Kind::Nginx => "nginx",
        }
    }

    /// The Debian packages without which it cannot be run, if a program of theirs is not here.
    pub(crate) fn missing(self) -> Option<&'static str> {
        let (programs, packages): (&[&str], &str) = match self {
            Kind::Redis => (&["redis-server", "redis-benchmark", "redis-cli"], "redis-server"),
            Kind::Postgres => (&["postgres", "initdb", "pgbench"], "postgresql"),
            Kind::Nginx => (&["nginx", "ab"], "nginx apache2-utils"),
        };
        programs.iter().any(|program| program_path(program).is_none()).then_some(packages)
    }
}

/// Where a program is: in `PATH`, where Debian has those for root, or where it has PostgreSQL's.
fn program_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let directories = std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .chain(versions.map(|version| version.path().join("bin")));
    directories.map(|directory| directory.join(name)).find(|path| path.is_file())
}

/// As [`program_path`], for somebody who needs it.
fn program(name: &str) -> io::Result<OsString> {
    let path = program_path(name).ok_or_else(|| io::Error::other(format!("{name} is not installed")))?;
    Ok(path.into())
}

/// A server that runs.
#[derive(Debug)]
pub(crate) struct Server {
    leader: Child,
    home: Home,
}

impl Server {
    /// Starts one that writes below `durable` what must not be lost.
    ///
    /// # Errors
    /// It is not installed, or does not answer within a minute.
    pub(crate) fn start(kind: Kind, durable: &Path) -> io::Result<Server> {
        Home::new(kind, durable)?.start()
    }

    /// Waits until it answers.
    fn wait_until_up(&mut self) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        while !self.is_up() {
            let ended = self.leader.try_wait()?;
            if ended.is_some() || Instant::now() > until {
                let name = self.home.kind.name();
                return Err(io::Error::other(format!("{name} does not answer: {}", self.home.said())));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Whether it answers; nginx listens before it has a worker.
    fn is_up(&self) -> bool {
        self.home.is_up() && (self.home.kind != Kind::Nginx || self.pids().len() > 1)
    }

    /// Its first process.
    pub(crate) fn pid(&self) -> u32 {
        self.leader.id()
    }

    /// The processes to be named to a tracer that follows what they start: PostgreSQL starts one for each client, nginx
    /// has one already.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let leader = self.pid();
        let children = match self.home.kind {
            Kind::Nginx => std::fs::read_to_string(format!("/proc/{leader}/task/{leader}/children")),
            Kind::Redis | Kind::Postgres => Ok(String::new()),
        };
        let children = children.unwrap_or_default();
        let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        [leader].into_iter().chain(children).collect()
    }

    /// How often its processes have slept so far, all together.
    #[allow(dead_code, reason = "the figures do not ask")]
    pub(crate) fn sleeps(&self) -> u64 {
        let leader = self.pid();
        let children = std::fs::read_to_string(format!("/proc/{leader}/task/{leader}/children"));
        let of = |pid: &str| -> Option<u64> {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok())
        };
        let all = children.unwrap_or_default();
        all.split_whitespace().chain([leader.to_string().as_str()]).filter_map(of).sum::<u64>()
    }

    /// How it is set up.
    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    fn signal(&self, signal: Signal) {
        // It may have ended.
        let _ = kill(Pid::from_raw(self.leader.id() as i32), signal);
    }

    fn has_ended_within(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while Instant::now() < until {
            if !matches!(self.leader.try_wait(), Ok(None)) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        match self.home.kind {
            Kind::Redis => self.signal(Signal::SIGKILL),
            // At once, with all that it has started.
            Kind::Postgres => self.signal(Signal::SIGQUIT),
            Kind::Nginx => self.signal(Signal::SIGTERM),
        }
        if !self.has_ended_within(PATIENCE) {
            self.signal(Signal::SIGKILL);
            let _ = self.leader.wait();
        }
        // Whom the first process has left behind.
        let _ = killpg(Pid::from_raw(self.leader.id() as i32), Signal::SIGKILL);
    }
}

/// Starts what `words` say, as the first of a group of processes, to end with this thread.
fn spawn(words: &[OsString], log: &Path) -> io::Result<Child> {
    let log = std::fs::File::create(log)?;
    let (first, rest) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(first);
    command.args(rest).process_group(0).stdin(Stdio::null());
    command.stdout(log.try_clone()?).stderr(log).spawn()
}
