/*
 * The gate of an event: switching it on and off for several sessions, with and without filters, under a thread that
 * passes.
 *
 * There are three sessions: A, and B0 and B1, of which the second has got the number of the first after that has been
 * left. Each has the event off, on, or on with a filter (which always says yes). An event that one session has goes
 * there directly, unfiltered by one word that says all (`direct`); else by a multicast, made anew for each change. A
 * thread that passes has seen the site armed at any moment before; it looks at the gate, asks in a read section (where
 * the gate is read again), and then takes the destination, or goes by the multicast that is there by then. A
 * multicast without filters is gone by at once, in the section in which it was found, where all sessions can be written
 * to directly. Filters and
 * multicasts that nothing leads to any more are freed a grace period later (here: when the thread is outside of a
 * section, which rcu.pml is about). After a destination was taken away, none takes its place until the pass that was
 * under way then is over (the two seconds of `Common::settles`). Memory is sequentially consistent (x86 keeps these
 * loads and stores in order).
 *
 * With PROBED the program itself connects a probe to the event, and takes it out again, twice: the fourth owner of the
 * site. It and the sessions change the event one at a time (`hold`). The pass looks whether there are probes, calls
 * those that are in the list, in a read section, and goes on only if a session has the event on (the other bits of
 * `switch`).
 *
 * Checked: no filter and no multicast is used after it was freed; a session gets an event unfiltered only if it had it
 * unfiltered at some moment of the pass, through a filter only if that was its own, and it had it at some moment of the
 * pass; at most once; and exactly once if its setting did not change during the pass. No probe is called after it was
 * freed; each pass from the return of `connect` until `disconnect` calls it once; while it is connected, or a session
 * has the event on, and nothing changes that, the site is armed.
 *
 * @code crates/traced/agent/src/event.rs: direct, destination, between, is_gated, each_direct, ask_inside
 * @code crates/traced/agent/src/event.rs: without_filter, write_judged, send
 * @code crates/traced/agent/src/event.rs: send_to_one, off, set_switch, set_probed
 * @code crates/traced/agent/src/probes.rs: each, connect, disconnect, switch_off_unless_probed, sweep, take_done
 * @code crates/traced/agent/src/multicast.rs: new, direct, judge, for_session, make, retire, tidy
 * @code crates/traced/agent/src/switch.rs: decide, leave, send, settles, settle, is_settled
 * @code crates/traced/agent/src/table.rs: sweep, tidy
 * @digest 677861a119e7e0ad
 *
 * @pass short | 3 changes | -DCHANGES=3 small
 * @pass long | 5 changes | -DCHANGES=5
 * @find short | off leaves the gate open | -DINJECT_OFF_OPENS
 * @find short | direct stays when the event is switched off or gets a filter | -DINJECT_DIRECT_STAYS
 * @reach short | coverage: an event goes by the direct word | -DREACH_DIRECT
 * @find short | gate not read again inside of the section | -DINJECT_READ_OUTSIDE
 * @find short | filter freed at once | -DINJECT_FREE_AT_ONCE
 * @find short | multicast freed at once | -DINJECT_FREE_FAN_AT_ONCE
 * @find short | one destination takes the place of another one at once | -DINJECT_NO_SETTLING
 * @find short | settling only when a session is left, not when its rules take an event from it (so it was, until this model) | -DINJECT_SETTLE_AT_LEAVE
 * @find short | a verdict is for the session that has the number by then | -DINJECT_NO_ERA
 * @find short | the ways of a multicast outlive the section | -DINJECT_WAYS_OUTLIVE
 * @find short | a multicast with a filter is gone by at once | -DINJECT_WAYS_PAST_FILTERS
 * @reach short | coverage: an event goes to two sessions directly | -DREACH_MANY
 * @find short | the multicast is not read again when the event is written | -DINJECT_OLD_FAN
 * @reach short | coverage: a verdict of several sessions is written when the event goes to one again | -DREACH_BACK
 * @reach short | coverage: B1 has B0's number, and gets the event directly | -DREACH_REUSE
 * @pass short | probes come and go, 2 changes | -DPROBED -DCHANGES=2
 * @pass long | probes come and go, 3 changes | -DPROBED -DCHANGES=3
 * @find short | disarmed for the sessions while a probe is connected | -DPROBED -DCHANGES=2 -DINJECT_DISARM_PROBED
 * @find short | disarmed for the last probe while a session has it on | -DPROBED -DCHANGES=1 -DINJECT_DISARM_RECORDED
 * @find short | a session's change forgets that there are probes | -DPROBED -DCHANGES=2 -DINJECT_FORGET_PROBED
 * @find short | an event that was never on has its gate open when a probe is connected (so it was, until this model) | -DPROBED -DCHANGES=1 -DINJECT_NEVER_ON
 * @find short | a probe is freed at once | -DPROBED -DCHANGES=1 -DINJECT_FREE_PROBE_AT_ONCE
 * @find short | probes are looked at outside of a section | -DPROBED -DCHANGES=1 -DINJECT_CALL_OUTSIDE
 * @find short | `connect` returns before the probe is in the list | -DPROBED -DCHANGES=1 -DINJECT_CONNECT_EARLY
 * @reach short | coverage: a pass calls a probe and is recorded | -DPROBED -DCHANGES=1 -DREACH_BOTH
 */

#ifndef CHANGES
#define CHANGES 4
#endif

/* Sessions by their channels; 0 is none. The number of both Bs is 1. */
#define A 1
#define B0 2
#define B1 3
#define NUMBER(ch) (ch > A)
/* A session joins when its channel is first used: A is first, B1 after B0. */
#define JOINED(ch) (ch)

/* Settings. */
#define OFF 0
#define ON 1
#define FILTERED 2

/* Gates. A filter's gate is 1 and its channel, a multicast's is MULTICAST and its place. */
#define OPEN 0
#define CLOSED 1
#define GATE_OF(ch) (1 + ch)
#define MULTICAST 5
#define FANS 3

byte gate = OPEN;
byte destination;
byte direct;	/* the destination, while nothing is in front of it; else 0 */
bool armed;
byte setting[4];
bool filter_freed[4];
byte era;

typedef fan_t {
	byte channel[2];	/* by number */
	byte how[2];
	byte era;
	bool used;	/* made, and not freed */
}
fan_t multicast[FANS];

/* Probes of the program's own. */
bool recorded;	/* the bits of `switch` that are the sessions' */
#ifdef PROBED
bool held;	/* the control path */
bool probed;	/* the bit of `switch` that is the program's */
byte linked;	/* the probe in the list, by its number */
bool probe_freed[3];
bool calling;	/* the pass is in the read section of its probes */
byte promised;	/* the probe that was connected and is not being taken out */
byte kept;	/* the same, for all of the pass so far */
byte called;	/* the probe that it has called */
#define LOCK atomic { !held -> held = true }
#define UNLOCK atomic { assert(!(linked != 0 || recorded) || armed); held = false }
#else
#define LOCK skip
#define UNLOCK skip
#endif

/* The pass that is under way. */
bool passing;
bool reading;
byte was[4];	/* settings of each session during it, one bit each */
byte got[4];
bool late;	/* it has begun before the last destination was taken away */

#define NOTE_ALL was[A] = was[A] | (1 << setting[A]); was[B0] = was[B0] | (1 << setting[B0]); \
	was[B1] = was[B1] | (1 << setting[B1])

/* What a session is promised begins when `switch` says so, and ends when it does no more. */
#ifdef PROBED
#define NOTE_UNRECORDED if :: !recorded -> was[A] = was[A] | (1 << OFF); \
    was[B0] = was[B0] | (1 << OFF); was[B1] = was[B1] | (1 << OFF) :: else fi
#else
#define NOTE_UNRECORDED skip
#endif

/* `how`: unfiltered, or through the filter of `by`. */
inline deliver(ch, how_, by) {
	assert(how_ != ON || (was[ch] & (1 << ON)));
	assert(how_ != FILTERED || (by == ch && (was[ch] & ((1 << ON) | (1 << FILTERED)))));
	got[ch]++;
	assert(got[ch] == 1)
}

#define DONE(ch) assert(got[ch] == 1 || (was[ch] != (1 << ON) && was[ch] != (1 << FILTERED)))

/* No session of the multicast has a filter. Whether it is gone by at once depends on what the machine can, too. */
#ifdef INJECT_WAYS_PAST_FILTERS
#define ALL_OPEN true
#else
#define ALL_OPEN ((by[0] == 0 || how[0] == ON) && (by[1] == 0 || how[1] == ON))
#endif

proctype thread() {
	byte seen, to, n, verdict_era;
	byte by[2], how[2];
#ifdef INJECT_OLD_FAN
	byte old;
#endif

end:	do
	:: atomic { armed -> passing = true; late = false;
			was[A] = 0; was[B0] = 0; was[B1] = 0; got[A] = 0; got[B0] = 0; got[B1] = 0; NOTE_ALL; NOTE_UNRECORDED;
#ifdef PROBED
			kept = promised; called = 0
#endif
			}
#ifdef PROBED
		if
		:: !probed
		:: probed;
#ifndef INJECT_CALL_OUTSIDE
			calling = true;
#endif
			n = linked;
			atomic { if
				:: n != 0 -> assert(!probe_freed[n]); called = n
				:: else
				fi;
				n = 0 }
			calling = false;
			atomic { if
				:: recorded
				:: !recorded -> goto out
				fi }
		fi;
#endif
		atomic { to = direct;
#ifdef REACH_DIRECT
			assert(to == 0);
#endif
			if
			:: to != 0 -> goto straight
			:: else
			fi }
		atomic { seen = gate;
			if
			:: seen == OPEN -> goto record
			:: else
			fi }
		reading = true;
#ifndef INJECT_READ_OUTSIDE
		seen = gate;
#endif
		atomic {
			if
			:: seen == CLOSED -> reading = false; goto out
			:: seen == OPEN -> reading = false; goto record
			:: seen > CLOSED && seen < MULTICAST -> assert(!filter_freed[seen - 1])
			:: seen >= MULTICAST ->
				assert(multicast[seen - MULTICAST].used);
				n = 0;
				do
				:: n < 2 ->
					by[n] = multicast[seen - MULTICAST].channel[n]; how[n] = multicast[seen - MULTICAST].how[n];
					assert(how[n] != FILTERED || !filter_freed[by[n]]);
					n++
				:: else -> break
				od;
				n = 0;
				verdict_era = multicast[seen - MULTICAST].era;
#ifdef INJECT_OLD_FAN
				old = seen;
#endif
				if
				:: ALL_OPEN -> goto many
				:: true -> reading = false; goto judged
				fi
			fi }
		/* One filter. It runs; then the one destination is taken. */
		atomic { assert(!filter_freed[seen - 1]); reading = false }
		atomic {
			to = destination;
			if
			:: to != 0 -> deliver(to, FILTERED, (seen - 1))
			:: else
			fi;
			goto out }
many:
#ifdef INJECT_WAYS_OUTLIVE
		reading = false;
#endif
		do
		:: n < 2 -> atomic {
			assert(multicast[seen - MULTICAST].used);
			if
			:: by[n] != 0 -> deliver(by[n], ON, 0)
			:: else
			fi;
			n++ }
		:: else -> break
		od;
#ifdef REACH_MANY
		assert(by[0] == 0 || by[1] == 0);
#endif
		atomic { reading = false; goto out }
straight:	atomic { deliver(to, ON, 0); goto out }
record:		atomic {
			to = destination;
			if
			:: to != 0 -> deliver(to, ON, 0)
			:: else
			fi;
			goto out }
judged:		reading = true;
#ifdef INJECT_OLD_FAN
		seen = old;
#else
		seen = gate;
#endif
		atomic {
			if
			:: seen >= MULTICAST ->
				assert(multicast[seen - MULTICAST].used);
				n = 0;
				do
				:: n < 2 ->
					to = multicast[seen - MULTICAST].channel[n];
					if
#ifdef INJECT_NO_ERA
					:: to != 0 && by[n] != 0 -> deliver(to, how[n], to)
#else
					:: to != 0 && by[n] != 0 && verdict_era >= JOINED(to) -> deliver(to, how[n], by[n])
#endif
					:: else
					fi;
					n++
				:: else -> break
				od;
				reading = false;
				goto out
			:: else
			fi }
		atomic {
			to = destination;
#ifdef REACH_BACK
			assert(to == 0);
#endif
			if
#ifdef INJECT_NO_ERA
			:: to != 0 && by[NUMBER(to)] != 0 -> deliver(to, how[NUMBER(to)], to)
#else
			:: to != 0 && by[NUMBER(to)] != 0 && verdict_era >= JOINED(to) ->
				deliver(to, how[NUMBER(to)], by[NUMBER(to)])
#endif
			:: else
			fi;
			reading = false }
out:		atomic { DONE(A); DONE(B0); DONE(B1);
#ifdef PROBED
			assert(kept == 0 || called == kept);
#ifdef REACH_BOTH
			assert(called == 0 || got[A] + got[B0] + got[B1] == 0);
#endif
			kept = 0; called = 0;
#endif
			passing = false; late = false; seen = 0; to = 0; n = 0; verdict_era = 0;
			by[0] = 0; by[1] = 0; how[0] = 0; how[1] = 0;
#ifdef INJECT_OLD_FAN
			old = 0;
#endif
			was[A] = 0; was[B0] = 0; was[B1] = 0; got[A] = 0; got[B0] = 0; got[B1] = 0 }
	od
}

#define COUNT ((next[A] != OFF) + (next[B0] != OFF) + (next[B1] != OFF))
#define ONLY ((next[A] != OFF -> A : (next[B0] != OFF -> B0 : B1)))

/* Sets the gate, and with it what the sessions have. */
#define TURN(value) atomic { \
	gate = value; setting[A] = next[A]; setting[B0] = next[B0]; setting[B1] = next[B1]; NOTE_ALL }

/* Before the gate changes. */
#ifdef INJECT_DIRECT_STAYS
#define NOT_DIRECT skip
#else
#define NOT_DIRECT direct = 0
#endif

/* The last destination is taken away. */
#define TAKE_AWAY atomic { destination = 0; late = passing; must_settle = true }

proctype control() {
	byte changes, ch, to, old_gate, at;
	byte next[4];
	bool must_settle;

	do
	:: changes < CHANGES ->
		LOCK;
		atomic { changes++;
			/* B1 comes when B0 has been left: nothing leads to its filter any more. */
			if
			:: ch = A
			:: era <= B0 -> ch = B0
			:: era >= B0 && setting[B0] == OFF -> ch = B1
			fi;
			if :: to = OFF :: to = ON :: !filter_freed[ch] -> to = FILTERED fi;
			if :: era < JOINED(ch) -> era = JOINED(ch) :: else fi;
			next[A] = setting[A]; next[B0] = setting[B0]; next[B1] = setting[B1]; next[ch] = to;
			old_gate = gate }
		/* `Common::settles`: only when the pass that was under way is over */
		atomic { if
			:: must_settle && !late -> must_settle = false
			:: must_settle
			:: !must_settle
			fi }
#ifdef INJECT_NO_SETTLING
		must_settle = false;
#endif
#ifdef INJECT_SETTLE_AT_LEAVE
		if :: ch == A -> must_settle = false :: else fi;
#endif
		if
		:: COUNT == 0 ->
			/* With probes of the program's own the site stays armed. */
#ifdef PROBED
#ifdef INJECT_FORGET_PROBED
			probed = false;
#endif
#ifndef INJECT_DISARM_PROBED
			armed = probed;
#else
			armed = false;
#endif
#else
			armed = false;
#endif
			atomic { recorded = false; NOTE_UNRECORDED }
			NOT_DIRECT;
#ifdef INJECT_OFF_OPENS
			TURN(OPEN);
#else
			TURN(CLOSED);
#endif
			if :: destination != 0 -> TAKE_AWAY :: else fi
		:: COUNT == 1 && (destination == ONLY || (destination == 0 && !must_settle)) ->
			if
			:: next[ONLY] != ON -> NOT_DIRECT
			:: else
			fi;
			destination = ONLY;
#ifdef REACH_REUSE
			assert(destination != B1);
#endif
			if
			:: next[ONLY] == FILTERED -> TURN(GATE_OF(ONLY))
			:: else -> TURN(OPEN); direct = ONLY
			fi;
			recorded = true;
			armed = true
		:: else ->
			NOT_DIRECT;
			atomic {
				if
				:: !multicast[0].used -> at = 0
				:: multicast[0].used && !multicast[1].used -> at = 1
				:: multicast[0].used && multicast[1].used -> assert(!multicast[2].used); at = 2
				fi;
				multicast[at].used = true; multicast[at].era = era;
				multicast[at].channel[0] = (next[A] != OFF -> A : 0); multicast[at].how[0] = next[A];
				multicast[at].channel[1] = (next[B0] != OFF -> B0 : (next[B1] != OFF -> B1 : 0));
				multicast[at].how[1] = (next[B0] != OFF -> next[B0] : next[B1]) }
			TURN(MULTICAST + at);
			if
			:: destination != 0 && next[destination] == OFF -> TAKE_AWAY
			:: else
			fi;
			recorded = true;
			armed = true
		fi;
		/* retire, sweep, tidy */
		if
		:: old_gate >= MULTICAST && old_gate != gate ->
#ifndef INJECT_FREE_FAN_AT_ONCE
			atomic { !reading -> multicast[old_gate - MULTICAST].used = false }
#else
			multicast[old_gate - MULTICAST].used = false
#endif
		:: else
		fi;
		if
		:: next[ch] != FILTERED && !filter_freed[ch] ->
#ifndef INJECT_FREE_AT_ONCE
			atomic { !reading -> filter_freed[ch] = true }
#else
			filter_freed[ch] = true
#endif
		:: else
		fi;
		atomic { ch = 0; to = 0; old_gate = 0; at = 0; next[A] = 0; next[B0] = 0; next[B1] = 0 }
		UNLOCK
	:: else -> break
	od
}

#ifdef PROBED
proctype program() {
	byte number;

	do
	:: number < 2 ->
		LOCK;
		number++;
#ifndef INJECT_NEVER_ON
		/* One that was never on has an open gate. */
		if
		:: !recorded && gate == OPEN -> gate = CLOSED
		:: else
		fi;
#endif
		probed = true;
		armed = true;
#ifdef INJECT_CONNECT_EARLY
		promised = number;
#endif
		linked = number;
		promised = number;
		UNLOCK;
		LOCK;
		atomic { promised = 0; kept = 0 }
		linked = 0;
		probed = false;
#ifdef INJECT_DISARM_RECORDED
		armed = false;
#else
		armed = recorded;
#endif
		UNLOCK;
#ifdef INJECT_FREE_PROBE_AT_ONCE
		probe_freed[number] = true
#else
		atomic { !calling -> probe_freed[number] = true }
#endif
	:: else -> break
	od
}
#endif

init {
	atomic {
#ifdef PROBED
		run program();
#endif
		run thread();
		run control()
	}
}
