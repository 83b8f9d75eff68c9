/* Ends by a fault in the middle of a block. */
int main(void) {
    __asm__ volatile("nop\n nop\n movl $1, 0\n nop\n nop" : : : "memory");
    return 0;
}
