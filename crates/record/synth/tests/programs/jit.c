/* Code that is made, executed, changed in its place, and executed again; at last code that changes itself. */
#include "marked.h"
#include <string.h>
#include <sys/mman.h>

/* mov $N, %eax; ret */
static const unsigned char made[] = {0xb8, 1, 0, 0, 0, 0xc3};
/* movb $7, 4(%rip): the number of the next instruction, mov $0, %eax; ret */
static const unsigned char changing[] = {0xc6, 0x05, 1, 0, 0, 0, 7, 0xb8, 0, 0, 0, 0, 0xc3};

int main(void) {
    /* The same place under any engine. */
    unsigned char *page = mmap((void *)0x10000000, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    int sum = 0;
    begin_marked();
    memcpy(page, made, sizeof made);
    for (int i = 0; i < 3; i++) {
        page[1] = i;
        sum += ((int (*)(void))page)();
    }
    memcpy(page + 64, changing, sizeof changing);
    sum += ((int (*)(void))(page + 64))();
    end_marked();
    return sum;
}
