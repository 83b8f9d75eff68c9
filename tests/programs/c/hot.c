/* Spends three quarters of its time in one function and a quarter in another, three calls deep, without frame
   pointers; on a second thread, too. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define CALLED __attribute__((noinline, noclone))

static volatile unsigned sink;

CALLED unsigned spin(unsigned turns)
{
    unsigned x = turns;
    for (unsigned n = 0; n < turns; n++)
        x = x * 1664525u + 1013904223u;
    sink = x;
    return x;
}

CALLED unsigned much(unsigned turns) { return spin(3 * turns) + 1; }
CALLED unsigned little(unsigned turns) { return spin(turns) + 2; }

CALLED unsigned work(unsigned turns)
{
    unsigned sum = 0;
    for (int n = 0; n < 100; n++)
        sum += much(turns) + little(turns);
    return sum;
}

static void *other(void *turns)
{
    return (void *)(size_t)work((unsigned)(size_t)turns);
}

int main(int argc, char **argv)
{
    unsigned turns = argc > 1 ? (unsigned)atoi(argv[1]) : 500000;
    pthread_t thread;

    pthread_create(&thread, NULL, other, (void *)(size_t)turns);
    printf("%u\n", work(turns) != 1);
    pthread_join(thread, NULL);
    return 0;
}
