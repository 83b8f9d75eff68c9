//! Functions that have no probe, by what they are called: where they return to is looked at.

use mote_functions::BUILTINS_OF_V8;
use mote_symbol::names;

/// Functions that return more than once, or elsewhere than they were called from, or look at where that is: a probe
/// would stand in for their return address. Names of the C library and of compilers' runtimes.
const OWN_WAYS: [&str; 38] = [
    "_setjmp",
    "setjmp",
    "__setjmp",
    "sigsetjmp",
    "__sigsetjmp",
    "_longjmp_unwind",
    "getcontext",
    "setcontext",
    "vfork",
    "__vfork",
    "clone",
    "__clone",
    "clone3",
    "__clone3",
    "__clone_internal",
    "__restore_rt",
    "_start",
    "__libc_start_main",
    "__libc_start_call_main",
    "_init",
    "_fini",
    "dlopen",
    "dlmopen",
    "dlsym",
    "dlvsym",
    "__libc_dlopen_mode",
    "_dl_open",
    "_dl_sym",
    "mcount",
    "_mcount",
    "__fentry__",
    "__morestack",
    "__tls_get_addr",
    "__tls_get_addr_slow",
    "__cyg_profile_func_enter",
    "__cyg_profile_func_exit",
    "_dl_relocate_static_pie",
    "__gmon_start__",
];

/// What names begin with of functions that look through the stack, or that such functions look for: the dynamic
/// linker's ways to other libraries, the unwinder's, and those that V8 has compiled for its own stacks.
const OWN_WAYS_FROM: [&str; 5] = ["_dl_runtime_", "_dl_tlsdesc_", "_Unwind_", "uw_", BUILTINS_OF_V8];

/// Whether a function of this name has no probe at all.
pub(crate) fn returns_its_own_way(symbol: &str) -> bool {
    let name = names::plain(symbol);
    OWN_WAYS.contains(&name) || OWN_WAYS_FROM.iter().any(|begin| name.starts_with(begin))
}

/// How the symbols end of functions of V8's runtime and of its builtins in C++:
/// `(int, unsigned long*, v8::internal::Isolate*)`.
const RUNTIME_OF_V8: &str = "EiPmPNS0_7IsolateE";

/// What symbols hold of functions that are given to V8, to be called by JavaScript, and of those that generated code of
/// regular expressions calls.
const CALLBACKS_OF_V8: [&str; 3] =
    ["20FunctionCallbackInfoI", "20PropertyCallbackInfoI", "20CheckStackGuardStateE"];

/// Whether code that V8 generates calls a function of this name, from what it names an exit frame: its garbage
/// collector and its stack traces look for that code by the return address (`ExitFrame::Iterate`, V8 11.3), and end the
/// program where that is none.
pub(crate) fn is_called_by_code_of_v8(symbol: &str) -> bool {
    let name = names::plain(symbol);
    let is_in_v8 = || name.starts_with("_ZN2v88internal") && name.ends_with(RUNTIME_OF_V8);
    name.starts_with("_Z") && CALLBACKS_OF_V8.iter().any(|part| name.contains(part)) || is_in_v8()
}

#[cfg(test)]
mod tests {
    use super::{is_called_by_code_of_v8, returns_its_own_way};

    #[test]
    fn functions_that_v8_calls_from_its_own_code_are_known_by_their_parameters() {
        for symbol in [
            "_ZN2v88internal21Builtin_JsonStringifyEiPmPNS0_7IsolateE",
            "_ZN2v88internal23Runtime_StackGuardEiPmPNS0_7IsolateE",
            "_ZN2v88internalL29Stats_Runtime_StackGuardEiPmPNS0_7IsolateE",
            "_ZN4node2fsL4ReadERKN2v820FunctionCallbackInfoINS1_5ValueEEE",
            "_ZN2v88internal9Accessors17ArrayLengthGetterENS_5LocalINS_4NameEEERKNS_\
             20PropertyCallbackInfoINS_5ValueEEE",
            "_ZN2v88internal23RegExpMacroAssemblerX6420CheckStackGuardStateEPmmm",
        ] {
            assert!(is_called_by_code_of_v8(symbol), "{symbol}");
        }
        for symbol in ["_ZN2v88internal4Heap8ScavengeEv", "uv_run", "main", "Builtins_ArrayPrototypeFill"] {
            assert!(!is_called_by_code_of_v8(symbol), "{symbol}");
        }
        assert!(returns_its_own_way("Builtins_ArrayPrototypeFill") && returns_its_own_way("setjmp"));
    }
}
