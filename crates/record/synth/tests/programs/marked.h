/* What lies between these two is compared. */
__attribute__((noipa)) void begin_marked(void) { __asm__ volatile(""); }
__attribute__((noipa)) void end_marked(void) { __asm__ volatile(""); }
