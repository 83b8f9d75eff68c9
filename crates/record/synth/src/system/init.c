/* The first process of the guest, which runs one command. It has no library: the guest may have none.
 *
 * /.mote/words has the command's path, then its words; /.mote/environment its environment; /.mote/folder where it is to
 * run: each a sequence of strings that end with 0. What is to be said to qemu's plugin goes by a NOP that is looked for
 * (plugin.c): a number, and two more.
 */
typedef unsigned long word;
enum { READ = 0, OPEN = 2, CLOSE = 3, IOCTL = 16, DUP2 = 33, GETPID = 39, FORK = 57, EXECVE = 59 };
enum { PIPE = 22, PAUSE = 34, WAIT4 = 61, CHDIR = 80, SETSID = 112, MOUNT = 165 };
enum { SYMBOLS = 1, BEGIN = 2, END = 3, WHY = 4, OUTPUT = 5 };
enum { BUFFER = 1 << 16, WORDS = 4096, TEXT = 1 << 20 };

static word call(word number, word a, word b, word c, word d, word e) {
    word answer;
    register word r10 __asm__("r10") = d;
    register word r8 __asm__("r8") = e;
    __asm__ volatile("syscall"
                     : "=a"(answer)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return answer;
}

static int is_error(word answer) { return answer > -4096ul; }

/* The NOP begins a block: what was said is in the registers there. */
static void say(word what, word first, word second) {
    __asm__ volatile("jmp 1f\n1: .byte 0x0f, 0x1f, 0x80, 0x6d, 0x6f, 0x74, 0x65"
                     :
                     : "D"(what), "S"(first), "d"(second)
                     : "memory");
}

static word length_of(const char *text) {
    word count = 0;
    while (text[count])
        count++;
    return count;
}

static void fail(const char *why) {
    say(WHY, (word)why, length_of(why));
    say(END, 255, 0);
    call(PAUSE, 0, 0, 0, 0, 0);
}

static char buffer[BUFFER];

/* Whole lines: what is behind the last one is moved to the begin. */
static void send_symbols(void) {
    word file = call(OPEN, (word) "/proc/kallsyms", 0, 0, 0, 0), filled = 0, count;
    if (is_error(file))
        return;
    while (!is_error(count = call(READ, file, (word)buffer + filled, BUFFER - filled, 0, 0)) && count > 0) {
        word end = filled += count;
        while (end > 0 && buffer[end - 1] != '\n')
            end--;
        if (filled < BUFFER - 4096)
            continue;
        say(SYMBOLS, (word)buffer, end);
        for (word i = end; i < filled; i++)
            buffer[i - end] = buffer[i];
        filled -= end;
    }
    if (filled > 0)
        say(SYMBOLS, (word)buffer, filled);
    call(CLOSE, file, 0, 0, 0, 0);
}

/* The strings of a file. */
static char **strings(const char *path, char *text, char **all) {
    word file = call(OPEN, (word)path, 0, 0, 0, 0), filled = 0, count;
    if (is_error(file))
        fail("the guest's files are not complete");
    while (filled < TEXT - 1 && !is_error(count = call(READ, file, (word)text + filled, TEXT - 1 - filled, 0, 0)) &&
           count > 0)
        filled += count;
    call(CLOSE, file, 0, 0, 0, 0);
    count = 0;
    for (word i = 0; i < filled && count < WORDS - 1; i += length_of(text + i) + 1)
        all[count++] = text + i;
    all[count] = 0;
    return all;
}

/* The command's output comes by a pipe, until nobody can write to it any more. */
static void pass_output(word from) {
    word count;
    while (!is_error(count = call(READ, from, (word)buffer, BUFFER, 0, 0)) && count > 0)
        say(OUTPUT, (word)buffer, count);
}

/* The guest has no other source of randomness, and would wait for it. Runs are the same each time. */
static void add_entropy(void) {
    struct {
        int bits, bytes;
        unsigned words[16];
    } entropy = {512, 64};
    for (int i = 0; i < 16; i++)
        entropy.words[i] = 0x9e3779b9u * (i + 1);
    word file = call(OPEN, (word) "/dev/urandom", 01, 0, 0, 0);
    call(IOCTL, file, 0x40085203, (word)&entropy, 0, 0);
    call(CLOSE, file, 0, 0, 0, 0);
}

static char words_text[TEXT], environment_text[TEXT], folder_text[TEXT];
static char *words[WORDS], *environment[WORDS], *folder[WORDS];

__attribute__((used)) void begin(void) {
    int status = 0, of_command = 0, output[2];
    call(MOUNT, (word) "proc", (word) "/proc", (word) "proc", 0, 0);
    call(MOUNT, (word) "sysfs", (word) "/sys", (word) "sysfs", 0, 0);
    call(MOUNT, (word) "devtmpfs", (word) "/dev", (word) "devtmpfs", 0, 0);
    add_entropy();
    strings("/.mote/words", words_text, words);
    strings("/.mote/environment", environment_text, environment);
    strings("/.mote/folder", folder_text, folder);
    send_symbols();
    if (is_error(call(PIPE, (word)output, 0, 0, 0, 0)))
        fail("the guest has no pipes");
    word child = call(FORK, 0, 0, 0, 0, 0), ended;
    if (child == 0) {
        call(SETSID, 0, 0, 0, 0, 0);
        call(DUP2, call(OPEN, (word) "/dev/null", 0, 0, 0, 0), 0, 0, 0, 0);
        call(DUP2, output[1], 1, 0, 0, 0);
        call(DUP2, output[1], 2, 0, 0, 0);
        for (word file = 3; file < 16; file++)
            call(CLOSE, file, 0, 0, 0, 0);
        if (folder[0])
            call(CHDIR, (word)folder[0], 0, 0, 0, 0);
        say(BEGIN, call(GETPID, 0, 0, 0, 0, 0), 0);
        call(EXECVE, (word)words[0], (word)(words + 1), (word)environment, 0, 0);
        fail("the guest's kernel cannot execute the program");
    }
    call(CLOSE, output[1], 0, 0, 0, 0);
    pass_output(output[0]);
    while (!is_error(ended = call(WAIT4, -1, (word)&status, 0, 0, 0)))
        if (ended == child)
            of_command = status;
    say(END, of_command, 0);
    call(PAUSE, 0, 0, 0, 0, 0);
}

__asm__(".globl _start\n_start:\n    xor %ebp, %ebp\n    and $-16, %rsp\n    call begin\n");
