//! A session in the test's own process: it speaks the protocol, owns the rings, and believes what it reads.

use mote_bpf::Insn;
use mote_layout::record::{PREFIX_BYTES, split};
use mote_loss::Cause;
use mote_ring::reader::{Channel, Look, Reader};
use mote_ring::speculation::{self, Pool, Sizes};
use mote_ring::{Clock, Geometry, Mode};
use mote_sys::fd::{self, Fd};
use mote_sys::mem::{Mapping, sealed_memfd};
use mote_sys::socket::{self, Wait};
use mote_wire::bundle::{Bundle, Disposition, MapPlace, PoolPlace, Program};
use mote_wire::{
    ENVIRONMENT, Hello, ID_ON, Installed, MESSAGE_MAX, Message, VERSION, Whose, filter_counters,
};
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

/// How long a process may take to say something.
const PATIENCE_MS: i32 = 20_000;
const SIZES: Sizes = Sizes { slots: 5, slot_bytes: 4096 };
const MAPS_BYTES: u64 = 8 << 20;
/// A ring has 2^this sub-buffers.
const SUBS_BITS: u32 = 2;

/// What is to become of an event.
#[derive(Clone, Default)]
pub(crate) struct Wish {
    /// `None`: it is on without a filter.
    pub(crate) insns: Option<Vec<Insn>>,
    pub(crate) keeps_on_fault: bool,
}

/// Events by name; those that are not named are off.
pub(crate) type Wishes = BTreeMap<&'static str, Wish>;

/// An event on, with this filter.
pub(crate) fn filtered(insns: Vec<Insn>) -> Wish {
    Wish { insns: Some(insns), keeps_on_fault: false }
}

pub(crate) struct Session {
    channel: &'static Channel,
    mailbox: Fd,
    theirs: Fd,
    maps: Fd,
    memory: Mapping,
    places: Vec<MapPlace>,
    generation: u32,
    serials: Vec<Vec<Insn>>,
}

/// A process that is part of the session.
pub(crate) struct Process {
    pub(crate) hello: Hello,
    socket: Fd,
    /// Names of its events, by id.
    pub(crate) names: Vec<String>,
    descriptions: Vec<Vec<u8>>,
    /// What it said of its filters last: running, refused, why.
    pub(crate) installed: Option<(u32, u32, String)>,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) id: u16,
    pub(crate) thread: u32,
    pub(crate) fields: Vec<u8>,
}

impl Seen {
    /// The first eight bytes of the fields, as far as they are there.
    pub(crate) fn number(&self) -> u64 {
        let mut word = [0; 8];
        word.iter_mut().zip(&self.fields).for_each(|(to, byte)| *to = *byte);
        u64::from_le_bytes(word)
    }
}

impl Session {
    pub(crate) fn new() -> Session {
        let cpus = mote_sys::process::possible_cpus().expect("the number of CPUs");
        let (mode, clock) = (Mode::Discard, Clock::Tsc);
        let geometry = Geometry { cpus, shared: 2, sub_bits: 20, count_bits: SUBS_BITS, mode, clock };
        let channel = Box::leak(Box::new(Channel::make(geometry, 0..geometry.rings()).expect("memory")));
        let (mailbox, theirs) = socket::pair().expect("sockets");
        // It is inherited: not closed by exec.
        let theirs = fd::dup_from(theirs.raw(), 100).expect("a descriptor");
        let maps = sealed_memfd(c"maps", MAPS_BYTES).expect("memory");
        let memory = Mapping::shared(&maps, MAPS_BYTES as usize).expect("address space");
        Session { channel, mailbox, theirs, maps, memory, places: vec![], generation: 0, serials: vec![] }
    }

    /// Adds a map behind the pool; its number.
    pub(crate) fn add_map(&mut self, shape: mote_bpf::MapShape) -> mote_vm::Map {
        let offset = (1 << 20) * (self.places.len() as u64 + 1);
        self.places.push(MapPlace { shape, offset });
        let at = self.memory.base().wrapping_add(offset as usize);
        // SAFETY: a MiB of the shared memory, which lives as long as the session, and the session as long as the test.
        unsafe { mote_vm::Map::create(at, &shape) }.expect("a sound shape")
    }

    /// Starts this program with `scenario`, and talks to it until it is ready.
    pub(crate) fn start(&mut self, scenario: &str, wishes: &Wishes) -> (Child, Process) {
        let inode = fd::identity(self.theirs.raw()).expect("it is open").inode;
        let child = Command::new(std::env::current_exe().expect("a path"))
            .args(["scenario", "--exact", "--nocapture"])
            .env("MOTE_SCENE", scenario)
            .env(ENVIRONMENT, format!("{VERSION},{},{inode},", self.theirs.raw()))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("this program starts");
        let mut process = self.meet();
        process.send(
            &Message::Welcome { whose: Whose::Shared, geometry: self.channel.geometry(), stack: 0 },
            &[self.channel.memfd()],
        );
        self.talk(&mut process, wishes);
        (child, process)
    }

    /// Waits for a process to say hello.
    pub(crate) fn meet(&self) -> Process {
        let mut buffer = [0; 256];
        assert_eq!(socket::wait_readable(self.mailbox.raw(), PATIENCE_MS), Ok(true), "nobody says hello");
        let mut received =
            socket::receive(self.mailbox.raw(), &mut buffer, Wait::No).expect("a message is there");
        let Ok(Message::Hello(hello)) = Message::decode(&buffer[..received.len]) else {
            panic!("no hello");
        };
        let socket = received.fds[0].take().expect("a socket of its own");
        Process { hello, socket, names: Vec::new(), descriptions: Vec::new(), installed: None }
    }

    /// Returns until the process is ready.
    fn talk(&mut self, process: &mut Process, wishes: &Wishes) {
        let mut sent = 0;
        loop {
            let mut buffer = vec![0; MESSAGE_MAX];
            let len = process.receive(&mut buffer);
            match Message::decode(&buffer[..len]).expect("a message") {
                Message::Events { texts, .. } => {
                    let words: Vec<u8> = mote_wire::texts(texts)
                        .flat_map(|text| (process.announced(text) | ID_ON).to_le_bytes())
                        .collect();
                    if sent != process.names.len() {
                        sent = process.names.len();
                        self.send_filters(process, wishes);
                    }
                    process.send(&Message::Ids(&words), &[]);
                }
                Message::Installed(installed) => process.note(installed),
                Message::Keeper => {}
                Message::Ready(_) => return,
                other => panic!("{other:?}"),
            }
        }
    }

    /// Sends other filters, and waits until they are there.
    pub(crate) fn change(&mut self, process: &mut Process, wishes: &Wishes) {
        self.send_filters(process, wishes);
        loop {
            let mut buffer = vec![0; MESSAGE_MAX];
            let len = process.receive(&mut buffer);
            match Message::decode(&buffer[..len]).expect("a message") {
                Message::Installed(installed) => return process.note(installed),
                Message::Keeper => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub(crate) fn send_filters(&mut self, process: &Process, wishes: &Wishes) {
        self.generation += 1;
        let mut programs: Vec<Program<&[Insn]>> = Vec::new();
        for wish in wishes.values() {
            let Some(insns) = &wish.insns else { continue };
            if !self.serials.contains(insns) {
                self.serials.push(insns.clone());
            }
        }
        let dispositions: Vec<Disposition> = process
            .names
            .iter()
            .map(|name| match wishes.get(name.as_str()) {
                None => Disposition::Off,
                Some(Wish { insns: None, .. }) => Disposition::Unfiltered,
                Some(Wish { insns: Some(insns), keeps_on_fault }) => {
                    let serial = self.serials.iter().position(|known| known == insns).expect("noted");
                    let keeps_on_fault = *keeps_on_fault;
                    programs.push(Program { serial: serial as u64, keeps_on_fault, insns });
                    Disposition::Filtered(programs.len() as u32 - 1)
                }
            })
            .collect();
        let bundle = Bundle {
            maps_bytes: MAPS_BYTES,
            pool: PoolPlace { offset: filter_counters::BYTES as u64, sizes: SIZES },
            maps: &self.places,
            dispositions: &dispositions,
            programs: &programs,
        };
        let mut bytes = vec![0; bundle.bytes()];
        bundle.encode(&mut bytes).expect("it fits");
        let file = sealed_memfd(c"bundle", bytes.len() as u64).expect("memory");
        fd::write_at(&file, &bytes, 0).expect("it is written");
        process.send(&Message::Filters { generation: self.generation }, &[&self.maps, &file]);
    }

    /// Readers of all rings. There may be one such only.
    pub(crate) fn rings(&self) -> Rings {
        let rings = 0..self.channel.geometry().rings();
        Rings(rings.map(|ring| self.channel.reader(ring).expect("a ring")).collect())
    }

    /// The records that threads have committed.
    pub(crate) fn committed(&self) -> Vec<Seen> {
        let pool = Pool::of(&self.memory, filter_counters::BYTES, SIZES).expect("it fits");
        let reader = speculation::Reader::new(pool);
        let mut bytes = vec![0; reader.room()];
        let mut all = Vec::new();
        while let Some((_, len)) = reader.take(&mut bytes) {
            all.extend(split_records(&bytes[..len]));
        }
        all
    }

    /// A word of the counters.
    pub(crate) fn counters(&self, offset: usize) -> u64 {
        let mut word = [0; 8];
        fd::read_at(&self.maps, &mut word, offset as u64).expect("it is there");
        u64::from_le_bytes(word)
    }
}

/// The readers of all rings.
pub(crate) struct Rings(Vec<Reader<'static>>);

impl Rings {
    /// The records that are new, ring by ring: what a full ring holds and no more, since a program that never rests
    /// may be faster than this.
    pub(crate) fn take(&mut self) -> Vec<Seen> {
        let mut all = Vec::new();
        for reader in &mut self.0 {
            for _ in 0..=1 << SUBS_BITS {
                let Look::Ready(chunk) = reader.look() else { break };
                let mut bytes = vec![0; chunk.len()];
                assert!(reader.copy(chunk, &mut bytes));
                all.extend(split_records(&bytes));
                reader.release(chunk);
            }
        }
        all
    }

    /// How many events were lost for this cause.
    pub(crate) fn lost(&self, cause: Cause) -> u64 {
        self.0.iter().map(|reader| reader.lost()[cause as usize]).sum()
    }
}

/// Records whose fields are eight bytes each: the tests' events have one number.
fn split_records(bytes: &[u8]) -> Vec<Seen> {
    let (records, rest) = bytes.as_chunks::<{ PREFIX_BYTES + 8 }>();
    assert!(rest.is_empty(), "records of another length");
    let record = |bytes: &[u8; PREFIX_BYTES + 8]| {
        let (header, rest) = bytes.split_at(8);
        let (thread, fields) = rest.split_at(4);
        let (id, _) = split(u64::from_le_bytes(header.try_into().expect("8 bytes")));
        let thread = u32::from_le_bytes(thread.try_into().expect("4 bytes"));
        Seen { id, thread, fields: fields.to_vec() }
    };
    records.iter().map(record).collect()
}

impl Process {
    fn send(&self, message: &Message<'_>, fds: &[&Fd]) {
        let mut buffer = vec![0; MESSAGE_MAX];
        let bytes = message.encode(&mut buffer).expect("it fits");
        let fds: Vec<i32> = fds.iter().map(|fd| fd.raw()).collect();
        socket::send(self.socket.raw(), bytes, &fds, Wait::Yes).expect("the process is there");
    }

    fn receive(&self, into: &mut [u8]) -> usize {
        assert_eq!(socket::wait_readable(self.socket.raw(), PATIENCE_MS), Ok(true), "it says nothing");
        let len = socket::receive(self.socket.raw(), into, Wait::No).expect("a message is there").len;
        assert!(len > 0, "the process has gone");
        len
    }

    /// The id of an event, which has one however many sites it has.
    fn announced(&mut self, description: &[u8]) -> u32 {
        let known = self.descriptions.iter().position(|known| known == description);
        let id = known.unwrap_or_else(|| {
            let text = String::from_utf8_lossy(description);
            self.names.push(text.lines().nth(1).expect("a name").to_owned());
            self.descriptions.push(description.to_vec());
            self.names.len() - 1
        });
        id as u32
    }

    fn note(&mut self, installed: Installed<'_>) {
        let why = String::from_utf8_lossy(installed.why).into_owned();
        self.installed = Some((installed.running, installed.refused, why));
    }

    /// The id of an event.
    pub(crate) fn id(&self, name: &str) -> u16 {
        self.names.iter().position(|known| known == name).expect("an event of the scenarios") as u16
    }
}
