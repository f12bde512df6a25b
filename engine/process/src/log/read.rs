//! A log as `kubectl logs` shows it, by the rules of the kubelet.

use std::io::{self, SeekFrom};
use std::path::PathBuf;

use futures::stream::{self, Stream};
use jiff::Timestamp;
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncSeekExt as _, BufReader};
use tokio::sync::watch;

use super::Progress;
use super::entry::{Entry, parse};

const BLOCK: u64 = 4096;

/// Which part of a log is wanted, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Whether to wait for more, until the container has ended.
    pub follow: bool,
    /// Only so many lines of the end. The parts of a long line count as lines.
    pub tail_lines: Option<u64>,
    /// Only what is not older.
    pub since: Option<Timestamp>,
    /// Whether each line begins with its time.
    pub timestamps: bool,
    /// Only so many bytes.
    pub limit_bytes: Option<u64>,
}

/// A log file, as text. Only the newest file of a log that was put aside is read, as the kubelet does.
pub(crate) async fn read(
    path: PathBuf,
    options: LogOptions,
    progress: watch::Receiver<Progress>,
) -> io::Result<impl Stream<Item = Vec<u8>> + Send + 'static> {
    // Before the file is opened: what comes in between is then seen as a change.
    let rotations = progress.borrow().rotations;
    let file = match File::open(&path).await {
        Ok(mut file) => {
            if let Some(lines) = options.tail_lines {
                let start = start_of_tail(&mut file, lines).await?;
                file.seek(SeekFrom::Start(start)).await?;
            }
            Some(BufReader::new(file))
        }
        // Nothing was written yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let lines_left = options.tail_lines.filter(|_| !options.follow);
    let filter = Filter { bytes_left: options.limit_bytes, at_line_start: true, options };
    let reader = Reader { path, file, line: Vec::new(), filter, lines_left, progress, rotations };
    Ok(stream::unfold(reader, |mut reader| async move { Some((reader.next().await?, reader)) }))
}

/// Where the last `lines` lines begin. One without an end of line does not count.
async fn start_of_tail(file: &mut File, lines: u64) -> io::Result<u64> {
    let mut right = file.seek(SeekFrom::End(0)).await?;
    let mut found = 0;
    while right > 0 {
        let left = right.saturating_sub(BLOCK);
        let mut block = vec![0; usize::try_from(right - left).unwrap_or_default()];
        file.seek(SeekFrom::Start(left)).await?;
        file.read_exact(&mut block).await?;
        for (index, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            found += 1;
            if found > lines {
                return Ok(left + index as u64 + 1);
            }
        }
        right = left;
    }
    Ok(0)
}

struct Reader {
    path: PathBuf,
    file: Option<BufReader<File>>,
    /// What has come of a line.
    line: Vec<u8>,
    filter: Filter,
    lines_left: Option<u64>,
    progress: watch::Receiver<Progress>,
    /// Which file is open.
    rotations: u64,
}

impl Reader {
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if self.lines_left == Some(0) || self.filter.bytes_left == Some(0) {
                return None;
            }
            // Before the file is read: what comes afterwards is then seen as a change.
            let progress = *self.progress.borrow_and_update();
            if let Some(file) = &mut self.file {
                file.read_until(b'\n', &mut self.line).await.ok()?;
            }
            let whole = self.line.ends_with(b"\n");
            if !whole && self.filter.options.follow {
                self.wait(progress).await?;
                continue;
            }
            if self.line.is_empty() {
                return None;
            }
            let line = std::mem::take(&mut self.line);
            let Some(entry) = parse(&line) else { continue };
            self.lines_left = self.lines_left.map(|lines| lines - 1);
            let text = self.filter.apply(&entry);
            if !text.is_empty() {
                return Some(text);
            }
        }
    }

    /// Waits for more than there was at `progress`; `None` when no more will come.
    async fn wait(&mut self, progress: Progress) -> Option<()> {
        if self.file.is_none() || progress.rotations > self.rotations {
            self.rotations = progress.rotations;
            self.file = File::open(&self.path).await.ok().map(BufReader::new);
            if self.file.is_some() {
                return Some(());
            }
        }
        if progress.finished {
            return None;
        }
        self.progress.changed().await.ok()
    }
}

/// What of an entry is shown.
struct Filter {
    options: LogOptions,
    bytes_left: Option<u64>,
    at_line_start: bool,
}

impl Filter {
    fn apply(&mut self, entry: &Entry<'_>) -> Vec<u8> {
        let at_line_start = std::mem::replace(&mut self.at_line_start, matches!(entry.text.last(), None | Some(b'\n')));
        if self.options.since.is_some_and(|since| entry.at < since) {
            return Vec::new();
        }
        let mut text = Vec::new();
        if self.options.timestamps && at_line_start {
            text.extend(format!("{:.9} ", entry.at).into_bytes());
        }
        text.extend(entry.text);
        if let Some(left) = &mut self.bytes_left {
            text.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= text.len() as u64;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use futures::StreamExt as _;

    use super::*;

    const LOG: &str = "\
2026-01-01T00:00:01.000000000Z stdout F one
2026-01-01T00:00:02.000000000Z stderr P tw
2026-01-01T00:00:02.000000000Z stderr F o
2026-01-01T00:00:03.000000000Z stdout F three
";

    async fn shown(options: LogOptions) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        std::fs::write(&path, LOG).unwrap();
        let finished = Progress { finished: true, ..Progress::default() };
        let (_sender, progress) = watch::channel(finished);
        let chunks: Vec<Vec<u8>> = read(path, options, progress).await.unwrap().collect().await;
        String::from_utf8(chunks.concat()).unwrap()
    }

    #[tokio::test]
    async fn options_choose_what_is_shown() {
        let all = LogOptions::default();
        let since = Some("2026-01-01T00:00:03Z".parse().unwrap());
        for (options, expected) in [
            (all.clone(), "one\ntwo\nthree\n"),
            (LogOptions { follow: true, ..all.clone() }, "one\ntwo\nthree\n"),
            (LogOptions { tail_lines: Some(0), ..all.clone() }, ""),
            (LogOptions { tail_lines: Some(1), ..all.clone() }, "three\n"),
            (LogOptions { tail_lines: Some(2), ..all.clone() }, "o\nthree\n"),
            (LogOptions { tail_lines: Some(100), ..all.clone() }, "one\ntwo\nthree\n"),
            (LogOptions { since, ..all.clone() }, "three\n"),
            (LogOptions { limit_bytes: Some(6), ..all.clone() }, "one\ntw"),
            (
                LogOptions { timestamps: true, ..all },
                "2026-01-01T00:00:01.000000000Z one\n2026-01-01T00:00:02.000000000Z two\n\
                 2026-01-01T00:00:03.000000000Z three\n",
            ),
        ] {
            assert_eq!(shown(options.clone()).await, expected, "{options:?}");
        }
    }

    #[tokio::test]
    async fn who_follows_sees_what_comes_and_new_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        let (sender, progress) = watch::channel(Progress::default());
        let follow = LogOptions { follow: true, ..LogOptions::default() };
        let mut log = std::pin::pin!(read(path.clone(), follow, progress).await.unwrap());
        let append = |text: &str| {
            let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        // Half a line is waited for.
        append("2026-01-01T00:00:01.000000000Z stdout F o");
        sender.send_modify(|progress| progress.written += 1);
        assert!(futures::poll!(log.next()).is_pending());
        append("ne\n");
        sender.send_modify(|progress| progress.written += 1);
        assert_eq!(log.next().await.unwrap(), b"one\n");
        std::fs::rename(&path, folder.path().join("0.log.1")).unwrap();
        append("2026-01-01T00:00:02.000000000Z stdout F two\n");
        sender.send_modify(|progress| progress.rotations += 1);
        assert_eq!(log.next().await.unwrap(), b"two\n");
        sender.send_modify(|progress| progress.finished = true);
        assert_eq!(log.next().await, None);
    }
}
