// Exceptions: through frames with destructors, rethrown, caught by a base, out of threads, nested in a destructor.
#include <cstdio>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

static int destroyed;

struct Guard {
    std::string name;
    explicit Guard(int level) : name(std::to_string(level)) {}
    ~Guard() {
        destroyed += name.size();
        try {
            if (name == "3")
                throw name;
        } catch (const std::string &own) {
            destroyed += own.size();
        }
    }
};

struct Special : std::runtime_error {
    using std::runtime_error::runtime_error;
};

__attribute__((noinline)) static int deep(int level) {
    Guard guard(level);
    auto room = std::make_unique<std::vector<int>>(level + 1, level);
    if (level == 0)
        throw Special("at the end");
    return deep(level - 1) + (int)room->size();
}

__attribute__((noinline)) static int again(int level) {
    try {
        return deep(level);
    } catch (const std::runtime_error &) {
        throw;
    }
}

static int caught(int (*work)(int), int level) {
    try {
        return work(level);
    } catch (const std::exception &error) {
        return error.what()[0];
    }
}

int main() {
    int sum = 0;
    for (int level = 0; level < 20; level++)
        sum += caught(level % 2 ? deep : again, level);
    // What a thread has thrown is thrown here.
    for (int level = 0; level < 3; level++) {
        auto later = std::async(std::launch::async, deep, 5 + level);
        try {
            sum += later.get();
        } catch (const Special &) {
            sum++;
        }
    }
    std::vector<int> none;
    try {
        sum += none.at(sum);
    } catch (const std::out_of_range &) {
        sum++;
    }
    printf("%d %d\n", sum, destroyed);
}
