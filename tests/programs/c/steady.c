/* Calls the same functions again and again, and prints a line now and then; with `block`, beside a thread that blocks
   all signals. With `slow` three calls take 10 ms. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CALLED __attribute__((noinline, noclone))

static volatile int sink;

CALLED int inner(int x) {
    sink = x;
    return x * 3 + 1;
}

CALLED int outer(int x) {
    int sum = 0;
    for (int n = 0; n < 3; n++) {
        sum += inner(x + n);
    }
    sink = sum;
    return sum;
}

CALLED void slow(int us) {
    sink = us;
    usleep(us);
    sink = us + 1;
}

CALLED void swift(int x) {
    sink = x;
    sink = x + 1;
}

static void *blocks(void *nothing) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (;;) {
        usleep(1000);
    }
    return nothing;
}

int main(int count, char **words) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *word = count > 1 ? words[1] : "";
    if (strcmp(word, "slow") == 0) {
        for (int n = 0; n < 6; n++) {
            slow(n % 2 ? 10000 : 1);
            swift(n);
        }
        puts("slow");
        return 0;
    }
    if (strcmp(word, "block") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, blocks, NULL);
    }
    for (int round = 0;; round++) {
        for (int n = 0; n < 100; n++) {
            outer(n);
        }
        usleep(1000);
        printf("%d\n", round);
    }
}
