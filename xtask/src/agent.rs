//! `cargo xtask bench agent`: what `pillion-agent` costs every pod that it is in.
//!
//! Ten HTTP probes every five seconds, whose answers do not change, beside a loop of the standard library that makes the same requests in the same
//! run and does nothing else.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};

const PROBES: usize = 10;
const INTERVAL: Duration = Duration::from_secs(5);

/// Goals, in KiB.
const LARGEST_FILE: u64 = 6 << 10;
const MOST_RESIDENT: u64 = 8 << 10;
const MOST_ANONYMOUS: u64 = 3 << 10;

/// Ends the program that is measured, whatever happens.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds it as it is put into images, and looks at it while it probes for so many seconds.
pub(crate) fn bench(seconds: u64) -> anyhow::Result<()> {
    let program = pillion_cluster::static_agent()?;
    let size = std::fs::metadata(&program)?.len().div_ceil(1024);
    let (requests, writes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let game = serve("idle", Arc::clone(&requests))?;
    let api_server = serve("{}", Arc::clone(&writes))?;
    let folder = std::env::temp_dir().join(format!("pillion-agent-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let mut agent = start(&program, &folder, game, api_server)?;
    // The first results are written once, and everything is in memory after a few rounds.
    let warm = 4 * PROBES as u64;
    while requests.load(Ordering::Relaxed) < warm {
        anyhow::ensure!(agent.0.try_wait()?.is_none(), "pillion-agent has ended");
        std::thread::sleep(Duration::from_millis(100));
    }
    let first_writes = writes.load(Ordering::Relaxed);
    let before = (processor_time(agent.0.id())?, requests.load(Ordering::Relaxed));
    let ended = Instant::now() + Duration::from_secs(seconds);
    let plain = std::thread::spawn(move || plain_loop(game, ended)).join();
    let plain = plain.map_err(|_| anyhow::anyhow!("the loop has panicked"))??;
    let used = processor_time(agent.0.id())?.saturating_sub(before.0);
    let looks = requests.load(Ordering::Relaxed) - before.1 - plain.requests;
    let more_writes = writes.load(Ordering::Relaxed) - first_writes;
    let (resident, anonymous) = (memory(agent.0.id(), "Rss:")?, memory(agent.0.id(), "Anonymous:")?);
    drop(agent);
    std::fs::remove_dir_all(&folder)?;
    let per_look = |time: Duration, count: u64| time / u32::try_from(count.max(1)).unwrap_or(u32::MAX);
    let (agent, plain) = (per_look(used, looks), per_look(plain.used, plain.requests));
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header(["pillion-agent", "measured", "goal"]);
    let kib = |value: u64, goal: u64| [format!("{value} KiB"), format!("at most {goal} KiB")];
    for (what, [value, goal]) in [
        ("on disk", kib(size, LARGEST_FILE)),
        ("resident memory", kib(resident, MOST_RESIDENT)),
        ("anonymous memory", kib(anonymous, MOST_ANONYMOUS)),
        ("writes at the beginning", [first_writes.to_string(), String::new()]),
        ("writes while nothing changed", [more_writes.to_string(), "0".to_owned()]),
        ("probes meanwhile", [looks.to_string(), String::new()]),
        ("processor time of a probe", [format!("{agent:?}"), String::new()]),
        ("the same of a loop that only asks", [format!("{plain:?}"), String::new()]),
        ("ratio", [format!("{:.2}", agent.as_secs_f64() / plain.as_secs_f64()), String::new()]),
    ] {
        table.add_row([what, &value, &goal]);
    }
    println!("{table}");
    let missed = [
        ("on disk", size, LARGEST_FILE),
        ("resident memory", resident, MOST_RESIDENT),
        ("anonymous memory", anonymous, MOST_ANONYMOUS),
        ("writes while nothing changed", more_writes, 0),
    ];
    let missed = missed.iter().filter(|(_, measured, goal)| measured > goal).map(|(what, ..)| *what);
    let missed = missed.collect::<Vec<_>>().join(", ");
    anyhow::ensure!(missed.is_empty(), "these goals are missed: {missed}");
    Ok(())
}

fn start(program: &Path, folder: &Path, game: u16, api_server: u16) -> anyhow::Result<Running> {
    let endpoint = |index: usize| {
        format!(
            "      - url: http://127.0.0.1:{game}/{index}\n        storageConfig: {{type: InKube, inKube: {{annotationKey: probe-{index}}}}}\n"
        )
    };
    let endpoints: String = (0..PROBES).map(endpoint).collect();
    let config = format!(
        "plugins:\n  - name: http_probe\n    config:\n      startDelaySeconds: 0\n      probeIntervalSeconds: {}\n      endpoints:\n{endpoints}listen: 127.0.0.1:0\n",
        INTERVAL.as_secs()
    );
    std::fs::write(folder.join("config.yaml"), config)?;
    std::fs::write(folder.join("token"), "token")?;
    let mut command = Command::new(program);
    command.arg("--config").arg(folder.join("config.yaml")).arg("--account").arg(folder);
    command.args(["--api-server", &format!("http://127.0.0.1:{api_server}")]);
    command.envs([("POD_NAME", "web-0"), ("POD_NAMESPACE", "default"), ("POD_IP", "127.0.0.1")]);
    Ok(Running(command.stderr(Stdio::inherit()).spawn().context("cannot run pillion-agent")?))
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

/// What a loop without anything else has done.
struct Plain {
    used: Duration,
    requests: u64,
}

/// Asks as often as the agent does.
fn plain_loop(port: u16, ended: Instant) -> anyhow::Result<Plain> {
    let mut requests = 0;
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
    Ok(Plain { used: nanoseconds(&used)?, requests })
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
