/*
 * The synthetic clock: a wide clock out of a counter that wraps.
 *
 * Time goes on by itself, one tick at a time, for the counter and for the truth; the counter keeps its low bits (a wrap is W
 * ticks). The updater and the readers do one access to memory in a step, and may be away for as long as time allows: it stops
 * where the condition of the module would be broken. Condition for `read`, `update`: from an update's reading of the counter to the
 * publication of the next less than half a wrap. For `read_bounded` the reader's own time is added to that.
 * A second reader is a handler that interrupts the updater; it is a reader like another, to which the updater stands still.
 *
 * Times are modulo 4 W, so the clock itself wraps; a reader may be away for several wraps, UPDATES updates in all.
 *
 * Checked: what a read or an update answers is the truth at the moment when it read the counter. `read` ends after one more round
 * for each update that was published meanwhile.
 *
 * @code crates/base/clock/src/synthetic.rs: read, read_bounded, update, generation, base, slot, extend
 * @digest 820a5d6d7508fbe5
 *
 * @pass short | read | -DREAD
 * @pass short | read_bounded | -DBOUNDED small
 * @pass long | read, W = 16 | -DREAD -DW=16 -DUPDATES=2
 * @pass long | read_bounded, W = 16 | -DBOUNDED -DW=16
 * @pass long | read, 6 updates: longer than 2 wraps | -DREAD -DUPDATES=6
 * @find short | parity published before the slot | -DREAD -DINJECT_PARITY_FIRST
 * @find short | one slot for both parities | -DREAD -DINJECT_ONE_SLOT_IN_PARTS
 * @find short | no second look at the generation, reader away for long | -DREAD -DINJECT_NO_SECOND_LOOK
 * @find short | second look compares the parity alone | -DREAD -DINJECT_PARITY_ALONE
 * @find short | second look before the counter | -DREAD -DINJECT_LOOK_BEFORE_COUNTER
 * @find short | read_bounded by a reader that is away for long | -DBOUNDED -DINJECT_READER_AWAY
 * @find short | updates half a wrap apart | -DREAD -DINJECT_UPDATES_LATE
 * @find short | extension forwards alone, counter one tick behind | -DREAD -DSTEP_BACK -DINJECT_FORWARDS_ALONE
 * @pass short | extension to the nearest, counter one tick behind | -DREAD -DSTEP_BACK
 */

#ifndef W
#define W 8
#endif
#define SPAN (4 * W)

/* Slots: full values. A slot "in parts" is for the injection that shares one. */
byte now;
byte slot[2];
byte generation;
#ifndef UPDATES
#define UPDATES 4
#endif

/* Age of the counter reading that the published base came from, and of the reader's first look. */
byte published_age;
byte updating_age;	/* of the reading that the running update made, plus one; 0: none */
byte reader_age;

#ifdef INJECT_UPDATES_LATE
#define HALF (W / 2 + 1)
#elif defined(STEP_BACK)
#define HALF (W / 2 - 1)	/* the tick counts twice: in the base and in the reading */
#else
#define HALF (W / 2)
#endif

/* Time goes on only where the condition still holds after it: P < W / 2, or P + D < W / 2. */
#ifdef BOUNDED
#ifdef INJECT_READER_AWAY
#define MAY_GO_ON (published_age + 1 < HALF)
#else
#define MAY_GO_ON (published_age + 1 < HALF - LEAVE && (reader_age == 0 || reader_age < LEAVE + 1))
#define LEAVE 2
#endif
#else
#define MAY_GO_ON (published_age + 1 < HALF)
#endif

proctype time() {
end:	do
	:: atomic { MAY_GO_ON ->
		now = (now + 1) % SPAN;
		published_age++;
		if :: updating_age > 0 -> updating_age++ :: else fi;
		if :: reader_age > 0 -> reader_age++ :: else fi }
	od
}

/* The value nearest to `base` whose low bits are those of the counter. */
#ifdef INJECT_FORWARDS_ALONE
#define EXTEND(base, counter) (((base) + ((counter) + SPAN - (base)) % W) % SPAN)
#else
#define AHEAD(base, counter) (((counter) + SPAN - (base)) % W)
#define EXTEND(base, counter) \
	((AHEAD(base, counter) < W / 2 -> (base) + AHEAD(base, counter) : (base) + SPAN + AHEAD(base, counter) - W) % SPAN)
#endif

/* Out-of-order execution, or another CPU's counter: it may be read one tick in the past. */
#ifdef STEP_BACK
inline read_counter(truth) {
	if
	:: truth = now
	:: truth = (now + SPAN - 1) % SPAN
	fi
}
#else
inline read_counter(truth) { truth = now }
#endif

proctype updater() {
	byte value, truth;

end:	do
	:: generation < UPDATES ->
		value = slot[generation % 2];
		atomic {
			read_counter(truth);
			value = EXTEND(value, truth % W);
			assert(value == truth);
			updating_age = 1 }
#ifdef INJECT_PARITY_FIRST
		atomic { generation = generation + 1 }
		atomic { slot[generation % 2] = value; published_age = updating_age - 1; updating_age = 0; value = 0; truth = 0 }
#else
#ifdef INJECT_ONE_SLOT_IN_PARTS
		slot[0] = (value / W) * W + slot[0] % W;
		slot[0] = value;
		slot[1] = value;
#else
		slot[(generation + 1) % 2] = value;
#endif
		atomic { generation = generation + 1;
			published_age = updating_age - 1; updating_age = 0; value = 0; truth = 0 }
#endif
	od
}

proctype reader() {
	byte seen, first, base, truth, value, again, rounds;

end:	do
	:: atomic { true -> seen = generation; first = seen; rounds = 0; reader_age = 1 }
round:		base = slot[seen % 2];
#ifdef INJECT_LOOK_BEFORE_COUNTER
		again = generation;
#endif
		atomic { read_counter(truth); value = EXTEND(base, truth % W); base = 0 }
#if defined(READ) && !defined(INJECT_NO_SECOND_LOOK)
#ifndef INJECT_LOOK_BEFORE_COUNTER
		again = generation;
#endif
		atomic {
			if
#ifdef INJECT_PARITY_ALONE
			:: again % 2 != seen % 2 -> seen = again; again = 0; value = 0; truth = 0;
				rounds++; assert(rounds <= generation - first); goto round
#else
			:: again != seen -> seen = again; again = 0; value = 0; truth = 0;
				rounds++; assert(rounds <= generation - first); goto round
#endif
			:: else
			fi }
#endif
		atomic { assert(value == truth); seen = 0; first = 0; rounds = 0; again = 0; value = 0; truth = 0; reader_age = 0 }
	od
}

init {
	atomic {
		run time();
		run updater();
		run reader()
	}
}
