/* Has a child serve a file of which no byte ever comes (FUSE), becomes another user, and runs in memory that lies
   behind a page of it: whatever reads that page waits. Root only, on a path of a regular file. Prints a line when it is
   there. The child ends with it, and all that waits goes on then. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, OTHER = 12345, REQUEST = 1 << 16 };

/* Long enough for a jump. */
__attribute__((noinline)) void called(void) { __asm__ volatile(".byte 0x0f, 0x1f, 0x44, 0, 0"); }

static int served;

static void answer(unsigned long long to, int error, const void *what, unsigned bytes)
{
    struct fuse_out_header header = {sizeof header + bytes, error, to};
    struct iovec parts[] = {{&header, sizeof header}, {(void *)what, bytes}};
    if (writev(served, parts, 2) < 0)
        perror("an answer");
}

/* Becomes another user, which ends with its parent. */
static int change(void)
{
    if (setresgid(OTHER, OTHER, OTHER) || setresuid(OTHER, OTHER, OTHER))
        return -1;
    prctl(PR_SET_DUMPABLE, 1);
    return prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static int serve(void)
{
    static char request[REQUEST];
    const struct fuse_in_header *asked = (const void *)request;
    while (read(served, request, sizeof request) >= (ssize_t)sizeof *asked)
        if (asked->opcode == FUSE_INIT) {
            struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = PAGE};
            answer(asked->unique, 0, &out, sizeof out);
        } else if (asked->opcode == FUSE_GETATTR) {
            struct fuse_attr attr = {.ino = 1, .size = PAGE, .mode = S_IFREG | 0644, .nlink = 1};
            struct fuse_attr_out out = {.attr_valid = 1000, .attr = attr};
            answer(asked->unique, 0, &out, sizeof out);
        } else if (asked->opcode == FUSE_OPEN) {
            struct fuse_open_out out = {0};
            answer(asked->unique, 0, &out, sizeof out);
        } else if (asked->opcode != FUSE_READ && asked->opcode != FUSE_FORGET) {
            answer(asked->unique, -ENOSYS, NULL, 0);
        }
    return 0;
}

static void *run(void *code)
{
    ((void (*)(void))code)();
    return NULL;
}

static int fail(const char *what)
{
    perror(what);
    return 1;
}

int main(int count, char **words)
{
    char how[100];
    served = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(how, sizeof how, "fd=%d,rootmode=100000,user_id=0,group_id=0", served);
    if (count < 2 || served < 0 || unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return fail("no file systems of one's own");
    if (mount("served", words[1], "fuse", MS_NOSUID | MS_NODEV, how))
        return fail("no mount");
    if (fork() == 0)
        return change() || serve();
    close(served);
    int file = open(words[1], O_RDONLY | O_CLOEXEC);
    struct stat size;
    fstat(file, &size);
    int all = PROT_READ | PROT_WRITE | PROT_EXEC;
    char *pages = mmap(NULL, 2 * PAGE, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (file < 0 || mmap(pages, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) != pages)
        return fail("no page");
    /* A jump to itself. */
    memcpy(pages + PAGE, "\xeb\xfe", 2);
    if (change())
        return fail("no other user");
    pthread_t thread;
    pthread_create(&thread, NULL, run, pages + PAGE);
    puts("there");
    fflush(stdout);
    for (;; usleep(1000))
        called();
}
