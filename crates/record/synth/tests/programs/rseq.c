/* Asks for restartable sequences by itself, and goes through one, where there are any, until it gets to its end.
   Ends with the error that the kernel has answered, or 0. */
#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

struct area {
    uint32_t cpu_start, cpu;
    uint64_t sequence;
    uint32_t flags, node, id, end;
} __attribute__((aligned(32)));
static struct area area;

struct sequence {
    uint32_t version, flags;
    uint64_t start, bytes, abort;
} __attribute__((aligned(32)));

int main(void) {
    if (syscall(SYS_rseq, &area, sizeof area, 0, 0x53053053) != 0)
        return errno;
    volatile int done = 0;
    __asm__ volatile(".pushsection .data\n"
                     ".balign 32\n"
                     "7: .long 0, 0\n"
                     ".quad 1f, 2f - 1f, 4f\n"
                     ".popsection\n"
                     ".pushsection .text.abort, \"ax\"\n"
                     ".long 0x53053053\n"
                     "4: jmp 3f\n"
                     ".popsection\n"
                     "3: lea 7b(%%rip), %%rax\n"
                     "mov %%rax, %0\n"
                     "1: nop\n"
                     "movl $1, %1\n"
                     "2:\n"
                     : "=m"(area.sequence), "=m"(done)
                     :
                     : "rax");
    return done ? 0 : 1;
}
