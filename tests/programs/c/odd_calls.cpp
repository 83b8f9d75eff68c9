// Calls that begin and end in all the ways that break tracers which put something in the place of return addresses or
// of code. What it prints does not depend on a tracer. Built with -finstrument-functions and -DTRUTH it also says on
// standard error how often each function was called.
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define CALLED __attribute__((noinline, noclone))
#define NOT_COUNTED __attribute__((no_instrument_function))

#ifdef TRUTH
#include <dlfcn.h>
namespace {
struct Count {
    void *function;
    long calls;
};
Count counts[256];
} // namespace
extern "C" {
NOT_COUNTED void __cyg_profile_func_enter(void *function, void *) {
    for (Count &count : counts) {
        if (!count.function) {
            count.function = function;
        }
        if (count.function == function) {
            __atomic_fetch_add(&count.calls, 1, __ATOMIC_RELAXED);
            return;
        }
    }
}
NOT_COUNTED void __cyg_profile_func_exit(void *, void *) {}
}
NOT_COUNTED static void tell() {
    for (const Count &count : counts) {
        Dl_info info;
        if (count.function && dladdr(count.function, &info) && info.dli_sname) {
            fprintf(stderr, "%s %ld\n", info.dli_sname, count.calls);
        }
    }
}
#else
NOT_COUNTED static void tell() {}
#endif

extern "C" {
static volatile long sink;

// Exceptions: through many frames, caught half way, thrown again, with destructors on the way.
struct Guard {
    NOT_COUNTED ~Guard() { sink = sink + 1; }
};
CALLED int thrower(int n) {
    Guard guard;
    if (n == 0) {
        throw std::runtime_error("thrown");
    }
    int below = thrower(n - 1);
    sink = below;
    return below + 1;
}
CALLED int again(int n) {
    try {
        return thrower(n);
    } catch (...) {
        sink = n;
        throw;
    }
}
CALLED int catcher(int n) {
    try {
        return again(n);
    } catch (const std::exception &) {
        return -n;
    }
}

// longjmp over frames, and a setjmp whose function goes on.
static jmp_buf place;
CALLED void jumper(int n) {
    if (n == 0) {
        longjmp(place, 1);
    }
    jumper(n - 1);
    sink = n;
}
CALLED int jumping(int n) {
    if (setjmp(place) == 0) {
        jumper(n);
        return 0;
    }
    sink = n;
    return 1;
}

// All kinds of arguments and results.
struct Large {
    long words[6];
};
CALLED Large large(int n) {
    Large result = {{n, n + 1, n + 2, n + 3, n + 4, n + 5}};
    sink = n;
    return result;
}
CALLED double mixed(int a, double b, long c, float d, const char *e, double f, int g, int h, int i, double j) {
    sink = a;
    return a + b + c + d + e[0] + f + g + h + i + j;
}
CALLED long double extended(long double x) {
    sink = 1;
    return x * 1.25L;
}
CALLED double variadic(int count, ...) {
    va_list list;
    va_start(list, count);
    double sum = 0;
    for (int n = 0; n < count; n++) {
        sum += va_arg(list, double);
    }
    va_end(list);
    sink = count;
    return sum;
}
typedef double Four __attribute__((vector_size(32)));
__attribute__((target("avx"))) CALLED Four four(Four a, Four b) {
    sink = 4;
    return a + b;
}

// A deep recursion, deeper than any table of fixed size; functions that become others by a jump.
CALLED int deep(int n) {
    if (n == 0) {
        return 0;
    }
    int below = deep(n - 1);
    sink = n;
    return below + 1;
}
CALLED int last(int n) {
    sink = n;
    return n + 1;
}
CALLED int jumps_to_last(int n) {
    sink = n;
    return last(n * 2);
}

// Contexts on stacks of their own, in turns; one is left in the middle.
static ucontext_t home, ours, theirs;
static char our_stack[1 << 16], their_stack[1 << 16];
CALLED void step(int n) { sink = n; }
CALLED void gives_way(ucontext_t *from, ucontext_t *to, int n) {
    step(n);
    swapcontext(from, to);
    step(-n);
}
CALLED void our_way() {
    for (int n = 0; n < 5; n++) {
        gives_way(&ours, &theirs, n);
    }
    swapcontext(&ours, &home);
}
CALLED void their_way() {
    for (int n = 0;; n++) {
        gives_way(&theirs, &ours, n);
    }
}

// Signals, on the alternate stack, too.
CALLED void in_handler(int n) { sink = n; }
CALLED void handler(int signal) { in_handler(signal); }

// Threads that end in the middle.
CALLED void leaves(int n) {
    if (n == 0) {
        pthread_exit(reinterpret_cast<void *>(7));
    }
    leaves(n - 1);
    sink = n;
}
CALLED void *leaver(void *) {
    leaves(4);
    return nullptr;
}
CALLED void *sleeper(void *) {
    for (;;) {
        sleep(1);
    }
}
CALLED void *worker(void *) {
    for (int n = 0; n < 100; n++) {
        step(n);
    }
    return nullptr;
}
}

NOT_COUNTED static void contexts() {
    getcontext(&ours);
    ours.uc_stack.ss_sp = our_stack;
    ours.uc_stack.ss_size = sizeof our_stack;
    makecontext(&ours, our_way, 0);
    getcontext(&theirs);
    theirs.uc_stack.ss_sp = their_stack;
    theirs.uc_stack.ss_size = sizeof their_stack;
    makecontext(&theirs, their_way, 0);
    swapcontext(&home, &ours);
}

NOT_COUNTED int main() {
    setvbuf(stdout, nullptr, _IONBF, 0);
    int sum = 0;
    for (int n = 0; n < 10; n++) {
        sum += catcher(n);
    }
    printf("exceptions %d\n", sum);
    printf("longjmp %d\n", jumping(5) + jumping(0));
    Large result = large(3);
    printf("large %ld %ld\n", result.words[0], result.words[5]);
    printf("mixed %.2f\n", mixed(1, 2.5, 3, 4.5f, "a", 6.5, 7, 8, 9, 10.5));
    printf("extended %.3Lf\n", extended(2.0L));
    printf("variadic %.2f\n", variadic(9, 1., 2., 3., 4., 5., 6., 7., 8., 9.));
    if (__builtin_cpu_supports("avx")) {
        volatile double one = 1;
        double wanted[4] = {one, 2 * one, 3 * one, 4 * one};
        double got[4];
        [&]() __attribute__((target("avx"), noinline, no_instrument_function)) {
            Four a = {wanted[0], wanted[1], wanted[2], wanted[3]};
            Four sum = four(a, a);
            for (int n = 0; n < 4; n++) {
                got[n] = sum[n];
            }
        }();
        printf("four %.1f %.1f %.1f %.1f\n", got[0], got[1], got[2], got[3]);
    }
    printf("deep %d\n", deep(20000));
    printf("jumps %d\n", jumps_to_last(20));
    contexts();
    printf("contexts\n");

    stack_t stack = {};
    stack.ss_size = 1 << 16;
    stack.ss_sp = malloc(stack.ss_size);
    sigaltstack(&stack, nullptr);
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &action, nullptr);
    for (int n = 0; n < 100; n++) {
        raise(SIGUSR1);
    }
    printf("signals\n");

    pthread_t threads[4];
    for (pthread_t &thread : threads) {
        pthread_create(&thread, nullptr, worker, nullptr);
    }
    for (pthread_t &thread : threads) {
        pthread_join(thread, nullptr);
    }
    void *ended;
    pthread_create(&threads[0], nullptr, leaver, nullptr);
    pthread_join(threads[0], &ended);
    printf("exit %ld\n", reinterpret_cast<long>(ended));
    pthread_create(&threads[0], nullptr, sleeper, nullptr);
    usleep(10000);
    pthread_cancel(threads[0]);
    pthread_join(threads[0], &ended);
    printf("cancelled %d\n", ended == PTHREAD_CANCELED);
    tell();

    pid_t child = fork();
    if (child == 0) {
        _exit(catcher(3) == -3 && deep(100) == 100 ? 5 : 6);
    }
    int status;
    waitpid(child, &status, 0);
    printf("fork %d\n", WEXITSTATUS(status));
    child = vfork();
    if (child == 0) {
        _exit(9);
    }
    waitpid(child, &status, 0);
    printf("vfork %d\n", WEXITSTATUS(status));
    printf("system %d\n", system("exit 4") >> 8);
    return 0;
}
