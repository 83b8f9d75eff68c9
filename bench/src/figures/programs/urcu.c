// liburcu, measured as rcu_work.rs measures mote:
// urcu cost READS SYNCS RESULT
// urcu run READERS SPINS PAUSE MS BATCH RESULT     PAUSE 1000000000: nobody updates; BATCH 0: call_rcu, else the
// updater waits itself
#define _LGPL_SOURCE
#define URCU_INLINE_SMALL_FUNCTIONS
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <urcu/urcu-qsbr.h>
#include <urcu/urcu-mb.h>
#include <urcu/urcu-memb.h>
#include <urcu/urcu-signal.h>
#include <urcu/urcu-bp.h>
#include <urcu/pointer.h>

// Of several flavours, the headers declare the callbacks of the first only.
#define CALLBACKS(prefix) \
	void prefix##_call_rcu(struct rcu_head *, void (*)(struct rcu_head *)); \
	void prefix##_barrier(void);
CALLBACKS(urcu_qsbr)
CALLBACKS(urcu_mb)
CALLBACKS(urcu_memb)
CALLBACKS(urcu_signal)
CALLBACKS(urcu_bp)

struct node { uint64_t value; struct rcu_head head; };
static struct node *published;
static volatile int stop;
static FILE *result;
static pthread_barrier_t start;

static uint64_t now(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void release(struct rcu_head *head) { free(caa_container_of(head, struct node, head)); }

static struct node *fresh(uint64_t value) {
	struct node *node = malloc(sizeof *node);
	node->value = value;
	return node;
}

#define NO_UPDATER 1000000000
#define MOST_READERS 64
static uint64_t spins;

static inline void spin(uint64_t count) {
	while (count--) caa_cpu_relax();
}

#define FLAVOR(name, prefix, REGISTER, UNREGISTER, REST, SLEEP, WAKE) \
static __attribute__((noinline)) uint64_t read_##name(uint64_t turns) { \
	uint64_t sum = 0, stay = spins; \
	if (!stay) \
		for (uint64_t i = 0; i < turns; i++) { \
			prefix##_read_lock(); \
			sum += rcu_dereference(published)->value; \
			prefix##_read_unlock(); \
		} \
	else \
		for (uint64_t i = 0; i < turns; i++) { \
			prefix##_read_lock(); \
			sum += rcu_dereference(published)->value; \
			spin(stay); \
			prefix##_read_unlock(); \
		} \
	return sum; \
} \
static void *reader_##name(void *count) { \
	REGISTER; \
	uint64_t turns = 0; \
	pthread_barrier_wait(&start); \
	while (!stop) { \
		volatile uint64_t sink = read_##name(256); \
		(void)sink; \
		turns += 256; \
		REST; \
	} \
	UNREGISTER; \
	*(uint64_t *)count = turns; \
	return NULL; \
} \
static void *sleeper_##name(void *unused) { \
	REGISTER; \
	read_##name(1); \
	SLEEP; \
	pthread_barrier_wait(&start); \
	pthread_barrier_wait(&start); \
	WAKE; \
	UNREGISTER; \
	return unused; \
} \
static void cost_##name(uint64_t turns, uint64_t syncs) { \
	REGISTER; \
	volatile uint64_t sink = read_##name(turns / 8); \
	uint64_t begin = now(CLOCK_THREAD_CPUTIME_ID); \
	sink = read_##name(turns); \
	(void)sink; \
	fprintf(result, "read/" #name " %g\n", (double)(now(CLOCK_THREAD_CPUTIME_ID) - begin) / turns); \
	begin = now(CLOCK_THREAD_CPUTIME_ID); \
	for (uint64_t i = 0; i < syncs; i++) prefix##_synchronize_rcu(); \
	fprintf(result, "sync/" #name " %g\n", (double)(now(CLOCK_THREAD_CPUTIME_ID) - begin) / syncs); \
	pthread_t other; \
	pthread_barrier_init(&start, NULL, 2); \
	pthread_create(&other, NULL, sleeper_##name, NULL); \
	pthread_barrier_wait(&start); \
	begin = now(CLOCK_THREAD_CPUTIME_ID); \
	for (uint64_t i = 0; i < syncs; i++) prefix##_synchronize_rcu(); \
	fprintf(result, "sync_beside/" #name " %g\n", (double)(now(CLOCK_THREAD_CPUTIME_ID) - begin) / syncs); \
	pthread_barrier_wait(&start); \
	pthread_join(other, NULL); \
	UNREGISTER; \
} \
static void reclaim_##name(struct node **old, uint64_t *count) { \
	prefix##_synchronize_rcu(); \
	while (*count) free(old[--*count]); \
} \
static void run_##name(unsigned readers, uint64_t pause, uint64_t ms, uint64_t batch) { \
	struct node **waiting = malloc((batch + 1) * sizeof *waiting); \
	uint64_t waits = 0; \
	pthread_t threads[MOST_READERS]; \
	uint64_t counts[MOST_READERS], reads = 0, updates = 0; \
	stop = 0; \
	pthread_barrier_init(&start, NULL, readers + 1); \
	for (unsigned i = 0; i < readers; i++) pthread_create(&threads[i], NULL, reader_##name, &counts[i]); \
	pthread_barrier_wait(&start); \
	uint64_t begin = now(CLOCK_MONOTONIC), end = begin + ms * 1000000ull; \
	if (pause == NO_UPDATER) usleep(ms * 1000); \
	else while (now(CLOCK_MONOTONIC) < end) \
		for (int i = 0; i < 64; i++, updates++) { \
			struct node *old = rcu_xchg_pointer(&published, fresh(updates)); \
			if (!batch) prefix##_call_rcu(&old->head, release); \
			else if (waiting[waits++] = old, waits == batch) reclaim_##name(waiting, &waits); \
			spin(pause); \
		} \
	double seconds = (now(CLOCK_MONOTONIC) - begin) / 1e9; \
	stop = 1; \
	for (unsigned i = 0; i < readers; i++) pthread_join(threads[i], NULL), reads += counts[i]; \
	if (waits) reclaim_##name(waiting, &waits); \
	free(waiting); \
	if (updates && !batch) prefix##_barrier(); \
	double settled = (now(CLOCK_MONOTONIC) - begin) / 1e9; \
	fprintf(result, "reads/" #name " %g\nupdates/" #name " %g\n", reads / seconds, updates / settled); \
}

FLAVOR(qsbr, urcu_qsbr, urcu_qsbr_register_thread(), urcu_qsbr_unregister_thread(), urcu_qsbr_quiescent_state(),
	urcu_qsbr_thread_offline(), urcu_qsbr_thread_online())
FLAVOR(general, urcu_mb, urcu_mb_register_thread(), urcu_mb_unregister_thread(), , , )
FLAVOR(expedited, urcu_memb, urcu_memb_register_thread(), urcu_memb_unregister_thread(), , , )
FLAVOR(signal, urcu_signal, urcu_signal_register_thread(), urcu_signal_unregister_thread(), , , )
FLAVOR(library, urcu_bp, , , , , )

int main(int argc, char **argv) {
	if (argc < 5 || !(result = fopen(argv[argc - 1], "w"))) return 2;
	uint64_t number[5] = { 0 };
	for (int i = 2; i < argc - 1 && i < 7; i++) number[i - 2] = strtoull(argv[i], NULL, 0);
	published = fresh(1);
	if (!strcmp(argv[1], "cost")) {
		uint64_t reads = number[0], syncs = number[1];
		cost_qsbr(reads, syncs);
		cost_general(reads / 8, syncs);
		cost_expedited(reads, syncs);
		cost_signal(reads, syncs / 16 + 1);
		cost_library(reads, syncs);
	} else {
		unsigned readers = number[0] < MOST_READERS ? number[0] : MOST_READERS;
		spins = number[1];
		run_qsbr(readers, number[2], number[3], number[4]);
		run_general(readers, number[2], number[3], number[4]);
		run_expedited(readers, number[2], number[3], number[4]);
		run_signal(readers, number[2], number[3], number[4]);
		run_library(readers, number[2], number[3], number[4]);
	}
	return fclose(result) ? 2 : 0;
}
