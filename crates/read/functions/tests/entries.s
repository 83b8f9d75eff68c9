# Functions that show each way to probe an entry, and each reason against one. Assembled by tests/entries.rs.
    .text
    .macro function name
    .type \name, @function
    .p2align 4, 0xcc
\name:
    .endm
    .macro end name
    .size \name, . - \name
    .endm

    function placeholder            # a NOP of five bytes
    .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
    ret
    end placeholder

    function behind_endbr           # the same behind an instruction for indirect calls
    endbr64
    .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
    ret
    end behind_endbr

    function long_first             # one instruction of five bytes
    mov $1, %eax
    ret
    end long_first

    function only_return            # one byte, and padding
    ret
    end only_return

    function punned                 # the bytes behind the first instruction are an offset that leads far away
    push %rbx
    .byte 0x48, 0xc7, 0xc0, 0x80, 0x00, 0x00, 0x00  # mov $0x80, %rax
    pop %rbx
    ret
    end punned

    function window                 # targets inside of the program itself
    push %rbp                       # 55, then 00 00 00 00
    add %al, (%rax)
    add %al, (%rax)
    add %al, (%rax)
    pop %rbp
    ret
    end window

    function jumped_into            # a loop that begins at the second instruction
    push %rbp
1:  add %al, (%rax)
    add %al, (%rax)
    add %al, (%rax)
    jnz 1b
    pop %rbp
    ret
    end jumped_into

    function by_table               # the same by a table of distances
    push %rbp
2:  add %al, (%rax)
    add %al, (%rax)
    add %al, (%rax)
    lea table(%rip), %rdx
    movslq (%rdx,%rdi,4), %rax
    add %rdx, %rax
    jmp *%rax
    end by_table

    .p2align 4, 0xcc
    .type short, @function
short:
    nop
    nop
    ret
    .size short, . - short
    .type behind_short, @function
behind_short:
    mov $2, %eax
    ret
    .size behind_short, . - behind_short

    function undecodable
    .byte 0x06                      # no instruction of 64-bit code
    ret
    end undecodable

    .type moved.cold, @function     # a part of a function
    .p2align 4, 0xcc
moved.cold:
    mov $3, %eax
    ret
    .size moved.cold, . - moved.cold

    .type chosen, @gnu_indirect_function
    .p2align 4, 0xcc
chosen:
    lea long_first(%rip), %rax
    ret
    .size chosen, . - chosen

    .section .rodata
    .p2align 2
table:
    .long 2b - table
    .long long_first - table
    .section .note.GNU-stack,"",@progbits
