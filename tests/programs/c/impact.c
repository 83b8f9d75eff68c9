/* A program with a place for a tracer, and a tracer of a known number of instructions.
 *
 * -DTRACER makes the library that is to be preloaded: 5 instructions for each event, and the number of events in the
 * file that COUNT_FILE names. Otherwise the program: argument 1 is how many events there are. Bare, an event is the
 * three instructions that find no tracer; with one, a call more, and what that executes.
 */
#include <stdio.h>
#include <stdlib.h>

#ifdef TRACER
unsigned long traced;

__asm__(".text\n"
        ".globl on_event\n"
        ".type on_event, @function\n"
        "on_event:\n"
        "    mov traced@GOTPCREL(%rip), %rax\n"
        "    incq (%rax)\n"
        "    nop\n"
        "    nop\n"
        "    ret\n"
        ".size on_event, . - on_event\n");

/* What is once: it is no part of an event. */
__attribute__((constructor)) static void begin(void) {
    for (volatile int i = 0; i < 100000; i++)
        ;
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("COUNT_FILE");
    FILE *file = path && traced ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%lu\n", traced);
        fclose(file);
    }
}
#else
void work(void);

__asm__(".text\n"
        ".weak on_event\n"
        ".globl work\n"
        ".type work, @function\n"
        "work:\n"
        "    mov on_event@GOTPCREL(%rip), %rax\n"
        "    test %rax, %rax\n"
        "    je 1f\n"
        "    call *%rax\n"
        "1:  ret\n"
        ".size work, . - work\n");

int main(int count, char **words) {
    long rounds = count > 1 ? atol(words[1]) : 1000;
    for (long i = 0; i < rounds; i++)
        work();
    return 0;
}
#endif
