/* Handlers: of a signal that a thread sends itself, of faults that are got over by changing the context or by
   siglongjmp, of a fault in the middle of REP, of a jump to nowhere; calls that are left by longjmp. */
#define _GNU_SOURCE
#include "marked.h"
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static sigjmp_buf back;
static jmp_buf plain;
static volatile int count;
static char *page;

static void counts(int signal) { count += signal; }

static void maps(int signal, siginfo_t *info, void *context) {
    count += signal;
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

/* The instruction is tried again, and fails, twice. */
static void retries(int signal, siginfo_t *info, void *context) {
    static int tries;
    count += signal;
    if (++tries == 3)
        mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void skips(int signal, siginfo_t *info, void *context) {
    count += signal;
    /* UD2 has 2 bytes. */
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

static void jumps(int signal) { siglongjmp(back, signal); }

static void set(int signal, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    sigaction(signal, &action, 0);
}

static void set_info(int signal, void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(signal, &action, 0);
}

__attribute__((noinline)) static void leaves(int n) {
    if (n == 0)
        longjmp(plain, 1);
    leaves(n - 1);
    count++;
}

__attribute__((noinline)) static void store(volatile char *to) {
    count++;
    *to = 1;
    count++;
}

int main(void) {
    page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    begin_marked();
    set(SIGUSR1, counts);
    kill(getpid(), SIGUSR1);
    set_info(SIGSEGV, maps);
    mprotect(page, 4096, PROT_NONE);
    store(page);
    mprotect(page, 4096, PROT_NONE);
    {
        /* Backwards into the page without access: the fault comes in the middle. */
        void *to = page + 4096 + 40;
        unsigned long n = 80;
        __asm__ volatile("std\n rep stosb\n cld" : "+D"(to), "+c"(n) : "a"(0) : "memory");
    }
    set_info(SIGSEGV, retries);
    mprotect(page, 4096, PROT_NONE);
    store(page);
    set_info(SIGILL, skips);
    __asm__ volatile("ud2");
    set(SIGSEGV, jumps);
    if (sigsetjmp(back, 1) == 0)
        store(0);
    if (sigsetjmp(back, 1) == 0)
        ((void (*volatile)(void))16)();
    set(SIGFPE, jumps);
    if (sigsetjmp(back, 1) == 0)
        __asm__ volatile("xor %%ecx, %%ecx\n div %%ecx" : : : "eax", "ecx", "edx");
    set(SIGTRAP, counts);
    __asm__ volatile("int3");
    if (setjmp(plain) == 0)
        leaves(5);
    end_marked();
    return 0;
}
