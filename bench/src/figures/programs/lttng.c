/* Emits the workloads' events through LTTng-UST and writes what one costs: lttng.c EVENTS ROUNDS RESULT */
#define _GNU_SOURCE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_probe.h"
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
    for (uint64_t i = 0; i < events; i++) lttng_ust_tracepoint(bench, two_ints, (int)i, i * 3);
}

static __attribute__((noinline)) void nine_strings(uint64_t events) {
    const char *text = "foo";
    for (uint64_t i = 0; i < events; i++) {
        __asm__ volatile("" : "+r"(text) : : "memory");
        lttng_ust_tracepoint(bench, nine_strings, text, text, text, text, text, text, text, text, text);
    }
}

static void measure(FILE *result, const char *name, void (*body)(uint64_t), uint64_t events) {
    uint64_t begin = thread_ns();
    body(events);
    double ns = (double)(thread_ns() - begin) / (double)events;
    if (result) fprintf(result, "%s %f\n", name, ns);
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
    for (uint64_t round = 0; round <= rounds; round++) {
        measure(round ? result : 0, "two_ints", two_ints, events);
        measure(round ? result : 0, "nine_strings", nine_strings, events);
    }
    return fclose(result) ? 2 : 0;
}
