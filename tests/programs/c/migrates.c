/* Two threads on two processors, which change places while the kernel patches itself under them, and a process that
   writes code which both execute. Says how often they have changed places. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROUNDS = 12 };

static volatile unsigned long sums[2];
static volatile int moves[2];
static unsigned char *code;
static pthread_barrier_t barrier;

__attribute__((noinline)) static unsigned long turns(unsigned long sum, int count) {
    for (int i = 0; i < count; i++)
        sum = sum * 31 + (sum & 4 ? 1 : 3);
    return sum;
}

/* On one processor here, on the other one there. */
__attribute__((noinline)) static void here(int which) {
    sums[which] = turns(sums[which], 2000);
    sched_yield();
}

__attribute__((noinline)) static void there(int which) {
    sums[which] = turns(sums[which], 3000);
    sched_yield();
}

static void move_to(int which, int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    moves[which]++;
    if (cpu != sched_getcpu())
        moves[which] = 1000;
    (cpu ? there : here)(which);
}

static void *worker(void *argument) {
    int which = argument != NULL;
    for (int round = 0; round < ROUNDS; round++) {
        move_to(which, (round + which) % 2);
        pthread_barrier_wait(&barrier);
        if (which == 0) {
            code[1] = round;
            /* The scheduler's statistics are behind a static key; the other thread is in the scheduler meanwhile. */
            int file = open("/proc/sys/kernel/sched_schedstats", O_RDWR);
            write(file, round % 2 ? "0" : "1", 1);
            close(file);
        } else {
            for (int i = 0; i < 30; i++)
                sched_yield();
        }
        pthread_barrier_wait(&barrier);
        sums[which] += ((int (*)(void))code)();
    }
    return NULL;
}

int main(void) {
    code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, "\270\0\0\0\0\303", 6); /* mov $i, %eax; ret */
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_t other;
    pthread_create(&other, NULL, worker, "other");
    worker(NULL);
    pthread_join(other, NULL);
    printf("%d %d moves\n", moves[0], moves[1]);
}
