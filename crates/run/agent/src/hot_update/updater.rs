//! One update from its journal to its result.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pillion_assist::{
    Desired, Entry, HotUpdate, Journal, Key, OnDisk, RESULTS, Refusal, Resume, State, Target, Trigger, UpdateOutcome,
    desired_of_update, entries_of, resume, shortened,
};
use serde_json::Value;
use tokio::time::Instant;

use super::directory::Directory;
use super::fetch::{Fetched, fetch};
use super::reload::{Reloaded, reload};
use super::unpack::{folder_name, unpack};
use crate::api::{self, ReadError};
use crate::plugin::Host;
use crate::{fault, log};

const INCOMING: &str = "incoming";
const STAGED: &str = "staged";
/// What goes into the ConfigMap of the whole namespace is a sentence and not a page.
const LONGEST_RESULT: usize = 256;

/// Takes updates, one at a time.
pub(crate) struct Updater {
    config: HotUpdate,
    host: Mutex<Option<Host>>,
    /// Shared with whoever took updates before, and may still be at it.
    busy: Arc<tokio::sync::Mutex<()>>,
    result: Mutex<String>,
}

/// Why an update came to nothing. The old file is in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UpdateError {
    /// It is not allowed.
    Refused(String),
    /// It could not be fetched: trying again may help.
    Fetch(String),
    /// It could not be put in place.
    Place(String),
    /// The main process did not take it.
    Reload(String),
}

impl fmt::Display for UpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpdateError::Refused(problem) => f.write_str(problem),
            UpdateError::Fetch(problem) => write!(f, "Failed to download the file: {problem}"),
            UpdateError::Place(problem) => write!(f, "Failed to store the file: {problem}"),
            UpdateError::Reload(problem) => {
                write!(f, "Failed to load hot update file: {problem}; the old file is in place")
            }
        }
    }
}

/// What an update waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// The main process, for `reloadTimeoutSeconds`, and what `verify` says of it.
    Request,
    /// The same, if it runs: one that is not running yet reads the file when it starts.
    Restart,
    /// The same without `verify`: while a pod starts, its main process may take longer than any update.
    Start,
}

/// How much of an update that was under way is done after a restart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Recovery {
    /// All of it.
    Whole,
    /// What has to be done before another update.
    Before,
}

impl Updater {
    /// `busy` is the one of all who may write to the same directory.
    pub(crate) fn new(config: HotUpdate, busy: Arc<tokio::sync::Mutex<()>>) -> Arc<Updater> {
        Arc::new(Updater { config, host: Mutex::default(), busy, result: Mutex::default() })
    }

    pub(crate) fn set_host(&self, host: Host) {
        *self.host.lock().unwrap_or_else(PoisonError::into_inner) = Some(host);
    }

    pub(crate) fn config(&self) -> &HotUpdate {
        &self.config
    }

    /// The last result, for the status.
    pub(crate) fn result(&self) -> String {
        self.result.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn host(&self) -> Result<Host, String> {
        let host = self.host.lock().unwrap_or_else(PoisonError::into_inner);
        host.clone().ok_or_else(|| "it was not set up".to_owned())
    }

    /// Whether the configuration allows an update.
    pub(crate) fn check(&self, trigger: &Trigger) -> Result<(), Refusal> {
        let host = self.host().map_err(Refusal::Bad)?;
        trigger.check(&host.security)
    }

    /// Makes an update.
    pub(crate) async fn update(&self, trigger: Trigger) -> Result<Entry, UpdateError> {
        self.check(&trigger).map_err(|refusal| UpdateError::Refused(refusal.message().to_owned()))?;
        let directory = self.turn().await?;
        if let Some(journal) = directory.journal::<Journal>() {
            // The agent was restarted, and this request came before the recovery. What comes of the older one is in its result.
            let _ = self.resume(&directory, journal, Recovery::Before).await;
        }
        let outcome = self.begin(&directory, &trigger, 0, Patience::Request).await;
        sweep(directory).await;
        outcome
    }

    /// After a start: finishes an update that was under way, or brings an empty directory to what the pod's workload runs.
    pub(crate) async fn recover(&self) -> Result<(), UpdateError> {
        let directory = self.turn().await?;
        let outcome = self.recover_in(&directory).await;
        // Also what an agent before this one could not remove.
        sweep(directory).await;
        outcome
    }

    async fn recover_in(&self, directory: &Arc<Directory>) -> Result<(), UpdateError> {
        if let Some(journal) = directory.journal::<Journal>() {
            return self.resume(directory, journal, Recovery::Whole).await;
        }
        if let Some(current) = directory.current::<Entry>() {
            self.publish(&current, &current.result);
            return Ok(());
        }
        let host = self.host().map_err(UpdateError::Place)?;
        let path = format!("/api/v1/namespaces/{}/configmaps/{RESULTS}", host.pod.name.namespace);
        let data = match api::get(&*host.api, path).await {
            Ok(object) => api::data(&object),
            Err(ReadError::NotFound) => return Ok(()),
            Err(ReadError::Other(error)) => {
                return Err(UpdateError::Fetch(format!("{RESULTS} cannot be read: {error}")));
            }
        };
        let newest_first = entries_of(&data, &host.pod.workload, host.publisher.now());
        let allowed = newest_first.iter().filter_map(|entry| entry.trigger().ok()).find(|trigger| {
            let refused = trigger.check(&host.security).err();
            if let Some(refusal) = &refused {
                log::line(format_args!("hot_update: {RESULTS}: {}: {}", trigger.version, refusal.message()));
            }
            refused.is_none()
        });
        let Some(trigger) = allowed else { return Ok(()) };
        log::line(format_args!("hot_update: {} is what {} runs", trigger.version, host.pod.workload));
        self.begin(directory, &trigger, 0, Patience::Start).await.map(drop)
    }

    /// Whether there is a directory to write to.
    pub(super) fn check_directory(&self) -> Result<(), String> {
        self.open().map(drop).map_err(|error| error.to_string())
    }

    /// Whether a ConfigMap with this digest was followed already, here or before a restart.
    pub(super) fn is_taken(&self, digest: &str) -> bool {
        self.open().is_ok_and(|directory| directory.taken().as_deref() == Some(digest))
    }

    /// Remembers that a ConfigMap with this digest was followed, whatever came of it.
    pub(super) fn take_note(&self, digest: &str) {
        let saved = self.open().and_then(|directory| directory.save_taken(digest).map_err(disk));
        if let Err(error) = saved {
            log::line(format_args!("hot_update: {error}"));
        }
    }

    fn open(&self) -> Result<Directory, UpdateError> {
        let path = &self.config.file_dir;
        let directory = Directory::open(Path::new(path), self.config.file_mode);
        directory.map_err(|error| UpdateError::Place(format!("{path}: {error}")))
    }

    /// The directory, once no other update is under way.
    async fn turn(&self) -> Result<Arc<Directory>, UpdateError> {
        let turn = Arc::clone(&self.busy).lock_owned().await;
        Ok(Arc::new(self.open()?.during(turn)))
    }

    async fn resume(
        &self,
        directory: &Arc<Directory>,
        mut journal: Journal,
        recovery: Recovery,
    ) -> Result<(), UpdateError> {
        let size = journal.size.map(|size| size.to_string());
        let text = |name: &str| match name {
            "version" => Some(journal.version.as_str()),
            "url" => Some(journal.url.as_str()),
            "file" => Some(journal.file.as_str()),
            "sha256" => journal.sha256.as_deref(),
            "size" => size.as_deref(),
            _ => None,
        };
        // The app shares the volume and may have written the journal: its names are checked like those of a request.
        let trigger = match Trigger::read(text) {
            Ok(trigger) if matches!(journal.staged.as_deref(), None | Some(INCOMING | STAGED)) => trigger,
            other => {
                directory.close_journal();
                let problem = other.err().map(|refusal| refusal.message().to_owned());
                let problem = problem.unwrap_or_else(|| "it names a file of somebody else".to_owned());
                return Err(UpdateError::Refused(format!("the journal of an update was not followed: {problem}")));
            }
        };
        let on_disk = directory.on_disk(&place(&journal, &self.config)).map_err(disk)?;
        let decision = resume(&journal, &on_disk);
        log::line(format_args!("hot_update: {} was under way: {decision:?}", journal.version));
        match decision {
            // It has changed nothing yet, and a newer update replaces it.
            Resume::Again if recovery == Recovery::Before => Ok(()),
            Resume::Again => self.begin(directory, &trigger, journal.attempts + 1, Patience::Restart).await.map(drop),
            Resume::Reload => {
                let sha256 = journal.fetched_sha256.clone().unwrap_or_default();
                let fetched = Fetched { sha256, size: journal.fetched_size.unwrap_or_default() };
                self.put_into_use(directory, &trigger, &mut journal, &fetched, Patience::Restart).await.map(drop)
            }
            Resume::Undo => {
                put_back(directory, &journal, &self.config)?;
                fault::point("rolled-back");
                let _ = reload(&self.config.reload).await;
                let reason = journal.failed.clone().unwrap_or_default();
                Err(self.failed(directory, &journal.version, UpdateError::Reload(reason)))
            }
            Resume::GiveUp => {
                if journal.failed.is_some() {
                    // The old file is back, but the main process may have read the other one last.
                    let _ = reload(&self.config.reload).await;
                }
                let reason = journal.failed.clone().unwrap_or_else(|| "it was interrupted too often".to_owned());
                Err(self.failed(directory, &journal.version, UpdateError::Reload(reason)))
            }
        }
    }

    /// From the journal to what is staged.
    async fn begin(
        &self,
        directory: &Arc<Directory>,
        trigger: &Trigger,
        attempts: u32,
        patience: Patience,
    ) -> Result<Entry, UpdateError> {
        let host = self.host().map_err(UpdateError::Place)?;
        let mut journal = Journal {
            version: trigger.version.to_string(),
            url: trigger.url.clone(),
            file: trigger.file.clone(),
            sha256: trigger.sha256.clone(),
            size: trigger.size,
            fetched_sha256: None,
            fetched_size: None,
            new: None,
            old: None,
            staged: None,
            failed: None,
            attempts,
        };
        let fail = |error: UpdateError| self.failed(directory, &journal.version, error);
        directory.save_journal(&journal).map_err(disk).map_err(fail)?;
        fault::point("journaled");
        let fetched = fetch(trigger, &self.config, &host.security, &host.secrets(), directory, INCOMING).await;
        let fetched = fetched.map_err(UpdateError::Fetch).map_err(fail)?;
        let staged = if self.config.unpack && folder_name(&trigger.file).is_some() {
            let (directory, most) = (Arc::clone(directory), self.config.max_unpacked_bytes);
            let work = tokio::task::spawn_blocking(move || unpack(&directory, INCOMING, STAGED, most));
            work.await.unwrap_or_else(|error| Err(error.to_string())).map_err(UpdateError::Place).map_err(fail)?;
            fault::point("unpacked");
            STAGED
        } else {
            INCOMING
        };
        let digest = |on_disk: OnDisk| match on_disk {
            OnDisk::Nothing => None,
            OnDisk::Digest(digest) => Some(digest),
        };
        let new = directory.own_digest(staged).map(digest).map_err(disk).map_err(fail)?;
        let old = directory.on_disk(&place(&journal, &self.config)).map(digest).map_err(disk).map_err(fail)?;
        let (fetched_sha256, fetched_size) = (Some(fetched.sha256.clone()), Some(fetched.size));
        journal = Journal { new, old, fetched_sha256, fetched_size, staged: Some(staged.to_owned()), ..journal };
        let fail = |error: UpdateError| self.failed(directory, &journal.version, error);
        directory.save_journal(&journal).map_err(disk).map_err(fail)?;
        fault::point("staged");
        if journal.new != journal.old {
            directory.exchange(staged, &place(&journal, &self.config)).map_err(disk).map_err(fail)?;
        }
        fault::point("exchanged");
        self.put_into_use(directory, trigger, &mut journal, &fetched, patience).await
    }

    /// From a file in place to its result.
    async fn put_into_use(
        &self,
        directory: &Arc<Directory>,
        trigger: &Trigger,
        journal: &mut Journal,
        fetched: &Fetched,
        patience: Patience,
    ) -> Result<Entry, UpdateError> {
        let host = self.host().map_err(UpdateError::Place)?;
        let taken = async {
            let is_running = self.reload(patience).await?;
            fault::point("reloaded");
            // What does not run yet cannot say whether the file works.
            if is_running && patience != Patience::Start { self.verify(&host).await } else { Ok(()) }
        };
        if let Err(reason) = taken.await {
            journal.failed = Some(reason.clone());
            directory.save_journal(journal).map_err(disk)?;
            fault::point("failed");
            put_back(directory, journal, &self.config)?;
            fault::point("rolled-back");
            // Whatever the main process has read of the new file, it reads the old one now.
            let _ = reload(&self.config.reload).await;
            return Err(self.failed(directory, &journal.version, UpdateError::Reload(reason)));
        }
        fault::point("verified");
        let url = match &trigger.source {
            // A query may be a signature: whoever reads the ConfigMap must not be able to use it.
            pillion_assist::Source::Http(url) => url.without_query().to_string(),
            pillion_assist::Source::Oci { .. } => trigger.url.clone(),
        };
        let entry = Entry {
            workload: host.pod.workload.clone(),
            version: journal.version.clone(),
            url,
            file: journal.file.clone(),
            sha256: fetched.sha256.clone(),
            size: fetched.size,
            result: UpdateOutcome::success(&journal.version).to_string(),
            time: host.publisher.now(),
        };
        directory.save_current(&entry).map_err(disk)?;
        fault::point("recorded");
        self.publish(&entry, &entry.result);
        directory.close_journal();
        fault::point("done");
        Ok(entry)
    }

    /// Asks the main process until it has heard. Returns whether it has; otherwise it is not running yet.
    async fn reload(&self, patience: Patience) -> Result<bool, String> {
        let deadline = Instant::now() + self.config.reload_timeout;
        let mut pause = Duration::from_millis(200);
        loop {
            let is_late = Instant::now() + pause > deadline;
            let problem = match reload(&self.config.reload).await {
                Reloaded::Asked => return Ok(true),
                Reloaded::Failed(problem) => return Err(problem),
                Reloaded::NotRunning(problem) if patience != Patience::Request => {
                    // It was not there after the file was in place, so it starts with the file.
                    log::line(format_args!("hot_update: {problem}; it reads the file when it starts"));
                    return Ok(false);
                }
                Reloaded::NotReady(problem) if patience != Patience::Request && is_late => {
                    log::line(format_args!("hot_update: {problem}; it is not waited for any longer"));
                    return Ok(false);
                }
                Reloaded::NotRunning(problem) | Reloaded::NotReady(problem) | Reloaded::Unclear(problem) => problem,
            };
            if is_late {
                return Err(problem);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }

    /// Probes until the new file works.
    async fn verify(&self, host: &Host) -> Result<(), String> {
        let Some(verify) = &self.config.verify else { return Ok(()) };
        let deadline = Instant::now() + verify.within;
        loop {
            let reason = match host.prober.look(&verify.ask, &host.secrets(), verify.timeout).await {
                State::Succeeded(_) => return Ok(()),
                State::Failed(reason) | State::Unknown(reason) => reason,
            };
            if Instant::now() >= deadline {
                return Err(format!("it did not work afterwards: {reason}"));
            }
            tokio::time::sleep(Duration::from_secs(1).min(verify.within)).await;
        }
    }

    /// Records a failure: what was there before is what the pod runs.
    fn failed(&self, directory: &Directory, version: &str, error: UpdateError) -> UpdateError {
        let result = shortened(&format!("{version}: {error}"), LONGEST_RESULT);
        log::line(format_args!("hot_update: {result}"));
        match directory.current::<Entry>() {
            Some(current) => {
                let entry = Entry { result: result.clone(), ..current };
                let _ = directory.save_current(&entry);
                self.publish(&entry, &result);
            }
            None => self.say(&result),
        }
        directory.close_journal();
        error
    }

    /// The annotation or label, and the status.
    fn say(&self, result: &str) {
        result.clone_into(&mut self.result.lock().unwrap_or_else(PoisonError::into_inner));
        if let Ok(host) = self.host() {
            host.publish("result", desired_of_update(&host.storage, &UpdateOutcome::read(result)));
        }
    }

    /// The same, and the pod's entry in the ConfigMap.
    fn publish(&self, entry: &Entry, result: &str) {
        self.say(result);
        let (Ok(host), Ok(text)) = (self.host(), serde_json::to_string(entry)) else { return };
        let target = Target {
            version: "v1".to_owned(),
            resource: "configmaps".to_owned(),
            namespace: host.pod.name.namespace.clone(),
            name: RESULTS.to_owned(),
            ..Target::default()
        };
        let pointer = format!("/data/{}", host.pod.name.name);
        host.publish("record", Desired::one(Key::Field(target, pointer), Value::String(text)));
    }
}

/// Removes what updates have left, unless one is still under way. A tree may be large, so that other tasks go on meanwhile.
async fn sweep(directory: Arc<Directory>) {
    let work = move || {
        if directory.journal::<Journal>().is_none() {
            directory.sweep(&[INCOMING, STAGED]);
        }
    };
    // If the agent ends meanwhile, its next start does it.
    let _ = tokio::task::spawn_blocking(work).await;
}

fn disk(error: std::io::Error) -> UpdateError {
    UpdateError::Place(error.to_string())
}

/// The name under which an update is put in place.
fn place(journal: &Journal, config: &HotUpdate) -> String {
    let folder = config.unpack.then(|| folder_name(&journal.file)).flatten();
    folder.unwrap_or(&journal.file).to_owned()
}

/// Brings the old file back.
fn put_back(directory: &Directory, journal: &Journal, config: &HotUpdate) -> Result<(), UpdateError> {
    if journal.new == journal.old {
        return Ok(());
    }
    let (place, staged) = (place(journal, config), journal.staged.as_deref().unwrap_or(INCOMING));
    match journal.old {
        Some(_) => directory.exchange(staged, &place).map_err(disk),
        None => directory.take_out(&place, staged).map_err(disk),
    }
}
