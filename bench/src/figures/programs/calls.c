/* Times calls of a function that does nothing, and two readings of the time-stamp counter, which is what a probe cannot
 * do without: for the benchmark `functions`. `calls COUNT` prints nanoseconds of each by the thread's own time; `calls
 * rate [WORK]` calls functions without end, and prints every 100 ms how many million calls a second were made. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

/* Long enough for a jump, and not to be inlined or left out. */
__attribute__((noinline)) void empty(void) { __asm__ volatile(".byte 0x0f, 0x1f, 0x44, 0, 0"); }

/* How often a call of `mix` does its work. */
static int work = 1;

__attribute__((noinline)) unsigned mix(unsigned x) {
    for (int n = 0; n < work; n++)
        x = (x ^ x >> 7) * 2654435761u + 12345;
    return x;
}

__attribute__((noinline)) unsigned twice(unsigned x) { return mix(x) ^ mix(x + 1); }

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

/* A recorder comes into a process by a thread that waits in a system call. */
static void *wait_on(void *nothing) {
    for (;;)
        usleep(10000);
    return nothing;
}

static int rate(void) {
    unsigned x = 1;
    pthread_t waits;
    pthread_create(&waits, 0, wait_on, 0);
    for (;;) {
        double begin = now(CLOCK_MONOTONIC), ran = now(CLOCK_THREAD_CPUTIME_ID);
        long calls = 0;
        while (now(CLOCK_MONOTONIC) - begin < 1e8) {
            for (int i = 0; i < 10000; i++)
                x = twice(x);
            calls += 30000;
        }
        printf("%.3f %u\n", calls / (now(CLOCK_THREAD_CPUTIME_ID) - ran) * 1e3, x & 1);
        fflush(stdout);
    }
}

int main(int count, char **words) {
    if (count > 2)
        work = atoi(words[2]);
    if (count > 1 && !strcmp(words[1], "rate"))
        return rate();
    long calls = count > 1 ? atol(words[1]) : 1000000;
    unsigned long sum = 0;
    double begin = now(CLOCK_THREAD_CPUTIME_ID);
    for (long i = 0; i < calls; i++) {
        sum += __rdtsc();
        sum -= __rdtsc();
    }
    double readings = now(CLOCK_THREAD_CPUTIME_ID) - begin;
    begin = now(CLOCK_THREAD_CPUTIME_ID);
    double wall = now(CLOCK_MONOTONIC);
    for (long i = 0; i < calls; i++)
        empty();
    double called = now(CLOCK_THREAD_CPUTIME_ID) - begin;
    wall = now(CLOCK_MONOTONIC) - wall;
    __asm__ volatile("" : : "r"(sum));
    printf("floor %f\ncall %f\nwall %f\n", readings / calls, called / calls, wall / calls);
    return 0;
}
