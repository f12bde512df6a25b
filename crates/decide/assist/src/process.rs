//! Which process gets the signal.

/// A process as `/proc` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// In the agent's process namespace.
    pub pid: i32,
    pub parent: i32,
    /// The arguments, joined by blanks, as `ps` shows them.
    pub command_line: String,
    /// The name of the executable, as the kernel keeps it.
    pub name: String,
    /// Whether it is in the agent's own process namespace, and not in one below it.
    pub same_namespace: bool,
}

/// The thread that makes kernel threads: it is seen only from the node's own process namespace.
const KERNEL: &str = "kthreadd";

/// The one process of this pod that a name means: its command line contains the name. Workers of one master are the master. `None` if there is no
/// such process.
///
/// # Errors
/// There are several, or processes of other pods are visible.
pub fn select(processes: &[Process], name: &str, own_pid: i32) -> Result<Option<i32>, String> {
    if processes.iter().any(|process| process.pid == 2 && process.name == KERNEL && process.parent == 0) {
        return Err("the agent sees the processes of the whole node (hostPID): nothing is signalled; use shareProcessNamespace instead".to_owned());
    }
    let parent = |pid: i32| processes.iter().find(|process| process.pid == pid).map(|process| process.parent);
    let own = |pid: i32| {
        let mut at = Some(pid);
        for _ in 0..processes.len() {
            match at {
                Some(pid) if pid == own_pid => return true,
                Some(pid) => at = parent(pid),
                None => return false,
            }
        }
        false
    };
    let fits = |process: &&Process| {
        process.same_namespace
            && (process.command_line.contains(name) || process.name == name)
            && !(process.pid == 1 && process.command_line.trim_start_matches('/') == "pause")
            && !own(process.pid)
    };
    let found: Vec<&Process> = processes.iter().filter(fits).collect();
    let tops = found.iter().filter(|process| !found.iter().any(|other| other.pid == process.parent));
    match tops.collect::<Vec<_>>().as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one.pid)),
        several => {
            let shown: Vec<String> =
                several.iter().take(3).map(|process| format!("{} ({})", process.pid, process.command_line)).collect();
            Err(format!(
                "{} processes have {name:?} in their command lines: {}; use a longer name",
                several.len(),
                shown.join(", ")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, command_line: &str) -> Process {
        let name = command_line.split([' ', ':']).next().unwrap_or_default();
        let name = name.rsplit('/').next().unwrap_or_default().to_owned();
        Process { pid, parent, command_line: command_line.to_owned(), name, same_namespace: true }
    }

    fn pod() -> Vec<Process> {
        vec![
            process(1, 0, "/pause"),
            process(7, 0, "nginx: master process nginx -g daemon off;"),
            process(20, 7, "nginx: worker process"),
            process(30, 0, "pillion-agent --config nginx: master process nginx"),
            process(31, 30, "sh -c echo nginx: master process nginx"),
        ]
    }

    #[test]
    fn the_master_gets_the_signal_and_never_the_agent() {
        assert_eq!(select(&pod(), "nginx: master process nginx", 30), Ok(Some(7)));
        assert_eq!(select(&pod(), "nginx", 30), Ok(Some(7)), "workers are below the master");
        assert_eq!(select(&pod(), "pause", 30), Ok(None));
        assert_eq!(select(&pod(), "envoy", 30), Ok(None));
    }

    #[test]
    fn two_strangers_with_one_name_are_not_guessed_between() {
        let mut pod = pod();
        pod.push(process(40, 0, "nginx: master process nginx"));
        assert!(select(&pod, "nginx: master process nginx", 30).unwrap_err().contains("use a longer name"));
    }

    #[test]
    fn processes_of_other_pods_are_never_signalled() {
        let mut nested = pod();
        nested.push(Process { same_namespace: false, ..process(50, 0, "nginx: master process nginx") });
        assert_eq!(select(&nested, "nginx: master process nginx", 30), Ok(Some(7)));
        let mut node = pod();
        node.push(process(2, 0, "kthreadd"));
        assert!(select(&node, "nginx: master process nginx", 30).unwrap_err().contains("hostPID"));
    }
}
