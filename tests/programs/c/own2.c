/* The second file of own.c: switches and events are the same in both. */
#include "own.h"

int other_file(void) { return mote_switched(checks); }
void other_packet(uint32_t len, const char *proto) { mote_emit(own, packet_in, len, proto); }
