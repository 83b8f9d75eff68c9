//! `bpf-run`: runs one eBPF program for the public conformance suite (see [`mote_conform::plugin`]).
#![deny(unsafe_code)]

use mote_conform::plugin::{self, Request, USAGE};
use std::io::Read;
use std::process::ExitCode;

fn main() -> ExitCode {
    match plugin::request(std::env::args().skip(1)) {
        Ok(None) => println!("{USAGE}"),
        Ok(Some(request)) => match run(&request) {
            Ok(r0) => println!("{r0}"),
            Err(error) => return fail(&error),
        },
        Err(error) => return fail(&error),
    }
    ExitCode::SUCCESS
}

fn fail(error: &str) -> ExitCode {
    eprintln!("bpf-run: {error}");
    ExitCode::from(2)
}

fn run(request: &Request) -> Result<String, String> {
    let program = match &request.program {
        Some(program) => program.clone(),
        None => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(|error| format!("standard input: {error}"))?;
            text
        }
    };
    let input = plugin::input(&program, &request.memory, request.elf)?;
    // SAFETY: the user who starts this binary without --verify asks for just that, and says so with the program; it has
    // no more rights than they have.
    #[allow(unsafe_code)]
    unsafe {
        plugin::run(&input, request)
    }
}
