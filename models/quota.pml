/*
 * A function's quota of calls that may be recorded, and the list of functions whose quota is spent.
 *
 * Threads come to a probe while it is there, and may be held up anywhere on their way: also until it was taken away and
 * has come back. A thread looks whether a call is left and takes one, or passes by. Whoever takes the last one puts the
 * function into a list, in two steps: the link to the next, and the list's begin. The dealer takes the whole list,
 * takes the probes away, and gives quotas again, in any order. There are two functions, so that the list has links.
 *
 * Checked: a function is in one list at most, and once; no more calls are recorded than there were quotas for; and when
 * all threads have gone, each function has calls left or is in a list: none is forgotten.
 *
 * @code crates/traced/hook/src/budget.rs: take, put_first, give, take_in, put_last, take_first, give_while
 * @digest 5ce6ce6b7e190b93
 *
 * @pass short | 2 threads, 3 calls each | small
 * @pass long | 3 threads, 3 calls each | -DTHREADS=3
 * @pass long | 2 threads, 5 calls each, 3 quotas | -DCALLS=5 -DQUOTAS=3
 * @find short | who passes by takes from the quota, too | -DINJECT_PASS_TAKES
 * @find short | a quota is given to a function that is not in the queue | -DINJECT_GIVE_AT_ONCE
 * @find short | the list's begin is stored without a look at what it is | -DINJECT_BLIND_PUSH
 * @find short | the one who finds nothing left puts the function into the list | -DINJECT_PUSH_LATE
 * @reach short | coverage: a thread that takes from a later quota than it came for | -DREACH_LATER small
 */

#ifndef THREADS
#define THREADS 2
#endif
#ifndef CALLS
#define CALLS 3
#endif
#ifndef QUOTAS
#define QUOTAS 2	/* for each function, with the first */
#endif
#define FUNCTIONS 2
#define QUOTA 2
#define NONE FUNCTIONS

short left[FUNCTIONS] = QUOTA;
bool probe[FUNCTIONS] = true;
byte next[FUNCTIONS] = NONE;
byte spent = NONE;		/* begin of the list */
bool queued[FUNCTIONS];
byte given[FUNCTIONS] = 1;
byte recorded[FUNCTIONS];
bool listed[FUNCTIONS];		/* what is true: it is being put there, is there, or in the queue */
byte gone;			/* threads */

proctype thread() {
	byte calls, function, first, round;
	short was;

	do
	:: calls < CALLS ->
		calls++;
		if
		:: function = 0
		:: function = 1
		fi;
		/* Through the jump, or past it. */
		if
		:: !probe[function] -> goto next_call
		:: probe[function] -> round = given[function]
		fi;
		/* The code before the probe. */
		if
		:: left[function] > 0
		:: left[function] <= 0 ->
#ifdef INJECT_PASS_TAKES
			left[function]--;
#endif
			goto next_call
		fi;
		/* `take` */
		atomic { was = left[function]; left[function]-- };
		if
		:: was < 1 ->
#ifdef INJECT_PUSH_LATE
			goto push
#else
			goto next_call
#endif
		:: was >= 1 ->
#ifdef REACH_LATER
			assert(round == given[function]);
#endif
			recorded[function]++;
			assert(recorded[function] <= given[function] * QUOTA)
		fi;
		if
		:: was > 1 -> goto next_call
		:: was == 1
		fi;
		/* `put_first` */
push:		atomic { assert(!listed[function]); listed[function] = true };
		do
		:: first = spent;
			next[function] = first;
#ifdef INJECT_BLIND_PUSH
			spent = function;
			break
#else
			if
			:: atomic { spent == first -> spent = function }; break
			:: spent != first
			fi
#endif
		od;
next_call:	skip
	:: calls == CALLS -> break
	od;
	gone++
}

#define is_due(function) (queued[function] && given[function] < QUOTAS)

inline give(function) {
	queued[function] = false;
	listed[function] = false;
	given[function]++;
	left[function] = QUOTA;
	probe[function] = true
}

proctype dealer() {
	byte at, function;

	do
	/* `take_in` */
	:: spent != NONE ->
		atomic { at = spent; spent = NONE };
		do
		:: at == NONE -> break
		:: at != NONE ->
			function = at;
			at = next[function];
			assert(listed[function] && !queued[function]);
			probe[function] = false;
			next[function] = NONE;
			queued[function] = true
		od
	:: is_due(0) -> give(0)
	:: is_due(1) -> give(1)
#ifdef INJECT_GIVE_AT_ONCE
	:: !queued[0] && left[0] > 0 && given[0] < QUOTAS -> given[0]++; left[0] = QUOTA
#endif
	:: gone == THREADS && spent == NONE && !is_due(0) && !is_due(1) -> break
	od;
	assert((left[0] > 0 || queued[0]) && (left[1] > 0 || queued[1]))
}

init {
	byte n;

	atomic {
		run dealer();
		do
		:: n < THREADS -> run thread(); n++
		:: else -> break
		od
	}
}
