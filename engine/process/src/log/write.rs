//! From the pipes of a container into its log file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use pillion_clock::Clock;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::watch;

use super::Progress;
use super::entry::{Cutter, Piece, format};
use crate::attach::{Clients, Source};

/// A file is put aside when it is larger, as the kubelet does by default.
const LARGEST: u64 = 10 * 1024 * 1024;

/// So many files to an attempt, the one that is written among them.
const FILES: usize = 5;

/// Writes what comes from the pipes until both are closed, and hands it to those who are attached.
pub(crate) async fn pump(
    path: PathBuf,
    stdout: Receiver,
    stderr: Receiver,
    progress: watch::Sender<Progress>,
    clients: Clients,
) {
    let mut log = Log { path, file: None, size: 0, largest: LARGEST, lost: 0, progress };
    let mut streams = [("stdout", stdout, Cutter::default(), true), ("stderr", stderr, Cutter::default(), true)];
    let mut buffers = [vec![0; 8 * 1024], vec![0; 8 * 1024]];
    loop {
        let [(_, stdout, _, stdout_open), (_, stderr, _, stderr_open)] = &mut streams;
        let [first, second] = &mut buffers;
        let (which, read) = tokio::select! {
            read = stdout.read(first), if *stdout_open => (0, read),
            read = stderr.read(second), if *stderr_open => (1, read),
            else => break,
        };
        let (name, _, cutter, open) = &mut streams[which];
        let length = read.unwrap_or(0);
        *open = length > 0;
        let mut pieces = cutter.push(&buffers[which][..length]);
        if !*open {
            pieces.extend(cutter.finish());
        }
        log.append(name, &pieces);
        let source = if which == 0 { Source::Stdout } else { Source::Stderr };
        clients.send(source, &buffers[which][..length]).await;
    }
    log.progress.send_modify(|progress| progress.finished = true);
}

struct Log {
    path: PathBuf,
    file: Option<File>,
    size: u64,
    largest: u64,
    /// Lines that could not be written since the last one that was.
    lost: u64,
    progress: watch::Sender<Progress>,
}

impl Log {
    /// A log that cannot be written, on a full disk, does not stop the container. Where lines are missing, a line says so.
    fn append(&mut self, stream: &str, pieces: &[Piece]) {
        for piece in pieces {
            if let Err(error) = self.try_append(stream, piece) {
                if self.lost == 0 {
                    tracing::warn!(path = %self.path.display(), %error, "cannot write a log");
                }
                self.lost += 1;
                self.forget_half_a_line();
            }
        }
    }

    fn try_append(&mut self, stream: &str, piece: &Piece) -> io::Result<()> {
        if self.lost > 0 {
            let text = format!("[{} lines of the log were lost here: they could not be written]", self.lost);
            self.write("stderr", &Piece { text: text.into(), partial: false })?;
            self.lost = 0;
        }
        self.write(stream, piece)
    }

    fn write(&mut self, stream: &str, piece: &Piece) -> io::Result<()> {
        if self.size > self.largest {
            self.rotate()?;
        }
        if self.file.is_none() {
            let mut options = OpenOptions::new();
            self.file = Some(options.append(true).create(true).mode(0o600).open(&self.path)?);
        }
        let line = format(Clock::system().now(), stream, piece);
        if let Some(file) = &mut self.file {
            file.write_all(&line)?;
        }
        self.size += line.len() as u64;
        self.progress.send_modify(|progress| progress.written += 1);
        Ok(())
    }

    /// Takes back what was written of a line before the disk was full.
    fn forget_half_a_line(&mut self) {
        if let Some(file) = self.file.take() {
            let _ = file.set_len(self.size);
        }
    }

    /// Puts the file aside under a name with the time, and takes away the oldest.
    fn rotate(&mut self) -> io::Result<()> {
        let mut aside = self.path.clone().into_os_string();
        aside.push(Clock::system().now().strftime(".%Y%m%d-%H%M%S.%9f").to_string());
        fs::rename(&self.path, &aside)?;
        self.file = None;
        self.size = 0;
        self.progress.send_modify(|progress| progress.rotations += 1);
        let mut older = put_aside(&self.path)?;
        older.sort();
        let too_many = older.len().saturating_sub(FILES - 1);
        older.iter().take(too_many).try_for_each(fs::remove_file)
    }
}

/// The files of a log that were put aside.
fn put_aside(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Ok(Vec::new());
    };
    let prefix = format!("{name}.");
    let files = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    Ok(files.filter(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_is_put_aside_and_the_oldest_is_taken_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        let (progress, seen) = watch::channel(Progress::default());
        let mut log = Log { path: path.clone(), file: None, size: 0, largest: 100, lost: 0, progress };
        for number in 0..20 {
            log.append("stdout", &[Piece { text: format!("{number:0>100}").into(), partial: false }]);
        }
        assert_eq!(put_aside(&path).unwrap().len(), FILES - 1);
        assert_eq!(seen.borrow().rotations, 19);
        assert!(fs::read_to_string(&path).unwrap().ends_with("19\n"));
    }

    #[test]
    fn lines_that_are_lost_on_a_full_disk_leave_a_mark() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let (progress, _seen) = watch::channel(Progress::default());
        let mut log = Log { path: path.clone(), file: None, size: 0, largest: LARGEST, lost: 0, progress };
        let piece = |text: &str| Piece { text: text.to_owned().into(), partial: false };
        log.append("stdout", &[piece("one"), piece("two")]);
        fs::remove_file(&path).unwrap();
        log.append("stdout", &[piece("three"), piece("four")]);
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().filter_map(|line| line.split_once(' ').map(|(_, rest)| rest)).collect();
        let mark = "stderr F [2 lines of the log were lost here: they could not be written]";
        assert_eq!(lines, [mark, "stdout F three", "stdout F four"]);
    }
}
