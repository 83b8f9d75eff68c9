/* `locked EVENTS [everybody]`: emits, enters a sandbox that kills for every system call but write, exit_group and
 * sigreturn, emits as many again and returns from main, so that its destructors run there. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mote.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALLOW(number) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int lock_in(int everybody) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_write),
        ALLOW(SYS_exit_group),
        ALLOW(SYS_rt_sigreturn),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
        return -1;
    }
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, everybody ? SECCOMP_FILTER_FLAG_TSYNC : 0, &program);
}

static void emit(int events) {
    for (int i = 0; i < events; i++) {
        mote_event(c, calm, MOTE_INFO, "before the sandbox and in it", mote_i32(seq, i));
    }
}

int main(int argc, char **argv) {
    int events = atoi(argv[1]);
    char text[64];
    int len = snprintf(text, sizeof text, "emitted %d\n", 2 * events);
    emit(events);
    if (lock_in(argc > 2)) {
        perror("seccomp");
        return 1;
    }
    emit(events);
    return write(1, text, (size_t)len) == len ? 0 : 1;
}
