/*
 * The handshake of a traced process with its session, fork, and the end.
 *
 * A program joins before `main`: hello through the mailbox, welcome, events, ids, sites armed, ready. A second thread
 * of it (some library has started one) runs through the site all the time and may fork at any moment; so may the main
 * thread later. The child inherits armed sites, rings and mailbox, says hello and waits for nothing. The recorder is
 * the loop of `Recorder::serve` and `serve_end`, with a consumer that reads the rings to their end behind it. It is
 * patient here: the time limits (LATE, GOODBYE, PATIENCE) never strike; they are for processes that misbehave.
 *
 * Checked: no event is recorded before the metadata knows it (a recording that is cut there is whole), nor without its
 * filter; from the return of `join` on, each pass of the program and of its child is recorded, once, until the session
 * ends; the recording does not end while a process records, unless it was told to; each process that said hello, and
 * each that recorded, is in the journal; when the recording was told to end, all processes that it knows have switched
 * off before the rings are read for the last time.
 *
 * A process that is in several sessions goes through all this with each of them by itself: the links, the recorders and
 * the settings of each event (`gate.pml`) are apart, and what they share, the control path and the agent's thread, is
 * held by one conversation at a time, as here by one. A process that joins later goes through the same handshake, on
 * the agent's thread.
 *
 * Not in here: children of fork that wait for rings of their own (`How::Apart`), rings that take the place of damaged
 * ones (`Renew`), and processes that go on before their welcome has come (`GoesOn`, `waiting.rs`). What is tested of
 * them is in the claims `users_share_nothing`, `liars_are_survived` and `who_is_late_is_told_of`. Nor connections that
 * have no room for filters: these come again, before ids as always (`crates/record/session/tests/model`).
 *
 * @code crates/traced/agent/src/session.rs: join, enter, leave, after_fork, say_hello_again
 * @code crates/traced/agent/src/handshake.rs: rings, announce_all, ids, settle, announce_range
 * @code crates/traced/agent/src/switch.rs: assign, decide, leave
 * @code crates/traced/agent/src/fork.rs: prepare, parent, child
 * @code crates/traced/agent/src/control.rs: listen, run, serve
 * @code crates/traced/agent/src/link.rs: open, through_mailbox
 * @code crates/traced/agent/src/event.rs: destination, send, send_to_one, off
 * @code crates/record/session/src/ending.rs: in_company, alone
 * @code crates/record/session/src/over.rs: outlook, is_over, say_goodbye
 * @code crates/record/session/src/admission.rs: hello, looked, check_id, give_rings, admit, hung_up
 * @code crates/record/session/src/conversation.rs: message, heard
 * @code crates/record/session/src/publish.rs: publish, send_filters, filters_sent, send_ids
 * @code crates/record/session/src/farewell.rs: begin_to_end, left
 * @code crates/record/session/src/stage.rs: step
 * @code crates/record/daemon/src/recording.rs: record, serve
 * @code crates/record/daemon/src/recorder/round.rs: serve, look_ahead
 * @code crates/record/daemon/src/recorder/finish.rs: begin_to_end, serve_end
 * @code crates/record/daemon/src/recorder/arrivals.rs: admit, let_in, talk, talk_to
 * @code crates/record/daemon/src/recorder/perform.rs: take, perform
 * @code crates/record/daemon/src/registration/backlog.rs: take, next
 * @digest e1cd35f4b3e09ea2
 *
 * @pass short | the command ends, its child later | small
 * @pass short | told to end | -DSTOPPED small
 * @pass long | 3 passes of each | -DPASSES=3
 * @pass long | told to end, 3 passes of each | -DSTOPPED -DPASSES=3
 * @find short | ids told before the metadata is written | -DINJECT_IDS_FIRST
 * @find short | filters sent behind the ids | -DINJECT_FILTERS_LATE
 * @find short | `join` does not wait for the ids | -DINJECT_JOIN_EARLY
 * @find short | fork in the middle of the handshake (no `hold`) | -DINJECT_NO_HOLD
 * @find short | child says no hello, recorder does not look at the mailbox | -DINJECT_MAILBOX_IGNORED
 * @find short | recorder ends without another round | -DINJECT_ONE_ROUND
 * @find short | mailbox found deserted behind the last look at the listener (so it was, until this model) | -DINJECT_DESERTED_NOW
 * @find short | rings read to the end before the goodbye | -DSTOPPED -DINJECT_DRAIN_FIRST
 * @find short | goodbye does not wait until processes have switched off | -DSTOPPED -DINJECT_GOODBYE_HASTY
 * @find short | thread of the child does not disarm when its link closes | -DSTOPPED -DINJECT_DEAF_CHILD
 * @pass short | a child made while the session ends leaves it | -DSTOPPED -DASK_FOR_ALL
 * @find short | a child that finds no recorder to say hello to stays armed (so it was, until this model) | -DSTOPPED -DASK_FOR_ALL -DINJECT_CHILD_STAYS
 * @reach short | coverage: a child whose parent has gone before it said hello | -DREACH_ORPHAN
 */

#ifndef PASSES
#define PASSES 1
#endif

#define PARENT 0
#define CHILD 1
#define PROCESSES 2

mtype = { hello, hello_fork, events, ready };
mtype = { welcome, filters, ids, stop, refused };

/* Processes. */
bool alive[PROCESSES];
bool armed[PROCESSES];
bool has_destination[PROCESSES];
bool joined[PROCESSES];		/* `JOINED`, `PLACE` */
bool listening[PROCESSES];	/* the agent's thread */
bool held;			/* the control path of the parent */
byte threads_at_work;		/* of the parent, until it exits */
bool forked;
bool has_filter[PROCESSES];	/* the filter that the session wants this event to go through */
bool recorded[PROCESSES];	/* some event of it */

/* Sockets. A link's recorder side: 0 not made, 1 open, 2 closed. */
chan mailbox = [2] of { mtype, byte };
bool mailbox_shut;		/* the recorder's end is closed */
chan up[PROCESSES] = [2] of { mtype };
chan down[PROCESSES] = [4] of { mtype };
byte link[PROCESSES];
bool closed_by_agent[PROCESSES];

/* The recorder. */
bool metadata_has_it;
bool is_peer[PROCESSES];
bool noted[PROCESSES];
bool said_hello[PROCESSES];
bool goodbye_said;
bool read_to_the_end;

#define HOLDS_MAILBOX(p) alive[p]
#define DESERTED (!alive[PARENT] && !alive[CHILD])

/* A thread of `p` goes through the site. */
inline pass(p, must_be_recorded) {
	atomic {
		if
		:: armed[p] && has_destination[p] ->
			assert(metadata_has_it);
			assert(has_filter[p]);
			recorded[p] = true;
#ifndef STOPPED
			assert(!read_to_the_end)
#endif
		:: else ->
			assert(!must_be_recorded || goodbye_said)
		fi }
}

/* The rest of a process's life, once `join` or the fork handler has returned. */
inline live(p) {
	passes = 0;
	do
	:: passes < PASSES -> pass(p, true); passes++
	:: passes == PASSES -> break
	od
}

proctype main_thread() {
	byte passes;

	/* join */
	atomic { !held -> held = true }
	atomic {
		if
		:: mailbox_shut -> held = false; goto untraced
		:: else -> said_hello[PARENT] = true; link[PARENT] = 1; mailbox!hello,PARENT
		fi }
	atomic {
		if
		:: down[PARENT]?[refused] -> down[PARENT]?refused; held = false; goto untraced
		:: down[PARENT]?[stop] || link[PARENT] == 2 -> held = false; goto untraced
		:: down[PARENT]?[welcome] -> down[PARENT]?welcome
		fi }
	up[PARENT]!events;
#ifndef INJECT_JOIN_EARLY
wait:	atomic {
		if
		:: down[PARENT]?[filters] -> down[PARENT]?filters; has_filter[PARENT] = true; goto wait
		:: down[PARENT]?[ids] -> down[PARENT]?ids
		:: down[PARENT]?[stop] || (link[PARENT] == 2 && (len(down[PARENT]) == 0)) -> held = false; goto untraced
		fi }
#endif
	has_destination[PARENT] = true;
	armed[PARENT] = true;
	up[PARENT]!ready;
	joined[PARENT] = true;
	atomic { held = false; listening[PARENT] = true }
	live(PARENT);
untraced:
	atomic { threads_at_work--; if :: threads_at_work == 0 -> alive[PARENT] = false :: else fi }
}

/* Another thread of the program, which forks. */
proctype other_thread() {
	/* A pass at any time. */
	pass(PARENT, false);
	/* fork: the handlers of pthread_atfork are there once the process has joined; `hold` is. */
#ifdef INJECT_NO_HOLD
	atomic {
#else
	atomic { !held ->
#endif
		forked = true;
		alive[CHILD] = true;
		armed[CHILD] = armed[PARENT];
		has_destination[CHILD] = has_destination[PARENT];
		has_filter[CHILD] = has_filter[PARENT];
		joined[CHILD] = joined[PARENT];
		run child() }
	atomic { threads_at_work--; if :: threads_at_work == 0 -> alive[PARENT] = false :: else fi }
}

proctype child() {
	byte passes;
	bool traced;

	traced = joined[CHILD] || armed[CHILD];
#ifdef REACH_ORPHAN
	assert(alive[PARENT]);
#endif
	atomic {
		if
		:: joined[CHILD] && !mailbox_shut ->
			said_hello[CHILD] = true; link[CHILD] = 1; mailbox!hello_fork,CHILD; listening[CHILD] = true
		:: joined[CHILD] && mailbox_shut	/* no recorder there: it leaves */
#ifndef INJECT_CHILD_STAYS
			-> armed[CHILD] = false; has_destination[CHILD] = false
#endif
		:: !joined[CHILD]
		fi }
	passes = 0;
	do
	:: passes < PASSES && traced -> pass(CHILD, true); passes++
	:: passes < PASSES && !traced -> pass(CHILD, false); passes++
	:: passes == PASSES -> break
	od;
	atomic {
#ifdef ASK_FOR_ALL
		/* A child that lives for ever. */
		read_to_the_end -> skip;
		!listening[CHILD] || !armed[CHILD] -> assert(!armed[CHILD]);
#endif
		alive[CHILD] = false }
}

/* The agent's thread of a process. */
proctype agent(byte p) {
end:	atomic {
		if
		:: listening[p] && alive[p] && (down[p]?[stop] || (link[p] == 2 && (len(down[p]) == 0))) -> skip
		:: listening[p] && alive[p] && (len(down[p]) > 0) && !(down[p]?[stop]) -> down[p]?_; goto end
		fi }
#ifdef INJECT_DEAF_CHILD
	if :: p == CHILD -> false :: else fi;
#endif
	/* end: only with the control path held */
	atomic { p == CHILD || !held -> held = (p == PARENT -> true : held) }
	armed[p] = false;
	has_destination[p] = false;
	atomic { closed_by_agent[p] = true; if :: p == PARENT -> held = false :: else fi }
}

#define IS_GONE(p) ((len(up[p]) == 0) && (!alive[p] || closed_by_agent[p]))

inline admit(refuse) {
	do
	:: atomic { (len(mailbox) > 0) ->
		mailbox?what,from;
		if
		:: refuse -> down[from]!refused; link[from] = 2
		:: else ->
			is_peer[from] = true; noted[from] = true;
			if :: what == hello -> down[from]!welcome :: else fi
		fi;
		what = 0; from = 0 }
	:: atomic { (len(mailbox) == 0) -> break }
	od
}

inline talk() {
	from = 0;
	do
	:: from < PROCESSES ->
		if
		:: is_peer[from] && up[from]?[events] ->
			up[from]?events;
#ifdef INJECT_IDS_FIRST
			down[from]!filters;
			down[from]!ids;
			metadata_has_it = true
#else
			metadata_has_it = true;
#ifdef INJECT_FILTERS_LATE
			down[from]!ids;
			down[from]!filters
#else
			down[from]!filters;
			down[from]!ids
#endif
#endif
		:: is_peer[from] && up[from]?[ready] -> up[from]?ready
		:: is_peer[from] && IS_GONE(from) -> is_peer[from] = false; link[from] = 2
		:: !is_peer[from] || ((len(up[from]) == 0) && !IS_GONE(from)) -> from++
		fi
	:: else -> break
	od;
	from = 0
}

#define SOMETHING ((len(mailbox) > 0) || (is_peer[PARENT] && ((len(up[PARENT]) > 0) || IS_GONE(PARENT))) \
	|| (is_peer[CHILD] && ((len(up[CHILD]) > 0) || IS_GONE(CHILD))) || (!alive[PARENT] && !waited) || DESERTED)

proctype recorder() {
	byte from;
	mtype what;
	byte alone;
	bool waited, was_deserted;

	do
	:: true ->
		/* is_over */
		atomic {
			if
#ifdef STOPPED
			:: break	/* a signal, at any time */
#endif
			:: alive[PARENT] -> skip
			:: !alive[PARENT] ->
				waited = true;
				if
				:: is_peer[PARENT] || is_peer[CHILD] -> alone = 0; was_deserted = false
				:: else ->
					/* `End::alone` */
					if :: alone < 2 -> alone++ :: else fi;
					if
#ifdef INJECT_MAILBOX_IGNORED
					:: alone > 1 -> break
#elif defined(INJECT_ONE_ROUND)
					:: DESERTED -> break
#elif defined(INJECT_DESERTED_NOW)
					:: alone > 1 && DESERTED -> break
#else
					:: alone > 1 && was_deserted -> break
#endif
					:: else -> was_deserted = DESERTED
					fi
				fi
			fi }
#ifndef STOPPED
		/* wait: until something happens */
		atomic { SOMETHING || alone == 1 || waited }
#endif
		admit(false);
		talk()
	od;
#ifdef INJECT_DRAIN_FIRST
	read_to_the_end = true;
#endif
	/* say_goodbye */
	atomic { goodbye_said = true;
		if :: is_peer[PARENT] -> down[PARENT]!stop :: else fi;
		if :: is_peer[CHILD] -> down[CHILD]!stop :: else fi }
#ifndef INJECT_GOODBYE_HASTY
	do
	:: is_peer[PARENT] || is_peer[CHILD] -> admit(true); talk()
	:: else -> break
	od;
#endif
	/* The consumer reads what is there. */
	atomic {
#ifdef STOPPED
		assert(!read_to_the_end && (!noted[PARENT] || !armed[PARENT] || !alive[PARENT] || !joined[PARENT]));
		assert(!noted[CHILD] || !armed[CHILD] || !alive[CHILD]);
#else
		assert(noted[PARENT] == said_hello[PARENT] && noted[CHILD] == said_hello[CHILD]);
		assert(noted[CHILD] || !recorded[CHILD]);
#endif
		read_to_the_end = true }
	/* Its sockets close. */
	atomic { mailbox_shut = true;
		do
		:: (len(mailbox) > 0) -> mailbox?what,from; link[from] = 2
		:: (len(mailbox) == 0) -> break
		od;
		link[PARENT] = 2; link[CHILD] = 2 }
}

init {
	atomic {
		alive[PARENT] = true;
		threads_at_work = 2;
		run main_thread();
		run other_thread();
		run agent(PARENT);
		run agent(CHILD);
		run recorder()
	}
}
