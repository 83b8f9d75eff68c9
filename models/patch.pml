/*
 * Live patching of one site under CPUs that prefetch.
 *
 * A site is a head (the bytes that the gate covers) and a tail (the rest, not written at once). Each CPU holds copies
 * of either, fetched whenever it likes, in any order, kept over as many passes as it likes, until something serialises
 * it: a trap, the return from a signal, or the patcher's SYNC_CORE, which reaches one CPU after the other. A thread
 * that met int3 gets its signal later, at any time; the handler then looks the address up. The patcher makes batches;
 * some are of another site. TRAP: the gate is int3. HOP: it is a short jump over the site, which acts like a NOP.
 *
 * Checked: no CPU ever executes a head with a tail that is not its own; the handler never takes our own int3 for
 * another program's, and sends no thread where no batch leads; a pass that starts while nothing is being patched acts
 * as the last batch said (B3), and meets no int3 of ours (the program may block SIGTRAP by then).
 *
 * Sites are one instruction in each state. Places of the program's code, which are several, are in places.pml.
 *
 * @code crates/traced/patch/src/batch.rs: write_among, close, open, finish, sync_core
 * @code crates/traced/patch/src/trap.rs: serve
 * @code crates/traced/patch/src/table.rs: publish, retract, look_up, search
 * @code crates/traced/patch/src/write.rs: write, write_pair
 * @digest 11f41b7d2e52010d
 *
 * @pass short | trap, 2 CPUs | -DTRAP small
 * @pass short | hop, 2 CPUs | -DHOP small
 * @pass long | trap, 3 CPUs | -DTRAP -DCPUS=3
 * @pass long | trap, 2 CPUs, 5 batches | -DTRAP -DBATCHES=5
 * @pass long | hop, 3 CPUs | -DHOP -DCPUS=3
 * @find short | trap: no SYNC_CORE behind the gates | -DTRAP -DINJECT_NO_SYNC_1
 * @find short | trap: no SYNC_CORE behind the tails | -DTRAP -DINJECT_NO_SYNC_2
 * @find short | trap: no SYNC_CORE behind the heads | -DTRAP -DINJECT_NO_SYNC_3
 * @find short | hop: no SYNC_CORE behind the gates | -DHOP -DINJECT_NO_SYNC_1
 * @find short | hop: no SYNC_CORE behind the tails | -DHOP -DINJECT_NO_SYNC_2
 * @find short | hop: no SYNC_CORE behind the heads | -DHOP -DINJECT_NO_SYNC_3
 * @find short | no gate | -DTRAP -DINJECT_NO_GATE
 * @find short | hop: the pair stored as two bytes | -DHOP -DINJECT_HOP_IN_TWO
 * @find short | table published behind the gates | -DTRAP -DINJECT_PUBLISH_LATE
 * @find short | table retracted before the heads | -DTRAP -DINJECT_RETRACT_EARLY
 * @find short | `turn` moves on before the values of the batch are there | -DTRAP -DINJECT_TURN_FIRST
 * @find short | handler looks at `turn` once | -DTRAP -DINJECT_ONE_LOOK
 * @find short | handler knows no `Retry` | -DTRAP -DINJECT_NO_RETRY
 * @reach short | coverage: a signal that comes one batch late | -DTRAP -DREACH_LATE small
 */

#ifndef CPUS
#define CPUS 2
#endif
#ifndef BATCHES
#define BATCHES 3
#endif

/* Codes, as heads, tails and what a pass does. */
#define NOP 0
#define JUMP 1
#define GATE 2
#define BROKEN 3	/* bytes of two codes */
#define NONE 4		/* not fetched */

byte head = NOP, tail = NOP;
byte fetched_head[CPUS] = NONE;
byte fetched_tail[CPUS] = NONE;

/* The table of the trap handler. */
byte turn;
bool table_is_here;
byte table_leads_to;

/* What is true. */
byte is_now = NOP;	/* what the last batch of this site said */
bool patching;		/* a batch of this site is under way */
byte goal;

inline serialise(cpu) { fetched_head[cpu] = NONE; fetched_tail[cpu] = NONE }

/* A pass has been through the site and done `what`. */
inline passed(what) {
	assert(what == is_now || (patching && (what == goal || what == NOP)))
}

proctype runner(byte cpu) {
	byte seen, leads_to;
	bool here;

end:	do
	:: atomic { fetched_head[cpu] == NONE -> fetched_head[cpu] = head }
	:: atomic { fetched_tail[cpu] == NONE -> fetched_tail[cpu] = tail }
	:: atomic { fetched_head[cpu] != NONE -> fetched_head[cpu] = NONE }
	:: atomic { fetched_tail[cpu] != NONE -> fetched_tail[cpu] = NONE }
	/* A pass. */
	:: atomic { fetched_head[cpu] == GATE ->
		assert(patching);
#ifdef HOP
		passed(NOP)
#else
		serialise(cpu);
		goto trapped
#endif
		}
	:: atomic { fetched_head[cpu] != GATE && fetched_head[cpu] != NONE && fetched_tail[cpu] != NONE ->
		assert(fetched_head[cpu] == fetched_tail[cpu]);
		passed(fetched_head[cpu]) }
	od;

	/* The signal has come, some time. `look_up`: */
trapped:
	seen = turn;
	if
	:: seen % 2 == 1 ->
		here = table_is_here;
		if
		:: here -> leads_to = table_leads_to
		:: else
		fi
	:: else
	fi;
	if
	:: here ->
		atomic {
#ifndef INJECT_ONE_LOOK
			if :: turn != seen -> here = false; leads_to = 0; goto trapped :: else fi;
#endif
			assert(patching && leads_to == goal) }
	:: else ->
		leads_to = head;	/* the first byte */
#ifdef REACH_LATE
		assert(seen < 3);
#endif
		atomic {
#ifndef INJECT_ONE_LOOK
			if :: turn != seen -> leads_to = 0; goto trapped :: else fi;
#endif
			assert(leads_to == NOP || leads_to == JUMP);	/* else foreign: the program dies */
#ifdef INJECT_NO_RETRY
			assert(false);
#endif
		}
	fi;
	atomic { seen = 0; here = false; leads_to = 0; serialise(cpu) }
	goto end
}

/* membarrier(2), SYNC_CORE. */
inline sync_core() {
	cpu = 0;
	do
	:: atomic { cpu < CPUS -> serialise(cpu); cpu++ }
	:: else -> break
	od;
	cpu = 0
}

inline retract() { turn++ }

proctype patcher() {
	byte cpu, batches, next;
	bool is_here;

	do
	:: batches < BATCHES ->
		batches++;
		atomic {
			if
			:: is_here = true
			:: is_here = false
			fi;
			next = 1 - is_now
		}
#ifndef INJECT_PUBLISH_LATE
		/* publish */
#ifdef INJECT_TURN_FIRST
		turn++;
#endif
		table_is_here = is_here;
		atomic { if :: is_here -> table_leads_to = next; patching = true; goal = next :: else fi }
#ifndef INJECT_TURN_FIRST
		turn++;
#endif
#endif
		if
		:: is_here ->
#ifdef INJECT_PUBLISH_LATE
			atomic { patching = true; goal = next }
#endif
#ifndef INJECT_NO_GATE
#ifdef INJECT_HOP_IN_TWO
			head = BROKEN;
#endif
			head = GATE;
#endif
#ifdef INJECT_PUBLISH_LATE
			table_is_here = true;
			table_leads_to = next;
			turn++;
#endif
#ifndef INJECT_NO_SYNC_1
			sync_core();
#endif
			tail = BROKEN;
			tail = next;
#ifndef INJECT_NO_SYNC_2
			sync_core();
#endif
#ifdef INJECT_RETRACT_EARLY
			retract();
#endif
			head = next;
#ifndef INJECT_NO_SYNC_3
			sync_core();
#endif
			skip
		:: else
#ifdef INJECT_PUBLISH_LATE
			-> table_is_here = false; turn++
#endif
		fi;
#ifdef INJECT_RETRACT_EARLY
		if :: !is_here -> retract() :: else fi;
#else
		retract();
#endif
		atomic { if :: is_here -> is_now = next; patching = false; goal = 0 :: else fi; next = 0; is_here = false }
	:: else -> break
	od
}

init {
	byte i;
	atomic {
		for (i : 0 .. CPUS - 1) { run runner(i) }
		i = 0;
		run patcher()
	}
}
