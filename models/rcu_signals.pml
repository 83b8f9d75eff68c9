/*
 * RCU: a reader in a signal handler, over a reader and over an updater of the same thread.
 *
 * Memory is out of order (memory.h, Alpha-like: the weakest); instructions are executed in program order, since the
 * kernel serialises the CPU where a handler begins and ends (what out-of-order execution adds is the matter of
 * rcu.pml). The handler shares the cache of the CPU that it interrupts, which does nothing until the handler has ended.
 * It reads the pointer in a section of its own, in the same word, nested or not, between any two steps of the other.
 *
 * OVER_READER: the handler interrupts a reader, the updater is on another CPU. OVER_UPDATER: it interrupts the updater;
 * no other reader is there. GENERAL only: the expedited flavour differs by which CPU fences, which a handler on the
 * same CPU cannot see.
 *
 * Checked: no section reads poison, none waits for ever (reader, handler and updater progress).
 *
 * @code lib/rcu/src/phases.rs: enter, exit, advance, is_old
 * @code lib/rcu/src/domain.rs: synchronize, step, look
 * @digest fc5260d29e6e3767
 *
 * @pass short | over reader: unaltered model (safety) | -DOVER_READER small
 * @find short | over reader: reader's fence removed | -DOVER_READER -DINJECT_NO_READER_FENCE
 * @find short | over reader: a kernel that delivers signals without a barrier | -DOVER_READER -DINJECT_DELIVERY_NO_BARRIER
 * @find short | over reader: updater's fence removed | -DOVER_READER -DINJECT_NO_UPDATER_FENCE
 * @find short | over reader: write barrier removed | -DOVER_READER -DINJECT_NO_RELEASE_IN_ASSIGN
 * @find short | over reader: read barrier removed | -DOVER_READER -DINJECT_NO_ACQUIRE_IN_DEREFERENCE
 * @find short | over reader: single grace-period phase | -DOVER_READER -DINJECT_SINGLE_PHASE
 * @find short | over reader: nested section stores `gp` over the nesting | -DOVER_READER -DINJECT_NO_NESTING
 * @find short | over reader: `exit` stores 0 | -DOVER_READER -DINJECT_EXIT_CLEARS
 * @pass short | over reader: reader progress | -DOVER_READER -DENDLESS -DREADER_PROGRESS progress fair small
 * @pass short | over reader: updater progress | -DOVER_READER -DENDLESS -DUPDATER_PROGRESS progress fair small
 * @find short | over reader: a handler that waits for its reader | -DOVER_READER -DENDLESS -DINJECT_HANDLER_WAITS
 * @pass short | over updater: unaltered model (safety) | -DOVER_UPDATER small
 * @miss short | over updater: reader's fence removed | -DOVER_UPDATER -DINJECT_NO_READER_FENCE small
 * @miss short | over updater: updater's fence removed | -DOVER_UPDATER -DINJECT_NO_UPDATER_FENCE small
 * @miss short | over updater: write barrier removed | -DOVER_UPDATER -DINJECT_NO_RELEASE_IN_ASSIGN small
 * @miss short | over updater: read barrier removed | -DOVER_UPDATER -DINJECT_NO_ACQUIRE_IN_DEREFERENCE small
 * @miss short | over updater: single grace-period phase | -DOVER_UPDATER -DINJECT_SINGLE_PHASE small
 * @pass short | over updater: reader progress | -DOVER_UPDATER -DENDLESS -DREADER_PROGRESS progress fair small
 * @pass short | over updater: updater progress | -DOVER_UPDATER -DENDLESS -DUPDATER_PROGRESS progress fair small
 * @find short | over updater: a handler that waits for a grace period | -DOVER_UPDATER -DENDLESS -DINJECT_HANDLER_WAITS
 */

#define ARCH_ALPHA
#define CPUS 2
#ifdef OVER_READER
#define READER 0
#else
#define READER 1
#endif
#define UPDATER 1

#define UPDATES 2
#ifndef SIGNALS
#define SIGNALS 1
#endif

#define GP 0
#define WORD 1
#ifdef ENDLESS
#define VARS 2
#else
#define POINTER 2
#define ENTRY(n) (3 + (n))
#define VARS (4 + UPDATES)
#endif

#define POISON 0
#define GOOD 1
#define ONE_PHASE 8
#define NESTING(word) ((word) & 7)
#define PHASE(word) ((word) & ONE_PHASE)
#define IS_OLD(word, gp) (NESTING(word) != 0 && PHASE(word) != PHASE(gp))

#include "memory.h"

bool handling;
byte signals = SIGNALS;
bool synchronizing;
bool moved;	/* the interrupted code has done something since the last signal */

/* One step of the interrupted thread, or of the handler. */
#ifdef ENDLESS
#define STEP(mine, action) atomic { handling == mine -> action; moved = moved || !mine }
#else
#define STEP(mine, action) atomic { handling == mine -> action }
#endif

#ifdef INJECT_NO_READER_FENCE
#define READER_FENCE skip
#else
#define READER_FENCE full_barrier(READER)
#endif
#ifdef INJECT_NO_ACQUIRE_IN_DEREFERENCE
#define ACQUIRE skip
#else
#define ACQUIRE read_barrier(READER)
#endif

#ifdef INJECT_NO_NESTING
#define IS_NESTED(word) false
#else
#define IS_NESTED(word) (NESTING(word) != 0)
#endif

inline section(mine) {
	STEP(mine, word = LOAD(READER, WORD));
	if
	:: IS_NESTED(word) ->
		STEP(mine, write_barrier(READER); STORE(READER, WORD, word + 1))
	:: else ->
		STEP(mine, word = LOAD(READER, GP));
		STEP(mine, write_barrier(READER); STORE(READER, WORD, word));
		STEP(mine, READER_FENCE)
	fi;
#ifndef ENDLESS
	STEP(mine, word = LOAD(READER, POINTER));
	STEP(mine, ACQUIRE);
	STEP(mine, assert(LOAD(READER, ENTRY(word)) != POISON); word = 0);
#endif
	STEP(mine, word = LOAD(READER, WORD));
#ifdef INJECT_EXIT_CLEARS
	STEP(mine, write_barrier(READER); STORE(READER, WORD, 0); word = 0)
#else
	STEP(mine, write_barrier(READER); STORE(READER, WORD, word - 1); word = 0)
#endif
}

/* What the kernel does to deliver a signal and to return from it, locked instructions and IRET, is a full barrier on
   x86. */
#ifdef INJECT_DELIVERY_NO_BARRIER
#define DELIVERY skip
#else
#define DELIVERY full_barrier(READER)
#endif

/* The handler, which comes whenever it likes. */
proctype handler() {
	byte word;

end:	do
#ifdef ENDLESS
	:: atomic { !handling -> handling = true; DELIVERY }
#else
	:: atomic { signals > 0 && !handling -> signals--; handling = true; DELIVERY }
#endif
		section(true);
#ifdef INJECT_HANDLER_WAITS
#ifdef OVER_READER
		atomic { NESTING(LOAD(READER, WORD)) == 0 };
#else
		atomic { !synchronizing };
#endif
#endif
#ifdef OVER_UPDATER
#ifdef READER_PROGRESS
progress:
#endif
#endif
		atomic { DELIVERY; handling = false }
#ifdef ENDLESS
		/* The interrupted code does something between two signals. */
		atomic { moved -> moved = false }
#endif
	od
}

#ifdef OVER_READER
proctype reader() {
	byte word, sections;

	do
#ifdef ENDLESS
	:: true ->
#else
	:: sections < 2 -> sections++;
#endif
		section(false);
#ifdef READER_PROGRESS
progress:
#endif
		skip
#ifndef ENDLESS
	:: else -> break
#endif
	od
}
#endif

#ifdef OVER_UPDATER
#define UPDATE(action) STEP(false, action)
#else
#define UPDATE(action) atomic { action }
#endif

#ifdef INJECT_NO_UPDATER_FENCE
#define UPDATER_FENCE skip
#else
#define UPDATER_FENCE full_barrier(UPDATER)
#endif
#ifdef INJECT_NO_RELEASE_IN_ASSIGN
#define RELEASE skip
#else
#define RELEASE write_barrier(UPDATER)
#endif

inline phase() {
	UPDATE(gp = gp ^ ONE_PHASE; STORE(UPDATER, GP, gp));
#ifdef OVER_UPDATER
	atomic { !handling && !IS_OLD(LOAD(UPDATER, WORD), gp) -> read_barrier(UPDATER); moved = true }
#else
	atomic { !IS_OLD(LOAD(UPDATER, WORD), gp) -> read_barrier(UPDATER) }
#endif
}

proctype updater() {
	byte gp = 1;
	byte update;

	do
#ifdef ENDLESS
	:: true ->
#else
	:: update < UPDATES ->
		UPDATE(STORE(UPDATER, ENTRY(update + 1), GOOD));
		UPDATE(RELEASE; STORE(UPDATER, POINTER, update + 1));
#endif
		UPDATE(UPDATER_FENCE; synchronizing = true);
		phase();
#ifndef INJECT_SINGLE_PHASE
		phase();
#endif
		synchronizing = false;
#ifdef ENDLESS
#ifdef UPDATER_PROGRESS
progress:
#endif
		skip
#else
		UPDATE(STORE(UPDATER, ENTRY(update), POISON));
		update++
	:: else -> break
#endif
	od
}

init {
	byte i, j;
	atomic {
		set_everywhere(CPUS, GP, 1);
#ifndef ENDLESS
		set_everywhere(CPUS, ENTRY(0), GOOD);
#endif
		MEMORY;
		i = 0; j = 0;
		run handler();
#ifdef OVER_READER
		run reader();
#endif
		run updater()
	}
}
