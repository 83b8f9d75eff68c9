// A loop of 9 instructions, again and again: branches that are equally far apart. Without a C library.
__asm__(".globl _start\n"
        "_start: mov $200000, %ecx\n"
        "1: nop\n nop\n nop\n nop\n nop\n nop\n nop\n"
        "   dec %ecx\n"
        "   jnz 1b\n"
        "   mov $60, %eax\n"
        "   xor %edi, %edi\n"
        "   syscall\n");
