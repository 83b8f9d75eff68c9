//! Whose a recording is.

use nix::unistd::geteuid;

/// A user, as the kernel knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: u32,
    /// Their group, if it is known.
    pub(crate) gid: Option<u32>,
}

/// Who has called sudo to have this program run as root.
pub(crate) fn sudo_user() -> Option<User> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let uid = number("SUDO_UID").filter(|uid| *uid != 0 && geteuid().is_root())?;
    Some(User { uid, gid: number("SUDO_GID") })
}
