/*
 * The gate of an event: switching it on and off, with and without filters, under threads that pass.
 *
 * A thread that passes has seen the site armed (or its switch set) at any moment before; it looks at the gate, asks the filter in a
 * read section (the gate is read again there), and then takes channel and id. The control path goes through any sequence of off,
 * unfiltered and two filters; a filter that no event leads to any more is freed a grace period later (here: when the thread has
 * been outside of a section, which rcu.pml is about). Memory is sequentially consistent (x86 keeps these loads and stores in order).
 *
 * Checked: no filter runs after it was freed; what is recorded unfiltered, or let through by a filter, was to be so at some moment of
 * its pass, and finds the channel unless the event was off at some moment of it.
 *
 * @code crates/agent/src/event.rs: destination, is_gated, ask_inside, without_filter, on, off
 * @code crates/agent/src/switch.rs: decide
 * @code crates/agent/src/table.rs: sweep, tidy
 * @digest c88ef9b045e772ac
 *
 * @pass short | 4 changes | small
 * @pass long | 6 changes | -DCHANGES=6
 * @miss short | gate opened before the channel is there: the event then counts as still off | -DINJECT_GATE_FIRST small
 * @find short | off leaves the gate open | -DINJECT_OFF_OPENS
 * @find short | gate not read again inside of the section | -DINJECT_READ_OUTSIDE
 * @find short | filter freed at once | -DINJECT_FREE_AT_ONCE
 * @find short | site armed before the gate is set | -DINJECT_SWITCH_FIRST
 */

#ifndef CHANGES
#define CHANGES 4
#endif

/* Gates: nothing, closed, two filters. Off is a state, no gate. */
#define OPEN 0
#define CLOSED 1
#define IS_FILTER(gate) ((gate) >= 2)
#define OFF 4

byte gate = OPEN;
bool channel;
bool armed;
bool freed[4];

/* What the event was, at some moment of the pass that is under way: one bit each for OPEN, two filters, OFF. */
byte state = OFF;
byte was;
bool passing;
bool reading;	/* the thread is in a read section */
#define NOTE was = was | (1 << state)

proctype thread() {
	byte seen;

end:	do
	:: atomic { armed -> passing = true; was = 0; NOTE }
		atomic { seen = gate;
			if
			:: seen == OPEN -> goto record
			:: else
#ifndef INJECT_READ_OUTSIDE
				-> seen = OPEN
#endif
			fi }
		reading = true;
#ifndef INJECT_READ_OUTSIDE
		seen = gate;
#endif
		atomic {
			if
			:: seen == CLOSED -> reading = false; goto out
			:: seen == OPEN -> reading = false; goto record
			:: IS_FILTER(seen) -> assert(!freed[seen])
			fi }
		/* It runs. */
		atomic { assert(!freed[seen]); reading = false }
record:		atomic {
			if
			:: channel -> assert(was & (1 << seen))
			:: else -> assert(was & (1 << OFF))
			fi }
out:		atomic { seen = 0; passing = false; was = 0 }
	od
}

inline on(filter) {
#ifdef INJECT_SWITCH_FIRST
	armed = true;
#endif
	/* From the first store on it is what it becomes; until the last, what it was. */
#ifdef INJECT_GATE_FIRST
	atomic { gate = filter; old = state; state = filter; NOTE }
	channel = true;
#else
	channel = true;
	atomic { gate = filter; old = state; state = filter; NOTE }
#endif
	armed = true
}

inline off() {
	armed = false;
	atomic {
#ifndef INJECT_OFF_OPENS
		gate = CLOSED;
#else
		gate = OPEN;
#endif
		old = state; state = OFF; NOTE }
	channel = false
}

proctype control() {
	byte changes, old, to;

	do
	:: changes < CHANGES ->
		atomic { changes++;
			if
			:: to = OFF
			:: to = OPEN
			:: !freed[2] -> to = 2
			:: !freed[3] -> to = 3
			fi }
		if
		:: to == OFF && state != OFF -> off()
		:: to == OFF && state == OFF
		:: to != OFF -> on(to)
		fi;
		/* sweep, tidy */
		if
		:: (old == 2 || old == 3) && old != state ->
#ifndef INJECT_FREE_AT_ONCE
			atomic { !reading -> freed[old] = true }
#else
			freed[old] = true
#endif
		:: else
		fi;
		atomic { old = 0; to = 0 }
	:: else -> break
	od
}

init {
	atomic {
		run thread();
		run control()
	}
}
