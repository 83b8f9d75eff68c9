/* A program that is built with -finstrument-functions, with hooks of its own, which count. Prints how often they were
 * called, once, or with `steadily` again and again. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static long hooks;
__attribute__((no_instrument_function, noipa)) void __cyg_profile_func_enter(void *function, void *caller) {
    (void)function, (void)caller;
    hooks++;
}
__attribute__((no_instrument_function, noipa)) void __cyg_profile_func_exit(void *function, void *caller) {
    (void)function, (void)caller;
    hooks++;
}

__attribute__((noinline)) static int inner(int x) { return x * x; }
__attribute__((noinline)) int outer(int x) { return inner(x) + inner(x + 1); }
__attribute__((noinline)) void say(int x) {
    printf("%d, hooks %ld\n", x, hooks);
    fflush(stdout);
}

int main(int argc, char **argv) {
    int steadily = argc > 1 && !strcmp(argv[1], "steadily");
    do {
        say(outer(argc));
        usleep(steadily ? 1000 : 0);
    } while (steadily);
    return 0;
}
