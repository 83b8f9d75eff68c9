// Functions that are called inside of another one and outside: says how often each was.
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

struct Truth {
    long handled = 0, steps = 0, leaves = 0, leaves_outside = 0;
};

static thread_local volatile long sink;
static thread_local jmp_buf back;

extern "C" __attribute__((noinline)) void leaf(long n) { sink = sink + n; }

extern "C" __attribute__((noinline)) void step(long n, Truth *truth) {
    truth->steps++;
    for (long i = 0; i < n % 3; i++) {
        leaf(i);
        truth->leaves++;
    }
    asm volatile("");
}

// Inside of itself, too.
extern "C" __attribute__((noinline)) void handle(long n, Truth *truth) {
    truth->handled++;
    step(n, truth);
    if (n % 7 == 3) throw std::runtime_error("handle");
    if (n % 7 == 5) longjmp(back, 1);
    if (n % 11 == 1) handle(n + 1, truth);
    step(n + 1, truth);
    asm volatile("");
}

static void caught(long n, Truth *truth) {
    try {
        handle(n, truth);
    } catch (const std::runtime_error &) {
    }
    leaf(n);
    truth->leaves_outside++;
}

static __attribute__((noinline)) void rounds(long count, Truth *truth) {
    for (volatile long n = 0; n < count; n = n + 1) {
        if (setjmp(back) == 0) caught(n, truth);
        for (long i = 0; i < n % 4; i++) {
            leaf(i);
            truth->leaves_outside++;
        }
    }
}

// Never returns.
extern "C" __attribute__((noinline, noreturn)) void last(Truth *all) {
    for (long i = 0; i < 5; i++) {
        leaf(i);
        all->leaves_outside++;
    }
    fprintf(stderr, "handle %ld\nstep %ld\n", all->handled, all->steps);
    fprintf(stderr, "leaf %ld\noutside %ld\n", all->leaves, all->leaves_outside);
    exit(0);
}

int main(int count, char **words) {
    long each = count > 1 ? atol(words[1]) : 1000;
    char line[16];
    if (fgets(line, sizeof line, stdin) == nullptr) return 1;
    std::vector<Truth> truths(4);
    std::vector<std::thread> threads;
    for (Truth &truth : truths) threads.emplace_back(rounds, each, &truth);
    for (std::thread &thread : threads) thread.join();
    Truth all;
    for (const Truth &truth : truths) {
        all.handled += truth.handled;
        all.steps += truth.steps;
        all.leaves += truth.leaves;
        all.leaves_outside += truth.leaves_outside;
    }
    last(&all);
}
