// Threads that end in the middle of an event, by what unwinds their stack. Prints how they ended.
//
//   unwinding exit N     a handler that interrupts them calls pthread_exit
//   unwinding inside N   the same, only when it has interrupted the library or a filter
//   unwinding cancel N   they are cancelled, asynchronously
//   unwinding deferred N they are cancelled where they wait
//   unwinding throw N    an exception goes through functions with events, out of the making of a field too
#include <mote.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdexcept>
#include <time.h>

namespace {

std::atomic<unsigned> destroyed;
sem_t begun;
const char *mode;

struct Guard {
    ~Guard() { destroyed.fetch_add(1); }
};

const char TEXT[] =
    "a text that a filter looks through from its beginning to its end, to find out that it is not there";

// Without destructors, so that unwinding may begin at any instruction of it.
__attribute__((noinline)) void turns() {
    for (unsigned turn = 0;; ++turn) {
        mote_event(unwinding, turn, MOTE_INFO, "a turn", mote_u32(turn, turn), mote_str(text, TEXT));
    }
}

// With one: unwinding may pass where it calls something.
__attribute__((noinline)) void guarded_turns() {
    Guard guard;
    for (unsigned turn = 0;; ++turn) {
        mote_event(unwinding, guarded, MOTE_INFO, "a turn", mote_u32(turn, turn), mote_str(text, TEXT));
    }
}

__attribute__((noinline)) void waits() {
    for (unsigned turn = 0;; ++turn) {
        mote_event(unwinding, before, MOTE_INFO, "before it waits", mote_u32(turn, turn), mote_str(text, TEXT));
        if (turn > 10) {
            const timespec forever = {1000, 0};
            nanosleep(&forever, nullptr);
        }
    }
}

// Code of everything but the library.
struct Range {
    uintptr_t begin, end;
} others[64];
unsigned other_count;

extern "C" int on_object(dl_phdr_info *object, size_t, void *) {
    for (int part = 0; part < object->dlpi_phnum; ++part) {
        const auto &header = object->dlpi_phdr[part];
        const uintptr_t begin = object->dlpi_addr + header.p_vaddr;
        const bool is_code = header.p_type == PT_LOAD && (header.p_flags & PF_X) != 0;
        if (is_code && std::strstr(object->dlpi_name, "libmote.so") == nullptr && other_count < 64) {
            others[other_count++] = Range{begin, begin + header.p_memsz};
        }
    }
    return 0;
}

bool is_inside(uintptr_t at) {
    for (unsigned other = 0; other < other_count; ++other) {
        if (at >= others[other].begin && at < others[other].end) {
            return false;
        }
    }
    return true;
}

extern "C" void on_signal(int, siginfo_t *, void *context) {
    const auto at = uintptr_t(static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP]);
    if (is_inside(at) || std::strcmp(mode, "exit") == 0) {
        pthread_exit(nullptr);
    }
}

extern "C" void *thread(void *) {
    Guard guard;
    if (std::strcmp(mode, "cancel") == 0) {
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
    }
    sem_post(&begun);
    if (std::strcmp(mode, "deferred") == 0) {
        waits();
    } else if (std::strcmp(mode, "inside") == 0) {
        guarded_turns();
    } else {
        turns();
    }
    return nullptr;
}

// Threads that end somewhere in the middle.
int interrupted(unsigned count) {
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR1, &action, nullptr);
    unsigned joined = 0, random = 1;
    for (unsigned one = 0; one < count; ++one) {
        pthread_t id;
        if (pthread_create(&id, nullptr, thread, nullptr) != 0) {
            return 1;
        }
        while (sem_wait(&begun) != 0 && errno == EINTR) {
        }
        random = random * 1103515245 + 12345;
        const timespec moment = {0, long(20000 + random % 400000)};
        nanosleep(&moment, nullptr);
        if (std::strcmp(mode, "exit") != 0 && std::strcmp(mode, "inside") != 0) {
            pthread_cancel(id);
        } else {
            pthread_kill(id, SIGUSR1);
        }
        void *result = nullptr;
        // A handler that has interrupted the program itself lets it go on.
        while (pthread_tryjoin_np(id, &result) != 0) {
            const timespec next = {0, 50000};
            nanosleep(&next, nullptr);
            if (std::strcmp(mode, "inside") == 0) {
                pthread_kill(id, SIGUSR1);
            }
        }
        joined += 1;
    }
    std::printf("joined %u\n", joined);
    return 0;
}

unsigned made(unsigned turn) {
    if (turn % 3 == 0) {
        throw std::runtime_error("a field");
    }
    return turn;
}

__attribute__((noinline)) void throws(unsigned turn) {
    Guard guard;
    mote_event(unwinding, thrown, MOTE_INFO, "with a field that may throw", mote_u32(turn, made(turn)),
               mote_str(text, TEXT));
    if (turn % 3 == 1) {
        throw std::runtime_error("behind the event");
    }
    mote_event(unwinding, after, MOTE_INFO, "nothing was thrown", mote_u32(turn, turn));
}

int thrown(unsigned count) {
    unsigned caught = 0;
    for (unsigned turn = 0; turn < count; ++turn) {
        try {
            throws(turn);
        } catch (const std::runtime_error &) {
            caught += 1;
        }
    }
    std::printf("caught %u\n", caught);
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 3 || sem_init(&begun, 0, 0) != 0) {
        return 2;
    }
    mode = argv[1];
    dl_iterate_phdr(on_object, nullptr);
    const unsigned count = unsigned(std::atoi(argv[2]));
    const int failed = std::strcmp(mode, "throw") == 0 ? thrown(count) : interrupted(count);
    mote_event(unwinding, end, MOTE_INFO, "the program goes on", mote_u32(count, count));
    std::printf("destroyed %u\n", destroyed.load());
    return failed;
}
