// libipt's packet decoder, measured as pt.rs measures mote's: ipt FILE
// Prints nanoseconds of CPU time, the checksum and the number of packets, of the second of two passes.
#include <intel-pt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

struct sum { uint64_t sum, count; };

static void add(struct sum *to, uint64_t offset, uint64_t kind, uint64_t payload) {
	to->sum = (to->sum << 5 | to->sum >> 59) ^ (payload + (kind << 48) + (offset << 20));
	to->count++;
}

static uint64_t tnt(const struct pt_packet_tnt *tnt) {
	return tnt->payload ^ (uint64_t)tnt->bit_size << 56;
}

static void one(struct sum *to, uint64_t offset, const struct pt_packet *packet) {
	switch (packet->type) {
	case ppt_psb: add(to, offset, 2, 0); break;
	case ppt_psbend: add(to, offset, 3, 0); break;
	case ppt_fup: add(to, offset, 4 + 32 * packet->payload.ip.ipc, packet->payload.ip.ip); break;
	case ppt_tip: add(to, offset, 5 + 32 * packet->payload.ip.ipc, packet->payload.ip.ip); break;
	case ppt_tip_pge: add(to, offset, 6 + 32 * packet->payload.ip.ipc, packet->payload.ip.ip); break;
	case ppt_tip_pgd: add(to, offset, 7 + 32 * packet->payload.ip.ipc, packet->payload.ip.ip); break;
	case ppt_tnt_8: add(to, offset, 8, tnt(&packet->payload.tnt)); break;
	case ppt_tnt_64: add(to, offset, 9, tnt(&packet->payload.tnt)); break;
	case ppt_mode:
		add(to, offset, 10, packet->payload.mode.bits.exec.csl | packet->payload.mode.bits.exec.csd << 1);
		break;
	case ppt_pip: add(to, offset, 11, packet->payload.pip.cr3 | packet->payload.pip.nr); break;
	case ppt_cbr: add(to, offset, 12, packet->payload.cbr.ratio); break;
	case ppt_tsc: add(to, offset, 13, packet->payload.tsc.tsc); break;
	case ppt_tma:
		add(to, offset, 14, packet->payload.tma.ctc | (uint64_t)packet->payload.tma.fc << 16);
		break;
	case ppt_mtc: add(to, offset, 15, packet->payload.mtc.ctc); break;
	case ppt_cyc: add(to, offset, 16, packet->payload.cyc.value); break;
	default: add(to, offset, 17, 0);
	}
}

// Packets of padding in succession count as one.
static struct sum pass(const struct pt_config *config) {
	struct sum sum = { 0, 0 };
	struct pt_packet_decoder *decoder = pt_pkt_alloc_decoder(config);
	if (!decoder || pt_pkt_sync_set(decoder, 0) < 0)
		exit(1);
	uint64_t offset = 0, padded = 0;
	struct pt_packet packet;
	for (;;) {
		int size = pt_pkt_next(decoder, &packet, sizeof packet);
		if ((size < 0 || packet.type != ppt_pad) && padded) {
			add(&sum, offset - padded, 1, 0);
			padded = 0;
		}
		if (size < 0)
			break;
		if (packet.type == ppt_pad)
			padded += size;
		else
			one(&sum, offset, &packet);
		offset += size;
	}
	pt_pkt_free_decoder(decoder);
	return sum;
}

int main(int argc, char **argv) {
	FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
	if (!file || fseek(file, 0, SEEK_END))
		return 2;
	long size = ftell(file);
	uint8_t *bytes = malloc(size);
	rewind(file);
	if (!bytes || fread(bytes, 1, size, file) != (size_t)size)
		return 2;
	struct pt_config config;
	pt_config_init(&config);
	config.begin = bytes;
	config.end = bytes + size;
	pass(&config);
	uint64_t begin = now();
	struct sum sum = pass(&config);
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", now() - begin, sum.sum, sum.count);
	return 0;
}
