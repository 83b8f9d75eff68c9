/* Sections between two instructions, with as many others between as somebody says; runs of pause; locked instructions;
   and a function that only one of two builds has (-DEXTRA). */
#include <string.h>

/* 2 * turns instructions, and the sfence. */
__attribute__((noinline)) void section(long turns) {
    __asm__ volatile("lfence\n1: dec %0\n jnz 1b\n sfence" : "+r"(turns));
}

/* A run of pause, with 2 others between. */
__attribute__((noinline)) void relax(long turns) {
    __asm__ volatile("1: pause\n dec %0\n jnz 1b" : "+r"(turns));
}

__attribute__((noinline)) void flags(void) {
    __asm__ volatile("pushf\n nop\n popf" : : : "memory", "cc");
}

static volatile long counter;

__attribute__((noinline)) void locked(int times) {
    while (times-- > 0)
        __asm__ volatile("lock xaddq %0, %1" : : "r"(1L), "m"(counter) : "memory");
}

/* 4 instructions. */
__asm__(".text\n .type extra, @function\n extra: nop\n nop\n nop\n ret\n .size extra, . - extra\n");
extern void extra(void);

__attribute__((noinline)) void worker(int times) {
    for (int i = 0; i < times; i++) {
        flags();
#ifdef EXTRA
        extra();
#endif
    }
}

int main(int count, char **words) {
    for (int i = 1; i <= 30; i++)
        section(i);
    section(5000);
    for (int i = 1; i <= 12; i++)
        relax(i);
    locked(17);
    worker(7);
    return count + (int)strlen(words[0]) < 0;
}
