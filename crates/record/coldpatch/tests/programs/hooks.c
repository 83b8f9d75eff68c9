/* Hooks that count. They change every register that they may, so that code which relies on one is noticed. */
static long calls;

long hook_calls(void) { return calls; }

static void change_registers(void) {
    __asm__ volatile("xor %%eax, %%eax; xor %%ecx, %%ecx; xor %%edx, %%edx; xor %%esi, %%esi; xor %%edi, %%edi;"
                     "xor %%r8d, %%r8d; xor %%r9d, %%r9d; xor %%r10d, %%r10d; xor %%r11d, %%r11d"
                     ::: "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc");
}

void __cyg_profile_func_enter(void *function, void *caller) {
    (void)function, (void)caller;
    calls++;
    change_registers();
}

void __cyg_profile_func_exit(void *function, void *caller) {
    (void)function, (void)caller;
    calls++;
    change_registers();
}
