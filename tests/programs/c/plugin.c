/* A shared library with events, a switch and a probe of its own, for dlopen.c. */
#include "tick.h"
#include <mote.h>

MOTE_SWITCH(loaded);

int plugin_run(int times);

static void on_tick(uint32_t number, uint32_t nanos, uint8_t even, void *data) {
    *(int *)data += (int)number + (int)nanos + even;
}

static void by_static(int i) { mote_event(plugin, run, MOTE_INFO, "one run of the plugin", mote_i32(number, i)); }

int plugin_run(int times) {
    /* An object that contains the library stays loaded. */
    int sum = 0;
    if (mote_switched(loaded) || mote_switch_set(&loaded, 1) || !mote_switched(loaded)) return -1000;
    struct mote_connection *connection = mote_connect(clock, tick, on_tick, &sum);
    if (!connection) return -1000;
    for (int i = 0; i < times; i++) {
        by_static(i);
        mote_emit(clock, tick, (uint32_t)i, 0);
    }
    mote_disconnect(connection);
    if (mote_switch_set(&loaded, 0)) return -1000;
    if (!mote_wait_for_probes() || sum != times * (times - 1) / 2 + (times + 1) / 2) return -1000;
    return 2 * times;
}
