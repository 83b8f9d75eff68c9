//! Probe lists (`mote coldpatch`): names and lines for the functions of stripped binaries.
//!
//! A list is one that a person has given, or the one beside the binary: `app.probes` of `app`. Each is only believed
//! for the binary that it is of, by build id; and one that lies beside a binary only when it belongs to the binary's
//! owner or to root: somebody else could write it there.

use mote_journal::Map;
use mote_probelist::{ENDING, List, ListError};
use mote_symbol::mapped::FileId;
use mote_symbol::{Image, Table, TextDigest, with_elf};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The lists that a person has given.
#[derive(Clone, Debug, Default)]
pub struct Lists(Vec<(PathBuf, Arc<List>)>);

/// What lists say of a binary.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// Its list.
    pub list: Option<Arc<List>>,
    /// Why the list beside it is not used.
    pub remark: Option<String>,
}

impl Lists {
    /// Reads lists.
    ///
    /// # Errors
    /// The first one that cannot be read, or is none.
    pub fn open(paths: &[PathBuf]) -> Result<Lists, ListError> {
        let open = |path: &PathBuf| Ok((path.clone(), Arc::new(List::open(path)?)));
        paths.iter().map(open).collect::<Result<_, _>>().map(Lists)
    }

    /// What lists say of the file `path`.
    #[must_use]
    pub fn of_file(&self, image: &Image, path: &Path) -> Listed {
        let beside = |path: &Path| {
            let careful = libc::O_NONBLOCK | libc::O_NOCTTY;
            OpenOptions::new().read(true).custom_flags(careful).open(path)
        };
        let owner = path.metadata().map(|data| data.uid());
        self.of(image, path, owner, beside)
    }

    /// What lists say of the file `file`, which process `pid` has mapped.
    #[must_use]
    pub fn of_mapped(&self, image: &Image, pid: u32, (id, file): (FileId, &File), map: &Map) -> Listed {
        let beside = |path: &Path| id.open_beside(pid, &path.to_string_lossy());
        self.of(image, Path::new(&map.path), file.metadata().map(|data| data.uid()), beside)
    }

    fn of(
        &self,
        image: &Image,
        path: &Path,
        owner: io::Result<u32>,
        beside: impl FnOnce(&Path) -> io::Result<File>,
    ) -> Listed {
        let is_its = |list: &List| list.is_of(&image.build_id, || digest(image));
        if let Some((_, list)) = self.0.iter().find(|(_, list)| is_its(list)) {
            return Listed { list: Some(list.clone()), remark: None };
        }
        let path = beside_of(path);
        let opened = owner.and_then(|owner| owned(beside(&path)?, owner));
        let found = match opened {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Listed::default(),
            Err(why) => Err(format!("the list {} is not used: {why}", path.display())),
            Ok(file) => List::of_file(&path, &file).map_err(|why| why.to_string()),
        };
        match found {
            Ok(list) if is_its(&list) => Listed { list: Some(Arc::new(list)), remark: None },
            Ok(list) => Listed { list: None, remark: Some(of_another(&path, &list)) },
            Err(why) => Listed { list: None, remark: Some(why) },
        }
    }

    /// Which of the lists is of none of these binaries, in a sentence; `used` are the lists that they have.
    #[must_use]
    pub fn unused<'l>(&self, used: impl Iterator<Item = &'l Arc<List>> + Clone) -> Option<String> {
        let is_used = |list: &Arc<List>| used.clone().any(|used| Arc::ptr_eq(used, list));
        let (path, list) = self.0.iter().find(|(_, list)| !is_used(list))?;
        Some(of_another(path, list))
    }
}

impl Listed {
    /// The functions of the list.
    #[must_use]
    pub fn table(&self) -> Table {
        let functions = self.list.iter().flat_map(|list| &list.functions);
        Table::of(functions.map(|function| (function.address, function.size, function.name.as_str())))
    }
}

/// The list of a binary at `path`, if there is one: `app.probes`.
#[must_use]
pub fn beside_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ENDING);
    PathBuf::from(name)
}

fn of_another(path: &Path, list: &List) -> String {
    format!(
        "the list {} is {}, which is another one; `mote coldpatch` writes the right list",
        path.display(),
        list.subject()
    )
}

/// A regular file of `owner` or root.
fn owned(file: File, owner: u32) -> io::Result<File> {
    let data = file.metadata()?;
    if !data.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    if data.uid() != owner && data.uid() != 0 {
        let why = "it belongs to another user than the binary; name it with --probes if it is right";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(file)
}

fn digest(image: &Image) -> Option<String> {
    with_elf(&image.path, TextDigest).ok().flatten()
}
