// Calls functions from eight threads, in all the ways in which calls end (`tests/support/switched.rs`): others count
// them meanwhile, and switch them on and off. `switched SECONDS [trap]` looks at what each call returns, and prints how
// often each function was called, and how often something was wrong.
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <pthread.h>
#include <stdexcept>
#include <sys/time.h>
#include <unistd.h>

#define CALLED extern "C" __attribute__((noinline, noclone))
#define COUNT(n) (__atomic_fetch_add(&calls[n], 1, __ATOMIC_RELAXED))

enum { PLAIN = 10, KINDS = 4, ALL = 2 * (PLAIN + KINDS), THREADS = 8 };
static unsigned long calls[ALL];
static std::atomic<unsigned long> wrong;
static std::atomic<bool> over;
static volatile unsigned sink;

static void check(bool is_right) {
    if (!is_right)
        wrong++;
}

// Those that begin with w are counted from the begin to the end, those with t are switched. Each has the first byte of
// another instruction, as far as compilers make it so.
#define PLAIN_OF(name, base, n)                                                                                        \
    CALLED unsigned name##n(unsigned x, double y, unsigned z) {                                                        \
        COUNT(base + n);                                                                                               \
        sink = x;                                                                                                      \
        return x * (n + 3) + z + (unsigned)y;                                                                          \
    }
#define FAMILY(name, base)                                                                                             \
    PLAIN_OF(name, base, 0)                                                                                            \
    PLAIN_OF(name, base, 1)                                                                                            \
    PLAIN_OF(name, base, 2)                                                                                            \
    PLAIN_OF(name, base, 3)                                                                                            \
    PLAIN_OF(name, base, 4)                                                                                            \
    PLAIN_OF(name, base, 5)                                                                                            \
    PLAIN_OF(name, base, 6)                                                                                            \
    PLAIN_OF(name, base, 7)                                                                                            \
    PLAIN_OF(name, base, 8)                                                                                            \
    PLAIN_OF(name, base, 9)                                                                                            \
    CALLED unsigned name##deep(unsigned depth) {                                                                       \
        COUNT(base + PLAIN);                                                                                           \
        return depth ? name##deep(depth - 1) + depth : 0;                                                              \
    }                                                                                                                  \
    CALLED unsigned name##throws(unsigned depth) {                                                                     \
        COUNT(base + PLAIN + 1);                                                                                       \
        if (!depth)                                                                                                    \
            throw std::runtime_error("thrown");                                                                        \
        return name##throws(depth - 1) + 1;                                                                            \
    }                                                                                                                  \
    CALLED unsigned name##jumps(jmp_buf *back, unsigned depth) {                                                       \
        COUNT(base + PLAIN + 2);                                                                                       \
        if (!depth)                                                                                                    \
            longjmp(*back, 7);                                                                                         \
        return name##jumps(back, depth - 1) + 1;                                                                       \
    }                                                                                                                  \
    CALLED void name##handles(unsigned x) {                                                                            \
        COUNT(base + PLAIN + 3);                                                                                       \
        sink = x;                                                                                                      \
    }                                                                                                                  \
    static unsigned (*const name##plain[PLAIN])(unsigned, double, unsigned) = {                                        \
        name##0, name##1, name##2, name##3, name##4, name##5, name##6, name##7, name##8, name##9};                    \
    static void name##round(unsigned x) {                                                                              \
        for (unsigned n = 0; n < PLAIN; n++)                                                                           \
            check(name##plain[n](x, 5.0, n) == x * (n + 3) + n + 5);                                                   \
        check(name##deep(x % 50) == (x % 50) * (x % 50 + 1) / 2);                                                      \
        bool caught = false;                                                                                           \
        try {                                                                                                          \
            name##throws(x % 7);                                                                                       \
        } catch (const std::runtime_error &) {                                                                         \
            caught = true;                                                                                             \
        }                                                                                                              \
        check(caught);                                                                                                 \
        jmp_buf back;                                                                                                  \
        if (int how = setjmp(back))                                                                                    \
            check(how == 7);                                                                                           \
        else                                                                                                           \
            name##jumps(&back, 3);                                                                                     \
    }

FAMILY(w, 0)
FAMILY(t, PLAIN + KINDS)

static void handler(int number) {
    whandles((unsigned)number);
    thandles((unsigned)number);
}

// A call from here is outside of all others of the thread: those that have not returned are noticed.
__attribute__((noinline)) static void rounds(unsigned x) {
    wround(x);
    tround(x);
}

static void *thread(void *number) {
    unsigned x = (unsigned)(uintptr_t)number * 7919;
    while (!over) {
        rounds(x = x * 1664525u + 1013904223u);
        w0(x, 1.0, 0);
        t0(x, 1.0, 0);
        // Those who switch need a processor, too.
        if (x % 64 == 0)
            usleep(500);
    }
    return number;
}

// One that blocks all signals.
static void *blocked(void *number) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    return thread(number);
}

// One that waits for a signal, which it blocks otherwise; with `trap` it is that of breakpoints, so that nothing can be
// switched safely.
static void *waits(void *trap) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, trap ? SIGTRAP : SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    timespec time = {0, 1000000};
    while (!over) {
        sigtimedwait(&set, nullptr, &time);
        check(w1(1, 2.0, 3) == 9 && t1(1, 2.0, 3) == 9);
    }
    return trap;
}

int main(int count, char **words) {
    pthread_t threads[THREADS], waiter;
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, nullptr);
    for (uintptr_t n = 0; n < THREADS; n++)
        pthread_create(&threads[n], nullptr, n ? thread : blocked, (void *)n);
    pthread_create(&waiter, nullptr, waits, count > 2 ? words[2] : nullptr);
    itimerval timer = {{0, 500}, {0, 500}}, none = {};
    setitimer(ITIMER_REAL, &timer, nullptr);
    double seconds = count > 1 ? atof(words[1]) : 1;
    timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        usleep(10000);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) / 1e9 < seconds);
    setitimer(ITIMER_REAL, &none, nullptr);
    over = true;
    for (pthread_t one : threads)
        pthread_join(one, nullptr);
    pthread_join(waiter, nullptr);
    static const char *const kinds[KINDS] = {"deep", "throws", "jumps", "handles"};
    for (int n = 0; n < ALL; n++) {
        int at = n % (PLAIN + KINDS);
        char family = n < PLAIN + KINDS ? 'w' : 't';
        if (at < PLAIN)
            printf("%c%d %lu\n", family, at, calls[n]);
        else
            printf("%c%s %lu\n", family, kinds[at - PLAIN], calls[n]);
    }
    printf("wrong %lu\n", wrong.load());
    return 0;
}
