// A program with functions and static probes to be probed: `app N` calls each N times.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// A static probe as sys/sdt.h of SystemTap makes it: a NOP, and a note about it.
#define PROBE(provider, name, semaphore, arguments, ...)                                     \
    __asm__ volatile("990: nop\n"                                                            \
                     ".pushsection .note.stapsdt,\"\",\"note\"\n"                            \
                     ".balign 4\n"                                                           \
                     ".4byte 992f-991f, 994f-993f, 3\n"                                      \
                     "991: .asciz \"stapsdt\"\n"                                             \
                     "992: .balign 4\n"                                                      \
                     "993: .8byte 990b, _.stapsdt.base, " semaphore "\n"                     \
                     ".asciz \"" provider "\", \"" name "\", \"" arguments "\"\n"            \
                     "994: .balign 4\n"                                                      \
                     ".popsection\n"                                                         \
                     ".ifndef _.stapsdt.base\n"                                              \
                     ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
                     ".weak _.stapsdt.base\n"                                                \
                     ".hidden _.stapsdt.base\n"                                              \
                     "_.stapsdt.base: .space 1\n"                                            \
                     ".popsection\n"                                                         \
                     ".endif\n" ::__VA_ARGS__)

enum color { RED, GREEN };
__attribute__((section(".probes"), used)) volatile unsigned short app_tick_semaphore;
volatile unsigned long total;

__attribute__((noinline)) long work(int number, const char *name, enum color color, unsigned long wide) {
    total += number + name[0] + color + wide;
    return -number;
}
__attribute__((noinline)) long many(long a, long b, long c, long d, long e, long f, long g, long h) {
    __asm__ volatile("");
    return a + b + c + d + e + f + g + h;
}
__attribute__((noinline)) double scale(double x, int by) {
    __asm__ volatile("");
    return x * by;
}
__attribute__((noinline)) const char *greet(int again) {
    __asm__ volatile("");
    return again ? "hello again" : "hello";
}
__attribute__((noinline)) void twin_a(void) { __asm__ volatile("nop"); }
__attribute__((noinline)) void twin_b(void) { __asm__ volatile("nop; nop"); }
__attribute__((noinline)) void tick(int number) {
    unsigned long square = (unsigned long)number * number;
    if (app_tick_semaphore) total++;
    PROBE("app", "tick", "app_tick_semaphore", "-4@%0 8@%1 -4@%2", "nor"(number), "nor"(square), "n"(5));
}
__attribute__((noinline)) void tock(int number) {
    PROBE("other", "tock", "0", "4@%0", "nor"(number));
    if (number & 1)
        PROBE("app", "twice", "0", "-4@%0", "nor"(number));
    else
        PROBE("app", "twice", "0", "-4@%0", "n"(-7));
    const char *text = number & 1 ? "an odd number" : "";
    // A probe cannot wait for the page that the text is in.
    total += text[0];
    PROBE("app", "said", "0", "8@%0 -4@%1", "nor"(text), "nor"(number));
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 0;
    int before = app_tick_semaphore;
    for (int number = 0; number < rounds; number++) {
        work(number, "name", number & 1, 1ul << 40);
        many(1, 2, 3, 4, 5, 6, 7, number);
        scale(1.5, number);
        greet(number);
        twin_a();
        twin_b();
        tick(number);
        tock(number);
    }
    // With a second argument it stays, until its standard input is closed.
    if (argc > 2) {
        printf("semaphore %d\n", before);
        fflush(stdout);
        char byte;
        while (read(0, &byte, 1) > 0) {
            printf("semaphore %d\n", app_tick_semaphore);
            fflush(stdout);
        }
    }
    return 0;
}
