//! A workload of `kernel`: a server on loopback under load.

use super::stopwatch::wall_ns;
use anyhow::Context;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// Bytes of a request and of an answer.
const MESSAGE: usize = 128;
/// Connections that the load keeps open at a time.
const CLIENTS: u64 = 4;

/// A server that answers messages on loopback, and clients that send them: wall time and CPU time of a request.
pub(super) fn server(requests: u64) -> anyhow::Result<String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("cannot listen on loopback")?;
    let address = listener.local_addr()?;
    let acceptor = thread::spawn(move || {
        let connections = listener.incoming().take(CLIENTS as usize);
        let servers: Vec<_> =
            connections.flatten().map(|stream| thread::spawn(move || answer(stream))).collect();
        servers.into_iter().for_each(|server| drop(server.join()));
    });
    let begin = wall_ns();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| thread::spawn(move || ask(TcpStream::connect(address)?, requests / CLIENTS)))
        .collect();
    for client in clients {
        client.join().ok().context("a client has failed")??;
    }
    let wall = wall_ns() - begin;
    acceptor.join().ok().context("the server has failed")?;
    Ok(format!("server {}\n", wall as f64 / requests as f64))
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut message = [0; MESSAGE];
    stream.set_nodelay(true)?;
    while stream.read_exact(&mut message).is_ok() {
        stream.write_all(&message)?;
    }
    Ok(())
}

fn ask(mut stream: TcpStream, count: u64) -> std::io::Result<()> {
    let mut message = [7; MESSAGE];
    stream.set_nodelay(true)?;
    for _ in 0..count {
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
    }
    Ok(())
}
