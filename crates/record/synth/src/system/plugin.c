/* Plugin of qemu-system-x86_64 (TCG plugin API, version 1) that writes down which blocks a guest's processor executes,
 * from the moment on at which our init says so (init.c).
 *
 * Arguments, hexadecimal: text=, bytes= (the kernel's code, by address and length), pid=, tgid=, comm= (where
 * task_struct has them). Standard input is a pipe, and written to.
 *
 * What is written, all in 32 bits, low word first: the ids of blocks, as they begin, and records:
 *
 *   BLOCK    id, address (2), instructions, bytes; their lengths in a byte each, the bytes, filled up to whole words
 *   PAGE     address (2), 4096 bytes: what a page of a program has of which code is executed first
 *   EVENT    address (2), vector, error code: an interrupt or an exception leads to the next block; the processor was
 *            at the address
 *   SPACE    CR3 (2): it counts from the next block on
 *   TASK     SWITCH or EXEC, thread, process, name (4): it runs from here on; it is another program now
 *   FREED    CR3 (2): the address space is no more
 *   TEXT     address (2), bytes; the kernel's code as it is in memory
 *   SYMBOLS  bytes; a part of /proc/kallsyms
 *   SAY      bytes; init cannot do its work
 *   OUTPUT   bytes; the program has written them
 *   BEGIN    process: what is executed is written from here on
 *   END      status, address (2) of the instruction that would be next
 *   CPU      number: what follows is of this processor; processor 0 where this was not said
 *   LAST     address (2): the processor would go on there, of all but the one of END
 *
 * Processors take turns, each for some blocks, in one thread of qemu: what is written is in the order in which it was
 * executed.
 *
 * Registers: a block's callback runs before its first instruction; there all guest registers are in qemu's CPU state,
 * to which rbp points in generated code (tcg/i386: TCG_AREG0). The API of version 1 has no other way to them; nor to
 * memory, which is read by a function of qemu's that Debian's lets plugins see. When recording begins it is checked
 * whether the registers are where version 7.2 has them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void (*translated)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*executed)(unsigned int, void *);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, translated);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, executed, int, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *);

/* Of qemu itself. */
static void *(*qemu_get_cpu_)(int);
static int (*cpu_memory_rw_debug_)(void *, uint64_t, void *, uint64_t, int);

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)

EXPORT int qemu_plugin_version = 1;

enum {
    BLOCK = 0xfffffff0u,
    PAGE,
    EVENT,
    SPACE,
    TASK,
    FREED,
    TEXT,
    SYMBOLS,
    SAY,
    OUTPUT,
    BEGIN,
    END,
    CPU,
    LAST
};
enum { SWITCH = 1, EXEC = 2 };
enum { OUT_BYTES = 1 << 16, PAGES = 1 << 16, PAGE_BYTES = 4096, VECTORS = 256, MESSAGE_BYTES = 1 << 16, CPUS = 64 };

/* What init says, by the number in rdi; rsi and rdx are an address and a length, or a number. */
enum { SAYS_SYMBOLS = 1, SAYS_BEGIN = 2, SAYS_END = 3, SAYS_WHY = 4, SAYS_OUTPUT = 5 };
/* nopl 0x65746f6d(%rax): nothing that compilers make. */
static const uint8_t marker[] = {0x0f, 0x1f, 0x80, 0x6d, 0x6f, 0x74, 0x65};

/* Places in qemu's CPUX86State, version 7.2 (target/i386/cpu.h): regs[] in the order of the instruction encoding. */
enum { RDX = 2, RSP = 4, RSI = 6, RDI = 7, RIP = 16 };
enum { IDT_BASE = 408 / 8, IDT_LIMIT = 416 / 8, CR0 = 424 / 8, CR3 = 448 / 8, CR4 = 456 / 8 };

/* A block that is to be looked at before it is executed. */
enum { IS_HANDLER = 1, IS_SWITCH = 2, IS_EXEC = 4, IS_FREE = 8 };

struct block {
    uint64_t address;
    uint32_t id;
    uint16_t kinds;
    uint8_t is_marker, is_described;
    uint32_t vector;
    uint32_t count, size;
    const uint8_t *host;
    uint8_t bytes[];
};

static uint8_t buffer[OUT_BYTES];
static size_t filled;
static int is_recording;
static uint32_t next_id = 1;
/* The processor that is written of, and of each that was seen: CR3, and its registers. */
static unsigned current;
static struct {
    uint64_t space;
    const uint64_t *state;
} cpus[CPUS];
static uint64_t handlers[VECTORS];
static uint64_t text, text_bytes, pid_at, tgid_at, comm_at;
static struct {
    uint64_t address;
    const char *name;
} symbols[] = {{0, "__switch_to"},  {0, "finalize_exec"}, {0, "pgd_free"},
               {0, "current_task"}, {0, "pcpu_hot"},      {0, "__per_cpu_offset"}};
enum { SWITCH_TO, FINALIZE_EXEC, PGD_FREE, CURRENT_TASK, PCPU_HOT, PER_CPU_OFFSET, SYMBOLS_COUNT };
/* Pages that were written, by address and place in memory. */
static struct {
    uint64_t address;
    const uint8_t *host;
} pages[PAGES];

/* ---- writing ---- */

static void flush(void) {
    for (size_t done = 0; done < filled;) {
        ssize_t count = write(STDIN_FILENO, buffer + done, filled - done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            _exit(125);
        done += count;
    }
    filled = 0;
}

static void put(uint32_t word) {
    if (!LIKELY(filled < OUT_BYTES))
        flush();
    memcpy(buffer + filled, &word, sizeof word);
    filled += sizeof word;
}

static void put_long(uint64_t value) {
    put(value);
    put(value >> 32);
}

/* Bytes, filled up to whole words. */
static void put_bytes(const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i += 4) {
        uint32_t word = 0;
        memcpy(&word, bytes + i, count - i < 4 ? count - i : 4);
        put(word);
    }
}

static void say(const char *why) {
    put(SAY);
    put(strlen(why));
    put_bytes((const uint8_t *)why, strlen(why));
}

static void refuse(const char *why) {
    say(why);
    flush();
    _exit(125);
}

static int fetch(unsigned cpu, void *into, uint64_t from, size_t bytes) {
    return cpu_memory_rw_debug_(qemu_get_cpu_(cpu), from, into, bytes, 0) == 0;
}

/* ---- what becomes known of code ---- */

void mote_executed(unsigned int cpu, void *block);

static void on_translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    size_t count = qemu_plugin_tb_n_insns(tb), size = 0;
    for (size_t i = 0; i < count; i++)
        size += qemu_plugin_insn_size(qemu_plugin_tb_get_insn(tb, i));
    struct block *block = calloc(1, sizeof *block + count + size);
    if (!block)
        refuse("there is no memory left for what is known of the guest's code");
    block->address = qemu_plugin_tb_vaddr(tb);
    block->count = count;
    block->size = size;
    uint8_t *lengths = block->bytes, *bytes = block->bytes + count;
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        if (i == 0)
            block->host = qemu_plugin_insn_haddr(insn);
        lengths[i] = qemu_plugin_insn_size(insn);
        memcpy(bytes, qemu_plugin_insn_data(insn), lengths[i]);
        bytes += lengths[i];
    }
    block->is_marker = lengths[0] == sizeof marker && memcmp(block->bytes + count, marker, sizeof marker) == 0;
    qemu_plugin_register_vcpu_tb_exec_cb(tb, mote_executed, 0, block);
}

static int is_kernel(uint64_t address) { return address >> 63; }

static void put_page(const struct block *block) {
    uint64_t address = block->address & -PAGE_BYTES;
    const uint8_t *host = block->host - (block->address - address);
    size_t at = ((address ^ (uint64_t)host) / PAGE_BYTES * 0x9e3779b97f4a7c15u) >> 48;
    if (!block->host || (pages[at].address == address && pages[at].host == host))
        return;
    pages[at].address = address;
    pages[at].host = host;
    put(PAGE);
    put_long(address);
    put_bytes(host, PAGE_BYTES);
}

static void describe(struct block *block) {
    block->is_described = 1;
    block->id = next_id++;
    for (int i = 0; i < VECTORS; i++)
        if (handlers[i] == block->address) {
            block->kinds |= IS_HANDLER;
            block->vector = i;
            break;
        }
    static const uint16_t kinds[] = {[SWITCH_TO] = IS_SWITCH, [FINALIZE_EXEC] = IS_EXEC, [PGD_FREE] = IS_FREE};
    for (int i = SWITCH_TO; i <= PGD_FREE; i++)
        if (symbols[i].address == block->address)
            block->kinds |= kinds[i];
    if (!is_kernel(block->address))
        put_page(block);
    put(BLOCK);
    put(block->id);
    put_long(block->address);
    put(block->count);
    put(block->size);
    put_bytes(block->bytes, block->count + block->size);
}

/* ---- what is executed ---- */

/* The frame of a handler: where there is an error code, that; then the interrupted instruction's address. */
static void put_event(unsigned cpu, const struct block *block, const uint64_t *state) {
    static const uint32_t have_code = 1 << 8 | 1 << 10 | 1 << 11 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 17 | 1 << 21 |
                                      1 << 29 | 1 << 30;
    int has_code = block->vector < 32 && have_code >> block->vector & 1;
    uint64_t frame[2];
    if (!fetch(cpu, frame, state[RSP], sizeof frame))
        refuse("the frame of an interrupt's handler cannot be read");
    put(EVENT);
    put_long(frame[has_code]);
    put(block->vector);
    put(has_code ? frame[0] : 0);
}

static void put_task(unsigned cpu, uint32_t what, uint64_t task) {
    uint32_t tid, pid;
    uint8_t name[16];
    if (!fetch(cpu, &tid, task + pid_at, 4) || !fetch(cpu, &pid, task + tgid_at, 4) ||
        !fetch(cpu, name, task + comm_at, sizeof name))
        return;
    put(TASK);
    put(what);
    put(tid);
    put(pid);
    put_bytes(name, sizeof name);
}

static void put_current(unsigned cpu, uint32_t what) {
    uint64_t place = symbols[CURRENT_TASK].address ? symbols[CURRENT_TASK].address : symbols[PCPU_HOT].address;
    uint64_t base, task;
    if (symbols[PER_CPU_OFFSET].address && fetch(cpu, &base, symbols[PER_CPU_OFFSET].address + 8 * cpu, 8) &&
        fetch(cpu, &task, base + place, 8))
        put_task(cpu, what, task);
}

static void look(unsigned cpu, const struct block *block, const uint64_t *state) {
    /* With page table isolation, a program's half is the page behind the kernel's. Without KASLR, memory lies there. */
    static const uint64_t direct = 0xffff888000000000;
    if (block->kinds & IS_HANDLER)
        put_event(cpu, block, state);
    if (block->kinds & IS_SWITCH && comm_at)
        put_task(cpu, SWITCH, state[RSI]);
    if (block->kinds & IS_EXEC && comm_at)
        put_current(cpu, EXEC);
    if (block->kinds & IS_FREE && state[RSI] >= direct)
        for (int half = 0; half < 2; half++) {
            put(FREED);
            put_long(state[RSI] - direct + half * PAGE_BYTES);
        }
}

/* What follows is of this processor. */
static void turn(unsigned cpu) {
    if (cpu >= CPUS)
        refuse("the guest has more processors than this plugin takes");
    if (cpu == current)
        return;
    current = cpu;
    put(CPU);
    put(cpu);
}

static void put_space(unsigned cpu, const uint64_t *state) {
    cpus[cpu].space = state[CR3];
    put(SPACE);
    put_long(state[CR3]);
}

/* A processor that has executed nothing since recording began. */
static void meet(unsigned cpu, const uint64_t *state) {
    cpus[cpu].state = state;
    put_space(cpu, state);
    if (comm_at)
        put_current(cpu, SWITCH);
}

static void end(unsigned cpu, uint64_t status, uint64_t address) {
    for (unsigned i = 0; i < CPUS; i++)
        if (i != cpu && cpus[i].state) {
            turn(i);
            put(LAST);
            put_long(cpus[i].state[RIP]);
        }
    turn(cpu);
    put(END);
    put(status);
    put_long(address);
    flush();
    _exit(0);
}

static void begin(unsigned cpu, const uint64_t *state) {
    uint8_t idt[VECTORS][16];
    uint32_t limit = state[IDT_LIMIT];
    static uint8_t code[PAGE_BYTES];
    int is_so = limit == sizeof idt - 1 && (state[CR0] & 0x80000001) == 0x80000001 && state[CR4] & 0x20 &&
                !(state[CR3] & 0xfe7) && fetch(cpu, idt, state[IDT_BASE], sizeof idt);
    if (!is_so)
        refuse("this version of qemu-system-x86_64 keeps the processor's registers elsewhere than version 7.2 does");
    for (int i = 0; i < VECTORS; i++) {
        uint16_t low, middle;
        uint32_t high;
        memcpy(&low, idt[i], 2);
        memcpy(&middle, idt[i] + 6, 2);
        memcpy(&high, idt[i] + 8, 4);
        handlers[i] = low | (uint64_t)middle << 16 | (uint64_t)high << 32;
    }
    put(TEXT);
    put_long(text);
    put(text_bytes);
    for (uint64_t at = 0; at < text_bytes; at += PAGE_BYTES) {
        uint64_t left = text_bytes - at < PAGE_BYTES ? text_bytes - at : PAGE_BYTES;
        if (!fetch(cpu, code, text + at, left))
            refuse("the kernel's code is not where its file says: is it relocated (KASLR)?");
        put_bytes(code, left);
    }
    turn(cpu);
    put(BEGIN);
    put(state[RSI]);
    cpus[cpu].state = state;
    put_space(cpu, state);
    is_recording = 1;
}

/* Symbols that this plugin needs, in lines of /proc/kallsyms. */
static void find_symbols(char *lines) {
    char *rest, name[128];
    unsigned long address;
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (sscanf(line, "%lx %*c %127s", &address, name) != 2)
            continue;
        for (int i = 0; i < SYMBOLS_COUNT; i++)
            if (strcmp(name, symbols[i].name) == 0)
                symbols[i].address = address;
    }
}

/* Something that init says. Symbols come by whole lines. */
static void hear(unsigned cpu, const struct block *block, const uint64_t *state) {
    static uint8_t message[MESSAGE_BYTES + 4];
    uint64_t length = state[RDX];
    switch (state[RDI]) {
    case SAYS_SYMBOLS:
    case SAYS_WHY:
    case SAYS_OUTPUT:
        if (length > MESSAGE_BYTES || !fetch(cpu, message, state[RSI], length))
            refuse("what the guest's init says cannot be read");
        put(state[RDI] == SAYS_SYMBOLS ? SYMBOLS : state[RDI] == SAYS_OUTPUT ? OUTPUT : SAY);
        put(length);
        put_bytes(message, length);
        message[length] = 0;
        if (state[RDI] == SAYS_SYMBOLS)
            find_symbols((char *)message);
        else
            flush();
        return;
    case SAYS_BEGIN:
        begin(cpu, state);
        return;
    case SAYS_END:
        end(cpu, state[RSI], block->address);
    }
}

__attribute__((used, visibility("hidden"))) void mote_executed_with(unsigned int cpu, void *data,
                                                                    const uint64_t *state) {
    struct block *block = data;
    if (!LIKELY(!block->is_marker))
        hear(cpu, block, state);
    if (!is_recording)
        return;
    if (!LIKELY(cpu == current))
        turn(cpu);
    if (!LIKELY(cpus[cpu].state))
        meet(cpu, state);
    if (!LIKELY(state[CR3] == cpus[cpu].space))
        put_space(cpu, state);
    if (!LIKELY(block->is_described))
        describe(block);
    if (!LIKELY(!block->kinds))
        look(cpu, block, state);
    put(block->id);
}

__asm__(".text\n"
        ".globl mote_executed\n"
        ".hidden mote_executed\n"
        ".type mote_executed, @function\n"
        "mote_executed:\n"
        "    mov %rbp, %rdx\n"
        "    jmp mote_executed_with\n"
        ".size mote_executed, . - mote_executed\n");

static int is_argument(const char *argument, const char *name, const char **value) {
    size_t length = strlen(name);
    *value = argument + length;
    return strncmp(argument, name, length) == 0;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int count, char **arguments) {
    struct {
        const char *name;
        uint64_t *number;
    } numbers[] = {
        {"text=", &text}, {"bytes=", &text_bytes}, {"pid=", &pid_at}, {"tgid=", &tgid_at}, {"comm=", &comm_at}};
    const char *value;
    for (int i = 0; i < count; i++) {
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            if (is_argument(arguments[i], numbers[k].name, &value))
                *numbers[k].number = strtoull(value, NULL, 16);
    }
    qemu_get_cpu_ = (void *(*)(int))dlsym(RTLD_DEFAULT, "qemu_get_cpu");
    cpu_memory_rw_debug_ =
        (int (*)(void *, uint64_t, void *, uint64_t, int))dlsym(RTLD_DEFAULT, "cpu_memory_rw_debug");
    if (!qemu_get_cpu_ || !cpu_memory_rw_debug_)
        refuse("this qemu-system-x86_64 does not let plugins read the guest's memory; Debian's does");
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translated);
    return 0;
}
