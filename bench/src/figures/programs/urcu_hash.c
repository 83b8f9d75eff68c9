// liburcu's rculfhash, measured as rcu_hash_work.rs measures mote's table:
// urcu_hash THREADS KEYS MS RESULT
// Rates are by the threads' own CPU time.
#define _LGPL_SOURCE
#define URCU_INLINE_SMALL_FUNCTIONS
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <urcu/urcu-memb.h>
#include <urcu/rculfhash.h>

#define MOST_THREADS 64
#define BURST 256

struct entry {
	struct cds_lfht_node node;
	uint64_t key, value;
	struct rcu_head head;
};

static struct cds_lfht *table;
static uint64_t keys;
static volatile int stop;
static pthread_barrier_t start;

static uint64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static inline uint64_t next(uint64_t *random) {
	uint64_t r = *random;
	r ^= r >> 12, r ^= r << 25, r ^= r >> 27;
	*random = r;
	return r * 0x2545f4914f6cdd1dull;
}

static inline uint64_t below(uint64_t random, uint64_t end) {
	return (uint64_t)(((unsigned __int128)random * end) >> 64);
}

static inline uint64_t hash(uint64_t key) {
	uint64_t h = key * 0x9e3779b97f4a7c15ull;
	return h ^ h >> 32;
}

static int is_key(struct cds_lfht_node *node, const void *key) {
	return caa_container_of(node, struct entry, node)->key == *(const uint64_t *)key;
}

static void release(struct rcu_head *head) { free(caa_container_of(head, struct entry, head)); }

static inline uint64_t lookup(uint64_t key) {
	struct cds_lfht_iter iter;
	uint64_t value = 0;
	urcu_memb_read_lock();
	cds_lfht_lookup(table, hash(key), is_key, &key, &iter);
	struct cds_lfht_node *node = cds_lfht_iter_get_node(&iter);
	if (node) value = caa_container_of(node, struct entry, node)->value;
	urcu_memb_read_unlock();
	return value;
}

static void insert(uint64_t key) {
	struct entry *entry = malloc(sizeof *entry);
	cds_lfht_node_init(&entry->node);
	entry->key = entry->value = key;
	urcu_memb_read_lock();
	struct cds_lfht_node *there = cds_lfht_add_unique(table, hash(key), is_key, &key, &entry->node);
	urcu_memb_read_unlock();
	if (there != &entry->node) free(entry);
}

static void drop(uint64_t key) {
	struct cds_lfht_iter iter;
	urcu_memb_read_lock();
	cds_lfht_lookup(table, hash(key), is_key, &key, &iter);
	struct cds_lfht_node *node = cds_lfht_iter_get_node(&iter);
	if (node && !cds_lfht_del(table, node))
		urcu_memb_call_rcu(&caa_container_of(node, struct entry, node)->head, release);
	urcu_memb_read_unlock();
}

static uint64_t lookups(uint64_t *random) {
	uint64_t sum = 0;
	for (int i = 0; i < BURST; i++) sum += lookup(2 * below(next(random), keys));
	return sum;
}

static uint64_t mixed(uint64_t *random) {
	uint64_t sum = 0;
	for (int i = 0; i < BURST; i++) {
		uint64_t key = below(next(random), 2 * keys);
		uint64_t choice = below(next(random), 20);
		if (choice == 0) insert(key);
		else if (choice == 1) drop(key);
		else sum += lookup(key);
	}
	return sum;
}

struct worker { pthread_t thread; uint64_t random, turns, ns; uint64_t (*burst)(uint64_t *); };

static void *work(void *argument) {
	struct worker *worker = argument;
	urcu_memb_register_thread();
	pthread_barrier_wait(&start);
	volatile uint64_t sink;
	uint64_t begin = now();
	for (; !stop; worker->turns += BURST) sink = worker->burst(&worker->random);
	(void)sink;
	worker->ns = now() - begin;
	urcu_memb_unregister_thread();
	return NULL;
}

static double rate(unsigned threads, uint64_t ms, uint64_t (*burst)(uint64_t *)) {
	struct worker workers[MOST_THREADS];
	stop = 0;
	pthread_barrier_init(&start, NULL, threads + 1);
	for (unsigned i = 0; i < threads; i++) {
		workers[i] = (struct worker){ .random = i + 1, .burst = burst };
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	pthread_barrier_wait(&start);
	usleep(ms * 1000);
	stop = 1;
	double sum = 0;
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		sum += workers[i].turns * 1e9 / (workers[i].ns + 1);
	}
	return sum;
}

int main(int argc, char **argv) {
	if (argc != 5) return 2;
	unsigned threads = atoi(argv[1]);
	if (threads > MOST_THREADS) return 2;
	keys = strtoull(argv[2], NULL, 0);
	uint64_t ms = strtoull(argv[3], NULL, 0), size = 64;
	FILE *result = fopen(argv[4], "w");
	if (!result) return 2;
	// As many buckets as keys from the beginning: left to itself, it stays at up to eight keys a bucket.
	while (size < keys) size *= 2;
	urcu_memb_register_thread();
	table = cds_lfht_new_flavor(size, 64, 0, CDS_LFHT_AUTO_RESIZE | CDS_LFHT_ACCOUNTING, &urcu_memb_flavor, NULL);
	if (!table) return 2;
	for (uint64_t i = 0; i < keys; i++) insert(2 * i);
	fprintf(result, "lookup %g\n", rate(threads, ms, lookups));
	fprintf(result, "mixed %g\n", rate(threads, ms, mixed));
	urcu_memb_barrier();
	return fclose(result) ? 2 : 0;
}
