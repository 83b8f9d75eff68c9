/* Emits events with two integers and writes what one costs: mote.c EVENTS ROUNDS RESULT */
#define _GNU_SOURCE
#ifndef WITHOUT_MOTE
#include <mote.h>
#else
#define mote_event(...) (void)0
#endif
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t thread_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static __attribute__((noinline)) void two_ints(uint64_t events) {
    for (uint64_t i = 0; i < events; i++) {
        mote_event(bench, two_ints, MOTE_INFO, "", mote_i32(i, (int32_t)i), mote_u64(v, i * 3));
    }
}

/* Stays on this CPU: each CPU's ring is new memory, whose first use costs more. */
static int pin(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    return sched_setaffinity(0, sizeof set, &set);
}

int main(int count, char **args) {
    if (count != 4) return 2;
    uint64_t events = strtoull(args[1], 0, 10), rounds = strtoull(args[2], 0, 10);
    FILE *result = fopen(args[3], "w");
    if (!result || pin()) return 2;
    two_ints(events);
    for (uint64_t round = 0; round < rounds; round++) {
        uint64_t begin = thread_ns();
        two_ints(events);
        fprintf(result, "two_ints %f\n", (double)(thread_ns() - begin) / (double)events);
    }
    return fclose(result) ? 2 : 0;
}
