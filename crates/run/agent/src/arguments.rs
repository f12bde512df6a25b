//! The command line.

use std::path::PathBuf;

/// What the agent was asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Run(Arguments),
    /// Print this and exit with 0.
    Print(String),
    /// Copy the program to this path, for an init container that brings it into another image.
    Install(PathBuf),
}

/// How the agent runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    /// Where the configuration is.
    pub config: Source,
    /// Where executables of plugins are looked for by name.
    pub plugin_dir: PathBuf,
    /// The downward API volume with the file `annotations`.
    pub pod_info: Option<PathBuf>,
    /// An API server other than the pod's own.
    pub api_server: Option<String>,
    /// The directory with its `token` and `ca.crt`.
    pub account: PathBuf,
}

/// Where the configuration is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file, usually of a mounted ConfigMap.
    File(PathBuf),
    /// The key `config.yaml` of a ConfigMap.
    ConfigMap { namespace: String, name: String },
}

const USAGE: &str = "\
pillion-agent: probes the service of its pod, publishes what it finds, and updates files without a restart

Usage: pillion-agent [--config FILE | --config-map NAMESPACE/NAME] [OPTIONS]
       pillion-agent install PATH

Options:
  --config FILE                 the configuration; read again when it changes [default: /opt/kidecar/config.yaml]
  --config-map NAMESPACE/NAME   the same from the key config.yaml of a ConfigMap
  --pod-info DIR                a downward API volume whose file `annotations` has the pod's annotations, for PodProbeMarkers
  --plugin-dir DIR              where executables of plugins are looked for by name [default: /opt/pillion/plugins]
  --api-server URL              an API server other than the pod's own
  --account DIR                 the directory with its token and ca.crt [default: /var/run/secrets/kubernetes.io/serviceaccount]
  --version, --help

The environment must have POD_NAME and POD_NAMESPACE, by the downward API; POD_IP and POD_TEMPLATE_HASH are used if they are there.
";

/// Reads the arguments after the program's name.
///
/// # Errors
/// What is wrong with them.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let mut parsed = Arguments {
        config: Source::File("/opt/kidecar/config.yaml".into()),
        plugin_dir: "/opt/pillion/plugins".into(),
        pod_info: None,
        api_server: None,
        account: "/var/run/secrets/kubernetes.io/serviceaccount".into(),
    };
    let mut rest = arguments.into_iter();
    while let Some(argument) = rest.next() {
        let (name, inline) = match argument.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (argument, None),
        };
        let mut value =
            || inline.clone().or_else(|| rest.next()).ok_or_else(|| format!("{name} needs a value; see --help"));
        match name.as_str() {
            "--help" | "-h" => return Ok(Command::Print(USAGE.to_owned())),
            "--version" => {
                return Ok(Command::Print(concat!("pillion-agent ", env!("CARGO_PKG_VERSION"), "\n").to_owned()));
            }
            "install" => return value().map(|path| Command::Install(path.into())),
            "--config" => parsed.config = Source::File(value()?.into()),
            "--config-map" => {
                let text = value()?;
                let (namespace, name) =
                    text.split_once('/').ok_or_else(|| format!("{text:?} is not NAMESPACE/NAME"))?;
                parsed.config = Source::ConfigMap { namespace: namespace.to_owned(), name: name.to_owned() };
            }
            "--pod-info" => parsed.pod_info = Some(value()?.into()),
            "--plugin-dir" => parsed.plugin_dir = value()?.into(),
            "--api-server" => parsed.api_server = Some(value()?),
            "--account" => parsed.account = value()?.into(),
            _ => return Err(format!("{name:?} is not an option; see --help")),
        }
    }
    Ok(Command::Run(parsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(arguments: &[&str]) -> Result<Command, String> {
        parse(arguments.iter().map(|argument| (*argument).to_owned()))
    }

    #[test]
    fn arguments_are_read() {
        let Ok(Command::Run(arguments)) = run(&["--config-map", "kube-system/sidecar-config", "--pod-info=/pod"])
        else {
            panic!()
        };
        assert_eq!(
            arguments.config,
            Source::ConfigMap { namespace: "kube-system".into(), name: "sidecar-config".into() }
        );
        assert_eq!(arguments.pod_info, Some("/pod".into()));
        assert!(matches!(run(&["--version"]), Ok(Command::Print(_))));
        assert!(run(&["--config"]).unwrap_err().contains("needs a value"));
        assert!(run(&["--config-map", "x"]).unwrap_err().contains("NAMESPACE/NAME"));
        assert!(run(&["--nope"]).unwrap_err().contains("--help"));
    }
}
