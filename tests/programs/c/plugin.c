/* A shared library with events, for dlopen.c. */
#include "tick.h"
#include <mote.h>

int plugin_run(int times);

static void by_static(int i) { mote_event(plugin, run, MOTE_INFO, "one run of the plugin", mote_i32(number, i)); }

int plugin_run(int times) {
    for (int i = 0; i < times; i++) {
        by_static(i);
        mote_emit(clock, tick, (uint32_t)i, 0);
    }
    return 2 * times;
}
