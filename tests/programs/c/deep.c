// Asks for its session (getsid) from where stacks are hard to follow, each time with another number: which is not a
// process, so the call fails. Built without frame pointers.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))
static volatile int count;

APART void ask(int number) { getsid(number); count++; }

// Tail calls and frames without a pointer, of different sizes.
APART void third(int number) {
    volatile char room[100];
    room[number & 63] = 1;
    ask(number);
    room[number & 31] = 2;
}
APART void second(int number) { third(number); count++; }
APART void first(int number) { second(number); count++; }

// From a function of the C library.
static int number_of_sort;
APART int compare(const void *a, const void *b) {
    first(number_of_sort);
    return *(const int *)a - *(const int *)b;
}

// From a handler, on a stack of its own or not.
APART void handler(int signal) {
    first(signal == SIGUSR1 ? 900003 : 900004);
    count++;
}
APART void interrupted(int signal) { raise(signal); count++; }

APART void *thread(void *number) {
    first((int)(long)number);
    return number;
}

// Deeper than any copy.
APART int dig(int depth, int number) {
    volatile char room[1000];
    memset((void *)room, depth, sizeof room);
    if (depth == 0) ask(number); else count += dig(depth - 1, number);
    return room[depth & 511];
}

int main(void) {
    first(900001);
    number_of_sort = 900002;
    int numbers[] = {2, 1};
    qsort(numbers, 2, sizeof(int), compare);
    static char room[64 << 10];
    stack_t own = {.ss_sp = room, .ss_size = sizeof room};
    sigaltstack(&own, 0);
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, 0);
    interrupted(SIGUSR1);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR2, &action, 0);
    interrupted(SIGUSR2);
    pthread_t other;
    pthread_create(&other, 0, thread, (void *)900005L);
    pthread_join(other, 0);
    dig(30, 900006);
    return 0;
}
