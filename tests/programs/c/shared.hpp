// What both files of the C++ program contain: an inline function and a template, of which the linker keeps one copy.
#pragma once
#include "tick.h"
#include <cstdint>
#include <string>

inline int inline_event(int value) {
    mote_event(cpp, in_inline, MOTE_INFO, "in an inline function", mote_i32(value, value));
    return value + 1;
}

template <class T> T template_event(T value) {
    static T calls = 0;
    calls++;
    mote_event(cpp, in_template, MOTE_INFO, "in a template", mote_u32(size, sizeof(T)), mote_f64(value, double(value)),
               mote_u64(calls, uint64_t(calls)));
    return value;
}

struct Shape {
    std::string name;
    explicit Shape(std::string n) : name(std::move(n)) {
        mote_event(cpp, constructed, MOTE_INFO, "in a constructor", mote_str(name, name.c_str()));
    }
    ~Shape() { mote_event(cpp, destroyed, MOTE_INFO, "in a destructor", mote_str(name, name.c_str())); }
};

int other_file();
