/* A program whose functions end in all the ways that compilers know: with a jump, after a call, with a value in a
 * register that exit hooks must not lose. Prints what it computes, then how often hooks were called. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((no_instrument_function)) long hook_calls(void);

static inline int twice(int x) { return 2 * x; }
__attribute__((noinline)) int sum(int a, int b) { return twice(a) + b; }
__attribute__((noinline)) double half(double x) { return x / 2; }
__attribute__((noinline)) void say(const char *what, int x) { printf("%s %d\n", what, x); }
__attribute__((noinline)) int depth(int n) { return n ? 1 + depth(n - 1) : 0; }
__attribute__((noinline)) static void early(int x) {
    if (x > 2)
        return;
    say("early", x);
}

int main(int argc, char **argv) {
    (void)argv;
    say("sum", sum(argc, 40));
    for (int i = 0; i < 5; i++)
        early(i);
    say("depth", depth(50));
    printf("half %.2f\n", half(argc * 3.5));
    printf("calls %ld\n", hook_calls());
    return 0;
}
