/* Plugin of qemu-user (TCG plugin API, version 1) that writes down which blocks each thread executes.
 *
 * Arguments: dir=FOLDER, words=NUMBER (of the program's arguments, its own name included), copies=1 where code of no
 * file is copied; of a program that a process has become that was recorded before, part=, block=, image= (what is
 * numbered next) and alive= (a file that is to be closed). Files in the folder:
 *
 *   alive            a FIFO that each process holds open for writing
 *   refused          why nothing is recorded
 *   PID.blocks       what is known of a process's code, in the order in which it becomes known: records of
 *                    uint32 kind, uint32 bytes of what follows
 *                      FORKED  int32 pid of the parent, uint32 id of the next block: it has all of those before
 *                      BLOCK   uint64 address, uint32 id, uint32 image or 0, uint32 instructions, their lengths in
 *                              a byte each, their bytes
 *                      IMAGE   uint64 begin, uint64 end, uint64 offset, uint32 number, the path
 *                      PROGRAM uint32 number, the path
 *                      PAGE    uint64 address, uint32 id of the next block, the bytes
 *   PID.TID.NUMBER   a part of what a thread has executed, SEGMENT words of 32 bits; it is whole when the next one is
 *                    there, or the process is not; 0 is its end
 *                      the id of a block: 1 and more
 *                      SIGNAL, then address (2 words, the low one first), number, code: a handler begins, and the
 *                      thread was there; the handler's block follows
 *                      EXEC, then a PROGRAM's number: the process is another program from here on
 *
 * A thread waits when the reader is SEGMENTS_MAX parts behind; when there is none any more, the program ends.
 *
 * Registers: a block's callback runs before its first instruction; there all guest registers are in qemu's CPU state,
 * whose first words they are, and to which rbp points in generated code (tcg/i386: TCG_AREG0). The API of version 1
 * has no other way to them. Whether it is so is checked at the program's begin, where the stack has the number of
 * arguments, and at each handler, whose frame has known places.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void (*translated)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*executed)(unsigned int, void *);
typedef void (*called)(qemu_plugin_id_t, unsigned int, int64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                       uint64_t, uint64_t, uint64_t);
typedef void (*returned)(qemu_plugin_id_t, unsigned int, int64_t, int64_t);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, translated);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, executed, int, void *);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t, called);
void qemu_plugin_register_vcpu_syscall_ret_cb(qemu_plugin_id_t, returned);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *);

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)

EXPORT int qemu_plugin_version = 1;

enum { FORKED = 1, BLOCK = 2, IMAGE = 3, PROGRAM = 4, PAGE = 5 };
enum { SIGNAL = 0xfffffff0u, EXEC = 0xfffffff1u };
enum { SEGMENT = 1 << 20, SEGMENTS_MAX = 8 };
enum { BUCKETS = 1 << 16, HANDLERS = 256, RANGES = 1024, BLOCK_BYTES = 1 << 14 };
enum { WORDS_MAX = 1 << 16, SCRIPTS_MAX = 4, LINE_BYTES = 256, LOADER_MAX = 16 };
enum { PAGE_BYTES = 4096, PROTECTIONS = 1 << 13, COPIES = 1 << 18 };

/* Places in the guest's registers: env->regs[], in the order of the instruction encoding. */
enum { RDX = 2, RSP = 4, RSI = 6, RDI = 7 };

struct block {
    uint64_t address;
    uint32_t id;
    int is_handler;
    struct block *next;
};

struct range {
    uint64_t begin, end;
    uint32_t image;
};

static char folder[512];
static int alive;
static long words;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *buckets[BUCKETS];
static uint64_t handlers[HANDLERS];
static int handlers_count;
static struct range ranges[RANGES];
static int ranges_count;
static uint32_t next_id = 1, next_image = 1;
static int is_checked;
/* Code of no file is copied. */
static int copies;
/* Of the first part of the first thread: more than 0 behind execve. */
static unsigned first_part;

/* The thread's part: where the next word goes, and where the words end. */
static __thread __attribute__((tls_model("initial-exec"))) uint32_t *at, *end;
static __thread __attribute__((tls_model("initial-exec"))) uint32_t *segment;
static __thread __attribute__((tls_model("initial-exec"))) unsigned number;

static void refuse(const char *why) {
    char path[640];
    snprintf(path, sizeof path, "%s/refused", folder);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file >= 0 && write(file, why, strlen(why)) > 0)
        close(file);
    _exit(125);
}

/* Reads the guest's memory, which may not be there. */
static int fetch(void *into, uint64_t from, size_t bytes) {
    struct iovec here = {into, bytes}, there = {(void *)from, bytes};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

/* ---- what becomes known of code ---- */

/* Opened for each record: the program may close what it has not opened. */
static void append(uint32_t kind, const struct iovec *parts, int count) {
    char path[640];
    snprintf(path, sizeof path, "%s/%d.blocks", folder, getpid());
    uint32_t head[2] = {kind, 0};
    struct iovec all[5] = {{head, sizeof head}};
    for (int i = 0; i < count; i++) {
        all[i + 1] = parts[i];
        head[1] += parts[i].iov_len;
    }
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0 || writev(file, all, count + 1) != (ssize_t)(sizeof head + head[1]))
        refuse("what is known of the program's code cannot be written: is there room?");
    close(file);
}

static void add_range(uint64_t begin, uint64_t end_, uint64_t offset, const char *path) {
    if (ranges_count == RANGES)
        ranges_count = 0;
    struct range *range = &ranges[ranges_count++];
    *range = (struct range){begin, end_, 0};
    const char gone[] = " (deleted)";
    size_t length = strlen(path), behind = sizeof gone - 1;
    if (path[0] != '/' || (length > behind && strcmp(path + length - behind, gone) == 0))
        return;
    range->image = next_image++;
    struct {
        uint64_t begin, end, offset;
    } where = {begin, end_, offset};
    struct iovec parts[] = {
        {&where, sizeof where}, {&range->image, sizeof range->image}, {(void *)path, strlen(path)}};
    append(IMAGE, parts, 3);
}

/* The image that has the code at an address; 0 for none. */
static uint32_t image_of(uint64_t address) {
    for (int i = 0; i < ranges_count; i++)
        if (address >= ranges[i].begin && address < ranges[i].end)
            return ranges[i].image;
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[4608];
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long begin, end_, offset;
        int path = 0;
        if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %n", &begin, &end_, &offset, &path) < 3)
            continue;
        if (address < begin || address >= end_)
            continue;
        line[strcspn(line, "\n")] = 0;
        fclose(maps);
        add_range(begin, end_, offset, line + path);
        return ranges[ranges_count - 1].image;
    }
    if (maps)
        fclose(maps);
    return 0;
}

static struct block **bucket(uint64_t address) { return &buckets[(address ^ address >> 16) % BUCKETS]; }

static int is_handler(uint64_t address) {
    for (int i = 0; i < handlers_count; i++)
        if (handlers[i] == address)
            return 1;
    return 0;
}

void mote_executed(unsigned int cpu, void *block);

static void describe(struct qemu_plugin_tb *tb, struct block *block) {
    static uint8_t lengths[BLOCK_BYTES], bytes[BLOCK_BYTES];
    size_t count = qemu_plugin_tb_n_insns(tb), filled = 0;
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        size_t size = qemu_plugin_insn_size(insn);
        if (i >= BLOCK_BYTES || filled + size > BLOCK_BYTES)
            refuse("a block has more instructions than this plugin takes");
        lengths[i] = size;
        memcpy(bytes + filled, qemu_plugin_insn_data(insn), size);
        filled += size;
    }
    struct {
        uint64_t address;
        uint32_t id, image, count;
    } __attribute__((packed)) head = {block->address, block->id, 0, count};
    head.image = image_of((uint64_t)qemu_plugin_insn_haddr(qemu_plugin_tb_get_insn(tb, 0)));
    if (!is_checked && (uint64_t)qemu_plugin_insn_haddr(qemu_plugin_tb_get_insn(tb, 0)) != block->address)
        refuse("qemu-x86_64 has the program's memory at other addresses than the program: is -B or -R in use?");
    struct iovec parts[] = {{&head, sizeof head}, {lengths, count}, {bytes, filled}};
    append(BLOCK, parts, 3);
}

/* ---- code of no file, as a recorder would copy it ---- */

/* What the program has said last of its memory. None holds another one that is before it. */
static struct {
    uint64_t begin, end;
    int protection;
} protections[PROTECTIONS];
static int protections_count;

/* Pages that were copied, by address, with a hash of what they were. */
static struct copy {
    uint64_t address, hash;
} copied[COPIES];

static void protect(uint64_t begin, uint64_t end_, int protection) {
    int kept = 0;
    for (int i = 0; i < protections_count; i++)
        if (protections[i].begin < begin || protections[i].end > end_)
            protections[kept++] = protections[i];
    if (kept == PROTECTIONS)
        refuse("the program has more kinds of memory than this plugin takes");
    protections[kept].begin = begin;
    protections[kept].end = end_;
    protections[kept].protection = protection;
    protections_count = kept + 1;
}

/* What may be done with the memory at an address; -1 where the program has said nothing. */
static int protection_of(uint64_t address) {
    for (int i = protections_count; i-- > 0;)
        if (address >= protections[i].begin && address < protections[i].end)
            return protections[i].protection;
    return -1;
}

static struct copy *copy_of(uint64_t address) {
    for (uint64_t i = address / PAGE_BYTES * 0x9e3779b97f4a7c15 >> 46, tried = 0; tried < COPIES; i++, tried++) {
        struct copy *copy = &copied[i % COPIES];
        if (copy->address == address || copy->address == 0)
            return copy;
    }
    refuse("the program has more code of no file than this plugin takes");
    return NULL;
}

static void copy_page(uint64_t address) {
    static uint64_t page[PAGE_BYTES / 8];
    uint64_t hash = 0xcbf29ce484222325, any = 0;
    if (!fetch(page, address, PAGE_BYTES))
        return;
    for (int i = 0; i < PAGE_BYTES / 8; i++) {
        hash = (hash ^ page[i]) * 0x100000001b3;
        any |= page[i];
    }
    struct copy *copy = copy_of(address);
    if (copy->address ? copy->hash == hash : !any)
        return;
    *copy = (struct copy){address, hash};
    struct iovec parts[] = {{&address, sizeof address}, {&next_id, sizeof next_id}, {page, PAGE_BYTES}};
    append(PAGE, parts, 3);
}

static void copy_pages(uint64_t begin, uint64_t end_) {
    for (uint64_t at = begin & -(uint64_t)PAGE_BYTES; at < end_; at += PAGE_BYTES)
        copy_page(at);
}

/* A block is about to be executed for the first time since it was written. A page that may be written and executed
   cannot be executed before it was copied; one that may only be executed was copied when it became so. */
static void copy_block(struct qemu_plugin_tb *tb) {
    uint64_t begin = qemu_plugin_tb_vaddr(tb), end_ = begin;
    size_t count = qemu_plugin_tb_n_insns(tb);
    for (size_t i = 0; i < count; i++)
        end_ += qemu_plugin_insn_size(qemu_plugin_tb_get_insn(tb, i));
    for (uint64_t at = begin & -(uint64_t)PAGE_BYTES; at < end_; at += PAGE_BYTES) {
        int protection = protection_of(at);
        if (protection == -1 ? image_of(at < begin ? begin : at) == 0 : protection & PROT_WRITE)
            copy_page(at);
    }
}

/* The memory that a system call is about, of the thread that is in it. */
static __thread __attribute__((tls_model("initial-exec"))) struct {
    uint64_t begin, bytes, more;
    int protection, flags;
} asked;

static void note_call(uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4) {
    asked.begin = a1;
    asked.bytes = a2;
    asked.more = a3;
    asked.protection = a3;
    asked.flags = a4;
}

/* Memory was mapped, or may be used otherwise. */
static void note_return(int64_t call, uint64_t answer) {
    uint64_t begin = asked.begin, bytes = (asked.bytes + PAGE_BYTES - 1) & -(uint64_t)PAGE_BYTES;
    int protection = asked.protection;
    if (answer > -(uint64_t)PAGE_BYTES)
        return;
    switch (call) {
    case SYS_mmap:
        /* What others have mapped, too, may be written there. */
        if (protection & PROT_EXEC && asked.flags & MAP_SHARED && !(asked.flags & MAP_ANONYMOUS))
            protection |= PROT_WRITE;
        protect(answer, answer + bytes, protection);
        break;
    case SYS_munmap:
        protect(begin, begin + bytes, 0);
        break;
    case SYS_mremap:
        protection = protection_of(begin);
        protect(begin, begin + bytes, 0);
        protect(answer, answer + asked.more, protection);
        if (protection & PROT_EXEC)
            copy_pages(answer, answer + asked.more);
        break;
    case SYS_mprotect:
    case SYS_pkey_mprotect:
        protect(begin, begin + bytes, protection);
        if (protection & PROT_EXEC && !(protection & PROT_WRITE))
            copy_pages(begin, begin + bytes);
    }
}

static void on_translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    struct block *block = calloc(1, sizeof *block);
    pthread_mutex_lock(&lock);
    if (copies)
        copy_block(tb);
    block->address = qemu_plugin_tb_vaddr(tb);
    block->id = next_id++;
    block->is_handler = is_handler(block->address);
    struct block **first = bucket(block->address);
    block->next = *first;
    *first = block;
    describe(tb, block);
    pthread_mutex_unlock(&lock);
    qemu_plugin_register_vcpu_tb_exec_cb(tb, mote_executed, 0, block);
}

/* ---- what is executed ---- */

static void wait_for_reader(void) {
    char path[640];
    if (number < SEGMENTS_MAX)
        return;
    snprintf(path, sizeof path, "%s/%d.%ld.%u", folder, getpid(), syscall(SYS_gettid), number - SEGMENTS_MAX);
    struct timespec pause = {0, 1000000};
    while (access(path, F_OK) == 0) {
        struct pollfd reader = {alive, POLLOUT, 0};
        if (poll(&reader, 1, 0) == 1 && reader.revents & POLLERR)
            _exit(125);
        nanosleep(&pause, NULL);
    }
}

static void begin_segment(void) {
    char path[640];
    if (segment)
        munmap(segment, SEGMENT * sizeof *segment);
    else if (syscall(SYS_gettid) == getpid())
        number = first_part;
    wait_for_reader();
    snprintf(path, sizeof path, "%s/%d.%ld.%u", folder, getpid(), syscall(SYS_gettid), number++);
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 || posix_fallocate(file, 0, SEGMENT * sizeof *segment) != 0)
        refuse("what is executed cannot be written: is there room?");
    segment = mmap(NULL, SEGMENT * sizeof *segment, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (segment == MAP_FAILED)
        refuse("what is executed cannot be written: is there memory?");
    close(file);
    at = segment;
    end = segment + SEGMENT;
}

static void put(uint32_t word) {
    if (!LIKELY(at < end))
        begin_segment();
    *at++ = word;
}

/* At the program's begin the stack pointer points to the number of arguments. */
static void check(const uint64_t *registers) {
    long count = 0;
    is_checked = 1;
    if (!fetch(&count, registers[RSP], sizeof count) || count != words)
        refuse("this version of qemu-x86_64 keeps the program's registers elsewhere than version 7.2 does");
}

/* The frame of a handler: a return address, then the ucontext, which is the third argument; the second one is the
   siginfo, whose third word is the code. */
static void begin_handler(const uint64_t *registers) {
    uint64_t context = registers[RDX], address;
    int32_t code;
    if (context != registers[RSP] + 8 || registers[RDI] < 1 || registers[RDI] > 64)
        return;
    if (!fetch(&address, context + 40 + 16 * 8, sizeof address) || !fetch(&code, registers[RSI] + 8, sizeof code))
        return;
    put(SIGNAL);
    put(address);
    put(address >> 32);
    put(registers[RDI]);
    put(code);
}

__attribute__((used, visibility("hidden"))) void mote_executed_with(unsigned int cpu, void *data,
                                                                    const uint64_t *registers) {
    struct block *block = data;
    if (!LIKELY(is_checked))
        check(registers);
    if (!LIKELY(!block->is_handler))
        begin_handler(registers);
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

/* ---- programs that a process becomes ---- */

/* A program's first bytes: 1 for ELF of this processor, 2 for a script, 0 for something else. */
static int kind_of(const char *path, char *line) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = file < 0 ? 0 : read(file, line, LINE_BYTES - 1);
    close(file);
    line[count < 0 ? 0 : count] = 0;
    if (access(path, X_OK) != 0)
        return 0;
    if (count >= 20 && memcmp(line, "\177ELF\2", 5) == 0 && line[18] == 62)
        return 1;
    return count > 2 && line[0] == '#' && line[1] == '!' ? 2 : 0;
}

/* The words of a script's first line, before those that there are: interpreter, its argument, the script. */
static int add_interpreter(char *line, const char **words_, int count, const char *script) {
    line[strcspn(line, "\n")] = 0;
    char *rest = line + 2, *interpreter;
    interpreter = rest += strspn(rest, " \t");
    rest += strcspn(rest, " \t");
    if (*rest)
        *rest++ = 0;
    rest += strspn(rest, " \t");
    int more = *rest ? 2 : 1;
    memmove(words_ + more, words_, count * sizeof *words_);
    words_[0] = interpreter;
    if (more == 2)
        words_[1] = rest;
    words_[more] = script;
    return count + more;
}

/* What a dynamic loader takes from the environment (LD_PRELOAD) is for the program's, not for qemu's own: qemu hands it
   on, by words that are put before `first`. Others are kept; so is a value with a comma, where qemu would cut it.
   Returns the first word, or nothing where there are too many. */
static const char **hand_on(uint64_t environment, const char **first, const char **kept) {
    int count = 0, left = LOADER_MAX;
    const char *variable;
    for (; environment && fetch(&variable, environment, sizeof variable) && variable; environment += sizeof variable) {
        char name[3];
        int is_loaders = fetch(name, (uint64_t)variable, sizeof name) && memcmp(name, "LD_", 3) == 0;
        if (is_loaders && left > 0 && !strchr(variable, ',')) {
            *--first = variable;
            *--first = "-E";
            left--;
        } else if (count < WORDS_MAX - 1) {
            kept[count++] = variable;
        } else {
            return NULL;
        }
    }
    kept[count] = NULL;
    return first;
}

/* Becomes qemu with the program that the guest wants to become. Where it cannot, it does nothing, and the program runs
   without us. Pointers of the guest are good for us, and bad ones are found by the kernel. */
static void become(const char *path, uint64_t arguments, uint64_t environment) {
    static const char *all[WORDS_MAX + 16 + 2 * LOADER_MAX], *kept[WORDS_MAX];
    static char lines[SCRIPTS_MAX][LINE_BYTES], self[512], option[1200];
    const char **guest = all + 6 + 2 * LOADER_MAX;
    int count = 0, kind, scripts = 0;
    while (count < WORDS_MAX && fetch(&guest[count], arguments + 8 * count, 8) && guest[count])
        count++;
    if (count == 0 || count == WORDS_MAX || syscall(SYS_gettid) != getpid())
        return;
    const char *name = guest[0];
    guest[0] = path;
    while ((kind = kind_of(guest[0], lines[scripts])) == 2 && scripts < SCRIPTS_MAX - 1) {
        count = add_interpreter(lines[scripts++], guest, count, guest[0]);
        name = guest[0];
    }
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (kind != 1 || length <= 0)
        return;
    self[length] = 0;
    const char **words_ = hand_on(environment, guest, kept);
    if (!words_)
        return;
    if (end - at < 2)
        begin_segment();
    pthread_mutex_lock(&lock);
    uint32_t program = next_image++;
    struct iovec parts[] = {{&program, sizeof program}, {(void *)guest[0], strlen(guest[0])}};
    append(PROGRAM, parts, 2);
    at[0] = EXEC;
    at[1] = program;
    snprintf(option, sizeof option, "%s/plugin.so,dir=%s,words=%d,part=%u,block=%u,image=%u,alive=%d,copies=%d",
             folder, folder, count, number, next_id, next_image, alive, copies);
    const char *first[] = {self, "-plugin", option, "-0", name};
    words_ = memcpy(words_ - sizeof first / sizeof *first, first, sizeof first);
    guest[count] = NULL;
    fcntl(alive, F_SETFD, 0);
    execve(self, (char *const *)words_, (char *const *)kept);
    fcntl(alive, F_SETFD, FD_CLOEXEC);
    at[0] = at[1] = 0;
    pthread_mutex_unlock(&lock);
}

/* ---- system calls ---- */

static void on_called(qemu_plugin_id_t id, unsigned int cpu, int64_t call, uint64_t a1, uint64_t a2, uint64_t a3,
                      uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8) {
    uint64_t handler;
    note_call(a1, a2, a3, a4);
    if (call == SYS_execve)
        become((const char *)a1, a2, a3);
    if (call != SYS_rt_sigaction || a2 == 0 || !fetch(&handler, a2, sizeof handler) || handler < 2)
        return;
    pthread_mutex_lock(&lock);
    if (!is_handler(handler)) {
        if (handlers_count == HANDLERS)
            refuse("the program has more signal handlers than this plugin takes");
        handlers[handlers_count++] = handler;
        for (struct block *block = *bucket(handler); block; block = block->next)
            block->is_handler |= block->address == handler;
    }
    pthread_mutex_unlock(&lock);
}

static void on_returned(qemu_plugin_id_t id, unsigned int cpu, int64_t call, int64_t answer) {
    if (copies) {
        pthread_mutex_lock(&lock);
        note_return(call, answer);
        pthread_mutex_unlock(&lock);
    }
    switch (call) {
    case SYS_mmap:
    case SYS_munmap:
    case SYS_mremap:
    case SYS_shmat:
    case SYS_shmdt:
        pthread_mutex_lock(&lock);
        ranges_count = 0;
        pthread_mutex_unlock(&lock);
    }
}

/* ---- processes ---- */

static pid_t parent;

static void before_fork(void) {
    pthread_mutex_lock(&lock);
    parent = getpid();
}

static void after_fork(void) { pthread_mutex_unlock(&lock); }

static void in_child(void) {
    if (segment)
        munmap(segment, SEGMENT * sizeof *segment);
    segment = at = end = NULL;
    number = first_part = 0;
    struct iovec parts[] = {{&parent, sizeof parent}, {&next_id, sizeof next_id}};
    append(FORKED, parts, 2);
    pthread_mutex_unlock(&lock);
}

static int is_argument(const char *argument, const char *name, const char **value) {
    size_t length = strlen(name);
    *value = argument + length;
    return strncmp(argument, name, length) == 0;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int count, char **arguments) {
    char path[640];
    const char *value;
    int before = -1;
    for (int i = 0; i < count; i++)
        if (is_argument(arguments[i], "dir=", &value))
            snprintf(folder, sizeof folder, "%s", value);
        else if (is_argument(arguments[i], "words=", &value))
            words = atol(value);
        else if (is_argument(arguments[i], "copies=", &value))
            copies = atol(value);
        else if (is_argument(arguments[i], "part=", &value))
            first_part = atol(value);
        else if (is_argument(arguments[i], "block=", &value))
            next_id = atol(value);
        else if (is_argument(arguments[i], "image=", &value))
            next_image = atol(value);
        else if (is_argument(arguments[i], "alive=", &value))
            before = atol(value);
    snprintf(path, sizeof path, "%s/alive", folder);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    /* Out of the way of the program's own files. */
    alive = fcntl(file, F_DUPFD_CLOEXEC, 900);
    if (file < 0 || alive < 0)
        return 1;
    close(file);
    if (before >= 0)
        close(before);
    pthread_atfork(before_fork, after_fork, in_child);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translated);
    qemu_plugin_register_vcpu_syscall_cb(id, on_called);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, on_returned);
    return 0;
}
