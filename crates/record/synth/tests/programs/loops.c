/* Loops, recursion, function pointers, a switch, REP: no system call between the markers. */
#include "marked.h"

static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

static int twice(int n) { return 2 * n; }
static int square(int n) { return n * n; }
static int (*const functions[])(int) = {twice, square, fib};

static int deep(int n) { return n == 0 ? 0 : 1 + deep(n - 1); }

static void copy(void *to, const void *from, unsigned long n) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

static char from[100], to[100];
static volatile int sum;

int main(void) {
    begin_marked();
    for (int i = 0; i < 30; i++) {
        sum += functions[i % 3](i % 10);
        switch (i % 7) {
        case 0: sum ^= 5; break;
        case 1: sum -= 3; break;
        case 2: sum *= 7; break;
        case 3: sum |= 1; break;
        case 4: sum += 11; break;
        default: sum &= ~2;
        }
        copy(to, from, i);
    }
    sum += deep(100);
    end_marked();
    return 0;
}
