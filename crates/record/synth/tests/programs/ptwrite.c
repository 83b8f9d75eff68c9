/* PTWRITE of registers and memory, in bytes: the assembler need not know it. */
#include "marked.h"
static unsigned long numbers[4] = {0x1122334455667788, 2, 3, 4};
static __thread unsigned int own = 77;

__attribute__((noinline)) static void writes(unsigned long value) {
    /* ptwrite rdi; ptwrite edi; ptwrite qword [rsi + rcx * 8]; ptwrite dword [rsi] */
    __asm__ volatile(".byte 0xf3, 0x48, 0x0f, 0xae, 0xe7\n"
                     ".byte 0xf3, 0x0f, 0xae, 0xe7\n"
                     ".byte 0xf3, 0x48, 0x0f, 0xae, 0x24, 0xce\n"
                     ".byte 0xf3, 0x0f, 0xae, 0x26\n"
                     :
                     : "D"(value), "S"(numbers), "c"(value & 3));
}

int main(void) {
    begin_marked();
    for (unsigned long i = 0; i < 5; i++)
        writes(i | i << 40);
    unsigned long thread;
    __asm__("mov %%fs:0, %0" : "=r"(thread));
    /* ptwrite dword [fs:rdi] */
    __asm__ volatile(".byte 0x64, 0xf3, 0x0f, 0xae, 0x27" : : "D"((unsigned long)&own - thread));
    end_marked();
    return 0;
}
