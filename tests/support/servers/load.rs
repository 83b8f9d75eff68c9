//! Load for servers: the generators that come with them, a bounded number of requests, and how many a second they got.

use super::{Home, Kind, program};
use std::io;
use std::process::{Child, Command, Stdio};

/// Connections that are open at a time.
const CLIENTS: u64 = 4;
/// More than any of them makes in the time that a claim may take.
const MANY: u64 = 400_000;

/// What is asked for. nginx knows pages only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Nothing has to be written.
    Reads,
    /// Every request is durable when it is answered.
    Writes,
}

impl Home {
    /// The command that makes so many requests, and then says how fast they were answered.
    ///
    /// # Errors
    /// The generator is not installed.
    fn generator(&self, load: Load, requests: u64) -> io::Result<Command> {
        let (port, clients) = (self.port.to_string(), CLIENTS.to_string());
        let mut command = match self.kind {
            Kind::Redis => {
                let mut command = Command::new(program("redis-benchmark")?);
                let test = if load == Load::Reads { "get" } else { "set" };
                command.args(["-h", "127.0.0.1", "-p", &port, "-c", &clients, "-t", test, "--csv"]);
                command.args(["-n", &requests.to_string()]);
                command
            }
            Kind::Postgres => {
                let mut command = self.pgbench()?;
                let script = if load == Load::Reads { "-S" } else { "-N" };
                let each = requests.div_ceil(CLIENTS).to_string();
                command.args(["-n", script, "-c", &clients, "-t", &each, "postgres"]);
                command
            }
            Kind::Nginx => {
                let mut command = Command::new(program("ab")?);
                command.args(["-q", "-k", "-c", &clients, "-n", &requests.to_string()]);
                command.arg(format!("http://127.0.0.1:{port}/page"));
                command
            }
        };
        command.stdin(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }

    /// Makes so many requests; returns how many a second were answered.
    ///
    /// # Errors
    /// The generator failed, or said no number above zero.
    pub(crate) fn rate(&self, load: Load, requests: u64) -> io::Result<f64> {
        let output = self.generator(load, requests)?.output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let rate = rate_of(self.kind, &text).filter(|rate| output.status.success() && *rate > 0.0);
        let name = self.kind.name();
        rate.ok_or_else(|| io::Error::other(format!("the load of {name}, {}: {text}", output.status)))
    }

    /// Has one client of PostgreSQL ask this so many times, each time as a statement of its own.
    ///
    /// # Errors
    /// As [`Home::rate`].
    #[allow(dead_code, reason = "the figures do not ask")]
    pub(crate) fn ask(&self, sql: &str, times: u64) -> io::Result<()> {
        let script = self.path().join("asked.sql");
        std::fs::write(&script, format!("{sql};\n"))?;
        let mut command = self.pgbench()?;
        command.args(["-n", "-c", "1", "-t", &times.to_string(), "-f"]).arg(script).arg("postgres");
        let output = command.stdin(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(io::Error::other(format!("pgbench: {said}"))) }
    }

    /// Has each of PostgreSQL's clients make so many of pgbench's own transactions, each on a connection of its own.
    ///
    /// # Errors
    /// It is not installed.
    #[allow(dead_code, reason = "the figures do not ask")]
    pub(crate) fn transactions(&self, each: u64) -> io::Result<Child> {
        let mut command = self.pgbench()?;
        let (clients, each) = (CLIENTS.to_string(), each.to_string());
        command.args(["-n", "-C", "-c", &clients, "-t", &each, "postgres"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    }

    /// What PostgreSQL answers to one statement.
    ///
    /// # Errors
    /// psql is not installed, or has failed.
    #[allow(dead_code, reason = "the figures do not ask")]
    pub(crate) fn query(&self, sql: &str) -> io::Result<String> {
        let mut command = Command::new(program("psql")?);
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "postgres", "-X", "-A", "-t"]);
        let output = command.args(["-c", sql, "postgres"]).stdin(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let failed = || io::Error::other(format!("psql: {said}"));
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        } else {
            Err(failed())
        }
    }

    /// Starts to make requests, until the value goes.
    ///
    /// # Errors
    /// The generator is not installed.
    pub(crate) fn load(&self, load: Load) -> io::Result<Generator> {
        let child = self.generator(load, MANY)?.stdout(Stdio::null()).spawn()?;
        Ok(Generator { child })
    }
}

/// Requests a second, as the generators say them.
fn rate_of(kind: Kind, text: &str) -> Option<f64> {
    let line = |start: &str| text.lines().filter_map(|line| line.strip_prefix(start)).next_back();
    match kind {
        // "SET","12345.67",...
        Kind::Redis => line("\"SET\",\"").or_else(|| line("\"GET\",\""))?.split('"').next()?.parse().ok(),
        // tps = 123.45 (without initial connection time)
        Kind::Postgres => line("tps = ")?.split(' ').next()?.parse().ok(),
        // Requests per second:    5449.28 [#/sec] (mean)
        Kind::Nginx => line("Requests per second:")?.split_whitespace().next()?.parse().ok(),
    }
}

/// A load generator that runs, until it goes out of scope.
#[derive(Debug)]
pub(crate) struct Generator {
    child: Child,
}

impl Generator {
    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
