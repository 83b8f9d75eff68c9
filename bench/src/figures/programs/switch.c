/* Ten thousand functions, which eight busy threads call, for the benchmark `functions`: how long it takes until all are
 * switched, seen by their first bytes, and how long a thread is held up meanwhile. `switch` prints a line when it is
 * ready, and ends when its functions were changed and are as they were again. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Each is long enough for a jump, and as far from the next one. */
__asm__(".altmacro\n"
        ".macro one number\n"
        ".globl f\\number\n"
        ".type f\\number, @function\n"
        "f\\number: .byte 0x0f, 0x1f, 0x44, 0, 0\n"
        "ret\n"
        ".size f\\number, . - f\\number\n"
        ".balign 16, 0xcc\n"
        ".endm\n"
        ".text\n"
        ".balign 16\n"
        ".set number, 0\n"
        ".rept 10000\n"
        "one %number\n"
        ".set number, number + 1\n"
        ".endr\n");
extern const unsigned char f0[10000][16];

enum { COUNT = 10000, THREADS = 8, STEP = 16 };

static void call(unsigned number) { ((void (*)(void))f0[number % COUNT])(); }

/* What a thread has seen: the longest time between two steps in which it was not sent away for others. */
static double longest[THREADS];
static volatile int phase; /* 0 nothing is known of, 1 functions change, 2 it is over */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static long sent_away(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

static void *busy(void *number)
{
    double *mine = &longest[(long)number];
    for (unsigned at = (unsigned)(long)number * 1000; phase < 2; at = (at + STEP) % COUNT) {
        long before = sent_away();
        double begin = now();
        for (unsigned n = 0; n < STEP; n++)
            call(at + n);
        double took = now() - begin;
        if (took > *mine && phase == 1 && sent_away() == before)
            *mine = took;
    }
    return number;
}

static unsigned char first[COUNT];

static int changed(void)
{
    int count = 0;
    for (int n = 0; n < COUNT; n++)
        count += *(const volatile unsigned char *)f0[n] != first[n];
    return count;
}

/* Waits until `wanted` functions are changed, and no more become so; returns how long that took, in microseconds. */
static double until(int begin, int wanted)
{
    while (changed() == begin)
        usleep(100);
    double started = now(), last = started;
    phase = 1;
    for (int before = begin, is = changed(); is != wanted || now() - last < 3e5; is = changed()) {
        if (is != before)
            last = now();
        before = is;
        if (now() - started > 2e7)
            break;
        usleep(100);
    }
    phase = 0;
    return last - started;
}

static void print(const char *what, double us)
{
    double most = 0;
    for (int n = 0; n < THREADS; n++) {
        most = longest[n] > most ? longest[n] : most;
        longest[n] = 0;
    }
    printf("%s %f\n%s_pause %f\n", what, us / 1e3, what, most);
    fflush(stdout);
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int n = 0; n < COUNT; n++)
        first[n] = *f0[n];
    for (long n = 0; n < THREADS; n++)
        pthread_create(&threads[n], NULL, busy, (void *)n);
    /* What a thread is held up anyway. */
    phase = 1;
    usleep(300000);
    phase = 0;
    usleep(1000);
    print("floor", 0);
    print("on", until(0, COUNT));
    print("off", until(COUNT, 0));
    phase = 2;
    for (int n = 0; n < THREADS; n++)
        pthread_join(threads[n], NULL);
    return 0;
}
