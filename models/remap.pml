/*
 * Changing a site by other pages: no breakpoint, no handler.
 *
 * An instruction lies over the end of a page: its first part in one page of the block, its second in the next. A CPU
 * fetches one part after the other, each by the translation that it has in its TLB, or by the page's entry in the page
 * tables, and keeps the translation, or forgets it at any time. Where the entry is empty the fetch faults: what was
 * fetched of the instruction is dropped, and the thread waits for the lock of the address space, which the move holds.
 * A CPU may have a whole instruction fetched long before it executes it. The move (mremap(2), MREMAP_FIXED) takes the
 * entries away, one by one, has each CPU drop its translations and what it has of an instruction in part, and sets the
 * new entries, one by one. A flush does not reach what is fetched as a whole: SYNC_CORE does, at the end of a batch.
 *
 * Checked: no thread executes an instruction of parts of both; a pass that begins while nothing is being changed
 * executes what the last batch wrote (R1, R2).
 *
 * What the spare holds when it is moved is read and compared there: `fill`. What others write to text meanwhile is not
 * in the model.
 *
 * @code crates/traced/patch/src/remap.rs: write, settle, fill, begin, exchange, block
 * @digest 74d5a7181925fec5
 *
 * @pass short | 2 CPUs, 4 batches | small
 * @pass long | 3 CPUs, 6 batches | -DCPUS=3 -DBATCHES=6
 * @find short | no flush | -DINJECT_NO_FLUSH
 * @find short | flush before the entries are taken away | -DINJECT_FLUSH_FIRST
 * @find short | new entries in place of the old ones | -DINJECT_IN_PLACE
 * @find short | one page after the other | -DINJECT_PAGE_BY_PAGE
 * @find short | no SYNC_CORE behind the move | -DINJECT_NO_SYNC
 * @reach short | coverage: a fetch faults between the two parts | -DREACH_FAULT_BETWEEN small
 * @reach short | coverage: an old instruction executed while the new pages are there | -DREACH_OLD_LATE small
 * @reach short | coverage: a translation dropped by the flush | -DREACH_FLUSHED small
 */

#ifndef CPUS
#define CPUS 2
#endif
#ifndef BATCHES
#define BATCHES 4
#endif

/* Pages; 0 is none. */
#define OLD 1
#define NEW 2

#define TLB(cpu, page) tlb[(cpu) * 2 + (page)]

byte entry[2] = OLD;
byte tlb[CPUS * 2];
byte part[CPUS];	/* the first part of an instruction that is being fetched */
byte whole[CPUS];	/* an instruction that is fetched */

byte is_now = OLD;	/* what the last batch wrote */
bool changing;
bool lock_is_held;

/* The CPU's translation of a page, if it has one or there is one. */
inline translate(page) {
	if
	:: TLB(cpu, page) == 0 -> TLB(cpu, page) = entry[page]
	:: else
	fi
}

proctype runner(byte cpu) {
end:	do
	:: atomic {
		whole[cpu] == 0 && part[cpu] == 0 ->
		translate(0);
		if
		:: TLB(cpu, 0) != 0 -> part[cpu] = TLB(cpu, 0)
		:: else -> goto fault
		fi }
	:: atomic {
		part[cpu] != 0 ->
		translate(1);
		if
		:: TLB(cpu, 1) != 0 ->
			assert(TLB(cpu, 1) == part[cpu]);
			whole[cpu] = part[cpu];
			part[cpu] = 0
		:: else ->
#ifdef REACH_FAULT_BETWEEN
			assert(false);
#endif
			part[cpu] = 0;
			goto fault
		fi }
	:: atomic {
		whole[cpu] != 0 ->
		assert(whole[cpu] == is_now || changing);
#ifdef REACH_OLD_LATE
		assert(!changing || whole[cpu] == entry[0] || entry[0] == 0);
#endif
		whole[cpu] = 0 }
	/* Forgets, for reasons of its own. */
	:: d_step { TLB(cpu, 0) != 0 -> TLB(cpu, 0) = 0 }
	:: d_step { TLB(cpu, 1) != 0 -> TLB(cpu, 1) = 0 }
	od;
fault:	!lock_is_held;
	goto end
}

/* An interrupt at each CPU, in turn. */
inline flush(first, last) {
	cpu = 0;
	do
	:: d_step {
		cpu < CPUS ->
#ifdef REACH_FLUSHED
		assert(TLB(cpu, first) == 0);
#endif
		TLB(cpu, first) = 0;
		TLB(cpu, last) = 0;
		part[cpu] = 0;
		cpu++ }
	:: else -> break
	od;
	cpu = 0
}

/* mremap(2). */
inline move() {
	lock_is_held = true;
#ifdef INJECT_FLUSH_FIRST
	flush(0, 1);
#endif
#ifdef INJECT_PAGE_BY_PAGE
	entry[0] = 0;
	flush(0, 0);
	entry[0] = next;
	entry[1] = 0;
	flush(1, 1);
	entry[1] = next;
#else
#ifndef INJECT_IN_PLACE
	entry[0] = 0;
	entry[1] = 0;
#ifndef INJECT_NO_FLUSH
#ifndef INJECT_FLUSH_FIRST
	flush(0, 1);
#endif
#endif
#endif
	entry[0] = next;
	entry[1] = next;
#ifdef INJECT_IN_PLACE
	flush(0, 1);
#endif
#endif
	lock_is_held = false
}

proctype patcher() {
	byte cpu, batches, next;

	do
	:: batches < BATCHES ->
		atomic { batches++; next = OLD + NEW - is_now; changing = true };
		move();
#ifndef INJECT_NO_SYNC
		/* membarrier(2), SYNC_CORE. */
		do
		:: d_step { cpu < CPUS -> whole[cpu] = 0; part[cpu] = 0; cpu++ }
		:: else -> break
		od;
		cpu = 0;
#endif
		atomic { is_now = next; changing = false; next = 0 }
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
