// What libipt's packet decoder makes of traces, for packets_libipt.rs: packets_libipt FILE
// FILE holds traces, each behind its length (4 bytes, the low ones first). Of each trace a line says `trace`, lines say
// the packets up to the first error (offset, bytes, kind, values), a line says the error (offset, code), and lines say
// where PSBs are, found forwards and backwards.
#include <intel-pt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void with_ip(const char *kind, const struct pt_packet *packet) {
	printf("%s %u %" PRIx64, kind, packet->payload.ip.ipc, packet->payload.ip.ip);
}

static void with_branches(const char *kind, const struct pt_packet *packet) {
	printf("%s %u %" PRIx64, kind, packet->payload.tnt.bit_size, packet->payload.tnt.payload);
}

static void mode(const struct pt_packet_mode *mode) {
	if (mode->leaf == pt_mol_exec)
		printf("MODE.Exec %u %u", mode->bits.exec.csl, mode->bits.exec.csd);
	else
		printf("MODE.TSX %u %u", mode->bits.tsx.intx, mode->bits.tsx.abrt);
}

static void one(const struct pt_packet *packet) {
	switch (packet->type) {
	case ppt_pad: printf("PAD"); break;
	case ppt_psb: printf("PSB"); break;
	case ppt_psbend: printf("PSBEND"); break;
	case ppt_stop: printf("TraceStop"); break;
	case ppt_ovf: printf("OVF"); break;
	case ppt_fup: with_ip("FUP", packet); break;
	case ppt_tip: with_ip("TIP", packet); break;
	case ppt_tip_pge: with_ip("TIP.PGE", packet); break;
	case ppt_tip_pgd: with_ip("TIP.PGD", packet); break;
	case ppt_tnt_8: with_branches("TNT-8", packet); break;
	case ppt_tnt_64: with_branches("TNT-64", packet); break;
	case ppt_mode: mode(&packet->payload.mode); break;
	case ppt_pip: printf("PIP %" PRIx64 " %u", packet->payload.pip.cr3, packet->payload.pip.nr); break;
	case ppt_vmcs: printf("VMCS %" PRIx64, packet->payload.vmcs.base); break;
	case ppt_cbr: printf("CBR %u", packet->payload.cbr.ratio); break;
	case ppt_tsc: printf("TSC %" PRIx64, packet->payload.tsc.tsc); break;
	case ppt_tma: printf("TMA %x %x", packet->payload.tma.ctc, packet->payload.tma.fc); break;
	case ppt_mtc: printf("MTC %x", packet->payload.mtc.ctc); break;
	case ppt_cyc: printf("CYC %" PRIx64, packet->payload.cyc.value); break;
	case ppt_mnt: printf("MNT %" PRIx64, packet->payload.mnt.payload); break;
	case ppt_exstop: printf("EXSTOP %u", packet->payload.exstop.ip); break;
	// The manual reserves the other bits.
	case ppt_mwait:
		printf("MWAIT %x %x", packet->payload.mwait.hints & 0xff, packet->payload.mwait.ext & 3);
		break;
	// Not HW: libipt takes it from another bit than the manual.
	case ppt_pwre: printf("PWRE %u %u", packet->payload.pwre.state, packet->payload.pwre.sub_state); break;
	// Not the timer: libipt leaves it out.
	case ppt_pwrx:
		printf("PWRX %u %u %u %u %u", packet->payload.pwrx.last, packet->payload.pwrx.deepest,
			packet->payload.pwrx.interrupt, packet->payload.pwrx.store, packet->payload.pwrx.autonomous);
		break;
	case ppt_ptw:
		printf("PTW %" PRIx64 " %u %u", packet->payload.ptw.payload, packet->payload.ptw.plc,
			packet->payload.ptw.ip);
		break;
	default: printf("other");
	}
}

static void packets(struct pt_packet_decoder *decoder) {
	uint64_t offset = 0;
	struct pt_packet packet;
	int size = pt_pkt_sync_set(decoder, 0);
	while (size >= 0 && (size = pt_pkt_next(decoder, &packet, sizeof packet)) >= 0) {
		printf("%" PRIu64 " %d ", offset, size);
		one(&packet);
		printf("\n");
		offset += size;
	}
	printf("error %" PRIu64 " %d\n", offset, -size);
}

static void syncs(const struct pt_config *config, const char *name, int (*sync)(struct pt_packet_decoder *)) {
	struct pt_packet_decoder *decoder = pt_pkt_alloc_decoder(config);
	uint64_t offset, last = UINT64_MAX;
	printf("%s", name);
	while (decoder && sync(decoder) >= 0 && pt_pkt_get_sync_offset(decoder, &offset) >= 0) {
		// Backwards, of more bytes in succession than one PSB has, libipt finds the same PSB for ever.
		if (offset == last) {
			printf(" again");
			break;
		}
		printf(" %" PRIu64, offset);
		last = offset;
	}
	printf("\n");
	pt_pkt_free_decoder(decoder);
}

int main(int argc, char **argv) {
	FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
	unsigned char head[4];
	if (!file)
		return 2;
	while (fread(head, 1, 4, file) == 4) {
		size_t size = head[0] | head[1] << 8 | head[2] << 16 | (size_t)head[3] << 24;
		uint8_t *bytes = malloc(size + 1);
		if (!bytes || fread(bytes, 1, size, file) != size)
			return 2;
		struct pt_config config;
		pt_config_init(&config);
		config.begin = bytes;
		config.end = bytes + size;
		struct pt_packet_decoder *decoder = pt_pkt_alloc_decoder(&config);
		if (!decoder)
			return 2;
		printf("trace\n");
		packets(decoder);
		pt_pkt_free_decoder(decoder);
		syncs(&config, "forward", pt_pkt_sync_forward);
		syncs(&config, "backward", pt_pkt_sync_backward);
		free(bytes);
	}
	return 0;
}
