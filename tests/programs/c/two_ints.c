/* An event with two integers, again and again: argument 1 is how often.
 *
 * -DMOTE: an event of mote's; -DLTTNG: one of LTTng-UST; -DCALLS: a system call; otherwise the call of a function, for
 * tracers of these.
 */
#include <stdlib.h>

#if defined MOTE
#include <mote.h>
#elif defined LTTNG
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "two_ints_lttng.h"
#elif defined CALLS
#include <sys/syscall.h>
#include <unistd.h>
#endif

static __attribute__((noinline)) void event(int i, unsigned long v) {
#if defined MOTE
    mote_event(bench, two_ints, MOTE_INFO, "", mote_i32(i, i), mote_u64(v, v));
#elif defined LTTNG
    lttng_ust_tracepoint(bench, two_ints, i, v);
#elif defined CALLS
    syscall(SYS_getppid, i, v);
#endif
    __asm__ volatile("" : : "r"(i), "r"(v));
}

int main(int count, char **words) {
    unsigned long events = count > 1 ? strtoul(words[1], 0, 10) : 1000;
    for (unsigned long i = 0; i < events; i++)
        event((int)i, i * 3);
    return 0;
}
