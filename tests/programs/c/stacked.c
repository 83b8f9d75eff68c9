/* Events from many kinds of stacks; each says by a number where it is. */
#define _GNU_SOURCE
#include "mote.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

__attribute__((noinline)) int third(int number) {
    mote_event(stacked, here, MOTE_INFO, "an event", mote_u32(number, (unsigned)number), mote_str(text, "t"));
    return number + 1;
}
__attribute__((noinline)) int second(int number) { return third(number) * 2; }
__attribute__((noinline)) int first(int number) { return second(number) + 1; }

static int compare(const void *a, const void *b) {
    first(2);
    return *(const int *)a - *(const int *)b;
}

__attribute__((noinline)) static void handler(int signal) { first(signal == SIGUSR1 ? 3 : 4); }
__attribute__((noinline)) static void interrupted(int signal) {
    raise(signal);
    __asm__ volatile("");
}

static void *thread(void *number) {
    first((int)(long)number);
    return 0;
}

__attribute__((noinline)) static int dig(int number, int depth) {
    volatile char place[1000];
    place[0] = (char)depth;
    return (depth ? dig(number, depth - 1) : first(number)) + place[0];
}
static void *digging(void *number) {
    dig((int)(long)number, 4);
    dig((int)(long)number + 1, 30);
    return 0;
}

static ucontext_t outside, inside;
static void coroutine(void) { first(8); }

static void in_thread(void *(*begin)(void *), long number, size_t stack) {
    pthread_t id;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (stack) pthread_attr_setstacksize(&attributes, stack);
    pthread_create(&id, &attributes, begin, (void *)number);
    pthread_join(id, 0);
}

/* With an argument it is half a second later that it begins, after many events of its first number. */
int main(int count, char **words) {
    (void)words;
    for (int n = 0; count > 1 && n < 100; n++) {
        first(1);
        usleep(5000);
    }
    first(1);
    int numbers[] = {2, 1};
    qsort(numbers, 2, sizeof *numbers, compare);
    size_t size = 64 << 10;
    char *memory = mmap(0, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t other = {.ss_sp = memory, .ss_size = size};
    sigaltstack(&other, 0);
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, 0);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR2, &action, 0);
    interrupted(SIGUSR1);
    interrupted(SIGUSR2);
    in_thread(thread, 5, 0);
    in_thread(digging, 6, 256 << 10);
    getcontext(&inside);
    inside.uc_stack.ss_sp = memory + size;
    inside.uc_stack.ss_size = size;
    inside.uc_link = &outside;
    makecontext(&inside, coroutine, 0);
    swapcontext(&outside, &inside);
    pid_t child = fork();
    if (child == 0) {
        first(9);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    dig(10, 30);
    return status;
}
