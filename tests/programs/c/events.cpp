// Events in C++17: inline functions, templates and lambdas, in two files. Prints how many events it emitted.
#include "shared.hpp"
#include <cstdio>
#include <utility>

namespace {
// Emitted before main: the session must know the event by then.
struct Early {
    Early() { mote_event(cpp, before_main, MOTE_INFO, "in a static constructor"); }
} early;

std::string text(int len) { return std::string(size_t(len), 'z'); }
} // namespace

int main() {
    int emitted = 1;
    inline_event(1);
    template_event<int>(2);
    template_event<double>(2.5);
    emitted += 3;

    const auto lambda = [](const char *word) {
        mote_event(cpp, in_lambda, MOTE_INFO, "in a lambda", mote_str(word, word));
    };
    lambda("one");
    lambda("two");
    emitted += 2;

    // Texts borrowed from temporaries, small and large.
    mote_event(cpp, temporary, MOTE_INFO, "a temporary's text", mote_str(text, text(40).c_str()),
               mote_bytes(data, text(20).data(), 20), mote_u8(end, 1));
    mote_event(cpp, temporary_large, MOTE_INFO, "a large one", mote_u16(before, 1), mote_str(text, text(500).c_str()),
               mote_u32(first, std::pair<uint32_t, int>(7, 8).first), mote_seq_u8(none, nullptr, 3));
    emitted += 2;
    {
        Shape shape("circle");
    }
    mote_emit(clock, tick, 1, 2);
    emitted += 3 + other_file();
    std::printf("emitted %d\n", emitted);
}
