/* A static probe, as sys/sdt.h writes it, a site as mote.h does, and functions whose begins are placeholders. */
#include <stdio.h>

__attribute__((used)) static int site_state;
__attribute__((used)) static const char site_text[] = "mote1\nshop:sold\n6 sites.c:1\n\n";

#define SITE(state, text)                                                                                              \
    __asm__ volatile("980: .byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n981:\n"                                                 \
                     ".pushsection mote_sites,\"a\",@progbits\n.balign 4\n"                                            \
                     ".long 980b - ., 981b - ., " state ", " text "\n.popsection")

#define PROBE(provider, name)                                                                                          \
    __asm__ volatile("990: nop\n"                                                                                      \
                     ".pushsection .note.stapsdt,\"\",\"note\"\n"                                                      \
                     ".balign 4\n.4byte 992f-991f, 994f-993f, 3\n"                                                     \
                     "991: .asciz \"stapsdt\"\n992: .balign 4\n"                                                       \
                     "993: .8byte 990b\n.8byte 0\n.8byte 0\n"                                                          \
                     ".asciz \"" provider "\"\n.asciz \"" name "\"\n.asciz \"\"\n"                                     \
                     "994: .balign 4\n.popsection")

__attribute__((noinline)) int twice(int x) {
    PROBE("shop", "twice");
    return 2 * x;
}
__attribute__((noinline)) void say(int x) { printf("%d\n", x); }

int main(int argc, char **argv) {
    (void)argv;
    say(twice(argc + 20));
    SITE("site_state - .", "site_text - .");
    SITE("site_state - .", "0");
    SITE("0", "0");
    return 0;
}
