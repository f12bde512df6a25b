//! `hostPath` volumes: what has to be there, in the kubelet's words.

use std::fs::{self, File, FileType};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Checks that a place of the machine is what `hostPath.type` says, and makes it if that says so.
pub(super) fn check(path: &Path, kind: &str) -> io::Result<()> {
    let exists = path.exists();
    let (word, is): (_, fn(&FileType) -> bool) = match kind {
        "DirectoryOrCreate" if !exists => return fs::create_dir_all(path),
        "FileOrCreate" if !exists => return File::create(path).map(drop),
        "DirectoryOrCreate" | "Directory" => ("directory", FileType::is_dir),
        "FileOrCreate" | "File" => ("file", FileType::is_file),
        "Socket" => ("socket file", FileTypeExt::is_socket),
        "CharDevice" => ("character device", FileTypeExt::is_char_device),
        "BlockDevice" => ("block device", FileTypeExt::is_block_device),
        "" => return Ok(()),
        other => return Err(io::Error::other(format!("{other} is an invalid volume type"))),
    };
    if fs::metadata(path).is_ok_and(|metadata| is(&metadata.file_type())) {
        return Ok(());
    }
    Err(io::Error::other(format!("hostPath type check failed: {} is not a {word}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_what_its_type_says() {
        let folder = tempfile::tempdir().unwrap();
        let (made, file) = (folder.path().join("a/b"), folder.path().join("file"));
        check(&made, "DirectoryOrCreate").unwrap();
        check(&file, "FileOrCreate").unwrap();
        for (path, kind, fine) in [
            (made.as_path(), "Directory", true),
            (&made, "DirectoryOrCreate", true),
            (&made, "File", false),
            (&file, "File", true),
            (&file, "Directory", false),
            (Path::new("/dev/null"), "CharDevice", true),
            (Path::new("/dev/null"), "BlockDevice", false),
            (Path::new("/no/such"), "", true),
            (Path::new("/no/such"), "Directory", false),
        ] {
            assert_eq!(check(path, kind).is_ok(), fine, "{} {kind}", path.display());
        }
        let error = check(&file, "Directory").unwrap_err().to_string();
        assert_eq!(error, format!("hostPath type check failed: {} is not a directory", file.display()));
    }
}
