/*
 * RCU: one reader and one updater, on out-of-order memory and CPUs.
 *
 * The reader makes two read sections, one behind the other, so that they can run into one another; in each it follows
 * the pointer to one of three entries and reads it. The updater makes two updates: it fills a new entry, publishes it,
 * waits for a grace period, and poisons the old one. Entries that are not published hold poison, too. Each access to
 * memory and each barrier is an instruction with tokens for what it depends on (memory.h). One reader is enough,
 * because an updater waits for one reader after the other; one updater, because they hold a lock.
 *
 * GENERAL: the reader fences behind the store of its word. EXPEDITED: it does not; the updater has the kernel interrupt
 * it, wherever its instructions so far are those of a prefix of its program, and fence. (The signal flavour is the
 * same: the interruption is a handler that fences, and the updater waits for it.)
 *
 * Checked: no section ever reads poison (equation 7.1 of the thesis). Progress: a reader is never held up; an updater
 * beside an endless stream of readers ends each grace period, if stores reach memory some time.
 *
 * In the rows that follow, "a barrier" of a table of the thesis is the ordering that the code has in its place.
 *
 * @code lib/rcu/src/phases.rs: order, enter, exit, advance, is_old, fence_all
 * @code lib/rcu/src/domain.rs: synchronize, ticket, step, look
 * @code lib/rcu/src/registry.rs: claim, is_alone
 * @code lib/rcu/src/membarrier.rs: fence_all
 * @code lib/rcu/src/signals.rs: answer, fence_all
 * @code lib/rcu/src/pointer.rs: load, assign, swap
 * @digest d034713f2d8c4a90
 *
 * @pass short | alpha, general: unaltered model (safety) | -DARCH_ALPHA -DGENERAL  small
 * @find short | alpha, general: reader's fence removed | -DARCH_ALPHA -DGENERAL -DINJECT_NO_READER_FENCE small
 * @find short | alpha, general: updater's fence removed | -DARCH_ALPHA -DGENERAL -DINJECT_NO_UPDATER_FENCE small
 * @find short | alpha, general: write barrier removed (release of `assign`) | -DARCH_ALPHA -DGENERAL -DINJECT_NO_RELEASE_IN_ASSIGN small
 * @find short | alpha, general: read barrier removed (acquire of `dereference`) | -DARCH_ALPHA -DGENERAL -DINJECT_NO_ACQUIRE_IN_DEREFERENCE small
 * @find short | alpha, general: release of `exit` removed | -DARCH_ALPHA -DGENERAL -DINJECT_NO_RELEASE_IN_EXIT small
 * @find short | alpha, general: single grace-period phase | -DARCH_ALPHA -DGENERAL -DINJECT_SINGLE_PHASE small
 * @pass short | alpha, general: reader progress | -DARCH_ALPHA -DGENERAL -DPROGRESS -DREADER_PROGRESS progress fair small
 * @pass short | alpha, general: updater progress | -DARCH_ALPHA -DGENERAL -DPROGRESS -DUPDATER_PROGRESS progress fair small
 * @pass long | alpha, general: 3 updates (safety) | -DARCH_ALPHA -DGENERAL -DUPDATES=3
 * @miss long | alpha, general: acquire of the look removed (a store waits for the branch before it) | -DARCH_ALPHA -DGENERAL -DINJECT_NO_ACQUIRE_IN_LOOK small
 * @pass short | alpha, expedited: unaltered model (safety) | -DARCH_ALPHA -DEXPEDITED  small
 * @find short | alpha, expedited: updater's fence and interruption removed | -DARCH_ALPHA -DEXPEDITED -DINJECT_NO_UPDATER_FENCE small
 * @find short | alpha, expedited: interruption removed | -DARCH_ALPHA -DEXPEDITED -DINJECT_NO_INTERRUPT small
 * @find short | alpha, expedited: write barrier removed (release of `assign`) | -DARCH_ALPHA -DEXPEDITED -DINJECT_NO_RELEASE_IN_ASSIGN small
 * @find short | alpha, expedited: read barrier removed (acquire of `dereference`) | -DARCH_ALPHA -DEXPEDITED -DINJECT_NO_ACQUIRE_IN_DEREFERENCE small
 * @find short | alpha, expedited: release of `exit` removed | -DARCH_ALPHA -DEXPEDITED -DINJECT_NO_RELEASE_IN_EXIT small
 * @find short | alpha, expedited: single grace-period phase | -DARCH_ALPHA -DEXPEDITED -DINJECT_SINGLE_PHASE small
 * @pass short | alpha, expedited: reader progress | -DARCH_ALPHA -DEXPEDITED -DPROGRESS -DREADER_PROGRESS progress fair small
 * @pass short | alpha, expedited: updater progress | -DARCH_ALPHA -DEXPEDITED -DPROGRESS -DUPDATER_PROGRESS progress fair small
 * @pass long | alpha, expedited: 3 updates (safety) | -DARCH_ALPHA -DEXPEDITED -DUPDATES=3
 * @miss long | alpha, expedited: acquire of the look removed (a store waits for the branch before it) | -DARCH_ALPHA -DEXPEDITED -DINJECT_NO_ACQUIRE_IN_LOOK small
 * @pass short | power, general: unaltered model (safety) | -DARCH_POWER -DGENERAL  small
 * @find short | power, general: reader's fence removed | -DARCH_POWER -DGENERAL -DINJECT_NO_READER_FENCE small
 * @find short | power, general: updater's fence removed | -DARCH_POWER -DGENERAL -DINJECT_NO_UPDATER_FENCE small
 * @find short | power, general: write barrier removed (release of `assign`) | -DARCH_POWER -DGENERAL -DINJECT_NO_RELEASE_IN_ASSIGN small
 * @miss short | power, general: read barrier removed (acquire of `dereference`) | -DARCH_POWER -DGENERAL -DINJECT_NO_ACQUIRE_IN_DEREFERENCE small
 * @find short | power, general: release of `exit` removed | -DARCH_POWER -DGENERAL -DINJECT_NO_RELEASE_IN_EXIT small
 * @find short | power, general: single grace-period phase | -DARCH_POWER -DGENERAL -DINJECT_SINGLE_PHASE small
 * @pass short | power, general: reader progress | -DARCH_POWER -DGENERAL -DPROGRESS -DREADER_PROGRESS progress fair small
 * @pass short | power, general: updater progress | -DARCH_POWER -DGENERAL -DPROGRESS -DUPDATER_PROGRESS progress fair small
 * @pass long | power, general: 3 updates (safety) | -DARCH_POWER -DGENERAL -DUPDATES=3
 * @miss long | power, general: acquire of the look removed (a store waits for the branch before it) | -DARCH_POWER -DGENERAL -DINJECT_NO_ACQUIRE_IN_LOOK small
 * @pass short | power, expedited: unaltered model (safety) | -DARCH_POWER -DEXPEDITED  small
 * @find short | power, expedited: updater's fence and interruption removed | -DARCH_POWER -DEXPEDITED -DINJECT_NO_UPDATER_FENCE small
 * @find short | power, expedited: interruption removed | -DARCH_POWER -DEXPEDITED -DINJECT_NO_INTERRUPT small
 * @find short | power, expedited: write barrier removed (release of `assign`) | -DARCH_POWER -DEXPEDITED -DINJECT_NO_RELEASE_IN_ASSIGN small
 * @miss short | power, expedited: read barrier removed (acquire of `dereference`) | -DARCH_POWER -DEXPEDITED -DINJECT_NO_ACQUIRE_IN_DEREFERENCE small
 * @find short | power, expedited: release of `exit` removed | -DARCH_POWER -DEXPEDITED -DINJECT_NO_RELEASE_IN_EXIT small
 * @find short | power, expedited: single grace-period phase | -DARCH_POWER -DEXPEDITED -DINJECT_SINGLE_PHASE small
 * @pass short | power, expedited: reader progress | -DARCH_POWER -DEXPEDITED -DPROGRESS -DREADER_PROGRESS progress fair small
 * @pass short | power, expedited: updater progress | -DARCH_POWER -DEXPEDITED -DPROGRESS -DUPDATER_PROGRESS progress fair small
 * @pass long | power, expedited: 3 updates (safety) | -DARCH_POWER -DEXPEDITED -DUPDATES=3
 * @miss long | power, expedited: acquire of the look removed (a store waits for the branch before it) | -DARCH_POWER -DEXPEDITED -DINJECT_NO_ACQUIRE_IN_LOOK small
 * @pass short | x86, general: unaltered model (safety) | -DARCH_X86 -DGENERAL  small
 * @find short | x86, general: reader's fence removed | -DARCH_X86 -DGENERAL -DINJECT_NO_READER_FENCE small
 * @miss short | x86, general: updater's fence removed | -DARCH_X86 -DGENERAL -DINJECT_NO_UPDATER_FENCE small
 * @miss long | x86, general: write barrier removed (release of `assign`) | -DARCH_X86 -DGENERAL -DINJECT_NO_RELEASE_IN_ASSIGN small
 * @miss long | x86, general: read barrier removed (acquire of `dereference`) | -DARCH_X86 -DGENERAL -DINJECT_NO_ACQUIRE_IN_DEREFERENCE small
 * @miss long | x86, general: release of `exit` removed | -DARCH_X86 -DGENERAL -DINJECT_NO_RELEASE_IN_EXIT small
 * @find short | x86, general: single grace-period phase | -DARCH_X86 -DGENERAL -DINJECT_SINGLE_PHASE small
 * @pass short | x86, general: reader progress | -DARCH_X86 -DGENERAL -DPROGRESS -DREADER_PROGRESS progress fair small
 * @pass short | x86, general: updater progress | -DARCH_X86 -DGENERAL -DPROGRESS -DUPDATER_PROGRESS progress fair small
 * @pass long | x86, general: 3 updates (safety) | -DARCH_X86 -DGENERAL -DUPDATES=3
 * @miss long | x86, general: acquire of the look removed (a store waits for the branch before it) | -DARCH_X86 -DGENERAL -DINJECT_NO_ACQUIRE_IN_LOOK small
 * @pass short | x86, expedited: unaltered model (safety) | -DARCH_X86 -DEXPEDITED  small
 * @find short | x86, expedited: updater's fence and interruption removed | -DARCH_X86 -DEXPEDITED -DINJECT_NO_UPDATER_FENCE small
 * @find short | x86, expedited: interruption removed | -DARCH_X86 -DEXPEDITED -DINJECT_NO_INTERRUPT small
 * @miss long | x86, expedited: write barrier removed (release of `assign`) | -DARCH_X86 -DEXPEDITED -DINJECT_NO_RELEASE_IN_ASSIGN small
 * @miss long | x86, expedited: read barrier removed (acquire of `dereference`) | -DARCH_X86 -DEXPEDITED -DINJECT_NO_ACQUIRE_IN_DEREFERENCE small
 * @miss long | x86, expedited: release of `exit` removed | -DARCH_X86 -DEXPEDITED -DINJECT_NO_RELEASE_IN_EXIT small
 * @find short | x86, expedited: single grace-period phase | -DARCH_X86 -DEXPEDITED -DINJECT_SINGLE_PHASE small
 * @pass short | x86, expedited: reader progress | -DARCH_X86 -DEXPEDITED -DPROGRESS -DREADER_PROGRESS progress fair small
 * @pass short | x86, expedited: updater progress | -DARCH_X86 -DEXPEDITED -DPROGRESS -DUPDATER_PROGRESS progress fair small
 * @pass long | x86, expedited: 3 updates (safety) | -DARCH_X86 -DEXPEDITED -DUPDATES=3
 * @miss long | x86, expedited: acquire of the look removed (a store waits for the branch before it) | -DARCH_X86 -DEXPEDITED -DINJECT_NO_ACQUIRE_IN_LOOK small
 * @pass short | alpha, expedited: reader registers meanwhile, an updater that finds itself alone does not interrupt | -DARCH_ALPHA -DEXPEDITED -DALONE
 * @pass short | power, expedited: the same | -DARCH_POWER -DEXPEDITED -DALONE small
 * @pass short | x86, expedited: the same | -DARCH_X86 -DEXPEDITED -DALONE small
 * @find short | power, expedited: the same without the fence of `claim` | -DARCH_POWER -DEXPEDITED -DALONE -DINJECT_NO_FENCE_IN_CLAIM
 * @find short | x86, expedited: the same without the fence of `claim` and its locked instruction | -DARCH_X86 -DEXPEDITED -DALONE -DINJECT_NO_FENCE_IN_CLAIM
 * @find short | x86, expedited: the same without the updater's fence before it looks | -DARCH_X86 -DEXPEDITED -DALONE -DINJECT_NO_UPDATER_FENCE
 * @pass short | x86, general: updater progress with buffers that never drain by themselves | -DARCH_X86 -DGENERAL -DPROGRESS -DUPDATER_PROGRESS -DENDLESS_BUFFERS progress fair small
 * @find short | x86, general: the same with a plain store of `gp` (no barrier before the loop) | -DARCH_X86 -DGENERAL -DPROGRESS -DUPDATER_PROGRESS -DENDLESS_BUFFERS -DINJECT_PLAIN_TOGGLE progress fair small
 * @find short | power, general: the code rests on buffers that drain | -DARCH_POWER -DGENERAL -DPROGRESS -DUPDATER_PROGRESS -DENDLESS_BUFFERS progress fair small
 * @find short | x86, expedited: the code rests on buffers that drain | -DARCH_X86 -DEXPEDITED -DPROGRESS -DUPDATER_PROGRESS -DENDLESS_BUFFERS progress fair small
 */

#define CPUS 2
#define READER 0
#define UPDATER 1

#ifndef UPDATES
#define UPDATES 2
#endif

#define GP 0		/* what readers copy: 1, plus 2 in the odd phase */
#define WORD 1		/* the reader's: that, while it is in a section; without the 1 when not */
#define POINTER 2
#define ENTRY(n) (3 + (n))
#ifdef PROGRESS
#define VARS 2
#else
#ifdef ALONE
#define TAKEN (4 + UPDATES)	/* the reader has registered */
#define VARS (5 + UPDATES)
#else
#define VARS (4 + UPDATES)
#endif
#endif

#define POISON 0
#define GOOD 1

#include "memory.h"

#define NESTED(word) ((word) & 1)
#define PHASE(word) ((word) & 2)

/* The kernel's interruption of the reader: asked for, by the updater. */
bool interrupt;

#ifdef GENERAL
#define READER_FENCES
#endif
#ifdef INJECT_NO_READER_FENCE
#undef READER_FENCES
#endif

/* `fetch_xor`, relaxed: on x86 a full barrier by itself. */
#ifdef ARCH_X86
#define TOGGLE_BARRIER full_barrier(UPDATER)
#else
#define TOGGLE_BARRIER skip
#endif

#define IS_OLD(word, gp) (NESTED(word) && PHASE(word) != PHASE(gp))

/* The reader's instructions. */
#define G1 (1 << 0)	/* load gp */
#define W1 (1 << 1)	/* store the word, release */
#define F1 (1 << 2)	/* fence */
#define P1 (1 << 3)	/* load the pointer, acquire: */
#define R1 (1 << 4)	/* ... nothing behind it goes before it */
#define D1 (1 << 5)	/* read the entry */
#define X1 (1 << 6)	/* store the word, release */
#define G2 (1 << 7)
#define W2 (1 << 8)
#define F2 (1 << 9)
#define P2 (1 << 10)
#define R2 (1 << 11)
#define D2 (1 << 12)
#define X2 (1 << 13)
#define READER_ALL ((1 << 14) - 1)

#ifdef EXPEDITED
/* Before each instruction the kernel may come, if what was done is a prefix of the program. */
#define HERE (READER_ALL & ~(NO_ACQUIRE | NO_FENCE))
#define MISSING (HERE & ~done)
#define IS_PREFIX (MISSING == 0 || (MISSING & -MISSING) > (done & HERE))
#define SERVE(cpu) \
	:: atomic { interrupt && IS_PREFIX -> full_barrier(cpu); interrupt = false }
#else
#define SERVE(cpu)
#endif

#ifdef INJECT_NO_RELEASE_IN_EXIT
#define EXIT_NEEDS(read, word) word
#define EXIT_BARRIER(cpu) skip
#else
#define EXIT_NEEDS(read, word) ((read) | (word))
#define EXIT_BARRIER(cpu) write_barrier(cpu)
#endif

#ifdef INJECT_NO_ACQUIRE_IN_DEREFERENCE
#define NO_ACQUIRE (R1 | R2)
#else
#define NO_ACQUIRE 0
#endif
#ifdef READER_FENCES
#define NO_FENCE 0
#else
#define NO_FENCE (F1 | F2)
#endif

#ifndef PROGRESS

proctype reader() {
	short done = NO_ACQUIRE | NO_FENCE;
	byte word1, word2, to1, to2;

#ifdef ALONE
	/* `claim` */
	atomic { CAN_STORE(READER) -> STORE(READER, TAKEN, 1) }
#ifndef INJECT_NO_FENCE_IN_CLAIM
	atomic { full_barrier(READER) }
#endif
#endif
	do
	SERVE(READER)
	:: atomic { READY(G1, 0) -> word1 = LOAD(READER, GP); EXECUTED(G1) }
	:: atomic { READY(W1, G1) && CAN_STORE(READER) ->
		write_barrier(READER); STORE(READER, WORD, word1); EXECUTED(W1) }
	:: atomic { READY(F1, BEFORE(F1)) -> full_barrier(READER); EXECUTED(F1) }
	:: atomic { READY(P1, F1) -> to1 = LOAD(READER, POINTER); EXECUTED(P1) }
	:: atomic { READY(R1, P1) -> read_barrier(READER); EXECUTED(R1) }
	:: atomic { READY(D1, F1 | P1 | R1) -> assert(LOAD(READER, ENTRY(to1)) != POISON); to1 = 0; EXECUTED(D1) }
	:: atomic { READY(X1, EXIT_NEEDS(BEFORE(X1), W1)) && CAN_STORE(READER) ->
		EXIT_BARRIER(READER); STORE(READER, WORD, word1 - 1); word1 = 0; EXECUTED(X1) }
	:: atomic { READY(G2, F1 | R1) -> word2 = LOAD(READER, GP); EXECUTED(G2) }
	:: atomic { READY(W2, BEFORE(W2)) && CAN_STORE(READER) ->
		write_barrier(READER); STORE(READER, WORD, word2); EXECUTED(W2) }
	:: atomic { READY(F2, BEFORE(F2)) -> full_barrier(READER); EXECUTED(F2) }
	:: atomic { READY(P2, F1 | F2 | R1) -> to2 = LOAD(READER, POINTER); EXECUTED(P2) }
	:: atomic { READY(R2, P2) -> read_barrier(READER); EXECUTED(R2) }
	:: atomic { READY(D2, F1 | F2 | R1 | P2 | R2) ->
		assert(LOAD(READER, ENTRY(to2)) != POISON); to2 = 0; EXECUTED(D2) }
	:: atomic { READY(X2, EXIT_NEEDS(BEFORE(X2), X1 | W2)) && CAN_STORE(READER) ->
		EXIT_BARRIER(READER); STORE(READER, WORD, word2 - 1); word2 = 0; EXECUTED(X2) }
	:: atomic { done == READER_ALL -> done = 0; break }
	od;
end:	do
	SERVE(READER)
	:: false
	od
}

/* The updater's instructions, of one update. */
#define A (1 << 0)	/* fill the new entry */
#define S (1 << 1)	/* publish it, release */
#define F (1 << 2)	/* fence: of the ticket and of the beginning of a grace period */
#define I (1 << 3)	/* have the reader fence, fence */
#define T1 (1 << 4)	/* move gp on */
#define L1 (1 << 5)	/* look, acquire, until the reader is not old */
#define T2 (1 << 6)
#define L2 (1 << 7)
#define Q (1 << 8)	/* poison the old entry */
#define UPDATER_ALL ((1 << 9) - 1)

#ifdef EXPEDITED
#define NO_INTERRUPT 0
#else
#define NO_INTERRUPT I
#endif
#ifdef INJECT_NO_INTERRUPT
#undef NO_INTERRUPT
#define NO_INTERRUPT I
#endif
#ifdef INJECT_NO_UPDATER_FENCE
#define NO_UPDATER_FENCE (F | NO_INTERRUPT)
#else
#define NO_UPDATER_FENCE NO_INTERRUPT
#endif
#ifdef INJECT_SINGLE_PHASE
#define NO_PHASE (T2 | L2)
#else
#define NO_PHASE 0
#endif
#ifdef INJECT_NO_RELEASE_IN_ASSIGN
#define ASSIGN_NEEDS 0
#define ASSIGN_BARRIER skip
#else
#define ASSIGN_NEEDS A
#define ASSIGN_BARRIER write_barrier(UPDATER)
#endif
#ifdef INJECT_NO_ACQUIRE_IN_LOOK
#define LOOK_BARRIER skip
#else
#define LOOK_BARRIER read_barrier(UPDATER)
#endif

proctype updater() {
	short done;
	byte update, gp = 1;
#ifdef ALONE
	bool asked;
#endif
	byte word;

	do
	:: update < UPDATES ->
		done = NO_UPDATER_FENCE | NO_PHASE;
		do
		:: atomic { READY(A, 0) && CAN_STORE(UPDATER) -> STORE(UPDATER, ENTRY(update + 1), GOOD); EXECUTED(A) }
		:: atomic { READY(S, ASSIGN_NEEDS) && CAN_STORE(UPDATER) ->
			ASSIGN_BARRIER; STORE(UPDATER, POINTER, update + 1); EXECUTED(S) }
		:: atomic { READY(F, BEFORE(F)) -> full_barrier(UPDATER); EXECUTED(F)
#if defined(EXPEDITED) && !defined(ALONE) && !defined(INJECT_NO_INTERRUPT)
			; interrupt = true
#endif
			}
#ifdef ALONE
		/* `is_alone`, and only else an interruption. */
		:: atomic { READY(I, BEFORE(I)) && !asked ->
			if
			:: LOAD(UPDATER, TAKEN) -> interrupt = true; asked = true
			:: else -> EXECUTED(I)
			fi }
		:: atomic { READY(I, BEFORE(I)) && asked && !interrupt -> full_barrier(UPDATER); asked = false; EXECUTED(I) }
#else
		:: atomic { READY(I, BEFORE(I)) && !interrupt -> full_barrier(UPDATER); EXECUTED(I) }
#endif
		:: atomic { READY(T1, F | I) && CAN_STORE(UPDATER) ->
			gp = gp ^ 2; STORE(UPDATER, GP, gp); TOGGLE_BARRIER; EXECUTED(T1) }
		/* The loop is left by what the load shows; `gp` is the new one, stored or not. */
		:: atomic { READY(L1, F | I) &&
			((done & T1) -> !IS_OLD(LOAD(UPDATER, WORD), gp) : !IS_OLD(LOAD(UPDATER, WORD), gp ^ 2)) ->
			LOOK_BARRIER; EXECUTED(L1) }
		:: atomic { READY(T2, L1 | T1) && CAN_STORE(UPDATER) ->
			gp = gp ^ 2; STORE(UPDATER, GP, gp); TOGGLE_BARRIER; EXECUTED(T2) }
		:: atomic { READY(L2, L1 | T1) &&
			((done & T2) -> !IS_OLD(LOAD(UPDATER, WORD), gp) : !IS_OLD(LOAD(UPDATER, WORD), gp ^ 2)) ->
			LOOK_BARRIER; EXECUTED(L2) }
		:: atomic { READY(Q, L1 | L2) && CAN_STORE(UPDATER) -> STORE(UPDATER, ENTRY(update), POISON); EXECUTED(Q) }
		:: atomic { done == UPDATER_ALL -> done = 0; update++; break }
		od
	:: else -> break
	od
}

#else

/* For progress: the same without pointer and entries, in program order, without end. */
proctype reader() {
	byte word;

	do
	/* The CPU does something between two interruptions. */
	:: atomic {
		if
		:: interrupt -> full_barrier(READER); interrupt = false
		:: else
		fi;
		word = LOAD(READER, GP) }
		atomic { CAN_STORE(READER) -> write_barrier(READER); STORE(READER, WORD, word) }
#ifdef READER_FENCES
		atomic { full_barrier(READER) }
#endif
#ifdef READER_PROGRESS
progress:
#endif
		atomic { CAN_STORE(READER) -> write_barrier(READER); STORE(READER, WORD, word - 1); word = 0 }
	od
}

#ifdef INJECT_PLAIN_TOGGLE
#undef TOGGLE_BARRIER
#define TOGGLE_BARRIER skip
#endif

proctype updater() {
	byte gp = 1;

	do
	:: atomic { full_barrier(UPDATER);
#ifdef EXPEDITED
		interrupt = true
#endif
		}
		atomic { !interrupt -> full_barrier(UPDATER) }
		atomic { CAN_STORE(UPDATER) -> gp = gp ^ 2; STORE(UPDATER, GP, gp); TOGGLE_BARRIER }
		atomic { !IS_OLD(LOAD(UPDATER, WORD), gp) -> read_barrier(UPDATER) }
#ifndef INJECT_NO_SECOND_TOGGLE
		atomic { CAN_STORE(UPDATER) -> gp = gp ^ 2; STORE(UPDATER, GP, gp); TOGGLE_BARRIER }
		atomic { !IS_OLD(LOAD(UPDATER, WORD), gp) -> read_barrier(UPDATER) }
#endif
#ifdef UPDATER_PROGRESS
progress:
#endif
		skip
	od
}
#endif

init {
	byte i, j;
	atomic {
		set_everywhere(CPUS, GP, 1);
#ifndef PROGRESS
		set_everywhere(CPUS, ENTRY(0), GOOD);
#endif
		MEMORY;
		i = 0; j = 0;
		run reader();
		run updater()
	}
}
