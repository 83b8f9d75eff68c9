/* What a processor does beside a program's own instructions: system calls, page faults, a timer, signals, another
   process, another program, code that changes, and a kernel that patches itself. Says how often its handler has run. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLS = 10, PAGES = 40, KEYS = 4 };

static volatile int alarms;
static volatile unsigned long sum;

static void handler(int signal) { alarms++; }

__attribute__((noinline)) void calls(void) {
    for (int i = 0; i < CALLS; i++)
        sum += syscall(SYS_getpid);
}

__attribute__((noinline)) void faults(void) {
    volatile char *pages = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < PAGES; i++)
        pages[i * 4096] = 1;
}

__attribute__((noinline)) void turns(int count) {
    for (int i = 0; i < count; i++)
        sum = sum * 31 + (sum & 4 ? 1 : 3);
}

__attribute__((noinline)) void other_program(void) { turns(1000); }

__attribute__((noinline)) void changing_code(void) {
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 3; i++) {
        memcpy(code, "\270\0\0\0\0\303", 6); /* mov $i, %eax; ret */
        code[1] = i;
        sum += ((int (*)(void))code)();
    }
}

/* The scheduler's statistics are behind a static key. */
__attribute__((noinline)) void static_key(void) {
    int file = open("/proc/sys/kernel/sched_schedstats", O_RDWR);
    for (int i = 0; i < KEYS; i++) {
        write(file, i % 2 ? "0" : "1", 1);
        sched_yield();
        usleep(100);
    }
}

int main(int count, char **words) {
    if (count > 1) {
        other_program();
        return 7;
    }
    signal(SIGALRM, handler);
    struct itimerval often = {{0, 3000}, {0, 3000}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    calls();
    faults();
    turns(300000);
    pid_t child = fork();
    if (child == 0) {
        faults();
        execl("/proc/self/exe", "other", "program", NULL);
        _exit(1);
    }
    int status;
    while (waitpid(child, &status, 0) < 0)
        ;
    changing_code();
    setitimer(ITIMER_REAL, &never, NULL);
    static_key();
    printf("%d alarms, the other program has said %d\n", alarms, WEXITSTATUS(status));
    return 5;
}
