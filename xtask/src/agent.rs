//! `cargo xtask bench agent`: what `pillion-agent` costs every pod that it is in.
//!
//! Ten HTTP probes every five seconds, whose answers do not change, beside a loop of the standard library that makes the same requests in the same
//! run and does nothing else.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};

use crate::command::static_program;

const PROBES: u64 = 10;
const INTERVAL: Duration = Duration::from_secs(5);
/// What the API server answers: the pod.
const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","namespace":"default"}}"#;

/// Goals, in KiB.
const LARGEST_FILE: u64 = 6 << 10;
const MOST_RESIDENT: u64 = 8 << 10;
const MOST_ANONYMOUS: u64 = 3 << 10;

/// A program that probes, and what it asks and writes to.
struct Subject {
    child: Child,
    program: PathBuf,
    folder: PathBuf,
    requests: Arc<AtomicU64>,
    writes: Arc<AtomicU64>,
}

/// What a program has done so far.
struct Look {
    processor: Duration,
    requests: u64,
    writes: u64,
}

/// What a program took while it was looked at. Sizes are in KiB.
struct Taken {
    size: u64,
    resident: u64,
    anonymous: u64,
    first_writes: u64,
    writes: u64,
    probes: u64,
    processor: Duration,
}

impl Drop for Subject {
    /// Nothing is left, whatever happens.
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Subject {
    fn start(program: &Path) -> anyhow::Result<Subject> {
        let (requests, writes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let game = serve("idle", Arc::clone(&requests))?;
        let api_server = format!("http://127.0.0.1:{}", serve(POD, Arc::clone(&writes))?);
        let folder = std::env::temp_dir().join(format!("pillion-agent-{game}"));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("config.yaml"), config(game))?;
        std::fs::write(folder.join("token"), "token")?;
        std::fs::write(folder.join("kubeconfig"), kubeconfig(&api_server))?;
        let mut command = Command::new(program);
        command.arg("--config").arg(folder.join("config.yaml"));
        if program.ends_with("pillion-agent") {
            command.arg("--account").arg(&folder).args(["--api-server", &api_server]);
        }
        command.env("KUBECONFIG", folder.join("kubeconfig")).stdout(Stdio::null()).stderr(Stdio::null());
        command.envs([("POD_NAME", "web-0"), ("POD_NAMESPACE", "default"), ("POD_IP", "127.0.0.1")]);
        let child = command.spawn().with_context(|| format!("cannot run {}", program.display()))?;
        Ok(Subject { child, program: program.to_path_buf(), folder, requests, writes })
    }

    /// Waits for a few rounds: the first results are written once, and everything is in memory then.
    fn warm_up(&mut self) -> anyhow::Result<()> {
        while self.requests.load(Ordering::Relaxed) < 4 * PROBES {
            anyhow::ensure!(self.child.try_wait()?.is_none(), "{} has ended", self.program.display());
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn look(&self) -> anyhow::Result<Look> {
        Ok(Look {
            processor: processor_time(self.child.id())?,
            requests: self.requests.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
        })
    }

    fn taken_since(&self, before: &Look) -> anyhow::Result<Taken> {
        let now = self.look()?;
        Ok(Taken {
            size: std::fs::metadata(&self.program)?.len().div_ceil(1024),
            resident: memory(self.child.id(), "Rss:")?,
            anonymous: memory(self.child.id(), "Anonymous:")?,
            first_writes: before.writes,
            writes: now.writes - before.writes,
            probes: now.requests - before.requests,
            processor: now.processor.saturating_sub(before.processor),
        })
    }
}

impl Taken {
    fn of_a_probe(&self) -> Duration {
        self.processor / u32::try_from(self.probes.max(1)).unwrap_or(u32::MAX)
    }
}

/// Builds it as it is put into images, and looks at it while it probes for so many seconds, beside a peer if there is one.
pub(crate) fn bench(seconds: u64, peer: Option<&Path>) -> anyhow::Result<()> {
    let program = static_program("pillion-agent")?;
    let programs = [Some(program.as_path()), peer].into_iter().flatten();
    let mut subjects = programs.map(Subject::start).collect::<anyhow::Result<Vec<_>>>()?;
    subjects.iter_mut().try_for_each(Subject::warm_up)?;
    let before = subjects.iter().map(Subject::look).collect::<anyhow::Result<Vec<_>>>()?;
    let ended = Instant::now() + Duration::from_secs(seconds);
    let asked = serve("idle", Arc::default())?;
    let plain = std::thread::spawn(move || plain_loop(asked, ended)).join();
    let plain = plain.map_err(|_| anyhow::anyhow!("the loop has panicked"))??;
    let taken = subjects.iter().zip(&before).map(|(subject, before)| subject.taken_since(before));
    let taken = taken.collect::<anyhow::Result<Vec<_>>>()?;
    drop(subjects);
    let agent = taken.first().context("nothing was measured")?;
    report(agent, taken.get(1), plain)
}

/// Prints what was measured.
///
/// # Errors
/// A goal is missed.
fn report(agent: &Taken, peer: Option<&Taken>, plain: Duration) -> anyhow::Result<()> {
    let mut table = Table::new();
    let mut header = vec!["", "pillion-agent", "goal"];
    header.extend(peer.map(|_| "the peer"));
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header(header);
    let cells = |it: &Taken| {
        let kib = |value: u64| format!("{value} KiB");
        let [size, resident, anonymous] = [it.size, it.resident, it.anonymous].map(kib);
        let [first, writes, probes] = [it.first_writes, it.writes, it.probes].map(|count| count.to_string());
        [size, resident, anonymous, first, writes, probes, format!("{:?}", it.of_a_probe())]
    };
    let [size, resident, anonymous] =
        [LARGEST_FILE, MOST_RESIDENT, MOST_ANONYMOUS].map(|goal| format!("at most {goal} KiB"));
    let goals = [
        ("on disk", size),
        ("resident memory", resident),
        ("anonymous memory", anonymous),
        ("requests to the API server at the beginning", String::new()),
        ("the same while nothing changed", "0".to_owned()),
        ("probes meanwhile", String::new()),
        ("processor time of a probe", String::new()),
    ];
    let mut of_peer = peer.map(cells).into_iter().flatten();
    for ((what, goal), cell) in goals.into_iter().zip(cells(agent)) {
        let row = [what.to_owned(), cell, goal].into_iter().chain(of_peer.next());
        table.add_row(row);
    }
    println!("{table}");
    let share = |of: Duration| agent.of_a_probe().as_secs_f64() / of.as_secs_f64();
    println!("processor time of a probe, against a loop that only asks: {:.2}", share(plain));
    let missed_share = peer.map(|peer| share(peer.of_a_probe())).filter(|share| {
        println!("the same against the peer: {share:.3} (goal at most 0.1)");
        *share > 0.1
    });
    let missed = [
        ("on disk", agent.size > LARGEST_FILE),
        ("resident memory", agent.resident > MOST_RESIDENT),
        ("anonymous memory", agent.anonymous > MOST_ANONYMOUS),
        ("requests while nothing changed", agent.writes > 0),
        ("processor time against the peer", missed_share.is_some()),
    ];
    let missed: Vec<&str> = missed.iter().filter(|(_, is_missed)| *is_missed).map(|(what, _)| *what).collect();
    anyhow::ensure!(missed.is_empty(), "these goals are missed: {}", missed.join(", "));
    Ok(())
}

/// Ten probes whose results go to annotations.
fn config(game: u16) -> String {
    let endpoint = |index: u64| {
        format!(
            "      - url: http://127.0.0.1:{game}/{index}\n        method: GET\n        timeout: 5\n        expectedStatusCode: 200\n        storageConfig: {{type: InKube, inKube: {{annotationKey: probe-{index}}}}}\n"
        )
    };
    let endpoints: String = (0..PROBES).map(endpoint).collect();
    format!(
        "plugins:\n  - name: http_probe\n    config:\n      startDelaySeconds: 0\n      probeIntervalSeconds: {}\n      endpoints:\n{endpoints}listen: 127.0.0.1:0\n",
        INTERVAL.as_secs()
    )
}

/// For a peer that finds the API server as kubectl does.
fn kubeconfig(api_server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: it\nclusters: [{{name: it, cluster: {{server: '{api_server}'}}}}]\ncontexts: [{{name: it, context: {{cluster: it, user: it}}}}]\nusers: [{{name: it, user: {{}}}}]\n"
    )
}

/// Answers every request alike, and counts them.
fn serve(answer: &'static str, count: Arc<AtomicU64>) -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let count = Arc::clone(&count);
            std::thread::spawn(move || answer_all(stream, answer, &count));
        }
    });
    Ok(port)
}

fn answer_all(mut stream: TcpStream, answer: &str, count: &AtomicU64) -> std::io::Result<()> {
    let (mut buffer, mut seen) = ([0; 16 << 10], Vec::new());
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        seen.extend_from_slice(&buffer[..read]);
        let Some(end) = seen.windows(4).position(|part| part == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&seen[..end]).to_ascii_lowercase();
        let length: usize = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"))
            .and_then(|length| length.trim().parse().ok())
            .unwrap_or_default();
        if seen.len() < end + 4 + length {
            continue;
        }
        seen.drain(..end + 4 + length);
        count.fetch_add(1, Ordering::Relaxed);
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{answer}",
            answer.len()
        )?;
    }
}

/// Asks as often as the agent does. Returns the processor time of a request.
fn plain_loop(port: u16, ended: Instant) -> anyhow::Result<Duration> {
    let mut requests: u32 = 0;
    while Instant::now() < ended {
        for index in 0..PROBES {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            write!(stream, "GET /{index} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
            let mut answer = [0; 1024];
            anyhow::ensure!(stream.read(&mut answer)? > 0, "there was no answer");
            requests += 1;
        }
        std::thread::sleep(INTERVAL);
    }
    let used = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(nanoseconds(&used)? / requests.max(1))
}

fn nanoseconds(schedstat: &str) -> anyhow::Result<Duration> {
    let first = schedstat.split_whitespace().next().context("Linux says how long a thread ran")?;
    Ok(Duration::from_nanos(first.parse()?))
}

/// The processor time of all threads of a process.
fn processor_time(id: u32) -> anyhow::Result<Duration> {
    let mut sum = Duration::ZERO;
    for task in std::fs::read_dir(format!("/proc/{id}/task"))? {
        sum += nanoseconds(&std::fs::read_to_string(task?.path().join("schedstat"))?)?;
    }
    Ok(sum)
}

/// The memory of a process, in KiB.
fn memory(id: u32, what: &str) -> anyhow::Result<u64> {
    let rollup = std::fs::read_to_string(format!("/proc/{id}/smaps_rollup"))?;
    let line = rollup.lines().find_map(|line| line.strip_prefix(what)).context("Linux says what is in memory")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
