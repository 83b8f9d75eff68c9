// The second file of events.cpp: the same inline function and templates.
#include "shared.hpp"

int other_file() {
    inline_event(10);
    template_event<int>(20);
    template_event<double>(20.5);
    Shape shape("square");
    mote_emit(clock, tick, 3, 4);
    return 6;
}
