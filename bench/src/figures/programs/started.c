/* Says when its `main` began: for the benchmark `startup`, with an event of libmote.so and without. */
#include <stdio.h>
#include <time.h>

#ifndef WITHOUT_MOTE
#include <mote.h>
#endif

int main(void) {
    struct timespec began;
    clock_gettime(CLOCK_MONOTONIC, &began);
#ifndef WITHOUT_MOTE
    mote_event(bench, started_c, MOTE_INFO, "main has begun", mote_i32(zero, 0));
#endif
    printf("%lld\n", (long long)began.tv_sec * 1000000000 + began.tv_nsec);
    return 0;
}
