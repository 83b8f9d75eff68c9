/* Ten thousand functions, which eight busy threads call, for the benchmark `functions`: how long it takes until all are
 * switched, seen by their first bytes, and how long a thread is held up meanwhile: for how long it does not come on,
 * less what it waits for a processor that others have. `switch` prints what it is without, when it is ready, and ends
 * when its functions were changed and are as they were again. */
#define _GNU_SOURCE
#include <fcntl.h>
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

/* What a thread has seen: the longest time between two steps, less that in which it waited for a processor; and the
 * longest that it waited after it had given one up by itself, as it does for a page. */
static double longest[THREADS], queued[THREADS];
static volatile int phase; /* 0 nothing is known of, 1 functions change, 2 it is over */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static struct rusage times(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage;
}

/* How long a thread has waited for processors in all, in microseconds (proc(5), schedstat). */
static double waited(int file)
{
    char text[128] = "";
    long long ran = 0, waited = 0;
    if (pread(file, text, sizeof text - 1, 0) <= 0 || sscanf(text, "%lld %lld", &ran, &waited) != 2)
        exit(3);
    return waited / 1e3;
}

static void *busy(void *number)
{
    long self = (long)number;
    int file = open("/proc/thread-self/schedstat", O_RDONLY);
    double before = waited(file);
    for (unsigned at = (unsigned)self * 1000; phase < 2; at = (at + STEP) % COUNT) {
        struct rusage usage = times();
        double begin = now();
        for (unsigned n = 0; n < STEP; n++)
            call(at + n);
        double took = now() - begin;
        struct rusage later = times();
        int sent_away = later.ru_nivcsw != usage.ru_nivcsw, gave_up = later.ru_nvcsw != usage.ru_nvcsw;
        double waits = 0;
        if (sent_away || gave_up) {
            double after = waited(file);
            waits = after - before;
            before = after;
        }
        if (phase != 1 || sent_away)
            continue;
        if (took - waits > longest[self])
            longest[self] = took - waits;
        if (gave_up && waits > queued[self])
            queued[self] = waits;
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
    double most = 0, queue = 0;
    for (int n = 0; n < THREADS; n++) {
        most = longest[n] > most ? longest[n] : most;
        queue = queued[n] > queue ? queued[n] : queue;
        longest[n] = queued[n] = 0;
    }
    printf("%s %f\n%s_pause %f\n%s_queue %f\n", what, us / 1e3, what, most, what, queue);
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
