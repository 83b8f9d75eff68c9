//! Terminals: how wide one is.

use crate::raw::syscall;

/// Columns of the terminal that the descriptor `raw` (0, 1 or 2) is of; `None` when it is of none, or of one that does
/// not know (ioctl_tty(2), `TIOCGWINSZ`).
pub fn columns(raw: i32) -> Option<u16> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    let to = &raw mut size as usize;
    // SAFETY: the kernel writes one `winsize` to `size`, which is exclusively borrowed.
    unsafe { syscall(libc::SYS_ioctl, [raw as usize, libc::TIOCGWINSZ as usize, to, 0, 0, 0]) }.ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd;

    #[test]
    fn a_terminal_is_as_wide_as_it_was_made() {
        let terminal = fd::open(c"/dev/ptmx", libc::O_RDWR | libc::O_NOCTTY, 0).expect("a terminal");
        assert_eq!(columns(terminal.raw()), None, "nobody has said it");
        let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the kernel reads one `winsize`.
        assert_eq!(unsafe { libc::ioctl(terminal.raw(), libc::TIOCSWINSZ, &raw const size) }, 0);
        assert_eq!(columns(terminal.raw()), Some(80));
        let file = fd::open(c"/dev/null", libc::O_RDWR, 0).expect("a file");
        assert_eq!(columns(file.raw()), None);
    }
}
