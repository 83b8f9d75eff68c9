/*
 * The rseq writer of the ring, its reader, and a kernel that interrupts.
 *
 * Two threads write to the ring of CPU 0; the first may be interrupted by a signal whose handler writes, too. The
 * kernel preempts, moves and kills threads between any two instructions. The reader runs on a CPU of its own. One
 * statement of this model is one access to memory; what is done in registers alone is folded into its neighbour.
 * The ring of the other CPU shares nothing with this one, so a record that is written there is one step.
 *
 * Checked: a committed record is handed out whole, unchanged and once, or was overwritten and the reader knows (the
 * unwritten ones are counted); times in a ring never decrease; a sub-buffer is not entered before it was read (discard)
 * and never left empty; records are dropped only while the sub-buffer is closed, so behind all that is in it, and what
 * the slot of the next one says is how many were dropped until it was entered; a writer that is not interrupted ends
 * within six sequences; a killed thread leaves a whole ring.
 *
 * With TIME_FIRST, the time is read when the sequence begins, before `pos`.
 *
 * With NOTED, each record has the time of one in another ring, which was read before its sequence, and after `pos` was
 * looked at; if that has moved, it goes the general way.
 *
 * Memory is sequentially consistent. On x86 (TSO) that loses nothing here: where one side waits for the other, a load
 * comes before a store or a load (`consumed` before the data; the data before `consumed` or the second `pos`), and
 * stores become visible in order; TSO delays stores behind loads only.
 *
 * @code crates/base/ring/src/rseq_writer.rs: write_slow, write_any
 * @code crates/base/ring/src/arch/x86_64/frame.rs: sequence
 * @code crates/base/ring/src/arch/x86_64/direct.rs: direct, write_none, write_two, write_packed, write_words
 * @code crates/base/ring/src/arch/x86_64/direct.rs: write_elapsed, write_pieces
 * @code crates/base/ring/src/arch/x86_64/record.rs: write_words, write_fragments
 * @code crates/base/ring/src/arch/x86_64/sub_buffer.rs: switch, count_ring_full
 * @code crates/base/ring/src/reader.rs: look, look_once, look_own, part, chunk, content_end, is_closed, whole, lapped
 * @code crates/base/ring/src/reader.rs: copy, release, advance, publish
 * @digest d9a82c6e26b11e7c
 *
 * @pass short | discard, 2 threads | 
 * @pass short | overwrite, 2 threads | -DOVERWRITE
 * @pass short | discard, migration | -DMIGRATION -DEVENTS1=1
 * @pass short | discard, migration, time first | -DMIGRATION -DEVENTS1=1 -DTIME_FIRST
 * @pass short | overwrite, 2 threads, time first | -DOVERWRITE -DTIME_FIRST
 * @pass short | discard, a signal, time first | -DSIGNALS=1 -DEVENTS0=2 -DEVENTS1=1 -DTIME_FIRST
 * @pass short | discard, a signal whose handler writes | -DSIGNALS=1 -DEVENTS0=2 -DEVENTS1=1
 * @pass short | discard, a kill | -DKILLS=1 -DEVENTS1=1 small
 * @pass short | discard, clock not the TSC | -DCLOCK -DEVENTS0=2 small
 * @pass short | discard, time of another ring | -DNOTED -DEVENTS0=2
 * @pass long | overwrite, migration | -DOVERWRITE -DMIGRATION
 * @pass long | overwrite, a signal whose handler writes | -DOVERWRITE -DSIGNALS=1 -DEVENTS1=1
 * @pass long | overwrite, a kill | -DOVERWRITE -DKILLS=1
 * @pass long | discard, clock not the TSC, signal | -DCLOCK -DSIGNALS=1 -DEVENTS0=2 -DEVENTS1=1
 * @pass long | discard, fragments of two sizes | -DFRAGMENTS -DSIZE_MAX=2 -DEVENTS1=1
 * @pass long | overwrite, fragments of two sizes | -DOVERWRITE -DFRAGMENTS -DSIZE_MAX=2 -DEVENTS1=1
 * @pass long | discard, records of two cells, migration, signal, kill | -DSIZE_MIN=2 -DEVENTS0=1 -DEVENTS1=1 -DMIGRATION -DSIGNALS=1 -DKILLS=1
 * @pass long | overwrite, 5 laps of one thread, signal | -DOVERWRITE -DEVENTS0=20 -DEVENTS1=0 -DSIGNALS=1
 * @pass long | discard, time of another ring, 5 events | -DNOTED
 * @pass long | overwrite, time of another ring, migration | -DNOTED -DOVERWRITE -DMIGRATION -DEVENTS1=1
 * @pass long | discard, time of another ring, a signal | -DNOTED -DSIGNALS=1 -DEVENTS0=2 -DEVENTS1=1
 * @reach short | coverage: a sub-buffer is closed, and read while it is | -DREACH_CLOSED
 * @reach short | coverage: a sub-buffer is closed, entered behind, and the next one says what was lost | -DSIZE_MIN=2 -DREACH_GAP
 * @reach short | coverage: 17 events committed, 17 read | -DEVENTS0=17 -DEVENTS1=0 -DREACH_READ
 * @reach short | coverage: a reader that was lapped while it copied | -DOVERWRITE -DREACH_LAPPED
 * @reach short | coverage: 3 events dropped | -DSIZE_MIN=2 -DREACH_DROPPED
 * @reach short | coverage: a time of another ring was taken | -DNOTED -DREACH_NOTED
 * @reach short | coverage: a time of another ring came too late | -DNOTED -DREACH_NOT_TAKEN
 * @find short | commit before the data | -DINJECT_COMMIT_FIRST
 * @find short | commit before the last word | -DINJECT_COMMIT_BEFORE_LAST -DSIZE_MIN=2
 * @find short | sequence ends behind the commit | -DINJECT_END_TOO_LATE
 * @find short | CPU number read before the sequence | -DINJECT_CPU_OUTSIDE -DMIGRATION
 * @find short | `pos` read before the sequence | -DINJECT_POS_OUTSIDE
 * @find short | time read before the sequence | -DINJECT_TIME_OUTSIDE
 * @find short | time of another ring: not compared whether `pos` has moved | -DNOTED -DINJECT_NOTED_UNASKED
 * @find short | time of another ring: `pos` looked at after the time was read | -DNOTED -DINJECT_LOOK_LATE
 * @find short | time not the TSC: not compared with the last | -DCLOCK -DINJECT_NO_LATE_CHECK
 * @find short | time not the TSC: `last_time` stored behind the commit | -DCLOCK -DINJECT_LAST_TIME_LATE
 * @find short | sub-buffer filled to the last byte | -DFRAGMENTS -DSIZE_MIN=2 -DINJECT_ROOM_TO_THE_LAST
 * @find short | room without what the last word reaches over | -DOVER=2 -DINJECT_ROOM_WITHOUT_OVER -DEVENTS0=9 -DEVENTS1=0
 * @find short | switch without asking again | -DINJECT_SWITCH_UNASKED
 * @find short | switch without looking at `consumed` | -DINJECT_CONSUMED_IGNORED
 * @find short | switch before the slot's end | -DINJECT_SWITCH_BEFORE_END
 * @find short | switch before the slot's time | -DINJECT_SWITCH_BEFORE_TIME
 * @find short | fragments up to the place that says closed | -DFRAGMENTS -DINJECT_ROOM_TO_THE_MARK
 * @find short | full, and not closed | -DINJECT_NOT_CLOSED
 * @find short | a drop counted without looking whether the sub-buffer is still closed | -DSIZE_MIN=2 -DINJECT_COUNT_UNASKED
 * @find short | switch before what was lost is noted | -DSIZE_MIN=2 -DINJECT_SWITCH_BEFORE_LOST
 * @find short | the end noted again when a closed sub-buffer is left | -DINJECT_END_AGAIN
 * @find short | a drop counted by load and store | -DSIZE_MIN=2 -DINJECT_COUNT_IN_TWO
 * @find short | preemption does not restart | -DINJECT_NO_ABORT_PREEMPTED
 * @find short | a signal does not restart | -DINJECT_NO_ABORT_SIGNALLED -DSIGNALS=1 -DEVENTS1=0
 * @find short | reader releases before it copies | -DINJECT_RELEASE_BEFORE_COPY
 * @find short | reader does not look again after it copied | -DOVERWRITE -DINJECT_NO_SECOND_LOOK
 */

/* Bounds: cells of a sub-buffer, sub-buffers, events of each thread, signals, kills, cells of a record. */
#ifndef SUB
#define SUB 4
#endif
#define COUNT 2
#define RING (SUB * COUNT)
#ifndef EVENTS0
#define EVENTS0 3
#endif
#ifndef EVENTS1
#define EVENTS1 2
#endif
#ifndef SIGNALS
#define SIGNALS 0
#endif
#ifndef KILLS
#define KILLS 0
#endif
#ifndef SIZE_MIN
#define SIZE_MIN 1
#endif
#ifndef SIZE_MAX
#define SIZE_MAX SIZE_MIN
#endif
/* Cells that the last word of a small record reaches over its end. Fragments are copied exactly. */
#ifndef OVER
#ifdef FRAGMENTS
#define OVER 0
#else
#define OVER 1
#endif
#endif

/* Contexts: two threads, and the signal handler of the first one. */
#define HANDLER 2
#define CONTEXTS 3
#define THREAD(context) ((context) % 2)
#define NOWHERE 2

/* Sequences. */
#define RECORD 0
#define SWITCH 1
#define COUNT_LOST 2

/* What the kernel knows. */
byte cpu[2];
bool dead[2];
bool handling;
bool within[CONTEXTS];		/* its instruction pointer is inside of a sequence */
bool aborted[CONTEXTS];		/* it goes on at the abort handler */
byte signals = SIGNALS;
byte kills = KILLS;

/* The ring. A cell tells which writer wrote it, which part of the record it is, and the lap. A slot's time is the
 * number of the sub-buffer that it was taken for, plus one. */
byte pos;
byte consumed;
byte slot_end[COUNT];
byte slot_time[COUNT];
byte slot_lost[COUNT];
byte data[RING];
byte lost;
/* The place behind which nothing fits. */
#define CLOSED(at) ((at) % SUB == SUB - 1)
#define CELL(me, at, part) (1 + (me) * 2 + (part) + 8 * (((at) / RING) % 4))
#define LAP_OF(cell) ((cell) / 8)
#define IS_FIRST(cell) ((cell) % 2 == 1)
#define JUNK 7

/* What is true, for the checks: committed cells, ends of sub-buffers, events committed and not yet read, dropped,
 * contexts with one under way. */
byte truth[RING];
byte true_end[COUNT];
byte true_lost[COUNT];
byte unread, dropped;
bool writing[CONTEXTS];
byte to_write[CONTEXTS];
byte tries[CONTEXTS];		/* sequences begun since the last interruption */

/* Order of the times that contexts hold. */
bool later[CONTEXTS * CONTEXTS];
#define LATER(a, b) later[(a) * CONTEXTS + (b)]
bool stale[CONTEXTS];		/* a later time is in the ring already */
bool last_later[CONTEXTS];	/* `last_time` is later than this context's time */

#define RUNS(me) (cpu[THREAD(me)] != NOWHERE && ((me) == 1 || handling == ((me) == HANDLER)))

/* One instruction. One that was interrupted inside of a sequence goes to the abort handler instead. */
#define STEP(action) atomic { RUNS(me); \
	if :: aborted[me] -> aborted[me] = false; forget(me); goto restart :: else -> action fi }

inline drop_time(me) {
	other = 0;
	do
	:: other < CONTEXTS -> LATER(me, other) = false; LATER(other, me) = false; other++
	:: else -> break
	od;
	other = 0; stale[me] = false; last_later[me] = false
}

/* A time that was noted is kept through all restarts. */
inline forget(me) { if :: noted -> skip :: else -> drop_time(me) fi; p = 0; n = 0; c = 0; held = 0 }

/* It is not to be taken. */
inline leave_noted(me) { noted = false; drop_time(me) }

inline read_clock(me) {
	drop_time(me);
	do
	:: other < CONTEXTS -> LATER(me, other) = (other != me); other++
	:: else -> break
	od;
	other = 0
}

/* The time of `me` is in the ring: earlier times that others hold come too late. */
inline time_is_in(me) {
	assert(!stale[me]);
	do
	:: other < CONTEXTS -> stale[other] = stale[other] || LATER(me, other); other++
	:: else -> break
	od;
	drop_time(me)
}

/* `last_time` is the time of `me`. */
inline note_last_time(me) {
	do
	:: other < CONTEXTS -> last_later[other] = LATER(me, other); other++
	:: else -> break
	od;
	other = 0
}

inline begin(me) {
	tries[me]++;
	/* A count that comes too late, record, switch closes, record, switch refused or done, count or record. */
	assert(tries[me] <= 6)
}

inline commit_record(me) {
	pos = p + size;
#ifdef REACH_NOTED
	assert(!noted);
#endif
	assert(!done);
	done = true;
	unread++;
	time_is_in(me);
	truth[p % RING] = CELL(me, p, 0);
	if :: size > 1 -> truth[(p + 1) % RING] = CELL(me, p, 1) :: else fi
}

inline commit_switch(me) {
	pos = n;
	if
	:: !CLOSED(p) -> true_end[(p / SUB) % COUNT] = p; assert(p % SUB > 0)
	:: else
	fi;
	/* Between entering and closing nothing is dropped. */
	assert(p / SUB != n / SUB || true_lost[(n / SUB) % COUNT] == dropped);
	true_lost[(n / SUB) % COUNT] = dropped
}

#ifdef INJECT_ROOM_TO_THE_MARK
#define NO_ROOM (p % SUB + size >= SUB)
#else
#ifdef INJECT_ROOM_TO_THE_LAST
#define NO_ROOM (p % SUB + size > SUB)
#else
#ifdef INJECT_ROOM_WITHOUT_OVER
#define NO_ROOM (p % SUB + size >= SUB)
#else
#define NO_ROOM (p % SUB + size + (OVER > 0 -> OVER : 1) >= SUB)
#endif
#endif
#endif

#ifdef INJECT_NOT_CLOSED
#define REFUSED true
#else
#define REFUSED (p == n)
#endif

inline drop() {
	lost++;
	dropped++;
	assert(CLOSED(pos))
}

#if defined(INJECT_COMMIT_FIRST) || defined(INJECT_COMMIT_BEFORE_LAST)
#define COMMIT_AT_END
#else
#define COMMIT_AT_END commit_record(me);
#endif

proctype writer(byte me) {
	byte p, n, size, c, goal, other, held;
	bool done;
	/* What `pos` was when it was looked at; the time is the one read then. */
	byte seen;
	bool noted;

end_next:
	atomic {
		RUNS(me) && to_write[me] > 0 ->
		to_write[me]--;
		writing[me] = true;
		tries[me] = 0;
		if
		:: size = SIZE_MIN
		:: SIZE_MAX > SIZE_MIN -> size = SIZE_MAX
		fi
#ifdef NOTED
		goto note
#else
		goto record
#endif
	}

#ifdef NOTED
note:
#ifdef INJECT_LOOK_LATE
	STEP(read_clock(me));
	STEP(noted = (cpu[THREAD(me)] == 0); seen = pos);
#else
	/* The ring of the other CPU is another ring. */
	STEP(c = (cpu[THREAD(me)] == 0 -> 1 : 0); seen = pos);
	STEP(noted = (c == 1); c = 0; if :: noted -> read_clock(me) :: else fi);
#endif
	goto record;
#endif

	/* The abort handler jumps to the start of the sequence that was interrupted. */
restart:
	atomic {
		assert(!done);
		if
		:: goal == RECORD -> goto record
		:: goal == SWITCH -> goto switch
		:: goal == COUNT_LOST -> goto count
		fi
	}

record:
#if defined(CLOCK) || defined(INJECT_TIME_OUTSIDE)
	STEP(read_clock(me));
#endif
#if defined(INJECT_CPU_OUTSIDE)
	STEP(c = cpu[THREAD(me)]);
	STEP(begin(me); within[me] = true);
#elif defined(INJECT_POS_OUTSIDE)
	STEP(c = cpu[THREAD(me)]; begin(me); p = pos);
	STEP(within[me] = true);
#else
	STEP(begin(me); within[me] = true; c = cpu[THREAD(me)]);
#ifdef TIME_FIRST
	STEP(read_clock(me));
#endif
#endif
	if
	:: c == 1 -> STEP(within[me] = false; goto written)
	:: else
	fi;
	STEP(
#ifndef INJECT_POS_OUTSIDE
		p = pos;
#endif
		if :: NO_ROOM -> within[me] = false; leave_noted(me); forget(me); goal = SWITCH; goto switch :: else fi);
#ifdef NOTED
	STEP(
#ifndef INJECT_NOTED_UNASKED
		if
		:: noted && p != seen ->
#ifdef REACH_NOT_TAKEN
			assert(false);
#endif
			within[me] = false; tries[me]--; leave_noted(me); forget(me); goto record
		:: else
		fi
#endif
		);
#endif
#ifdef CLOCK
#ifndef INJECT_NO_LATE_CHECK
	STEP(if :: last_later[me] -> within[me] = false; tries[me]--; forget(me); goto record :: else fi);
#endif
#ifndef INJECT_LAST_TIME_LATE
	STEP(note_last_time(me));
#endif
#else
#if !defined(INJECT_TIME_OUTSIDE) && !defined(TIME_FIRST)
	STEP(if :: noted -> skip :: else -> read_clock(me) fi);
#endif
#endif
#ifdef INJECT_COMMIT_FIRST
	STEP(commit_record(me));
#endif
	if
	:: size == 2 -> STEP(data[p % RING] = CELL(me, p, 0))
	:: else
	fi;
#ifdef INJECT_COMMIT_BEFORE_LAST
	STEP(commit_record(me));
#endif
	STEP(data[(p + size - 1) % RING] = CELL(me, p, size - 1));
#if OVER > 0
	STEP(data[(p + size) % RING] = JUNK);
#endif
#if OVER > 1
	STEP(data[(p + size + 1) % RING] = JUNK);
#endif
#ifdef INJECT_END_TOO_LATE
	STEP(COMMIT_AT_END);
	STEP(within[me] = false; goto written);
#elif defined(INJECT_LAST_TIME_LATE)
	STEP(COMMIT_AT_END within[me] = false);
	/* Whose time is older than this one, which is in the ring. */
	STEP(
		do
		:: other < CONTEXTS -> last_later[other] = stale[other]; other++
		:: else -> break
		od;
		other = 0; goto written);
#else
	STEP(COMMIT_AT_END within[me] = false; goto written);
#endif

switch:
	STEP(begin(me); within[me] = true; c = cpu[THREAD(me)]);
	if
	:: c == 1 -> STEP(within[me] = false; c = 0; goal = RECORD; goto record)
	:: else
	fi;
	STEP(p = pos; n = (p / SUB + 1) * SUB;
#ifndef INJECT_SWITCH_UNASKED
		if :: !NO_ROOM -> within[me] = false; forget(me); goal = RECORD; goto record :: else fi
#endif
		);
#ifndef OVERWRITE
#ifndef INJECT_CONSUMED_IGNORED
	/* Full: it is closed, or was. */
	STEP(if :: n + SUB - consumed > RING -> n--;
		if :: REFUSED -> within[me] = false; forget(me); goal = COUNT_LOST; goto count :: else fi :: else fi);
#endif
#endif
#ifdef INJECT_SWITCH_BEFORE_END
	STEP(commit_switch(me));
#endif
	if
#ifdef INJECT_END_AGAIN
	:: true ->
#else
	:: !CLOSED(p) ->
#endif
		STEP(slot_end[(p / SUB) % COUNT] = p);
#ifdef INJECT_SWITCH_BEFORE_TIME
		STEP(commit_switch(me));
#endif
#ifndef CLOCK
		STEP(read_clock(me));
#endif
		STEP(slot_time[(p / SUB) % COUNT] = p / SUB + 1)
	:: else
	fi;
#ifdef INJECT_SWITCH_BEFORE_LOST
	STEP(commit_switch(me));
#endif
	STEP(held = lost);
	STEP(slot_lost[(n / SUB) % COUNT] = held);
	STEP(
#if !defined(INJECT_SWITCH_BEFORE_END) && !defined(INJECT_SWITCH_BEFORE_TIME) && !defined(INJECT_SWITCH_BEFORE_LOST)
		commit_switch(me);
#endif
#ifndef CLOCK
		/* Of one that was closed the time was noted then. */
		if :: !CLOSED(p) -> time_is_in(me) :: else fi;
#endif
		within[me] = false; forget(me); goal = RECORD; goto record);

count:
#ifdef INJECT_COUNT_IN_TWO
	STEP(c = cpu[THREAD(me)]; n = lost);
	STEP(if :: c == 0 -> lost = n + 1; dropped++; assert(CLOSED(pos)) :: else fi);
#else
	STEP(begin(me); within[me] = true; c = cpu[THREAD(me)]);
	/* The record that found no room here may be counted over there. */
	STEP(
#ifndef INJECT_COUNT_UNASKED
		if :: c == 0 && !CLOSED(pos) -> within[me] = false; c = 0; goal = RECORD; goto record :: else fi
#endif
		);
	STEP(if :: c == 0 -> drop() :: else fi; within[me] = false);
#endif
#ifdef REACH_DROPPED
	assert(dropped < 3);
#endif

written:
	atomic {
		RUNS(me) && !aborted[me] ->
		leave_noted(me); forget(me); seen = 0; size = 0; goal = RECORD; done = false; tries[me] = 0;
		writing[me] = false;
		if :: me == HANDLER -> handling = false :: else fi;
		goto end_next
	}
	goto restart
}

inline interrupt_context(me) {
	tries[me] = 0;
	if :: within[me] -> within[me] = false; aborted[me] = true :: else fi
}

/* An interruption of a thread: whichever of its contexts is inside of a sequence goes to its abort handler. */
inline interrupt(t) {
	interrupt_context(t);
	if :: t == 0 -> interrupt_context(HANDLER) :: else fi
}

inline preempt(t) {
#ifdef INJECT_NO_ABORT_PREEMPTED
	tries[t] = 0; if :: t == 0 -> tries[HANDLER] = 0 :: else fi
#else
	interrupt(t)
#endif
}

inline deliver() {
#ifdef INJECT_NO_ABORT_SIGNALLED
	tries[0] = 0
#else
	interrupt(0)
#endif
}

/* The kernel. A thread that is killed is one that never runs again. */
proctype kernel() {
end:	do
	:: atomic { cpu[0] != NOWHERE -> preempt(0); cpu[0] = NOWHERE }
	:: atomic { cpu[1] != NOWHERE -> preempt(1); cpu[1] = NOWHERE }
	:: atomic { !dead[0] && cpu[0] == NOWHERE && cpu[1] != 0 -> cpu[0] = 0 }
	:: atomic { !dead[1] && cpu[1] == NOWHERE && cpu[0] != 0 -> cpu[1] = 0 }
#ifdef MIGRATION
	:: atomic { !dead[0] && cpu[0] == NOWHERE && cpu[1] != 1 -> cpu[0] = 1 }
	:: atomic { !dead[1] && cpu[1] == NOWHERE && cpu[0] != 1 -> cpu[1] = 1 }
#endif
	:: atomic { signals > 0 && !handling && cpu[0] != NOWHERE ->
		signals--; deliver(); to_write[HANDLER] = 1; handling = true }
	:: atomic { kills > 0 && writing[0] && cpu[0] != NOWHERE ->
		kills--; dead[0] = true; cpu[0] = NOWHERE }
	od
}

#define IDLE(t) (dead[t] || (to_write[t] == 0 && !writing[t]))
#define QUIET (IDLE(0) && IDLE(1) && (dead[0] || (signals == 0 && !handling)))
#define LAPPED(sub) (pos / SUB - (sub) >= COUNT)

#ifdef OVERWRITE
#define WRITTEN pos
#else
#define WRITTEN (CLOSED(pos) -> slot_end[(pos / SUB) % COUNT] : pos)
#endif

/* All was read, and no writer writes. */
inline nothing_is_left() {
#ifndef OVERWRITE
	assert(unread == 0);
#endif
	assert(lost == dropped)
}

/* The reader: `Reader::look`, `copy`, `release`. */
proctype reader() {
	byte read, now, sub, k, to, time;
#ifdef REACH_READ
	byte seen;
#endif
	bool same, left, closed;

	do
	:: atomic { WRITTEN != read || QUIET ->
		now = pos; sub = read / SUB;
		assert(now >= read);	/* else damaged */
		if
		:: now / SUB - sub >= COUNT ->
#ifdef OVERWRITE
			read = (now / SUB - COUNT + 1) * SUB; consumed = read; goto again
#else
			assert(false)	/* damaged */
#endif
		:: now / SUB - sub < COUNT && sub == now / SUB && now == read ->
			nothing_is_left();
			break
#ifndef OVERWRITE
		:: now / SUB - sub < COUNT && sub == now / SUB && now != read && CLOSED(now) -> closed = true
		:: now / SUB - sub < COUNT && sub == now / SUB && now != read && !CLOSED(now) ->
#else
		:: now / SUB - sub < COUNT && sub == now / SUB && now != read ->
#endif
			to = now; left = false
		:: now / SUB - sub < COUNT && sub != now / SUB -> left = true
		fi }
		if
		:: closed ->	/* content_end */
			atomic { to = slot_end[sub % COUNT];
				assert(to == true_end[sub % COUNT] && to >= read && to < now);
#ifdef REACH_CLOSED
				assert(to == read);
#endif
				if
				:: to == read && QUIET && pos == now -> nothing_is_left(); break
				:: to == read && !(QUIET && pos == now) -> goto again
				:: else
				fi }
		:: else
		fi;
		if
		:: left ->	/* whole */
			to = slot_end[sub % COUNT];
			atomic { time = slot_time[sub % COUNT];
				if
				:: to < read || to >= (sub + 1) * SUB -> goto odd
				:: else
				fi;
				/* What is true may be asked for as long as no writer has come around. */
				assert(LAPPED(sub) || (to == true_end[sub % COUNT] && time == sub + 1));
				time = 0;
				if
				:: to == read -> read = (sub + 1) * SUB; consumed = read; goto again
				:: else
				fi }
		:: else
		fi;
#ifndef OVERWRITE
		atomic { time = slot_lost[sub % COUNT];
			assert(time == true_lost[sub % COUNT]);
#ifdef REACH_GAP
			assert(time == 0);
#endif
			time = 0 }
#endif
#ifdef INJECT_RELEASE_BEFORE_COPY
		consumed = (left -> (sub + 1) * SUB : to);
#endif
		/* copy */
		atomic { k = read; same = true }
		do
		:: atomic { k < to ->
			same = same && data[k % RING] == truth[k % RING] && LAP_OF(truth[k % RING]) == (k / RING) % 4;
			k++ }
		:: else -> break
		od;
		atomic {
#ifdef OVERWRITE
#ifndef INJECT_NO_SECOND_LOOK
			if
			:: LAPPED(sub) ->
#ifdef REACH_LAPPED
				assert(same);
#endif
				goto again
			:: else
			fi;
#endif
#endif
			assert(same);
			k = read;
			do
			:: k < to ->
#ifndef OVERWRITE
				unread = unread - (IS_FIRST(truth[k % RING]) -> 1 : 0);
#ifdef REACH_READ
				seen = seen + (IS_FIRST(truth[k % RING]) -> 1 : 0);
				assert(seen < 17);
#endif
#endif
				k++
			:: else -> break
			od;
			k = 0 }
		/* release */
		atomic { read = (left -> (sub + 1) * SUB : to); consumed = read; goto again }
odd:		atomic {
#ifdef OVERWRITE
			assert(LAPPED(sub))	/* else damaged */
#else
			assert(false)
#endif
		}
again:		atomic { now = 0; sub = 0; k = 0; to = 0; same = false; left = false; closed = false; time = 0 }
	od
}

init {
	atomic {
		cpu[0] = NOWHERE;
		cpu[1] = NOWHERE;
		to_write[0] = EVENTS0;
		to_write[1] = EVENTS1;
		run writer(0);
		run writer(1);
		run writer(HANDLER);
		run kernel();
		run reader()
	}
}
