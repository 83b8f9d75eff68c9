/*
 * The atomic writer of the ring (reserve and commit), its reader, and a nested interrupt.
 *
 * As section 8.6 of the thesis has it: two sub-buffers of two entries (and two cells that are never filled: where `pos`
 * is behind the last entry, and where it says that the sub-buffer is closed), two writers, a handler that interrupts
 * the first of them between any two steps and writes, too, a reader, both modes; counters so narrow that they overflow
 * again and again. A writer may be killed anywhere. One statement is one access to shared memory; memory is
 * sequentially consistent (the orderings of the code, release and acquire, are those of message passing: litmus.pml,
 * MP).
 *
 * `pos` has 64 bits in the code and never overflows; here it counts on for as long as there are events. The commit
 * count has 40 bits for bytes and 24 for records in the code, 3 and 3 here. The counter of what a full ring has lost
 * has 16 bits of a sub-buffer's number in the code, all of it here.
 *
 * Checked: no two writers have a cell at once; what the reader hands out is what was written, whole, in order, once;
 * times in a ring never decrease; a sub-buffer that has a dead writer's hole is given up and its good records are
 * counted; a full ring counts losses only while the sub-buffer is closed, and when the next one is entered its slot has
 * that count. Progress: no state comes back without an event written or lost (lock-free); a writer that only handlers
 * interrupt tries twice more for each of them, and once more to close a sub-buffer (wait-free for one CPU without
 * preemption).
 *
 * A handler that interrupts a write and forks: the child returns into its copy of the write, and has zeros in the place
 * of the ring that the copy knows. Row "the child's copy": writer 0 goes on in such memory from any step on, with what
 * it has read of the ring so far; it ends within two attempts. (The parent is one of the writers of the other rows.)
 * Row "not parted": what would come of it if the child had the ring there.
 *
 * @code crates/base/ring/src/atomic_writer.rs: write, reserve, is_full, may_enter, refuse, is_closed, count_full
 * @code crates/base/ring/src/atomic_writer.rs: note_lost, leave, slot_of, at, bytes, records
 * @code crates/base/ring/src/reader.rs: look, look_once, part, chunk, content_end, is_closed, whole, lapped
 * @code crates/base/ring/src/reader.rs: look_shared, committed, give_up, copy, release, advance, publish
 * @digest 3017dd934cf6f239
 *
 * @pass short | discard, 2 writers, reader | small
 * @pass short | overwrite, 2 writers, reader | -DOVERWRITE small
 * @pass short | discard, a handler nested, reader | -DEVENTS1=0 -DEVENTS0=6 -DSIGNALS=2 small
 * @pass short | overwrite, a handler nested, reader | -DOVERWRITE -DEVENTS1=0 -DEVENTS0=6 -DSIGNALS=2
 * @pass short | discard, a kill | -DKILLS=1 -DEVENTS0=1 -DEVENTS1=4 small
 * @pass short | overwrite, a kill | -DOVERWRITE -DKILLS=1 -DEVENTS0=1 -DEVENTS1=4 small
 * @pass short | discard: lock-free | -DPROGRESS progress
 * @pass short | overwrite: lock-free | -DOVERWRITE -DPROGRESS progress
 * @pass short | wait-free for one CPU without preemption | -DEVENTS1=0 -DEVENTS0=6 -DSIGNALS=2 -DWAIT_FREE small
 * @find short | not wait-free where two threads write | -DWAIT_FREE
 * @pass long | discard, 2 writers and a handler | -DSIGNALS=1 -DEVENTS0=2 -DEVENTS1=1
 * @pass long | overwrite, 2 writers and a handler | -DOVERWRITE -DSIGNALS=1 -DEVENTS0=2 -DEVENTS1=1
 * @pass long | discard, 2 writers, 4 and 2 events | -DEVENTS0=4 -DEVENTS1=2
 * @pass long | overwrite, 2 writers, 4 and 2 events | -DOVERWRITE -DEVENTS0=4 -DEVENTS1=2
 * @pass long | discard, 11 events of one, 1 of another | -DEVENTS0=11 -DEVENTS1=1 memory=4000
 * @pass long | overwrite, 9 events of one, 1 of another | -DOVERWRITE -DEVENTS0=9 -DEVENTS1=1
 * @pass long | discard, sub-buffers of 5, two sizes | -DSUB=5 -DSIZE_MAX=2 memory=6000
 * @pass long | overwrite, sub-buffers of 5, two sizes | -DOVERWRITE -DSUB=5 -DSIZE_MAX=2 -DEVENTS1=1
 * @pass long | discard, lock-free, handler and kill | -DSIGNALS=1 -DKILLS=1 -DEVENTS0=1 -DEVENTS1=2 -DPROGRESS progress
 * @reach short | coverage: 17 events read, all counters have overflowed | -DEVENTS0=17 -DEVENTS1=0 -DREACH_READ=17
 * @reach short | coverage: 17 events lost | -DEVENTS0=21 -DEVENTS1=0 -DREACH_LOST=17
 * @reach short | coverage: 17 events written in overwrite mode | -DOVERWRITE -DEVENTS0=17 -DEVENTS1=0 -DREACH_WRITTEN=17
 * @reach short | coverage: an event lost because a writer is late by a lap | -DOVERWRITE -DREACH_BUSY
 * @reach short | coverage: a torn record of a dead writer's sub-buffer counted | -DKILLS=1 -DEVENTS0=1 -DEVENTS1=3 -DREACH_TORN
 * @reach short | coverage: a sub-buffer is closed, and read while it is | -DEVENTS0=5 -DREACH_CLOSED
 * @reach short | coverage: a writer finds the count ended that it wanted to add to | -DEVENTS0=5 -DREACH_ENDED
 * @find short | full, and not closed | -DEVENTS0=5 -DINJECT_NOT_CLOSED
 * @find short | a loss counted though the count has ended | -DEVENTS0=5 -DINJECT_COUNT_BLINDLY
 * @find short | what was lost noted, but the count not ended | -DEVENTS0=5 -DINJECT_COUNT_NOT_ENDED
 * @find short | what was lost noted behind `pos` | -DEVENTS0=5 -DINJECT_NOTED_LATE
 * @find short | what was lost noted again by a late writer | -DEVENTS0=3 -DEVENTS1=5 -DINJECT_NOTED_AGAIN
 * @find short | the end noted again when a closed sub-buffer is left | -DEVENTS0=5 -DINJECT_LEFT_AGAIN
 * @find short | reserve by load and store | -DINJECT_RESERVE_IN_TWO
 * @find short | commit by load and store | -DINJECT_COMMIT_IN_TWO
 * @find short | commit before the copy | -DINJECT_COMMIT_FIRST
 * @find short | sub-buffer entered while a writer has not committed in it | -DOVERWRITE -DINJECT_NO_BUSY_CHECK -DEVENTS0=1 -DEVENTS1=5
 * @find short | sub-buffer entered before it was read | -DINJECT_NO_FULL_CHECK
 * @find short | padding not committed | -DINJECT_NO_PADDING
 * @find short | padding committed before `end` | -DINJECT_END_LATE
 * @find short | time read before `pos` | -DINJECT_TIME_FIRST
 * @find short | sub-buffer filled to the last cell | -DINJECT_FILL_TO_THE_LAST
 * @find short | reader looks at `pos` once | -DINJECT_ONE_LOOK
 * @find short | reader does not look again after it copied | -DOVERWRITE -DINJECT_NO_SECOND_LOOK
 * @find short | reader releases before it copies | -DINJECT_RELEASE_FIRST
 * @find short | `base` not noted | -DINJECT_NO_BASE -DKILLS=1 -DEVENTS0=1 -DEVENTS1=5
 * @find short | writer waits for a sub-buffer to become free | -DINJECT_WAIT -DPROGRESS progress
 * @pass short | fork in a handler inside of a write: the child's copy ends in memory of zeros, discard | -DPARTED -DEVENTS0=4 -DEVENTS1=1
 * @pass short | fork in a handler inside of a write: the child's copy ends in memory of zeros, overwrite | -DOVERWRITE -DPARTED -DEVENTS0=4 -DEVENTS1=1
 * @reach short | coverage: the child's copy finds zeros before it reserves | -DPARTED -DEVENTS0=4 -DEVENTS1=1 -DREACH_PARTED small
 * @find short | fork in a handler inside of a write: not parted, the child commits again | -DINJECT_FORK_INSIDE
 */

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
#ifndef SIZE_MAX
#define SIZE_MAX 1
#endif

#define HANDLER 2
#define CONTEXTS 3

/* The commit word: bytes modulo 8, and 8 for each record, modulo 64. */
#define BYTES 8
#define WORDS 64

byte pos;
byte consumed;
byte slot_end[COUNT];
byte slot_time[COUNT];
byte slot_commit[COUNT];
byte slot_base[COUNT];
byte data[RING];
/* One word: what was lost, and the number of the sub-buffer that it was last counted for. The same in each slot. */
byte lost;
byte lost_for;
byte busy;
byte slot_lost[COUNT];
byte slot_lost_for[COUNT];

#define BEFORE(at) (((at) / RING) * SUB)
#define BYTES_OF(commit, before) (((commit) + 2 * WORDS - (before)) % BYTES)
#define TOTAL(commit, before, bytes) ((((commit) + 2 * WORDS - (before) - (bytes)) % WORDS) / BYTES)
#define RECORDS_OF(commit, base, before) \
	((TOTAL(commit, before, BYTES_OF(commit, before)) + BYTES - TOTAL(base, before, 0)) % BYTES)

#define SLOT(at) (((at) / SUB) % COUNT)
/* The place behind which nothing fits. */
#define CLOSED(at) ((at) % SUB == SUB - 1)
#define CELL(me, at, part) (1 + (me) * 2 + (part) + 8 * (((at) / RING) % 8))
#define IS_FIRST(cell) ((cell) % 2 == 1)

/* What is true. */
bool dead[2];
bool handling;
byte signals = SIGNALS;
byte kills = KILLS;
byte to_write[CONTEXTS];
bool writing[CONTEXTS];
bool taken[RING];	/* a writer is writing to this cell */
byte truth[RING];
byte true_end[COUNT];
byte true_lost[COUNT];
byte committed;
byte attempts[CONTEXTS];

/* This is the child of a fork inside of a write of writer 0: no other writer is here, and the ring is another one. */
bool parted;

/* Order of the times that contexts hold, as in rseq_ring.pml. */
bool later[CONTEXTS * CONTEXTS];
#define LATER(a, b) later[(a) * CONTEXTS + (b)]
bool stale[CONTEXTS];

#define RUNS(me) ((me) == 1 -> !dead[1] && !parted : !dead[0] && handling == ((me) == HANDLER))
#if KILLS > 0
#define GUARD if :: RUNS(me) :: dead[(me) % 2] -> goto end_dead fi
#elif defined(PARTED)
#define GUARD if :: RUNS(me) :: parted && (me) == 1 -> goto end_dead fi
#else
#define GUARD RUNS(me)
#endif
#define STEP(action) atomic { GUARD; action }

inline drop_time(me) {
	other = 0;
	do
	:: other < CONTEXTS -> LATER(me, other) = false; LATER(other, me) = false; other++
	:: else -> break
	od;
	other = 0; stale[me] = false
}

inline read_clock(me) {
	drop_time(me);
	do
	:: other < CONTEXTS -> LATER(me, other) = (other != me); other++
	:: else -> break
	od;
	other = 0
}

inline time_is_in(me) {
	assert(!stale[me]);
	do
	:: other < CONTEXTS -> stale[other] = stale[other] || LATER(me, other); other++
	:: else -> break
	od;
	drop_time(me)
}

/* `pos` has moved to `at + size`: the cells are this writer's. */
inline reserved() {
	time_is_in(me);
	pos = at + size;
	truth[at % RING] = CELL(me, at, 0);
	if :: size > 1 -> truth[(at + 1) % RING] = CELL(me, at, 1) :: else fi;
	if
	:: !fits ->
		if :: !CLOSED(p) -> true_end[SLOT(p)] = p :: else fi;
		true_lost[SLOT(at)] = lost;
#if !defined(OVERWRITE) && !defined(INJECT_NOTED_LATE)
		assert(slot_lost_for[SLOT(at)] == at / SUB && slot_lost[SLOT(at)] == lost)
#endif
	:: else
	fi
}

/* The counter is one word: compare and swap. */
#define COUNT_IS(word, number) (lost == (word) && lost_for == (number))
inline counted() {
	assert(parted || (CLOSED(pos) && pos / SUB == p / SUB));
	lost++;
	lost_for = p / SUB
#ifdef REACH_LOST
	; assert(lost < REACH_LOST)
#endif
}

#ifdef INJECT_FILL_TO_THE_LAST
#define FITS (p % SUB + size <= SUB && (p % SUB != 0 || p == 0))
#else
#define FITS (p % SUB + size < SUB - 1)
#endif

#ifdef PARTED
/* One with what it has read before, one with what it reads of the zeros. */
#define NO_MORE_ATTEMPTS(me) if :: parted -> late_attempts++; assert(late_attempts <= LATE_ATTEMPTS) :: else fi
#ifdef REACH_PARTED
#define LATE_ATTEMPTS 1
#else
#define LATE_ATTEMPTS 2
#endif
byte late_attempts;
#else
#ifdef WAIT_FREE
#define NO_MORE_ATTEMPTS(me) assert(attempts[me] <= 2 + 2 * SIGNALS)
#else
#define NO_MORE_ATTEMPTS(me) skip
#endif
#endif

/* Ends the count before the sub-buffer at `at`, and notes it in its slot. */
inline note_lost() {
	STEP(noted = slot_lost[SLOT(at)]; noted_for = slot_lost_for[SLOT(at)]);
	if
	:: noted_for == at / SUB -> skip
	:: else ->
		STEP(word = lost; word_for = lost_for);
#ifndef INJECT_COUNT_NOT_ENDED
		do
		:: word_for < at / SUB ->
			STEP(if
				:: COUNT_IS(word, word_for) -> lost_for = at / SUB; word_for = at / SUB
				:: else -> word = lost; word_for = lost_for
				fi)
		:: else -> break
		od;
#else
		STEP(word_for = at / SUB);
#endif
		if
		:: word_for == at / SUB ->
			STEP(if
				:: (slot_lost[SLOT(at)] == noted && slot_lost_for[SLOT(at)] == noted_for)
#ifdef INJECT_NOTED_AGAIN
					|| true
#endif
					-> slot_lost[SLOT(at)] = word; slot_lost_for[SLOT(at)] = word_for
				:: else
				fi)
		:: else
		fi
	fi;
	word = 0; word_for = 0; noted = 0; noted_for = 0
}

inline commit_add(slot, bytes, records) {
#ifdef INJECT_COMMIT_IN_TWO
	STEP(base = slot_commit[slot]);
	STEP(slot_commit[slot] = (base + (bytes)) % WORDS; base = 0; committed = committed + records);
#else
	STEP(slot_commit[slot] = (slot_commit[slot] + (bytes)) % WORDS; committed = committed + records);
#endif
}

/* Notes where the content ends, and commits the padding. */
inline leave() {
#ifndef INJECT_END_LATE
	STEP(slot_end[SLOT(p)] = p);
	STEP(slot_time[SLOT(p)] = p / SUB + 1);
#endif
#ifndef INJECT_NO_PADDING
	commit_add(SLOT(p), SUB - p % SUB, 0);
#endif
#ifdef INJECT_END_LATE
	STEP(slot_end[SLOT(p)] = p);
	STEP(slot_time[SLOT(p)] = p / SUB + 1);
#endif
}

proctype writer(byte me) {
	byte p, at, size, now, base, commit, other;
	/* What was loaded of the counter, and of the slot. */
	byte word, word_for, noted, noted_for;
	bool fits;

end_next:
	atomic {
		RUNS(me) && to_write[me] > 0 ->
		to_write[me]--;
		writing[me] = true;
		attempts[me] = 0;
		if
		:: size = 1
		:: SIZE_MAX > 1 -> size = SIZE_MAX
		fi }
#ifdef INJECT_TIME_FIRST
	STEP(read_clock(me));
#endif
	STEP(p = pos);
again:	atomic { GUARD;
		attempts[me]++;
		NO_MORE_ATTEMPTS(me);
		fits = FITS;
		at = (fits -> p : (p / SUB + 1) * SUB);
		if :: fits -> goto enter :: else fi }
	/* may_enter */
#if !defined(OVERWRITE) && !defined(INJECT_NO_FULL_CHECK)
	STEP(if :: at + SUB - consumed > RING -> goto no_space :: else fi);
#else
	skip;
#endif
#ifndef INJECT_NO_BUSY_CHECK
	STEP(base = slot_base[SLOT(at)]);
	STEP(commit = slot_commit[SLOT(at)];
		if
		:: commit % BYTES != BEFORE(at) % BYTES ->
#ifdef REACH_BUSY
			assert(false);
#endif
			base = 0; commit = 0; goto refused
		:: else
		fi);
#ifndef INJECT_NO_BASE
	STEP(if :: slot_base[SLOT(at)] == base -> slot_base[SLOT(at)] = commit :: else fi; base = 0; commit = 0);
#endif
#endif
#if !defined(OVERWRITE) && !defined(INJECT_NOTED_LATE)
	note_lost();
#endif
enter:
#ifndef INJECT_TIME_FIRST
	STEP(read_clock(me));
#endif
#ifdef INJECT_RESERVE_IN_TWO
	STEP(now = pos; if :: now != p -> p = now; now = 0; goto again :: else fi);
	STEP(now = 0; reserved());
#else
	STEP(if :: pos != p -> p = pos; goto again :: else reserved() fi);
#endif
	if
#ifdef INJECT_LEFT_AGAIN
	:: !fits -> leave()
#else
	:: !fits && !CLOSED(p) -> leave()
#endif
	:: else
	fi;
#ifdef INJECT_NOTED_LATE
	if
	:: !fits -> note_lost()
	:: else
	fi;
#endif
#ifdef INJECT_COMMIT_FIRST
	commit_add(SLOT(at), size + BYTES, 1);
#endif
	/* copy */
	STEP(assert(!taken[at % RING]); taken[at % RING] = true);
	STEP(data[at % RING] = CELL(me, at, 0); taken[at % RING] = false);
	if
	:: size > 1 ->
		STEP(assert(!taken[(at + 1) % RING]); taken[(at + 1) % RING] = true);
		STEP(data[(at + 1) % RING] = CELL(me, at, 1); taken[(at + 1) % RING] = false)
	:: else
	fi;
#ifndef INJECT_COMMIT_FIRST
	commit_add(SLOT(at), size + BYTES, 1);
#ifdef REACH_WRITTEN
	assert(committed < REACH_WRITTEN);
#endif
#ifdef INJECT_FORK_INSIDE
	commit_add(SLOT(at), size + BYTES, 0);
#endif
#endif
	goto written;

no_space:
#ifdef INJECT_NOT_CLOSED
	goto count;
#endif
	if
	:: CLOSED(p) -> goto count
	:: else
	fi;
	/* Close it. */
	STEP(read_clock(me));
	STEP(if
		:: pos != p -> p = pos; goto again
		:: else -> time_is_in(me); pos = (p / SUB) * SUB + SUB - 1; true_end[SLOT(p)] = p
		fi);
	leave();
	STEP(p = pos; goto again);

	/* count_full */
count:
#ifdef INJECT_WAIT
	STEP(p = pos; goto again);
#endif
	STEP(word = lost; word_for = lost_for);
	do
#ifdef INJECT_COUNT_BLINDLY
	:: true -> STEP(counted(); word = 0; word_for = 0; goto written)
#endif
	:: word_for <= p / SUB ->
		STEP(if
			:: COUNT_IS(word, word_for) -> counted(); word = 0; word_for = 0; goto written
			:: else -> word = lost; word_for = lost_for
			fi)
	:: else -> break
	od;
	/* The count has ended: a writer enters the next one. */
#ifdef REACH_ENDED
	assert(parted);
#endif
	STEP(word = 0; word_for = 0; now = pos; if :: now != p -> p = now; now = 0; goto again :: else fi);
	STEP(assert(parted || p + 1 + SUB - consumed <= RING); p = pos; now = 0; goto again);

refused:
	STEP(now = pos;
		if
		:: now != p -> p = now; now = 0; goto again
		:: else
		fi);
	STEP(busy++);

written:
	atomic { GUARD;
		drop_time(me); p = 0; at = 0; size = 0; now = 0; fits = false; base = 0; commit = 0;
		word = 0; word_for = 0; noted = 0; noted_for = 0;
		writing[me] = false;
		if :: me == HANDLER -> handling = false :: else fi;
		goto end_next }
#if KILLS > 0 || defined(PARTED)
end_dead:
	false
#endif
}

/* Fork, in a handler that has interrupted writer 0: the rest is about the child. */
proctype fork() {
	byte k;
end:	atomic { writing[0] && !parted ->
		parted = true;
		to_write[0] = 0; to_write[1] = 0;
		pos = 0; consumed = 0;
		for (k : 0 .. COUNT - 1) {
			slot_end[k] = 0; slot_time[k] = 0; slot_commit[k] = 0; slot_base[k] = 0; slot_lost[k] = 0;
			slot_lost_for[k] = 0
		}
		lost = 0; lost_for = 0;
		for (k : 0 .. RING - 1) { taken[k] = false }
		for (k : 0 .. CONTEXTS - 1) { stale[k] = false }
		k = 0 }
	/* It does end. */
	!writing[0];
}

/* Signals and kills. */
proctype kernel() {
end:	do
	:: atomic { signals > 0 && !handling && !dead[0] ->
		signals--; to_write[HANDLER] = 1; handling = true }
	:: atomic { kills > 0 && writing[0] -> kills--; dead[0] = true }
	od
}

#define IDLE(t) (dead[t] || (to_write[t] == 0 && !writing[t]))
#define QUIET (IDLE(0) && IDLE(1) && (dead[0] || (signals == 0 && !handling)))
#define LAPPED(sub) (pos / SUB - (sub) >= COUNT)

/* What `look` would make of the ring at this moment: something else than `Empty`. */
#define READ_SUB (read / SUB)
#define WHOLE_NOW (BYTES_OF(slot_commit[READ_SUB % COUNT], BEFORE(READ_SUB * SUB)) == SUB)
#define CLOSED_NOW (CLOSED(pos) && WHOLE_NOW && slot_end[READ_SUB % COUNT] != read)
#define PART_NOW (!CLOSED(pos) && \
	READ_SUB * SUB + BYTES_OF(slot_commit[READ_SUB % COUNT], BEFORE(READ_SUB * SUB)) == pos && pos != read)
#define WORTH_A_LOOK (LAPPED(READ_SUB) || (READ_SUB != pos / SUB && WHOLE_NOW) || \
	(READ_SUB == pos / SUB && (PART_NOW || CLOSED_NOW)))

proctype reader() {
	byte read, now, sub, k, to, word, handed_out, looked_at;
	byte unread_torn, read_out;
	bool same, left, closed;

	do
	#ifdef PROGRESS
	/* A reader that only looks when there is something: what it does then is no progress of writers. */
	:: atomic { WORTH_A_LOOK || QUIET ->
#else
	:: atomic { pos != read || QUIET ->
#endif
		now = pos; sub = read / SUB;
		assert(now >= read);
		if
		:: QUIET && !WORTH_A_LOOK -> goto nobody
		:: else
		fi;
		if
		:: now / SUB - sub >= COUNT ->
#ifdef OVERWRITE
			read = (now / SUB - COUNT + 1) * SUB; consumed = read; handed_out = 0; goto again
#else
			assert(false)	/* damaged */
#endif
		:: else
		fi }
		/* look_shared: the commit count, then the base */
		word = slot_commit[sub % COUNT];
		atomic { looked_at = RECORDS_OF(word, slot_base[sub % COUNT], BEFORE(sub * SUB));
			word = BYTES_OF(word, BEFORE(sub * SUB));
			if
			:: sub != now / SUB && word == SUB -> word = 0; left = true
			:: sub != now / SUB && word != SUB -> goto again
#ifndef OVERWRITE
			:: sub == now / SUB && CLOSED(now) && word == SUB -> word = 0; closed = true
			:: sub == now / SUB && CLOSED(now) && word != SUB -> goto again
			:: sub == now / SUB && !CLOSED(now) && sub * SUB + word == now && now != read -> word = 0; left = false
			:: sub == now / SUB && !CLOSED(now) && !(sub * SUB + word == now && now != read) -> goto again
#else
			:: sub == now / SUB && sub * SUB + word == now && now != read -> word = 0; left = false
			:: sub == now / SUB && !(sub * SUB + word == now && now != read) -> goto again
#endif
			fi }
		if
		:: left ->	/* whole */
			to = slot_end[sub % COUNT];
			atomic { word = slot_time[sub % COUNT];
				if
				:: to < read || to >= (sub + 1) * SUB -> goto odd
				:: else
				fi;
				assert(LAPPED(sub) || (to == true_end[sub % COUNT] && word == sub + 1));
				word = 0;
				if
				:: to == read -> read = (sub + 1) * SUB; consumed = read; handed_out = 0; goto again
				:: else
				fi }
		:: closed ->	/* content_end */
			atomic { if :: pos == now -> skip :: else -> goto again fi }
			atomic { to = slot_end[sub % COUNT];
				assert(to == true_end[sub % COUNT] && to >= read && to < now);
				if
				:: to == read -> goto again
				:: else
				fi
#ifdef REACH_CLOSED
				; assert(false)
#endif
				}
		:: else ->
#ifdef INJECT_ONE_LOOK
			to = now
#else
			atomic { if :: pos == now -> to = now :: else -> goto again fi }
#endif
		fi;
#ifndef OVERWRITE
		atomic { word = slot_lost[sub % COUNT]; assert(word == true_lost[sub % COUNT]); word = 0 }
#endif
#ifdef INJECT_RELEASE_FIRST
		consumed = (left -> (sub + 1) * SUB : to);
#endif
		/* copy */
		atomic { k = read; same = true }
		do
		:: atomic { k < to ->
			same = same && data[k % RING] == truth[k % RING] && truth[k % RING] / 8 == (k / RING) % 8;
			k++ }
		:: else -> break
		od;
		atomic {
#ifdef OVERWRITE
#ifndef INJECT_NO_SECOND_LOOK
			if :: LAPPED(sub) -> goto again :: else fi;
#endif
#endif
			assert(same);
			k = read;
			do
			:: k < to -> read_out = read_out + (IS_FIRST(truth[k % RING]) -> 1 : 0); k++
			:: else -> break
			od;
			k = 0;
#ifdef REACH_READ
			assert(read_out < REACH_READ);
#endif
		}
		/* release */
		atomic {
			if
			:: left -> read = (sub + 1) * SUB; handed_out = 0
			:: else -> read = to; handed_out = looked_at
			fi;
			consumed = read; goto again }
odd:		atomic {
#ifdef OVERWRITE
			assert(LAPPED(sub))
#else
			assert(false)
#endif
		}
again:		atomic {
			now = 0; sub = 0; k = 0; to = 0; word = 0; looked_at = 0; same = false; left = false; closed = false
		}
	od;

	/* No writer is left. What never becomes whole is given up. */
nobody:
	atomic {
		if
		:: pos != read && !(CLOSED(pos) && slot_end[SLOT(pos)] == read) ->
			assert(dead[0]);
			word = RECORDS_OF(slot_commit[sub % COUNT], slot_base[sub % COUNT], BEFORE(sub * SUB));
			word = (word > handed_out -> word - handed_out : 0);
#ifdef REACH_TORN
			assert(word == 0);
#endif
			unread_torn = unread_torn + word;
			word = 0;
			read = ((sub + 1) * SUB < pos -> (sub + 1) * SUB : pos);
			consumed = read; handed_out = 0; goto again
		:: else ->
#ifndef OVERWRITE
			assert(committed == read_out + unread_torn);
#endif
			assert(read_out + unread_torn <= committed)
		fi }
}

init {
	atomic {
		to_write[0] = EVENTS0;
		to_write[1] = EVENTS1;
		run writer(0);
		run writer(1);
#if SIGNALS > 0
		run writer(HANDLER);
#endif
#if SIGNALS + KILLS > 0
		run kernel();
#endif
#ifdef PARTED
		run fork()
#else
		run reader()
#endif
	}
}
