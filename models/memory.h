/*
 * Out-of-order memory and out-of-order execution, for models in Promela. After the ideas of M. Desnoyers, "Low-impact
 * operating system tracing", 2009, sections 7.4 and 7.5; written anew.
 *
 * A CPU is a process that executes instructions; a line of its cache is a process of its own that writes a dirty value
 * back or takes in a newer one whenever it likes. Three virtual architectures:
 *
 *   ARCH_X86     stores pass through a queue, first in, first out; loads read the own queue, else memory; instructions
 *                are executed in program order (TSO).
 *   ARCH_POWER   stores reach memory in any order; loads read the newest value; instructions are executed in any order
 *                that their dependencies allow. Dependent loads are in order. Memory is one for all: real POWER
 *                lets two CPUs see the stores of two others in different orders even behind dependent loads (IRIW with
 *                addresses), this does not. ARMv8 does not either.
 *   ARCH_ALPHA   as POWER, and a clean line is as old as it likes until a barrier: dependent loads are reordered.
 *                Weaker than any machine that is made.
 *
 * A model that includes this defines before: CPUS and VARS; LOADS(cpu, var), if there are lines that no CPU loads and
 * that need not age. All begin with 0 (`set_everywhere`). Init must run MEMORY.
 *
 * An atomic instruction (compare-and-swap, addition) reads the newest value, and no other CPU writes between its load
 * and its store: it waits until no other CPU's store to the variable is under way (ATOMIC_READY). On x86 it is a full
 * barrier. Elsewhere its store waits in the line as others do, so that a later store may overtake it, as a
 * store-exclusive's may on ARMv8.
 *
 * Instructions carry tokens: one bit each, in program order from bit 0. `done` (of the process) holds those that were
 * executed. READY(self, needs): not yet executed, and all that it needs was. A barrier needs BEFORE(self), and is
 * needed by what it holds back. An instruction is taken out of a model by setting its bit in `done` at first, so that
 * no other waits for it.
 */

#define AT(cpu, var) ((cpu) * VARS + (var))
#ifndef LOADS
#define LOADS(cpu, var) true
#endif
#define QUEUE 4

byte memory[VARS];
byte line[CPUS * VARS];		/* the CPU's own value, if pending or (Alpha) always */
byte pending[CPUS * VARS];	/* stores on their way to memory */

#define BEFORE(self) ((self) - 1)
#define EXECUTED(self) done = done | (self)

#ifdef ARCH_X86

chan queue[CPUS] = [QUEUE] of { byte, byte };
byte taken_var, taken_value;

#define READY(self, needs) ((done & BEFORE(self)) == BEFORE(self) && !(done & (self)))
#define LOAD(cpu, var) (pending[AT(cpu, var)] -> line[AT(cpu, var)] : memory[var])
#define STORE(cpu, var, value) queue[cpu]!(var),(value); line[AT(cpu, var)] = (value); pending[AT(cpu, var)]++
#define CAN_STORE(cpu) nfull(queue[cpu])
#define ATOMIC_READY(cpu, var) true
#define ATOMIC_STORE(cpu, var, value) drain(cpu); memory[var] = (value)

inline write_back(cpu) {
	queue[cpu]?taken_var,taken_value;
	memory[taken_var] = taken_value;
	pending[AT(cpu, taken_var)]--;
	taken_var = 0; taken_value = 0
}

/* All stores so far are in memory. */
inline drain(cpu) {
	do
	:: nempty(queue[cpu]) -> write_back(cpu)
	:: empty(queue[cpu]) -> break
	od
}

inline full_barrier(cpu) { drain(cpu) }
inline write_barrier(cpu) { skip }
inline read_barrier(cpu) { skip }

proctype traffic(byte cpu; byte var) {
end:	do
	:: atomic { nempty(queue[cpu]) -> write_back(cpu) }
#ifdef ENDLESS_BUFFERS
	:: true -> skip	/* not now */
#endif
	od
}

#define MEMORY run_traffic(CPUS)
inline run_traffic(cpus) {
	for (i : 0 .. (cpus) - 1) { run traffic(i, 0) }
}

#else

#define READY(self, needs) ((done & (needs)) == (needs) && !(done & (self)))
#define STORE(cpu, var, value) line[AT(cpu, var)] = (value); pending[AT(cpu, var)] = 1
#define CAN_STORE(cpu) true
#define PENDING(cpu, var) ((cpu) < CPUS && pending[AT((cpu) % CPUS, var)])
#define ATOMIC_READY(cpu, var) (pending[AT(cpu, var)] || \
	!(PENDING(0, var) || PENDING(1, var) || PENDING(2, var) || PENDING(3, var)))
#define ATOMIC_STORE(cpu, var, value) STORE(cpu, var, value)

#ifdef ARCH_ALPHA
#define LOAD(cpu, var) line[AT(cpu, var)]
#define IS_STALE(cpu, var) (LOADS(cpu, var) && !pending[AT(cpu, var)] && line[AT(cpu, var)] != memory[var])
#else
#define LOAD(cpu, var) (pending[AT(cpu, var)] -> line[AT(cpu, var)] : memory[var])
#endif

inline drain(cpu) {
	for (lines : 0 .. VARS - 1) {
		if
		:: pending[AT(cpu, lines)] -> memory[lines] = line[AT(cpu, lines)]; pending[AT(cpu, lines)] = 0
#ifndef ARCH_ALPHA
			line[AT(cpu, lines)] = 0
#endif
		:: else
		fi
	}
	lines = 0
}

/* All lines are as new as memory. */
inline take_in(cpu) {
#ifdef ARCH_ALPHA
	for (lines : 0 .. VARS - 1) {
		if
		:: IS_STALE(cpu, lines) -> line[AT(cpu, lines)] = memory[lines]
		:: else
		fi
	}
	lines = 0
#else
	skip
#endif
}

inline full_barrier(cpu) { drain(cpu); take_in(cpu) }
inline write_barrier(cpu) { drain(cpu) }
inline read_barrier(cpu) { take_in(cpu) }
byte lines;

proctype traffic(byte cpu; byte var) {
end:	do
	:: atomic { pending[AT(cpu, var)] -> memory[var] = line[AT(cpu, var)]; pending[AT(cpu, var)] = 0
#ifndef ARCH_ALPHA
		; line[AT(cpu, var)] = 0
#endif
		}
#ifdef ARCH_ALPHA
	:: atomic { IS_STALE(cpu, var) -> line[AT(cpu, var)] = memory[var] }
#endif
#ifdef ENDLESS_BUFFERS
	:: true -> skip	/* not now */
#endif
	od
}

#define MEMORY run_traffic(CPUS)
inline run_traffic(cpus) {
	for (i : 0 .. (cpus) - 1) {
		for (j : 0 .. VARS - 1) { run traffic(i, j) }
	}
}

#endif

/* What an atomic instruction reads. */
#define ATOMIC_LOAD(cpu, var) (pending[AT(cpu, var)] -> line[AT(cpu, var)] : memory[var])

/* Sets a variable in memory and everywhere, before any process runs. */
inline set_everywhere(cpus, var, value) {
	memory[var] = value;
#ifdef ARCH_ALPHA
	for (i : 0 .. (cpus) - 1) { line[AT(i, var)] = value }
#endif
}

/* Barriers that order nothing but execution on machines where memory keeps the order by itself are still tokens. */
