//! `servers`: what being watched costs redis, PostgreSQL and nginx, by mote and by its peers.
//!
//! Each server runs for all of its rounds, and returns requests that need no disk from its load generator on loopback:
//! what limits it is the CPU, and a tracer has nothing to hide behind. In a round it is loaded by itself and then under
//! each tracer in turns, attached to the running processes and let go again. The figure compares the best rounds of
//! both, because others on the machine only take away. Loss is an error. What samples cost is less than that can tell:
//! `server_cpu`.

use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::kernel_peers::leave_tracefs;
use super::server_cpu;
use super::server_tracers::Tracer;
use super::session::Lab;
use anyhow::Context;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

/// The servers, their homes and their loads: those of the claims.
#[path = "../../../tests/support/servers/mod.rs"]
#[allow(dead_code, reason = "the claims need more of it")]
pub(super) mod stage;

use stage::{Kind, Load, Server};

/// Requests of a round, about a second's; and rounds.
fn size(kind: Kind, effort: Effort) -> (u64, usize) {
    let requests = match kind {
        Kind::Redis => 60_000,
        Kind::Postgres => 10_000,
        Kind::Nginx => 25_000,
    };
    effort.choose((requests / 20, 1), (requests, 5))
}

/// Measures all servers that are installed; with little effort redis only.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    of_servers(effort.choose(&Kind::ALL[..1], &Kind::ALL[..]), effort)
}

/// Measures redis only.
pub(super) fn redis(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    of_servers(&[Kind::Redis], effort)
}

fn of_servers(kinds: &[Kind], effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let mut lab = Lab::new()?;
    let mut figures = Vec::new();
    for kind in kinds {
        let measured = match kind.missing() {
            Some(packages) => {
                let why = format!("not installed; apt-get install {packages}");
                Ok(vec![Figure::absent(&format!("{}/bare", kind.name()), "1/s", &why)])
            }
            None => of_server(&mut lab, *kind, effort),
        };
        match measured {
            Ok(of_it) => figures.extend(of_it),
            Err(why) => {
                leave_tracefs(lab.path());
                return Err(why);
            }
        }
    }
    leave_tracefs(lab.path());
    Ok(figures)
}

/// One server: requests a second by itself, and the slowdown by each tracer.
fn of_server(lab: &mut Lab, kind: Kind, effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let durable = lab.fresh("durable");
    std::fs::create_dir(&durable)?;
    // PostgreSQL is not root.
    for path in [lab.path(), &durable] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    }
    let server = Server::start(kind, &durable).with_context(|| format!("cannot run {}", kind.name()))?;
    let (requests, rounds) = size(kind, effort);
    let rate = || server.home().rate(Load::Reads, requests).context("no load");
    rate()?;
    let mut samples = Samples::default();
    let mut missing = BTreeMap::new();
    for _ in 0..rounds {
        samples.add("bare", rate()?);
        for tracer in Tracer::ALL {
            let watched = tracer.attach(&server, lab).and_then(|attached| {
                let watched = rate()?;
                attached.end()?;
                Ok(watched)
            });
            match watched {
                Ok(watched) => samples.add(tracer.name(), watched),
                Err(why) => drop(missing.insert(tracer.name(), format!("{why:#}"))),
            }
        }
    }
    let best = |case: &str| samples.of(case).iter().copied().fold(0.0, f64::max);
    let mut figures = vec![Figure::new(&format!("{}/bare", kind.name()), "1/s", samples.of("bare"))];
    for tracer in Tracer::ALL {
        let case = format!("{}/{}", kind.name(), tracer.what());
        let figure = match missing.get(tracer.name()) {
            Some(why) => Figure::absent(&case, "x", why),
            None => Figure::new(&case, "x", &[best("bare") / best(tracer.name())]),
        };
        figures.push(figure.of_peer(tracer.name()));
    }
    figures.extend(server_cpu::of_samples(&server, lab, requests / 2, effort)?);
    Ok(figures)
}
