//! A server that is set up: its files, its port, its command line.

use super::{Kind, Server, program, spawn};
use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// What nginx serves: a page of so many bytes.
const PAGE: usize = 4096;

/// A server that is set up, and may run.
#[derive(Debug)]
pub(crate) struct Home {
    pub(super) kind: Kind,
    pub(super) port: u16,
    dir: TempDir,
    words: Vec<OsString>,
}

impl Home {
    /// Sets one up that writes below `durable` what must not be lost.
    ///
    /// # Errors
    /// It is not installed; a file cannot be made; there is no user whom PostgreSQL may run as.
    pub(crate) fn new(kind: Kind, durable: &Path) -> io::Result<Home> {
        // Others than root look into it.
        let mut dir = tempfile::Builder::new();
        let dir = dir.prefix("mote-server-").permissions(Permissions::from_mode(0o755)).tempdir()?;
        let port = free_port()?;
        let words = match kind {
            Kind::Redis => redis(dir.path(), durable, port)?,
            Kind::Postgres => postgres(dir.path(), durable, port)?,
            Kind::Nginx => nginx(dir.path(), port)?,
        };
        Ok(Home { kind, port, dir, words })
    }

    /// Which server it is.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The command that runs it in the foreground.
    pub(crate) fn words(&self) -> &[OsString] {
        &self.words
    }

    /// Starts it.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub(super) fn start(self) -> io::Result<Server> {
        let leader = spawn(&self.words, &self.log())?;
        let mut server = Server { leader, home: self };
        server.wait_until_up()?;
        server.home.fill()?;
        Ok(server)
    }

    /// Whether it answers.
    pub(crate) fn is_up(&self) -> bool {
        match self.kind {
            Kind::Redis | Kind::Nginx => TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok(),
            // Before that it answers that it is starting.
            Kind::Postgres => self.said().contains("ready to accept connections"),
        }
    }

    /// What it has said.
    pub(super) fn said(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Where its files are.
    #[allow(dead_code, reason = "the figures do not ask")]
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// The process that wrote it there: redis and nginx.
    pub(crate) fn pid(&self) -> Option<u32> {
        std::fs::read_to_string(self.dir.path().join("pid")).ok()?.trim().parse().ok()
    }

    /// Asks redis to end by itself.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) fn shut_down(&self) -> io::Result<()> {
        let mut command = Command::new(program("redis-cli")?);
        command.args(["-p", &self.port.to_string(), "shutdown", "nosave"]);
        command.status().map(drop)
    }

    /// Puts there what the load asks for.
    fn fill(&self) -> io::Result<()> {
        match self.kind {
            Kind::Postgres => run(self.pgbench()?.args(["-i", "-q", "-s", "1", "postgres"])),
            Kind::Redis | Kind::Nginx => Ok(()),
        }
    }

    /// pgbench, told whom to ask.
    pub(super) fn pgbench(&self) -> io::Result<Command> {
        let mut command = Command::new(program("pgbench")?);
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "postgres"]);
        Ok(command)
    }
}

/// A port that is free, and stays so until the server has it: below those that the kernel gives to clients, each asked
/// for once.
fn free_port() -> io::Result<u16> {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id() * 64;
    let ports = || ASKED.fetch_add(1, Ordering::Relaxed).wrapping_add(first) % 20_000 + 10_000;
    let bound = (0..1000).find_map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, ports() as u16)).ok());
    bound.ok_or_else(|| io::Error::other("no port is free"))?.local_addr().map(|address| address.port())
}

/// What a server gets its end by, when its parent's comes first.
fn ends_with_parent(signal: &str) -> Vec<OsString> {
    vec!["setpriv".into(), "--pdeathsig".into(), signal.into()]
}

fn redis(dir: &Path, durable: &Path, port: u16) -> io::Result<Vec<OsString>> {
    let mut words = ends_with_parent("KILL");
    words.push(program("redis-server")?);
    words.extend(["--port".into(), port.to_string().into(), "--dir".into(), durable.into()]);
    words.extend(["--pidfile".into(), dir.join("pid").into()]);
    let plain = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--appendfsync", "always"];
    words.extend(plain.map(OsString::from));
    Ok(words)
}

fn nginx(dir: &Path, port: u16) -> io::Result<Vec<OsString>> {
    std::fs::create_dir(dir.join("www"))?;
    std::fs::write(dir.join("www/page"), [b'x'; PAGE])?;
    let at = dir.display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary: String = temporary.iter().map(|name| format!("{name}_temp_path {at};\n")).collect();
    let text = format!(
        "daemon off; worker_processes 1; pid {at}/pid; error_log stderr;\n\
         events {{ worker_connections 64; }}\n\
         http {{ access_log off; keepalive_requests 10000000; root {at}/www;\n{temporary}\
         server {{ listen 127.0.0.1:{port}; }} }}\n"
    );
    let conf = dir.join("nginx.conf");
    std::fs::write(&conf, text)?;
    let mut words = ends_with_parent("TERM");
    words.push(program("nginx")?);
    words.extend(["-p".into(), dir.into(), "-c".into(), conf.into()]);
    Ok(words)
}

fn postgres(dir: &Path, durable: &Path, port: u16) -> io::Result<Vec<OsString>> {
    let (user, group) = user()?;
    let (data, log) = (dir.join("data"), durable.join("pg_wal"));
    for path in [&data, &log] {
        std::fs::create_dir(path)?;
        chown(path, Some(user), Some(group))?;
    }
    let mut as_user: Vec<OsString> = vec!["setpriv".into(), "--clear-groups".into()];
    as_user.extend([format!("--reuid={user}").into(), format!("--regid={group}").into()]);
    let mut initdb = Command::new(&as_user[0]);
    initdb.args(&as_user[1..]).arg(program("initdb")?).arg("-D").arg(&data).arg("-X").arg(&log);
    let plain = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"];
    run(initdb.args(plain).args(["--wal-segsize", "1"]))?;
    as_user.extend(["--pdeathsig".into(), "QUIT".into()]);
    let mut words = as_user;
    words.extend([program("postgres")?, "-D".into(), data.into(), "-p".into(), port.to_string().into()]);
    let settings = [
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "shared_buffers=16MB",
        "min_wal_size=2MB",
        "max_wal_size=64MB",
        "wal_sync_method=fdatasync",
        "synchronous_commit=on",
    ];
    settings.into_iter().for_each(|setting| words.extend(["-c".into(), setting.into()]));
    Ok(words)
}

/// Ids of a user who is not root, and of its group: PostgreSQL runs as nobody else.
fn user() -> io::Result<(u32, u32)> {
    let passwd = std::fs::read_to_string("/etc/passwd")?;
    let ids = |name: &str| {
        let line = passwd.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let mut words = line.split(':').skip(1);
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    let found = ids("postgres").or_else(|| ids("nobody"));
    found.ok_or_else(|| io::Error::other("/etc/passwd has neither postgres nor nobody"))
}

/// Runs a command that must succeed.
fn run(command: &mut Command) -> io::Result<()> {
    let output = command.current_dir("/").output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let failed = || io::Error::other(format!("{:?} has failed: {said}", command.get_program()));
    if output.status.success() { Ok(()) } else { Err(failed()) }
}
