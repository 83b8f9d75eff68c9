/* A library that is loaded while a program runs (loads_late.c). */

static volatile int sink;

__attribute__((noinline)) int late_work(int x) {
    sink = x;
    return x * 5 + 2;
}
