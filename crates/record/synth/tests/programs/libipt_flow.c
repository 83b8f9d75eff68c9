/* What libipt's flow finds in packets, and how long it takes:
   insn|block PACKETS ([cr3=CR3] FILE OFFSET BYTES ADDRESS)...
   Files behind cr3=.. are of that address space only; cr3=any is all of them.
   Prints nanoseconds of CPU time, the number of instructions, a digest of their addresses (0 for blocks), and how often
   packets were lost; errors on standard error. The benchmark `pt` uses it, too. */
#include <intel-pt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct pt_config config;
static int words;
static char **word;
static uint64_t count, digest, overflows;

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* By a cache of sections, as is fastest: without it each access maps the file anew. */
static void add_files(struct pt_image *image) {
    struct pt_image_section_cache *cache = pt_iscache_alloc(NULL);
    if (!cache || pt_iscache_set_limit(cache, 1ull << 32) < 0)
        exit(1);
    struct pt_asid space;
    pt_asid_init(&space);
    for (int i = 3; i + 3 < words; i += 4) {
        if (strncmp(word[i], "cr3=", 4) == 0) {
            space.cr3 = strcmp(word[i], "cr3=any") ? strtoull(word[i] + 4, 0, 0) : pt_asid_no_cr3;
            i++;
        }
        int section = pt_iscache_add_file(cache, word[i], strtoull(word[i + 1], 0, 0), strtoull(word[i + 2], 0, 0),
                                          strtoull(word[i + 3], 0, 0));
        if (section < 0 || pt_image_add_cached(image, cache, section, &space) < 0)
            exit(1);
    }
}

/* Whether there is more behind this end of a stretch of packets. */
static int goes_on(int status) {
    if (status >= 0 || status == -pte_eos)
        return 0;
    fprintf(stderr, "error: %s\n", pt_errstr(-status));
    return 1;
}

static int follow_instructions(struct pt_insn_decoder *decoder, int status) {
    for (;;) {
        while (status >= 0 && (status & pts_event_pending)) {
            struct pt_event event;
            status = pt_insn_event(decoder, &event, sizeof event);
            overflows += status >= 0 && event.type == ptev_overflow;
        }
        if (status < 0 || (status & pts_eos))
            return status;
        struct pt_insn insn;
        status = pt_insn_next(decoder, &insn, sizeof insn);
        if (status < 0)
            return status;
        count++;
        digest = digest * UINT64_C(0x9e3779b97f4a7c15) + insn.ip;
    }
}

static int follow_blocks(struct pt_block_decoder *decoder, int status) {
    for (;;) {
        while (status >= 0 && (status & pts_event_pending)) {
            struct pt_event event;
            status = pt_blk_event(decoder, &event, sizeof event);
            overflows += status >= 0 && event.type == ptev_overflow;
        }
        if (status < 0 || (status & pts_eos))
            return status;
        struct pt_block block;
        memset(&block, 0, sizeof block);
        status = pt_blk_next(decoder, &block, sizeof block);
        count += block.ninsn;
    }
}

static void by_instruction(void) {
    struct pt_insn_decoder *decoder = pt_insn_alloc_decoder(&config);
    add_files(pt_insn_get_image(decoder));
    for (int status; (status = pt_insn_sync_forward(decoder)) >= 0 && goes_on(follow_instructions(decoder, status));)
        ;
}

static void by_block(void) {
    struct pt_block_decoder *decoder = pt_blk_alloc_decoder(&config);
    add_files(pt_blk_get_image(decoder));
    for (int status; (status = pt_blk_sync_forward(decoder)) >= 0 && goes_on(follow_blocks(decoder, status));)
        ;
}

int main(int some_words, char **some_word) {
    words = some_words;
    word = some_word;
    FILE *file = fopen(word[2], "rb");
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    rewind(file);
    pt_config_init(&config);
    config.begin = malloc(bytes);
    config.end = config.begin + fread(config.begin, 1, bytes, file);
    uint64_t begin = now();
    strcmp(word[1], "insn") ? by_block() : by_instruction();
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", now() - begin, count, digest, overflows);
    return 0;
}
