/*
 * RCU: updaters that share grace periods, on out-of-order memory.
 *
 * One updater makes grace periods for no entry in particular. The other unpublishes an entry, takes a ticket, polls
 * without the lock, or waits for it and looks whether its grace period is over already; only else it makes one; then it
 * poisons the entry. A reader makes two sections. The holder of the lock acquires and releases; a ticket is taken
 * without it. Instructions are in program order (their reordering is the matter of rcu.pml), memory is that of
 * memory.h.
 *
 * Checked: the reader never reads poison, though the updater that unpublished it may not have looked at the reader at
 * all; and no updater makes a grace period that it had no need of (one per ticket at most, two where one was going on).
 *
 * @code lib/rcu/src/domain.rs: synchronize, ticket, is_over, poll, step, look
 * @code lib/rcu/src/phases.rs: enter, exit, advance, is_old
 * @digest ea7ee1c2ed2ecf0e
 *
 * @pass short | power: unaltered model | -DARCH_POWER small
 * @pass short | x86: unaltered model | -DARCH_X86 small
 * @pass long | alpha: unaltered model | -DARCH_ALPHA -DSECTIONS=1 memory=4000
 * @find short | power: a ticket takes the grace period that is going on | -DARCH_POWER -DINJECT_TICKET_OF_NOW
 * @find short | power: no fence before the look at `seq` | -DARCH_POWER -DINJECT_NO_FENCE_IN_TICKET
 * @find long | alpha: `seq` says "begun" behind the fence of all | -DARCH_ALPHA -DSECTIONS=1 -DINJECT_BEGUN_LATE
 * @find short | power: `seq` says "over" before the second phase | -DARCH_POWER -DINJECT_OVER_EARLY
 * @find short | x86: a ticket takes the grace period that is going on | -DARCH_X86 -DINJECT_TICKET_OF_NOW
 * @reach short | coverage: the second updater finds its grace period over | -DARCH_POWER -DREACH_SHARED
 */

#define CPUS 3
#define READER 0
#define FIRST 1
#define SECOND 2
#ifndef SECTIONS
#define SECTIONS 2
#endif
#ifndef PERIODS
#define PERIODS 2
#endif

#define GP 0
#define WORD 1
#define SEQ 2
#define POINTER 3	/* 0: the entry, 1: another one */
#define ENTRY 4		/* 0: good, 1: poison */
#define VARS 5

#define NESTED(word) ((word) & 1)
#define PHASE(word) ((word) & 2)
#define IS_OLD(word, gp) (NESTED(word) && PHASE(word) != PHASE(gp))

#define PHASE_BITS 3
#define ONE 4

#include "memory.h"

bool locked;

proctype reader() {
	byte word, sections;

	do
	:: sections < SECTIONS ->
		sections++;
		word = LOAD(READER, GP);
		atomic { write_barrier(READER); STORE(READER, WORD, word) }
		atomic { full_barrier(READER); word = 0 }
		word = LOAD(READER, POINTER);
		atomic { read_barrier(READER); assert(word == 1 || LOAD(READER, ENTRY) == 0) }
		atomic { write_barrier(READER); word = LOAD(READER, WORD) - 1; STORE(READER, WORD, word); word = 0 }
	:: else -> break
	od
}

#ifdef ARCH_X86
#define TOGGLE_BARRIER(cpu) full_barrier(cpu)
#else
#define TOGGLE_BARRIER(cpu) skip
#endif

inline advance(cpu) {
	atomic { gp = LOAD(cpu, GP) ^ 2; STORE(cpu, GP, gp); TOGGLE_BARRIER(cpu) }
}

inline look(cpu) {
	atomic { !IS_OLD(LOAD(cpu, WORD), gp) -> read_barrier(cpu) }
}

/* `step`, repeated until the grace period is over; its waits are inside. */
inline grace_period(cpu) {
#ifdef INJECT_BEGUN_LATE
	atomic { full_barrier(cpu) }
	atomic { STORE(cpu, SEQ, seq + 1); write_barrier(cpu) }
#else
	atomic { STORE(cpu, SEQ, seq + 1) }
	atomic { full_barrier(cpu) }
#endif
	advance(cpu);
	look(cpu);
#ifdef INJECT_OVER_EARLY
	atomic { write_barrier(cpu); STORE(cpu, SEQ, seq + ONE) }
	advance(cpu);
	look(cpu)
#else
	atomic { STORE(cpu, SEQ, seq + 2) }
	advance(cpu);
	look(cpu);
	atomic { write_barrier(cpu); STORE(cpu, SEQ, seq + ONE) }
#endif
}

inline hold(cpu) { atomic { !locked -> locked = true; read_barrier(cpu); seq = LOAD(cpu, SEQ) } }
inline release(cpu) { atomic { full_barrier(cpu); locked = false; seq = 0; gp = 0 } }

proctype first() {
	byte seq, gp, periods;

	do
	:: periods < PERIODS ->
		periods++;
		hold(FIRST);
		grace_period(FIRST);
		release(FIRST)
	:: else -> break
	od
}

proctype second() {
	byte seq, gp, ticket, made;

	atomic { write_barrier(SECOND); STORE(SECOND, POINTER, 1) }
#ifndef INJECT_NO_FENCE_IN_TICKET
	atomic { full_barrier(SECOND) }
#endif
	atomic { seq = LOAD(SECOND, SEQ);
#ifdef INJECT_TICKET_OF_NOW
		ticket = (seq / ONE + 1) * ONE;
#else
		ticket = (seq % ONE == 0 -> seq + ONE : (seq / ONE + 2) * ONE);
#endif
		seq = 0 }
	/* `poll` looks without the lock, at any moment. */
	if
	:: atomic { LOAD(SECOND, SEQ) >= ticket -> read_barrier(SECOND); goto over }
	:: hold(SECOND)
	fi;
	do
	:: seq < ticket ->
		grace_period(SECOND);
		seq = LOAD(SECOND, SEQ);
		made++
	:: else ->
#ifdef REACH_SHARED
		assert(made > 0);
#endif
		assert(made <= 2);
		break
	od;
	release(SECOND);
over:
	atomic { STORE(SECOND, ENTRY, 1) }
}

init {
	byte i, j;
	atomic {
		set_everywhere(CPUS, GP, 1);
		MEMORY;
		i = 0; j = 0;
		run reader();
		run first();
		run second()
	}
}
