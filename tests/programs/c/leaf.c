/* Functions with and without an event, whose machine code is compared. */
#include "tick.h"

int leaf(int x);
int leaf_bare(int x);
int declared(int x);
long loop(const int *numbers, int count, long start);

int leaf(int x) {
    mote_event(golden, leaf, MOTE_INFO, "two numbers", mote_i32(a, x), mote_u64(b, 7));
    return x * 3;
}

int leaf_bare(int x) { return x * 3; }

int declared(int x) {
    mote_emit(clock, tock);
    return x * 3;
}

long loop(const int *numbers, int count, long sum) {
    for (int i = 0; i < count; i++) {
        sum += numbers[i] ^ sum;
        mote_event(golden, turn, MOTE_INFO, "in a loop", mote_i32(i, i), mote_i64(sum, sum));
    }
    return sum;
}
