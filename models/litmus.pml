/*
 * The memory framework of memory.h against litmus tests with known answers.
 *
 * Store buffering (SB), message passing (MP), load buffering (LB), independent reads of independent writes (IRIW);
 * plain, with address dependencies, with barriers; MP with an atomic instruction in the place of the first store, too.
 * `@reach` rows are what the architecture allows, `@pass` rows what it forbids. Sources: Intel SDM vol. 3, 8.2.3; Alur
 * and others, "Herding cats", 2014; Alpha Architecture Handbook, 5.6.
 *
 * @digest none
 *
 * @reach short | x86: SB is allowed | -DARCH_X86 -DSB small
 * @pass short | x86: SB with full barriers is forbidden | -DARCH_X86 -DSB -DBARRIERS small
 * @pass short | x86: MP is forbidden | -DARCH_X86 -DMP small
 * @pass short | x86: MP is forbidden where the first store is an atomic instruction's | -DARCH_X86 -DMP -DATOMIC small
 * @pass short | x86: LB is forbidden | -DARCH_X86 -DLB small
 * @pass short | x86: IRIW is forbidden | -DARCH_X86 -DIRIW small
 * @reach short | power: SB is allowed | -DARCH_POWER -DSB small
 * @pass short | power: SB with full barriers is forbidden | -DARCH_POWER -DSB -DBARRIERS small
 * @reach short | power: MP is allowed | -DARCH_POWER -DMP small
 * @reach short | power: MP with a write barrier alone is allowed | -DARCH_POWER -DMP -DWRITE_BARRIER small
 * @pass short | power: MP with write barrier and dependency is forbidden | -DARCH_POWER -DMP -DWRITE_BARRIER -DDEPENDENT small
 * @pass short | power: MP with write and read barrier is forbidden | -DARCH_POWER -DMP -DBARRIERS small
 * @reach short | power: MP is allowed where the first store is an atomic instruction's | -DARCH_POWER -DMP -DATOMIC -DDEPENDENT small
 * @pass short | power: MP with an atomic instruction, a write barrier and dependency is forbidden | -DARCH_POWER -DMP -DATOMIC -DWRITE_BARRIER -DDEPENDENT small
 * @reach short | power: LB is allowed | -DARCH_POWER -DLB small
 * @pass short | power: LB with dependencies is forbidden | -DARCH_POWER -DLB -DDEPENDENT small
 * @reach short | power: IRIW is allowed | -DARCH_POWER -DIRIW small
 * @pass short | power: IRIW with dependencies is forbidden here (not on POWER itself) | -DARCH_POWER -DIRIW -DDEPENDENT small
 * @pass short | power: IRIW with barriers is forbidden | -DARCH_POWER -DIRIW -DBARRIERS small
 * @reach short | alpha: SB is allowed | -DARCH_ALPHA -DSB small
 * @pass short | alpha: SB with full barriers is forbidden | -DARCH_ALPHA -DSB -DBARRIERS small
 * @reach short | alpha: MP with write barrier and dependency is allowed | -DARCH_ALPHA -DMP -DWRITE_BARRIER -DDEPENDENT small
 * @pass short | alpha: MP with write and read barrier is forbidden | -DARCH_ALPHA -DMP -DBARRIERS small
 * @pass short | alpha: MP with an atomic instruction, write and read barrier is forbidden | -DARCH_ALPHA -DMP -DATOMIC -DBARRIERS small
 * @reach short | alpha: LB is allowed | -DARCH_ALPHA -DLB small
 * @pass short | alpha: LB with dependencies is forbidden | -DARCH_ALPHA -DLB -DDEPENDENT small
 * @reach short | alpha: IRIW with dependencies is allowed | -DARCH_ALPHA -DIRIW -DDEPENDENT small
 * @pass short | alpha: IRIW with barriers is forbidden | -DARCH_ALPHA -DIRIW -DBARRIERS small
 */

#define VARS 2
#define X 0
#define Y 1
#ifdef IRIW
#define CPUS 4
#else
#define CPUS 2
#endif

#include "memory.h"

#define ONE 1
#define MIDDLE 2
#define TWO 4
#define ALL 7

byte seen[8];	/* what CPU n has loaded first and second */
byte finished;

/* Two accesses with something in between: a barrier, a dependency, or nothing. */
#ifdef BARRIERS
#define SECOND_NEEDS MIDDLE
#define NO_MIDDLE 0
#else
#ifdef DEPENDENT
#define SECOND_NEEDS ONE
#else
#define SECOND_NEEDS 0
#endif
#define NO_MIDDLE MIDDLE
#endif

/* A store, then a load or a store. */
proctype first_stores(byte cpu; byte first; byte second; bool stores_again) {
	byte done;
#if defined(WRITE_BARRIER) || defined(BARRIERS)
	done = 0;
#else
	done = MIDDLE;
#endif
	do
#ifdef ATOMIC
	:: atomic { READY(ONE, 0) && ATOMIC_READY(cpu, first) ->
		ATOMIC_STORE(cpu, first, ATOMIC_LOAD(cpu, first) + 1); EXECUTED(ONE) }
#else
	:: atomic { READY(ONE, 0) && CAN_STORE(cpu) -> STORE(cpu, first, 1); EXECUTED(ONE) }
#endif
	:: atomic { READY(MIDDLE, BEFORE(MIDDLE)) ->
		if :: stores_again -> write_barrier(cpu) :: else -> full_barrier(cpu) fi;
		EXECUTED(MIDDLE) }
	:: atomic { READY(TWO, MIDDLE) && CAN_STORE(cpu) ->
		if
		:: stores_again -> STORE(cpu, second, 1)
		:: else -> seen[cpu * 2 + 1] = LOAD(cpu, second)
		fi;
		EXECUTED(TWO) }
	:: done == ALL -> break
	od;
	finished++
}

/* A load, then a load or a store. */
proctype first_loads(byte cpu; byte first; byte second; bool stores_then) {
	byte done = NO_MIDDLE;
	do
	:: atomic { READY(ONE, 0) -> seen[cpu * 2] = LOAD(cpu, first); EXECUTED(ONE) }
	:: atomic { READY(MIDDLE, BEFORE(MIDDLE)) ->
		if :: stores_then -> full_barrier(cpu) :: else -> read_barrier(cpu) fi;
		EXECUTED(MIDDLE) }
	:: atomic { READY(TWO, SECOND_NEEDS) && CAN_STORE(cpu) ->
		if
		:: stores_then -> STORE(cpu, second, 1)
		:: else -> seen[cpu * 2 + 1] = LOAD(cpu, second)
		fi;
		EXECUTED(TWO) }
	:: done == ALL -> break
	od;
	finished++
}

/* A store and nothing else. */
proctype stores(byte cpu; byte var) {
	atomic { STORE(cpu, var, 1); finished++ }
}

init {
	byte i, j;
	atomic {
		MEMORY;
#ifdef SB
		run first_stores(0, X, Y, false);
		run first_stores(1, Y, X, false);
#endif
#ifdef MP
		run first_stores(0, X, Y, true);
		run first_loads(1, Y, X, false);
#endif
#ifdef LB
		run first_loads(0, X, Y, true);
		run first_loads(1, Y, X, true);
#endif
#ifdef IRIW
		run stores(0, X);
		run stores(1, Y);
		run first_loads(2, X, Y, false);
		run first_loads(3, Y, X, false);
#endif
		i = 0; j = 0
	}
	finished == CPUS;
#ifdef SB
	assert(seen[1] == 1 || seen[3] == 1)
#endif
#ifdef MP
	assert(!(seen[2] == 1 && seen[3] == 0))
#endif
#ifdef LB
	assert(!(seen[0] == 1 && seen[2] == 1))
#endif
#ifdef IRIW
	assert(!(seen[4] == 1 && seen[5] == 0 && seen[6] == 1 && seen[7] == 0))
#endif
}
