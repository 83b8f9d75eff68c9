/* Events declared once and emitted by several programs. */
#ifndef TICK_H
#define TICK_H

#include <mote.h>

MOTE_TRACEPOINT(clock, tick, MOTE_INFO, "the clock ticks", (uint32_t number, uint32_t nanos), mote_u32(number, number),
                mote_u32(nanos, nanos), mote_bool(even, number % 2 == 0))
MOTE_TRACEPOINT(clock, tock, MOTE_DEBUG, "and tocks", (void))

#endif
