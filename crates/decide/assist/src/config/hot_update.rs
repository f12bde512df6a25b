//! `hot_update`: where files go, and how the main process learns of them.

use std::time::Duration;

use super::endpoint::{Ask, Url, seconds};
use super::reader::Field;
use super::secret::Credential;
use super::storage::Storage;

/// The plugin `hot_update`.
#[derive(Clone, Debug, PartialEq)]
pub struct HotUpdate {
    /// The one directory that is written to.
    pub file_dir: String,
    /// How the main process is made to read the files again.
    pub reload: Reload,
    /// What must succeed after the reload; otherwise the old file comes back.
    pub verify: Option<Verify>,
    /// Where the result goes, besides the ConfigMap `sidecar-result`.
    pub storage: Storage,
    /// A ConfigMap in the pod's namespace whose keys `version` and `url` ask for an update.
    pub config_map: Option<String>,
    /// A directory: a file `*.json` that appears in it asks for an update.
    pub drop_dir: Option<String>,
    /// Whether archives (`.tar`, `.tar.gz`, `.tgz`, `.zip`) are unpacked into a directory.
    pub unpack: bool,
    /// No larger file is fetched.
    pub max_bytes: u64,
    /// No archive becomes larger than this.
    pub max_unpacked_bytes: u64,
    /// How long a download may take.
    pub fetch_timeout: Duration,
    /// How long a reload waits for the main process to appear.
    pub reload_timeout: Duration,
    /// The mode of files; directories get the matching execute bits.
    pub file_mode: u32,
    /// Headers of downloads, such as credentials of a registry; sent to the host of the URL only.
    pub headers: Vec<(String, Credential)>,
}

/// How the main process is made to read the files again.
#[derive(Clone, Debug, PartialEq)]
pub enum Reload {
    /// A signal to a process of this pod.
    Signal {
        /// A part of its command line.
        process: String,
        /// Its number is looked up by `signal_number`.
        signal: String,
    },
    /// An HTTP request; 200 to 299 is success.
    Request {
        /// Where.
        url: Url,
        /// `POST` unless set.
        method: String,
    },
    /// A command in the agent's container.
    Command(Vec<String>),
    /// The main process looks by itself.
    Nothing,
}

/// A probe that must succeed after the reload.
#[derive(Clone, Debug, PartialEq)]
pub struct Verify {
    /// What is asked.
    pub ask: Ask,
    /// How long one answer may take.
    pub timeout: Duration,
    /// How long it may take until it succeeds.
    pub within: Duration,
}

const KNOWN: &[&str] = &[
    "bootOrder",
    "fileDir",
    "loadPatchType",
    "signal",
    "request",
    "command",
    "storageConfig",
    "verify",
    "configMap",
    "dropDir",
    "unpack",
    "maxBytes",
    "maxUnpackedBytes",
    "fetchTimeoutSeconds",
    "reloadTimeoutSeconds",
    "fileMode",
    "headers",
];

#[derive(Clone, Copy)]
enum Kind {
    Signal,
    Request,
    Command,
    Nothing,
}

impl HotUpdate {
    pub(super) fn read(field: &Field<'_>) -> Option<HotUpdate> {
        if !field.mapping(KNOWN) {
            return None;
        }
        let text = |name: &str| field.get(&[name]).map(|text| text.word());
        let file_dir = text("fileDir").unwrap_or_else(|| "/app/downloads".to_owned());
        if !file_dir.starts_with('/')
            || file_dir.split('/').any(|part| part == "..")
            || file_dir.trim_matches('/').is_empty()
        {
            field.wrong(format!(
                "fileDir {file_dir:?} must be an absolute path of a directory other than /, without `..`"
            ));
        }
        let headers = field.get(&["headers"]).map(|headers| headers.entries()).unwrap_or_default();
        Some(HotUpdate {
            file_dir,
            reload: reload(field)?,
            verify: field.get(&["verify"]).and_then(|verify| Verify::read(&verify)),
            storage: field.get(&["storageConfig"]).map(|storage| Storage::read(&storage)).unwrap_or_default(),
            config_map: text("configMap"),
            drop_dir: text("dropDir"),
            unpack: field.get(&["unpack"]).is_some_and(|unpack| unpack.flag()),
            max_bytes: field.get(&["maxBytes"]).map_or(64 << 20, |bytes| bytes.number(1, 1 << 40)),
            max_unpacked_bytes: field.get(&["maxUnpackedBytes"]).map_or(256 << 20, |bytes| bytes.number(1, 1 << 40)),
            fetch_timeout: seconds(field, &["fetchTimeoutSeconds"], 1).unwrap_or(Duration::from_mins(5)),
            reload_timeout: seconds(field, &["reloadTimeoutSeconds"], 1).unwrap_or(Duration::from_secs(30)),
            file_mode: field.get(&["fileMode"]).map_or(0o644, |mode| mode.mode()),
            headers: headers.into_iter().map(|(name, value)| (name.to_owned(), Credential::read(&value))).collect(),
        })
    }
}

fn reload(field: &Field<'_>) -> Option<Reload> {
    let kinds =
        [("signal", Kind::Signal), ("request", Kind::Request), ("command", Kind::Command), ("none", Kind::Nothing)];
    let Some(kind) = field.get(&["loadPatchType"]) else {
        field.wrong("this needs a `loadPatchType`: signal, request, command or none");
        return None;
    };
    let section = |name: &str| {
        let section = field.get(&[name]);
        if section.is_none() {
            kind.wrong(format!("loadPatchType {name} needs `{name}`"));
        }
        section
    };
    match kind.one_of(&kinds)? {
        Kind::Signal => {
            let signal = section("signal")?;
            signal.mapping(&["processName", "signalName"]);
            let process = signal.get(&["processName"]).map(|name| name.word()).unwrap_or_default();
            if process.is_empty() {
                signal.wrong(
                    "this needs a `processName`: a part of the command line of the process that gets the signal",
                );
            }
            let name = signal.get(&["signalName"]).map_or_else(|| "SIGHUP".to_owned(), |name| name.word());
            if signal_number(&name).is_none() {
                signal.wrong(format!("{name:?} is not a signal that a process can handle, such as SIGHUP or SIGUSR1"));
            }
            Some(Reload::Signal { process, signal: name })
        }
        Kind::Request => {
            let request = section("request")?;
            request.mapping(&["address", "port", "path", "url", "method"]);
            let url = request.get(&["url"]).map(|url| url.text());
            let url = url.unwrap_or_else(|| {
                let part = |name: &str| request.get(&[name]).map(|part| part.text()).unwrap_or_default();
                let (address, port, path) = (part("address"), part("port"), part("path"));
                let scheme = if address.contains("://") { "" } else { "http://" };
                format!("{scheme}{address}:{port}/{}", path.trim_start_matches('/'))
            });
            let url = Url::parse_template(&url).map_err(|problem| request.wrong(problem)).ok()?;
            let method = request.get(&["method"]).map_or_else(|| "POST".to_owned(), |method| method.word());
            Some(Reload::Request { url, method: method.to_ascii_uppercase() })
        }
        Kind::Command => Some(Reload::Command(section("command")?.words())),
        Kind::Nothing => Some(Reload::Nothing),
    }
}

impl Verify {
    fn read(field: &Field<'_>) -> Option<Verify> {
        let known = ["url", "method", "headers", "expectedStatusCode", "jsonPathConfig", "tcpSocket", "grpc", "exec"];
        field.mapping(&[known.as_slice(), &["timeout", "withinSeconds"]].concat());
        Some(Verify {
            ask: Ask::read(field)?,
            timeout: seconds(field, &["timeout"], 1).unwrap_or(Duration::from_secs(5)),
            within: seconds(field, &["withinSeconds"], 1).unwrap_or(Duration::from_secs(30)),
        })
    }
}

/// Signals that a process can handle, with their numbers on Linux (x86 and arm).
const SIGNALS: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("USR1", 10),
    ("USR2", 12),
    ("ALRM", 14),
    ("TERM", 15),
    ("CONT", 18),
    ("URG", 23),
    ("IO", 29),
    ("WINCH", 28),
];

/// The number of a signal that reloads something: `SIGHUP`, `HUP` or `1`. Those that only kill or stop are not among them.
pub fn signal_number(name: &str) -> Option<i32> {
    let bare = name.strip_prefix("SIG").unwrap_or(name);
    let found = SIGNALS.iter().find(|(known, number)| known.eq_ignore_ascii_case(bare) || number.to_string() == bare);
    found.map(|(_, number)| *number)
}
