// A known tree of calls, deep and with recursion, on several threads; with a second argument the innermost function
// sleeps for so many microseconds, with a third and a fourth one only each so manieth time, and works for so many
// turns; then a signal comes each millisecond, whose handler works, too.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, noclone))
#define DEPTH 12
#define THREADS 3

static volatile double value = 1;
static long turns = 3000, rounds, pause_us, each = 1;
static _Thread_local long calls;

FUNCTION static void leaf(void) {
    for (long n = 0; n < turns; n++) value = value * 1.0000001;
    if (pause_us && calls++ % each == 0) usleep(pause_us);
    value = 1;
}
FUNCTION static void probed_c(void) { leaf(); value += 1; }
FUNCTION static void plain_b(void) { probed_c(); value += 1; }
FUNCTION static void probed_a(long a, long b, long c, long d, long e, long f, long on_stack) {
    if (a + b + c + d + e + f + on_stack != 28) abort();
    plain_b();
    value += 1;
}
FUNCTION static void probed_down(int depth) {
    if (depth > 0)
        probed_down(depth - 1);
    else
        probed_a(1, 2, 3, 4, 5, 6, 7);
    value += 1;
}
FUNCTION static void probed_top(void) { probed_down(DEPTH); value += 1; }
FUNCTION static void work(void) {
    for (long n = 0; n < rounds; n++) probed_top();
    value += 1;
}
static void handler(int number) {
    (void)number;
    for (volatile int n = 0; n < 2000000; n++) {}
}
/* A recorder comes into a process by a thread that waits. */
static void *waits(void *unused) { for (;;) pause(); return unused; }
FUNCTION static void *thread(void *unused) { work(); value += 1; return unused; }

int main(int argc, char **argv) {
    rounds = argc > 1 ? atol(argv[1]) : 100000;
    pause_us = argc > 2 ? atol(argv[2]) : 0;
    each = argc > 3 ? atol(argv[3]) : each;
    turns = argc > 4 ? atol(argv[4]) : turns;
    pthread_t threads[THREADS];
    if (argc > 4) {
        struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
        sigaction(SIGPROF, &action, 0);
        struct itimerval often = {{0, 1000}, {0, 1000}};
        setitimer(ITIMER_PROF, &often, 0);
    }
    pthread_t waiting;
    pthread_create(&waiting, 0, waits, 0);
    for (int n = 0; n < THREADS; n++) pthread_create(&threads[n], 0, thread, 0);
    work();
    for (int n = 0; n < THREADS; n++) pthread_join(threads[n], 0);
    puts("done");
}
