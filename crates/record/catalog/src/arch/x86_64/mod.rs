//! x86-64. See [`crate::arch`] for what each item is.

/// The kernel's function, and the name in `arch/x86/entry/syscalls/syscall_64.tbl`.
pub(crate) const CALL_NAMES: [(&str, &str); 6] = [
    ("newstat", "stat"),
    ("newfstat", "fstat"),
    ("newlstat", "lstat"),
    ("newuname", "uname"),
    ("sendfile64", "sendfile"),
    ("umount", "umount2"),
];

/// As the table of `names`.
pub(crate) const EVENT_NAMES: [(&str, &str, &str); 3] = [
    ("exceptions", "page_fault_", "x86_exceptions_page_fault_"),
    ("irq_vectors", "", "x86_irq_vectors_"),
    ("kvm", "kvm_", "kvm_x86_"),
];
