/* Makes code at run time, in the ways in which compilers do, and runs it: generated WAY TIMES. Prints the sum of what
 * the functions return.
 *
 *   protect   pages that are writable, then executable, then writable again
 *   open      pages that stay writable and executable
 *   shared    pages that are mapped twice: one mapping is written, the other one executed
 *   moved     pages that are moved by mremap
 *   own       the program's own code, which is changed and changed back (a static key)
 *   self      an instruction that changes one behind it, on its own page
 *   threads   four threads, each with pages of its own
 *   forked    a child goes on with what the parent has made, and makes more
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 4, BYTES = PAGES * 4096, PLACES = 64 };
enum { DATA = PROT_READ | PROT_WRITE, CODE = PROT_READ | PROT_EXEC };

typedef int (*function)(int);

static void *checked(void *memory) {
    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return memory;
}

static char *new_memory(int protection) {
    return checked(mmap(NULL, BYTES, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static void protect(void *memory, size_t bytes, int protection) {
    if (mprotect(memory, bytes, protection) != 0) {
        perror("mprotect");
        exit(1);
    }
}

/* A loop that adds `value` as often as its argument says: xor eax, eax; add eax, value; dec edi; jne -9; ret. */
static void write_function(char *at, int32_t value) {
    unsigned char code[] = {0x31, 0xc0, 0x05, 0, 0, 0, 0, 0xff, 0xcf, 0x75, 0xf7, 0xc3};
    memcpy(code + 3, &value, 4);
    memcpy(at, code, sizeof code);
}

/* Where the function of a turn lies: also across two pages. */
static size_t place(int turn) { return (size_t)(turn % PLACES) * (BYTES - 32) / PLACES; }

static int call(char *memory, int turn) { return ((function)(memory + place(turn)))(3 + turn % 5); }

static long by_protection(int times) {
    char *memory = new_memory(DATA);
    long sum = 0;
    for (int turn = 0; turn < times; turn++) {
        protect(memory, BYTES, DATA);
        write_function(memory + place(turn), turn);
        protect(memory, BYTES, CODE);
        sum += call(memory, turn) + (turn ? call(memory, turn - 1) : 0);
    }
    return sum;
}

static long in_two(char *written, char *executed, int times) {
    long sum = 0;
    for (int turn = 0; turn < times; turn++) {
        write_function(written + place(turn), turn);
        sum += call(executed, turn) + (turn ? call(executed, turn - 1) : 0);
    }
    return sum;
}

static long shared(int times) {
    int file = memfd_create("code", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, BYTES) != 0)
        exit(1);
    char *written = checked(mmap(NULL, BYTES, DATA, MAP_SHARED, file, 0));
    return in_two(written, checked(mmap(NULL, BYTES, CODE, MAP_SHARED, file, 0)), times);
}

static long moved(int times) {
    char *memory = new_memory(DATA);
    for (int turn = 0; turn < PLACES; turn++)
        write_function(memory + place(turn), turn);
    protect(memory, BYTES, CODE);
    long sum = 0;
    for (int turn = 0; turn < times; turn++) {
        sum += call(memory, turn);
        char *to = new_memory(PROT_NONE);
        memory = checked(mremap(memory, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, to));
    }
    return sum;
}

/* Five bytes of NOP, or a jump over what is behind. */
__attribute__((noinline, aligned(64))) static int switched(int value) {
    __asm__ volatile(".globl the_site\nthe_site: .byte 0x0f, 0x1f, 0x44, 0, 0\n"
                     "add $1, %%eax\n"
                     : "+a"(value));
    return value;
}

extern char the_site[];

static long own(int times) {
    static const char on[] = {0xe9, 3, 0, 0, 0}, off[] = {0x0f, 0x1f, 0x44, 0, 0};
    char *page = (char *)((uintptr_t)the_site & -4096);
    long sum = 0;
    for (int turn = 0; turn < times; turn++) {
        protect(page, 4096, CODE | PROT_WRITE);
        memcpy(the_site, turn % 2 ? on : off, 5);
        protect(page, 4096, CODE);
        sum += switched(turn);
    }
    return sum;
}

/* mov eax, edi; mov byte [rip + 3], al; mov eax, 0 (whose constant is changed); ret. */
static long self(int times) {
    static const unsigned char code[] = {0x89, 0xf8, 0x88, 0x05, 1, 0, 0, 0, 0xb8, 0, 0, 0, 0, 0xc3};
    char *memory = new_memory(CODE | PROT_WRITE);
    memcpy(memory, code, sizeof code);
    long sum = 0;
    for (int turn = 0; turn < times; turn++)
        sum += ((function)memory)(turn % 100);
    return sum;
}

static void *in_thread(void *times) { return (void *)by_protection((intptr_t)times); }

static long threads(int times) {
    pthread_t all[4];
    long sum = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&all[i], NULL, in_thread, (void *)(intptr_t)(times + i));
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(all[i], &result);
        sum += (long)result;
    }
    return sum;
}

static long forked(int times) {
    char *memory = new_memory(DATA);
    for (int turn = 0; turn < PLACES; turn++)
        write_function(memory + place(turn), turn);
    protect(memory, BYTES, CODE);
    long sum = 0;
    for (int turn = 0; turn < PLACES; turn++)
        sum += call(memory, turn);
    pid_t child = fork();
    if (child == 0) {
        for (int turn = 0; turn < PLACES; turn++)
            sum += call(memory, turn);
        by_protection(times);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    return sum + by_protection(times);
}

int main(int count, char **words) {
    const char *way = count > 1 ? words[1] : "";
    int times = count > 2 ? atoi(words[2]) : 100;
    long sum;
    if (strcmp(way, "protect") == 0)
        sum = by_protection(times);
    else if (strcmp(way, "open") == 0) {
        char *memory = new_memory(CODE | PROT_WRITE);
        sum = in_two(memory, memory, times);
    } else if (strcmp(way, "shared") == 0)
        sum = shared(times);
    else if (strcmp(way, "moved") == 0)
        sum = moved(times);
    else if (strcmp(way, "own") == 0)
        sum = own(times);
    else if (strcmp(way, "self") == 0)
        sum = self(times);
    else if (strcmp(way, "threads") == 0)
        sum = threads(times);
    else if (strcmp(way, "forked") == 0)
        sum = forked(times);
    else
        return 2;
    printf("%ld\n", sum);
    return 0;
}
