/* Switches and events of own.c and own2.c. */
#ifndef OWN_H
#define OWN_H

#include <mote.h>

MOTE_SWITCH(checks);
MOTE_SWITCH(more);

MOTE_TRACEPOINT(own, packet_in, MOTE_INFO, "a packet has arrived", (uint32_t len, const char *proto),
                mote_u32(len, len), mote_str(proto, proto), mote_bool(last, len != 0))
MOTE_TRACEPOINT(own, lists, MOTE_INFO, "what is not one number", (const uint16_t *list, const int64_t *pair),
                mote_seq_u16(list, list, 3), mote_array_i64(pair, pair, 2), mote_bytes(bytes, "xyz", 3),
                mote_f64(real, 0.5))
MOTE_TRACEPOINT(own, idle, MOTE_DEBUG, "nothing", (void))
MOTE_TRACEPOINT(own, beat, MOTE_DEBUG, "a pass of a thread", (uint32_t number), mote_u32(number, number))

int other_file(void);
void other_packet(uint32_t len, const char *proto);

#endif
