/*
 * Live patching of a place of the program's own code, with threads between its instructions.
 *
 * A place is three instructions under one jump of five bytes. Two bytes of the first, two of the second and the first
 * byte of the third change:
 *
 *     byte           0          1        2          3        4
 *     program        first 1/2  2/2      second 1/2 2/2      third 1/2 (what follows is never changed)
 *     jump           head       rest     guard      rest     guard
 *     gate           int3
 *
 * A guard is a byte of the jump that is int3. A thread may stand before any of the three for as long as it likes, over
 * whole batches, and a pass may begin at any of them (it comes back from a handler or another context). CPUs fetch each
 * byte for itself, whenever they like, and keep it, beside newer ones too, until they serialise: `may` has what a CPU
 * may take a byte for, which is all that it was since then. The patcher's SYNC_CORE reaches one CPU after the other.
 * Threads move from one CPU to another at any time. Nothing rests here on what else serialises (a trap, the return
 * from it, a thread's move): none of it is in the model. A thread that met int3 gets its signal later, at any time. The
 * patcher makes batches: of this place, of another one, or, as a process of one thread does, without gate, while every
 * context stands still. Threads write nothing that another one reads, so one of them shows what any number does.
 *
 * Checked: no thread executes an instruction of bytes of both; each pass executes what is left of the three, each once
 * and in order, there or in the copy; a pass that begins at the head while nothing is being patched goes by the probe
 * if the place is on, and not if it is off (B3), and meets no gate; no trap of ours is taken for a foreign one.
 *
 * What the table of batches itself rests on (`turn`, when it is published and retracted) is in patch.pml.
 *
 * @code crates/traced/patch/src/batch.rs: between, write_alone, write_among, close, open, finish, sync_core
 * @code crates/traced/patch/src/code.rs: leads_to, is_guard
 * @code crates/traced/patch/src/trap.rs: lasting, serve
 * @code crates/traced/patch/src/table.rs: look_up, search
 * @code crates/traced/patch/src/lib.rs: gate, are_guards_served
 * @code crates/traced/hook/src/load.rs: resume
 * @code crates/base/layout/src/functions.rs: guard
 * @digest 0dbca6966be59d49
 *
 * @pass short | 2 CPUs, 4 batches | small
 * @pass long | 3 CPUs, 6 batches | -DCPUS=3 -DBATCHES=6
 * @pass long | 2 CPUs, 2 threads, 4 batches | -DRUNNERS=2
 * @find short | no guards first: the tail written at once | -DINJECT_NO_GUARDS
 * @find short | on: the rest of the tail before the guards | -DINJECT_REST_FIRST
 * @find short | off: guards taken away before the rest of the tail | -DINJECT_GUARDS_GO_FIRST
 * @find short | no SYNC_CORE between guards and the rest | -DINJECT_NO_SYNC_GUARDS
 * @find short | no SYNC_CORE behind the gates | -DINJECT_NO_SYNC_1
 * @miss short | on: no SYNC_CORE behind the gates: that behind the guards does | -DINJECT_NO_SYNC_1_THERE small
 * @find short | no SYNC_CORE behind the tails | -DINJECT_NO_SYNC_2
 * @find short | no SYNC_CORE behind the heads | -DINJECT_NO_SYNC_3
 * @find short | no gate | -DINJECT_NO_GATE
 * @find short | head before the tail | -DINJECT_HEAD_FIRST
 * @find short | guard leads to the next instruction | -DINJECT_GUARD_TO_NEXT
 * @find short | gate leads to the probe when the place goes off | -DINJECT_GATE_TO_PROBE
 * @find short | guards known only while their batch is published | -DINJECT_NO_LASTING
 * @find short | a gate that is gone not known | -DINJECT_NO_GONE
 * @find short | one thread: the handler not installed | -DINJECT_ALONE_UNSERVED
 * @reach short | coverage: a guard met long after the place went on | -DREACH_LATER small
 * @reach short | coverage: a guard met that is gone when the signal comes | -DREACH_GUARD_GONE small
 * @reach short | coverage: a gate met that is gone when the signal comes | -DREACH_GATE_GONE small
 * @reach short | coverage: the gate leads to the probe | -DREACH_GATE_PROBE small
 * @reach short | coverage: the first instruction executed there, the second in the copy | -DREACH_SPLIT small
 * @reach short | coverage: a thread stands inside while the place goes on and off | -DREACH_OVER_ALL small
 */

#ifndef CPUS
#define CPUS 2
#endif
#ifndef BATCHES
#define BATCHES 4
#endif
#ifndef RUNNERS
#define RUNNERS 1
#endif

/* What a byte is of; bits, for sets. */
#define PROGRAM 1	/* the program's; as a state: off, as a target: the copy */
#define JUMP 2		/* the jump's; as a state: on, as a target: the probe */
#define GATE 4

#define BYTES 5
#define MAY(cpu, at) may[(cpu) * BYTES + (at)]
#define BEGIN(instruction) ((instruction) * 2)

byte text[BYTES] = PROGRAM;
byte may[CPUS * BYTES] = PROGRAM;

/* The table of the trap handler, and whether it is installed. */
byte turn;
bool table_is_here;
byte table_leads_to;
bool is_installed;

/* What is true. */
byte is_now = PROGRAM;	/* what the last batch of this place said */
bool patching;		/* a batch of this place is under way, with gates */
byte goal;
byte changes;		/* batches of this place that have ended */

/* The thread executes an instruction, there or in the copy. */
inline execute() {
	assert(instruction == left);
	instruction++;
	left++
}

proctype runner() {
	byte instruction, left, cpu, value, seen, leads_to;
	bool here;
#ifdef REACH_SPLIT
	bool was_first_there;
#endif
#ifdef REACH_OVER_ALL
	byte since;
#endif

	/* A pass, from the head, or of a context that stood inside. */
pass:	atomic {
		if
		:: instruction = 0
		:: instruction = 1
		:: instruction = 2
		fi;
		left = instruction
#ifdef REACH_OVER_ALL
		; since = changes
#endif
	}

	/* Stands before one of the instructions, as long as it likes; then executes what some CPU takes it for. */
end:	atomic {
		cpu = 0;
		do
		:: cpu < CPUS - 1 -> cpu++
		:: break
		od;
		if
		:: MAY(cpu, BEGIN(instruction)) & PROGRAM -> value = PROGRAM
		:: MAY(cpu, BEGIN(instruction)) & JUMP -> value = JUMP
		:: MAY(cpu, BEGIN(instruction)) & GATE -> value = GATE
		fi;
		if
		:: value == PROGRAM ->
			/* The rest of it: no byte may be the jump's. */
			assert(instruction == 2 || MAY(cpu, BEGIN(instruction) + 1) == PROGRAM);
			assert(instruction != 0 || is_now == PROGRAM || patching);
#ifdef REACH_SPLIT
			was_first_there = (instruction == 0);
#endif
#ifdef REACH_OVER_ALL
			assert(instruction == 0 || changes < since + 2);
#endif
			cpu = 0; value = 0;
			execute();
			if
			:: instruction < 3 -> goto end
			:: else -> goto passed
			fi
		:: value == JUMP && instruction == 0 ->
			assert(MAY(cpu, 1) == JUMP && MAY(cpu, 2) == JUMP && MAY(cpu, 3) == JUMP && MAY(cpu, 4) == JUMP);
			assert(is_now == JUMP || patching);
			goto copy	/* behind the probe */
		:: value == GATE ->
			assert(patching)
		:: value == JUMP && instruction != 0	/* a guard */
		fi;
		cpu = 0; value = 0
	}

	/* The signal has come, some time. `look_up`: */
trapped:
	assert(is_installed);
	seen = turn;
	if
	:: seen % 2 == 1 ->
		here = table_is_here && instruction == 0;
		if
		:: here -> leads_to = table_leads_to
		:: else
		fi
	:: else
	fi;
	if
	:: here ->
		atomic {
			if :: turn != seen -> here = false; leads_to = 0; goto trapped :: else fi;
			assert(patching && leads_to == goal);
#ifdef REACH_GATE_PROBE
			assert(leads_to != JUMP);
#endif
			goto copy	/* at once, or behind the probe */
		}
	:: else ->
		value = text[BEGIN(instruction)];
		atomic {
			if :: turn != seen -> value = 0; goto trapped :: else fi;
			if
			:: instruction == 0 ->
				assert(value != GATE);	/* foreign: the program dies */
#ifdef INJECT_NO_GONE
				assert(value != PROGRAM);
#endif
#ifdef REACH_GATE_GONE
				assert(value != PROGRAM);
#endif
				seen = 0; value = 0;
				goto end
			/* The program's instruction may begin like a site: `Retry`. */
			:: instruction != 0 && value == PROGRAM ->
				seen = 0; value = 0;
				goto end
			:: instruction != 0 ->
#ifdef INJECT_NO_LASTING
				assert(seen % 2 == 1 && table_is_here);
#endif
#ifdef INJECT_GUARD_TO_NEXT
				instruction++;
#endif
#ifdef REACH_LATER
				assert(patching || value == PROGRAM);
#endif
#ifdef REACH_GUARD_GONE
				assert(value != PROGRAM);
#endif
#ifdef REACH_SPLIT
				assert(!was_first_there);
#endif
				goto copy
			fi
		}
	fi;

	/* Nobody writes there. */
copy:	atomic {
		cpu = 0; value = 0; seen = 0; leads_to = 0; here = false;
		do
		:: instruction < 3 -> execute()
		:: else -> break
		od
	}

passed:	atomic {
		assert(left == 3);
		instruction = 0; left = 0
#ifdef REACH_SPLIT
		; was_first_there = false
#endif
	}
	goto pass
}

/* A byte of the text, and what CPUs may take it for from now on. */
inline write(at, value) {
	d_step {
		text[at] = value;
		cpu = 0;
		do
		:: cpu < CPUS -> MAY(cpu, at) = MAY(cpu, at) | value; cpu++
		:: else -> break
		od;
		cpu = 0
	}
}

/* The bytes behind the gate, from the lowest. */
inline write_tail(guards, rest) {
	write(1, rest);
	write(2, guards);
	write(3, rest);
	write(4, guards)
}

inline serialise(which) {
	n = 0;
	do
	:: n < BYTES -> MAY(which, n) = text[n]; n++
	:: else -> break
	od;
	n = 0
}

/* membarrier(2), SYNC_CORE. */
inline sync_core() {
	cpu = 0;
	do
	:: d_step { cpu < CPUS -> serialise(cpu); cpu++ }
	:: else -> break
	od;
	cpu = 0
}

/* `write_among`, the place being in the batch. */
inline write_among() {
#ifndef INJECT_NO_GATE
	write(0, GATE);
#endif
#ifdef INJECT_NO_SYNC_1_THERE
	if
	:: next == PROGRAM -> sync_core()
	:: else
	fi;
#else
#ifndef INJECT_NO_SYNC_1
	sync_core();
#endif
#endif
#ifndef INJECT_NO_GUARDS
#ifdef INJECT_REST_FIRST
	if
	:: next == JUMP -> write_tail(PROGRAM, JUMP)
	:: else -> write_tail(JUMP, PROGRAM)
	fi;
#else
#ifdef INJECT_GUARDS_GO_FIRST
	if
	:: next == JUMP -> write_tail(JUMP, PROGRAM)
	:: else -> write_tail(PROGRAM, JUMP)
	fi;
#else
	write_tail(JUMP, PROGRAM);	/* `between`, on the way there and back */
#endif
#endif
#ifndef INJECT_NO_SYNC_GUARDS
	sync_core();
#endif
#endif
#ifdef INJECT_HEAD_FIRST
	write(0, next);
#endif
	write_tail(next, next);
#ifndef INJECT_NO_SYNC_2
	sync_core();
#endif
	write(0, next);
#ifndef INJECT_NO_SYNC_3
	sync_core();
#endif
	skip
}

/* `write_alone`: no thread runs meanwhile but the one that does this. */
inline write_alone() {
	d_step {
		n = 0;
		do
		:: n < BYTES -> text[n] = next; n++
		:: else -> break
		od;
		cpu = 0;
		do
		:: cpu < CPUS -> serialise(cpu); cpu++
		:: else -> break
		od;
		cpu = 0;
		is_now = next;
		changes++;
#ifndef INJECT_ALONE_UNSERVED
		is_installed = true;
#endif
		next = 0
	}
}

proctype patcher() {
	byte cpu, n, batches, next;
	bool is_here;

	do
	:: batches < BATCHES ->
		atomic { batches++; next = (is_now == PROGRAM -> JUMP : PROGRAM) };
		if
		:: write_alone()
		:: atomic {
			is_installed = true;
			if
			:: is_here = true
			:: is_here = false
			fi }
			/* publish */
			table_is_here = is_here;
			atomic {
				if
				:: is_here ->
#ifdef INJECT_GATE_TO_PROBE
					table_leads_to = JUMP;
#else
					table_leads_to = next;
#endif
					patching = true;
					goal = next
				:: else
				fi };
			turn++;
			if
			:: is_here -> write_among()
			:: else
			fi;
			turn++;	/* retract */
			atomic {
				if
				:: is_here -> is_now = next; changes++; patching = false; goal = 0
				:: else
				fi;
				next = 0;
				is_here = false }
		fi
	:: else -> break
	od
}

init {
	byte i;
	atomic {
		for (i : 1 .. RUNNERS) { run runner() }
		i = 0;
		run patcher()
	}
}
