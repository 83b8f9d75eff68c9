/*
 * The atomic writer of the ring and its reader, on out-of-order memory and CPUs.
 *
 * atomic_ring.pml has all that the two do, one access to memory after the other. Here the same accesses are
 * instructions with tokens for what they depend on (memory.h), of records that fill a cell each, in two sub-buffers of
 * SUB cells of which the last is never filled. What is here as well: two writers, a reader that looks again and again,
 * both modes, the switch to the next sub-buffer. Stores are never speculated, loads are: the reader guesses which way
 * its branches go, and forgets what it loaded when it was wrong.
 *
 * A run begins with START records that were written and not read, so that few events reach what it is about:
 *   PUBLISH   nothing is there; two writers, one event each, in one sub-buffer.
 *   SWITCH    a sub-buffer is full; a writer leaves it, and the reader finds it whole.
 *   FULL      the ring is full; a writer enters the oldest sub-buffer as soon as it was read.
 *   LAP       the ring is full, overwrite mode: a writer enters what the reader is copying.
 *   LATE      overwrite mode; one writer is late with its only event while the other goes around the ring. The reader
 *             comes behind both (MEANWHILE: at any time).
 *
 * Checked: what is handed out is what was written there in that lap, up to the last byte; a sub-buffer's `end` is its
 * own; nothing is Damaged. Not here, because no order of memory can spoil it: times (read between two atomic
 * instructions of one CPU), counts of what is lost but by a full ring (one atomic addition each), `base` (read for a
 * dead writer's sub-buffer, and of use only when all that was reserved is committed, by the writer that has noted it,
 * too). Not here either: the counter of what a full ring has lost and its notes in the slots, which loom runs through
 * with the code itself (`a_gap_has_what_was_lost_in_it`). A writer that closes a sub-buffer of a full ring executes X,
 * E and PC of one that enters the next, and no more; the place behind which nothing fits is one more cell of each
 * sub-buffer that no instruction writes.
 *
 * Most of the code's acquires on the writers' side are FNEG: a store waits for the branches before it, on every machine
 * that is made. The language does not promise that, so they stay; loom, which knows the language's rules and no
 * machine, finds each of them missing.
 *
 * @code crates/base/ring/src/atomic_writer.rs: write, reserve, may_enter, leave, bytes
 * @code crates/base/ring/src/reader.rs: pos, look, look_once, whole, lapped, look_shared, committed, copy, release
 * @code crates/base/ring/src/reader.rs: advance, publish
 * @digest 4e85a8a36bb7f16a
 *
 * @pass short | x86: two writers in one sub-buffer | -DARCH_X86 -DPUBLISH small
 * @pass short | x86: the switch to the next sub-buffer | -DARCH_X86 -DSWITCH small
 * @pass short | x86: a full ring, discard mode | -DARCH_X86 -DFULL small
 * @pass short | x86: flight recorder, the reader is lapped | -DARCH_X86 -DLAP small
 * @pass short | x86: flight recorder, a writer is late by a lap | -DARCH_X86 -DLATE small
 * @pass long | x86: the same beside the reader | -DARCH_X86 -DLATE -DMEANWHILE
 * @miss long | x86: release of the commit removed (data, then count), in the order of x86 | -DARCH_X86 -DPUBLISH -DINJECT_NO_RELEASE_IN_COMMIT small
 * @miss long | x86: release of the commit removed (the next lap goes over the data), in the order of x86 | -DARCH_X86 -DLATE -DINJECT_NO_RELEASE_IN_COMMIT small
 * @miss long | x86: release of the padding removed (`end`, then count), in the order of x86 | -DARCH_X86 -DSWITCH -DINJECT_NO_RELEASE_IN_PADDING small
 * @miss long | x86: fence on entry removed (`pos`, then data), in the order of x86 | -DARCH_X86 -DLAP -DINJECT_NO_FENCE_ON_ENTRY small
 * @miss long | x86: reader's acquire of the commit count removed (count, then data), in the order of x86 | -DARCH_X86 -DPUBLISH -DINJECT_NO_ACQUIRE_OF_COMMIT small
 * @miss long | x86: reader's acquire of the commit count removed (count, then `end`), in the order of x86 | -DARCH_X86 -DSWITCH -DINJECT_NO_ACQUIRE_OF_COMMIT small
 * @miss long | x86: flight recorder's fence before its second look removed (data, then `pos`), in the order of x86 | -DARCH_X86 -DLAP -DINJECT_NO_FENCE_IN_LAPPED small
 * @miss long | x86: release of `consumed` removed (data read, then `consumed`), in the order of x86 | -DARCH_X86 -DFULL -DINJECT_NO_RELEASE_IN_CONSUMED small
 * @miss long | x86: reader's acquire of `pos` removed (the acquire of the count holds what is behind it) | -DARCH_X86 -DSWITCH -DINJECT_NO_ACQUIRE_OF_POS small
 * @miss long | x86: writer's acquire of `consumed` removed (a store waits for the branch before it) | -DARCH_X86 -DFULL -DINJECT_NO_ACQUIRE_OF_CONSUMED small
 * @miss long | x86: writer's acquire of the commit count removed (the same) | -DARCH_X86 -DFULL -DINJECT_NO_ACQUIRE_OF_COMMIT_IN_WRITER small
 * @miss long | x86: acquire of the reservation removed (the same) | -DARCH_X86 -DLAP -DINJECT_NO_ACQUIRE_IN_RESERVE small
 * @miss long | x86: release of the reservation removed (what it publishes the commit publishes, too) | -DARCH_X86 -DLAP -DINJECT_NO_RELEASE_IN_RESERVE small
 * @find short | x86: reader looks at `pos` once | -DARCH_X86 -DPUBLISH -DINJECT_ONE_LOOK small
 * @find short | x86: sub-buffer entered before it was read | -DARCH_X86 -DFULL -DINJECT_NO_FULL_CHECK small
 * @find short | x86: sub-buffer entered while a writer has not committed in it | -DARCH_X86 -DLATE -DINJECT_NO_BUSY_CHECK small
 * @reach short | x86: coverage: both sub-buffers are read, the second in its second lap | -DARCH_X86 -DFULL -DREACH_READ=5 small
 * @reach short | x86: coverage: a copy is overwritten meanwhile | -DARCH_X86 -DLAP -DREACH_LAPPED small
 * @pass short | power: two writers in one sub-buffer | -DARCH_POWER -DPUBLISH small
 * @pass short | power: the switch to the next sub-buffer | -DARCH_POWER -DSWITCH small
 * @pass short | power: a full ring, discard mode | -DARCH_POWER -DFULL small
 * @pass short | power: flight recorder, the reader is lapped | -DARCH_POWER -DLAP small
 * @pass short | power: flight recorder, a writer is late by a lap | -DARCH_POWER -DLATE small
 * @pass long | power: the same beside the reader | -DARCH_POWER -DLATE -DMEANWHILE
 * @find short | power: release of the commit removed (data, then count) | -DARCH_POWER -DPUBLISH -DINJECT_NO_RELEASE_IN_COMMIT small
 * @find short | power: release of the commit removed (the next lap goes over the data) | -DARCH_POWER -DLATE -DINJECT_NO_RELEASE_IN_COMMIT small
 * @find short | power: release of the padding removed (`end`, then count) | -DARCH_POWER -DSWITCH -DINJECT_NO_RELEASE_IN_PADDING small
 * @find short | power: fence on entry removed (`pos`, then data) | -DARCH_POWER -DLAP -DINJECT_NO_FENCE_ON_ENTRY small
 * @find short | power: reader's acquire of the commit count removed (count, then data) | -DARCH_POWER -DPUBLISH -DINJECT_NO_ACQUIRE_OF_COMMIT small
 * @find short | power: reader's acquire of the commit count removed (count, then `end`) | -DARCH_POWER -DSWITCH -DINJECT_NO_ACQUIRE_OF_COMMIT small
 * @find short | power: flight recorder's fence before its second look removed (data, then `pos`) | -DARCH_POWER -DLAP -DINJECT_NO_FENCE_IN_LAPPED small
 * @find short | power: release of `consumed` removed (data read, then `consumed`) | -DARCH_POWER -DFULL -DINJECT_NO_RELEASE_IN_CONSUMED small
 * @miss long | power: reader's acquire of `pos` removed (the acquire of the count holds what is behind it) | -DARCH_POWER -DSWITCH -DINJECT_NO_ACQUIRE_OF_POS small
 * @miss long | power: writer's acquire of `consumed` removed (a store waits for the branch before it) | -DARCH_POWER -DFULL -DINJECT_NO_ACQUIRE_OF_CONSUMED small
 * @miss long | power: writer's acquire of the commit count removed (the same) | -DARCH_POWER -DFULL -DINJECT_NO_ACQUIRE_OF_COMMIT_IN_WRITER small
 * @miss long | power: acquire of the reservation removed (the same) | -DARCH_POWER -DLAP -DINJECT_NO_ACQUIRE_IN_RESERVE small
 * @miss long | power: release of the reservation removed (what it publishes the commit publishes, too) | -DARCH_POWER -DLAP -DINJECT_NO_RELEASE_IN_RESERVE small
 * @find short | power: reader looks at `pos` once | -DARCH_POWER -DPUBLISH -DINJECT_ONE_LOOK small
 * @find short | power: sub-buffer entered before it was read | -DARCH_POWER -DFULL -DINJECT_NO_FULL_CHECK small
 * @find short | power: sub-buffer entered while a writer has not committed in it | -DARCH_POWER -DLATE -DINJECT_NO_BUSY_CHECK small
 * @reach short | power: coverage: both sub-buffers are read, the second in its second lap | -DARCH_POWER -DFULL -DREACH_READ=5 small
 * @reach short | power: coverage: a copy is overwritten meanwhile | -DARCH_POWER -DLAP -DREACH_LAPPED small
 * @pass short | alpha: two writers in one sub-buffer | -DARCH_ALPHA -DPUBLISH
 * @pass short | alpha: the switch to the next sub-buffer | -DARCH_ALPHA -DSWITCH small
 * @pass short | alpha: a full ring, discard mode | -DARCH_ALPHA -DFULL small
 * @pass short | alpha: flight recorder, the reader is lapped | -DARCH_ALPHA -DLAP small
 * @pass long | alpha: flight recorder, a writer is late by a lap | -DARCH_ALPHA -DLATE
 * @find short | alpha: release of the commit removed (data, then count) | -DARCH_ALPHA -DPUBLISH -DINJECT_NO_RELEASE_IN_COMMIT small
 * @find short | alpha: release of the commit removed (the next lap goes over the data) | -DARCH_ALPHA -DLATE -DINJECT_NO_RELEASE_IN_COMMIT small
 * @find short | alpha: release of the padding removed (`end`, then count) | -DARCH_ALPHA -DSWITCH -DINJECT_NO_RELEASE_IN_PADDING small
 * @find short | alpha: fence on entry removed (`pos`, then data) | -DARCH_ALPHA -DLAP -DINJECT_NO_FENCE_ON_ENTRY small
 * @find short | alpha: reader's acquire of the commit count removed (count, then data) | -DARCH_ALPHA -DPUBLISH -DINJECT_NO_ACQUIRE_OF_COMMIT small
 * @find short | alpha: reader's acquire of the commit count removed (count, then `end`) | -DARCH_ALPHA -DSWITCH -DINJECT_NO_ACQUIRE_OF_COMMIT small
 * @find short | alpha: flight recorder's fence before its second look removed (data, then `pos`) | -DARCH_ALPHA -DLAP -DINJECT_NO_FENCE_IN_LAPPED small
 * @find short | alpha: release of `consumed` removed (data read, then `consumed`) | -DARCH_ALPHA -DFULL -DINJECT_NO_RELEASE_IN_CONSUMED small
 * @find short | alpha: reader's acquire of `pos` removed (`pos`, then count, then `end`) | -DARCH_ALPHA -DSWITCH -DINJECT_NO_ACQUIRE_OF_POS small
 * @miss long | alpha: writer's acquire of `consumed` removed (a store waits for the branch before it) | -DARCH_ALPHA -DFULL -DINJECT_NO_ACQUIRE_OF_CONSUMED small
 * @miss long | alpha: writer's acquire of the commit count removed (the same) | -DARCH_ALPHA -DFULL -DINJECT_NO_ACQUIRE_OF_COMMIT_IN_WRITER small
 * @miss long | alpha: acquire of the reservation removed (the same) | -DARCH_ALPHA -DLAP -DINJECT_NO_ACQUIRE_IN_RESERVE small
 * @miss long | alpha: release of the reservation removed (what it publishes the commit publishes, too) | -DARCH_ALPHA -DLAP -DINJECT_NO_RELEASE_IN_RESERVE small
 * @find short | alpha: reader looks at `pos` once | -DARCH_ALPHA -DPUBLISH -DINJECT_ONE_LOOK small
 * @find short | alpha: sub-buffer entered before it was read | -DARCH_ALPHA -DFULL -DINJECT_NO_FULL_CHECK small
 * @find long | alpha: sub-buffer entered while a writer has not committed in it | -DARCH_ALPHA -DLATE -DINJECT_NO_BUSY_CHECK memory=3000
 * @reach short | alpha: coverage: both sub-buffers are read, the second in its second lap | -DARCH_ALPHA -DFULL -DREACH_READ=5 small
 * @reach short | alpha: coverage: a copy is overwritten meanwhile | -DARCH_ALPHA -DLAP -DREACH_LAPPED small
 */

#define W0 0
#define W1 1
#define READER 2
#define CPUS 3
#define COUNT 2

#ifdef PUBLISH
#define SUB 3
#define START 0
#define EVENTS0 1
#define EVENTS1 1
#endif
#ifdef SWITCH
#define SUB 2
#define START 1
#define EVENTS0 1
#define EVENTS1 0
#endif
#ifdef FULL
#define SUB 2
#define START 2
#define EVENTS0 1
#define EVENTS1 0
#endif
#ifdef LAP
#define OVERWRITE
#define SUB 2
#define START 2
#define EVENTS0 1
#define EVENTS1 0
#endif
#ifdef LATE
#define OVERWRITE
#define SUB 2
#define START 0
#define EVENTS0 1
#define EVENTS1 2
#endif

#define RING (SUB * COUNT)
#define PER_SUB (SUB - 1)

#define POS 0
#define CONSUMED 1
#define COMMIT(slot) (2 + (slot))
#define END(slot) (4 + (slot))
#define DATA(cell) (6 + (cell))
#define VARS (6 + RING)

/* Which CPU loads what. Writers read `consumed` and `commit` only when they enter a sub-buffer. */
#ifdef PUBLISH
#define WRITERS_LOAD(var) ((var) == POS)
#else
#ifdef OVERWRITE
#define WRITERS_LOAD(var) ((var) < END(0) && (var) != CONSUMED)
#else
#define WRITERS_LOAD(var) ((var) < END(0))
#endif
#endif
#define LOADS(cpu, var) ((cpu) == READER -> (var) != CONSUMED : WRITERS_LOAD(var) && ((cpu) == W0 || EVENTS1 > 0))

#include "memory.h"

#define SLOT(at) (((at) / SUB) % COUNT)
/* What was committed in a sub-buffer before the lap that `at` is in. */
#define BEFORE_LAP(at) (((at) / RING) * SUB)
/* What a record of that lap has in its cell. */
#define VALUE(at) ((at) / RING + 1)

/* The writer's instructions, of one event. */
#define L (1 << 0)	/* load `pos` */
#define CU (1 << 1)	/* load `consumed`, acquire: */
#define CUA (1 << 2)	/* ... nothing behind it goes before it */
#define CM (1 << 3)	/* load `commit` of what is entered, acquire */
#define CMA (1 << 4)
#define X (1 << 5)	/* compare-and-swap `pos`, acquire and release */
#define XA (1 << 6)
#define F (1 << 7)	/* fence, release */
#define E (1 << 8)	/* store `end` of what is left */
#define PC (1 << 9)	/* add the padding to its `commit`, release */
#define D (1 << 10)	/* store the data */
#define C (1 << 11)	/* add them to `commit`, release */
#define WRITER_ALL ((1 << 12) - 1)
#define ENTERING (CU | CUA | CM | CMA | F | E | PC)

#ifdef INJECT_NO_ACQUIRE_OF_CONSUMED
#define NO_CUA CUA
#else
#define NO_CUA 0
#endif
#ifdef INJECT_NO_ACQUIRE_OF_COMMIT_IN_WRITER
#define NO_CMA CMA
#else
#define NO_CMA 0
#endif
#ifdef INJECT_NO_ACQUIRE_IN_RESERVE
#define NO_XA XA
#else
#define NO_XA 0
#endif
#ifdef INJECT_NO_FENCE_ON_ENTRY
#define NO_F F
#else
#define NO_F 0
#endif
#ifdef OVERWRITE
#define NO_CU (CU | CUA)
#else
#define NO_CU 0
#endif
#define WRITER_BEGINS (NO_CU | NO_CUA | NO_CMA | NO_XA | NO_F)

/* An atomic instruction that releases waits for all that is before it, and has it in memory; otherwise it waits for
   what it depends on. */
#ifdef INJECT_NO_RELEASE_IN_RESERVE
#define RESERVE_NEEDS (L | CU | CM)
#define RESERVE_BARRIER(cpu) skip
#else
#define RESERVE_NEEDS BEFORE(X)
#define RESERVE_BARRIER(cpu) write_barrier(cpu)
#endif
#ifdef INJECT_NO_RELEASE_IN_PADDING
#define PADDING_NEEDS (X | XA | F)
#define PADDING_BARRIER(cpu) skip
#else
#define PADDING_NEEDS BEFORE(PC)
#define PADDING_BARRIER(cpu) write_barrier(cpu)
#endif
#ifdef INJECT_NO_RELEASE_IN_COMMIT
#define COMMIT_NEEDS (X | XA | F)
#define COMMIT_BARRIER(cpu) skip
#else
#define COMMIT_NEEDS BEFORE(C)
#define COMMIT_BARRIER(cpu) write_barrier(cpu)
#endif

#define FITS ((p % SUB) + 1 < SUB)
#define MAY_ENTER (fits || (is_room && is_committed))
#ifdef INJECT_NO_BUSY_CHECK
#define IS_COMMITTED true
#else
#define IS_COMMITTED (LOAD(cpu, COMMIT(SLOT(at))) == BEFORE_LAP(at))
#endif
#ifdef INJECT_NO_FULL_CHECK
#define IS_ROOM true
#else
#define IS_ROOM (at + SUB - LOAD(cpu, CONSUMED) <= RING)
#endif
#define REFUSED ((done & (L | CU | CM)) == (L | CU | CM) && !(done & X) && !MAY_ENTER)

bool finished[2];

proctype writer(byte cpu; byte events) {
	short done;
	byte p, at;
	bool fits, is_room, is_committed;

	do
	:: atomic { events > 0 -> events--; done = WRITER_BEGINS; is_room = true }
		do
		:: atomic { READY(L, 0) -> p = LOAD(cpu, POS);
begun:			EXECUTED(L);
			fits = FITS;
			at = (fits -> p : (p / SUB + 1) * SUB);
			if :: fits -> done = done | ENTERING :: else fi }
		:: atomic { READY(CU, L) -> is_room = IS_ROOM; EXECUTED(CU) }
		:: atomic { READY(CUA, CU) -> read_barrier(cpu); EXECUTED(CUA) }
		:: atomic { READY(CM, L | CUA) -> is_committed = IS_COMMITTED; EXECUTED(CM) }
		:: atomic { READY(CMA, CM) -> read_barrier(cpu); EXECUTED(CMA) }
		:: atomic { REFUSED -> goto lost }
		:: atomic { READY(X, RESERVE_NEEDS) && MAY_ENTER && ATOMIC_READY(cpu, POS) && CAN_STORE(cpu) ->
			if
			:: ATOMIC_LOAD(cpu, POS) == p ->
				RESERVE_BARRIER(cpu); ATOMIC_STORE(cpu, POS, at + 1); EXECUTED(X)
			:: else ->	/* once more, with what it has read */
				p = ATOMIC_LOAD(cpu, POS);
				done = WRITER_BEGINS; is_room = true; is_committed = false;
				goto begun
			fi }
		:: atomic { READY(XA, X) -> read_barrier(cpu); EXECUTED(XA) }
		:: atomic { READY(F, BEFORE(F)) -> write_barrier(cpu); EXECUTED(F) }
		:: atomic { READY(E, X | XA | F) && CAN_STORE(cpu) -> STORE(cpu, END(SLOT(p)), p); EXECUTED(E) }
		:: atomic { READY(PC, PADDING_NEEDS) && ATOMIC_READY(cpu, COMMIT(SLOT(p))) ->
			PADDING_BARRIER(cpu);
			ATOMIC_STORE(cpu, COMMIT(SLOT(p)), ATOMIC_LOAD(cpu, COMMIT(SLOT(p))) + SUB - p % SUB);
			EXECUTED(PC) }
		:: atomic { READY(D, X | XA | F) && CAN_STORE(cpu) -> STORE(cpu, DATA(at % RING), VALUE(at)); EXECUTED(D) }
		:: atomic { READY(C, COMMIT_NEEDS) && ATOMIC_READY(cpu, COMMIT(SLOT(at))) ->
			COMMIT_BARRIER(cpu);
			ATOMIC_STORE(cpu, COMMIT(SLOT(at)), ATOMIC_LOAD(cpu, COMMIT(SLOT(at))) + 1);
			EXECUTED(C) }
		:: atomic { done == WRITER_ALL ->
lost:			done = 0; p = 0; at = 0; fits = false; is_room = false; is_committed = false; break }
		od
	:: events == 0 -> break
	od;
	finished[cpu] = true
}

/* The reader's instructions, of one look. */
#define P1 (1 << 0)	/* load `pos`, acquire */
#define P1A (1 << 1)
#define RC (1 << 2)	/* load `commit`, acquire */
#define RCA (1 << 3)
#define RE (1 << 4)	/* load `end`, if the writers have left the sub-buffer */
#define P2 (1 << 5)	/* otherwise `pos` again, acquire */
#define P2A (1 << 6)
#define D1 (1 << 7)	/* load the data */
#define D2 (1 << 8)
#define RF (1 << 9)	/* overwrite mode: fence, acquire */
#define P3 (1 << 10)	/* ... and `pos` once more */
#define K (1 << 11)	/* discard mode: store `consumed`, release */
#define READER_LOADS ((1 << 11) - 1)

#ifdef INJECT_NO_ACQUIRE_OF_POS
#define NO_PA (P1A | P2A)
#else
#define NO_PA 0
#endif
#ifdef INJECT_NO_ACQUIRE_OF_COMMIT
#define NO_RCA RCA
#else
#define NO_RCA 0
#endif
#ifdef OVERWRITE
#define NO_LAPPED 0
#else
#define NO_LAPPED (RF | P3)
#endif
#ifdef INJECT_NO_FENCE_IN_LAPPED
#define NO_RF RF
#define LAPPED_NEEDS (RCA | P1A | P2A)
#else
#define NO_RF 0
#define LAPPED_NEEDS BEFORE(P3)
#endif
#if SUB > 2
#define NO_D2 0
#else
#define NO_D2 D2
#endif
#define READER_BEGINS (NO_PA | NO_RCA | NO_LAPPED | NO_RF | NO_D2)
#ifdef INJECT_NO_RELEASE_IN_CONSUMED
#define RELEASE_NEEDS (P1 | P1A | RC | RCA | RE | P2 | P2A)
#define RELEASE_BARRIER skip
#else
#define RELEASE_NEEDS BEFORE(K)
#define RELEASE_BARRIER write_barrier(READER)
#endif

/* What the look makes of what it has loaded. */
#define THIS_SUB (read / SUB)
#define IS_LEFT (p1 / SUB != THIS_SUB)
#define IS_LAPPED(pos) ((pos) / SUB - THIS_SUB >= COUNT)
#define IN_LAP(commit) ((commit) - BEFORE_LAP(read))
#ifdef INJECT_ONE_LOOK
#define IS_QUIET true
#else
#define IS_QUIET (p2 == p1)
#endif
#define IS_CHUNK (left == IS_LEFT && !IS_LAPPED(p1) && (left -> IN_LAP(commit) == SUB : \
	THIS_SUB * SUB + IN_LAP(commit) == p1 && IS_QUIET && p1 != read))

proctype reader() {
	short done;
	byte read, p1, p2, p3, commit, to, one, two;
	bool left;

#if defined(LATE) && !defined(MEANWHILE)
end_late:
	finished[W0] && finished[W1];
#endif
end:	do
	:: atomic {
		/* Something has been reserved, some time: looks before that find nothing. */
		memory[POS] != read;
		done = READER_BEGINS;
		/* Which way it goes is guessed. */
		if
		:: left = true; done = done | P2 | P2A
		:: left = false; done = done | RE
		fi }
		do
		:: atomic { READY(P1, 0) -> p1 = LOAD(READER, POS); EXECUTED(P1) }
		:: atomic { READY(P1A, P1) -> read_barrier(READER); EXECUTED(P1A) }
		:: atomic { READY(RC, P1A) -> commit = LOAD(READER, COMMIT(SLOT(read))); EXECUTED(RC) }
		:: atomic { READY(RCA, RC) -> read_barrier(READER); EXECUTED(RCA) }
		:: atomic { READY(RE, P1A | RCA) -> to = LOAD(READER, END(SLOT(read))); EXECUTED(RE) }
		:: atomic { READY(P2, P1A | RCA) -> p2 = LOAD(READER, POS); EXECUTED(P2) }
		:: atomic { READY(P2A, P2) -> read_barrier(READER); EXECUTED(P2A) }
		:: atomic { READY(D1, P1A | RCA | P2A) -> one = LOAD(READER, DATA(read % RING)); EXECUTED(D1) }
		:: atomic { READY(D2, P1A | RCA | P2A) -> two = LOAD(READER, DATA((read + 1) % RING)); EXECUTED(D2) }
		:: atomic { READY(RF, BEFORE(RF)) -> read_barrier(READER); EXECUTED(RF) }
		:: atomic { READY(P3, LAPPED_NEEDS) -> p3 = LOAD(READER, POS); EXECUTED(P3) }
#ifndef OVERWRITE
		:: atomic { READY(K, RELEASE_NEEDS) && IS_CHUNK && CAN_STORE(READER) ->
			RELEASE_BARRIER; STORE(READER, CONSUMED, (left -> (THIS_SUB + 1) * SUB : p1)); EXECUTED(K) }
		:: atomic { (done & READER_LOADS) == READER_LOADS && (IS_CHUNK -> (done & K) : true) -> break }
#else
		:: atomic { done == READER_LOADS -> break }
#endif
		od;
		atomic {
			if
			:: left != IS_LEFT	/* guessed wrong */
			:: left == IS_LEFT && IS_LAPPED(p1) ->
#ifdef OVERWRITE
				read = (p1 / SUB - COUNT + 1) * SUB
#else
				assert(false)	/* Damaged */
#endif
			:: left == IS_LEFT && !IS_LAPPED(p1) && !IS_CHUNK	/* Empty */
#ifdef OVERWRITE
			:: IS_CHUNK && IS_LAPPED(p3) ->
#ifdef REACH_LAPPED
				assert(false);
#endif
				skip	/* overwritten: not to be used */
			:: IS_CHUNK && !IS_LAPPED(p3) ->
#else
			:: IS_CHUNK ->
#endif
				if
				:: left -> assert(to == THIS_SUB * SUB + PER_SUB)
				:: else -> to = p1
				fi;
				assert(to <= read || one == VALUE(read));
				assert(to <= read + 1 || two == VALUE(read + 1));
				read = (left -> (THIS_SUB + 1) * SUB : to);
#ifdef REACH_READ
				assert(read < REACH_READ)
#endif
			fi;
			done = 0; p1 = 0; p2 = 0; p3 = 0; commit = 0; to = 0; one = 0; two = 0; left = false }
	od
}

init {
	byte i, j, k;
	atomic {
		/* START records, as writers that have gone have left them. */
		for (k : 0 .. RING - 1) {
			if
			:: k % SUB < PER_SUB && (k / SUB) * PER_SUB + k % SUB < START ->
				set_everywhere(CPUS, DATA(k), 1);
				set_everywhere(CPUS, COMMIT(SLOT(k)), memory[COMMIT(SLOT(k))] + 1);
				if
				:: k / SUB > 0 && k % SUB == 0 ->
					set_everywhere(CPUS, COMMIT(0), SUB);
					set_everywhere(CPUS, END(0), PER_SUB)
				:: else
				fi;
				set_everywhere(CPUS, POS, k + 1)
			:: else
			fi
		}
		MEMORY;
		i = 0; j = 0; k = 0;
		run writer(W0, EVENTS0);
		run writer(W1, EVENTS1);
		run reader()
	}
}
