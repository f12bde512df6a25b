//! OCI images as tarballs, made without Docker and without a registry.
//!
//! A tarball holds one OCI image layout with one image of one layer. The same files give the same bytes. It is what
//! `ctr images import` reads, and what `skopeo copy oci-archive:…` or `crane push` would push.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::folder::write;

/// Where images are named to be from. Nothing is pulled from there: pods use what was imported.
macro_rules! image_name {
    ($name:literal) => {
        concat!("pillion.dev/", $name, ":", env!("CARGO_PKG_VERSION"))
    };
}

/// The container that holds a pod's namespaces.
pub const PAUSE: &str = image_name!("pause");
/// A shell with the usual tools, for tests.
pub const SHELL: &str = image_name!("shell");
/// The same image under another name. containerd reports the first name of an image, so this one sorts after the other.
pub const SHELL_TWO: &str = image_name!("shell_two");
/// The `pillion` program.
pub const PILLION: &str = image_name!("pillion");
/// What the pods of scenarios run.
pub const SCENARIOS: &str = image_name!("pillion-scenarios");

/// What is at a path of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A program: a copy of a file of this machine.
    Program(PathBuf),
    /// A symbolic link.
    Link(String),
    /// A folder that everybody may write to.
    SharedFolder,
}

/// An image to make.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageSpec {
    /// The full name, with the tag.
    pub name: String,
    /// What is in it, by absolute path. Folders above need not be named.
    pub files: BTreeMap<String, Content>,
    /// The command line.
    pub entrypoint: Vec<String>,
    /// The environment, each as `NAME=value`.
    pub env: Vec<String>,
    /// The user and group, such as `65532:65532`; root when empty.
    pub user: String,
    /// What registries and scanners show.
    pub labels: BTreeMap<String, String>,
}

impl ImageSpec {
    /// Puts a program at `path`, and with it the shared libraries that it is linked against.
    pub fn add_program(&mut self, path: &str, program: &Path) -> anyhow::Result<()> {
        for library in shared_libraries(program)? {
            self.files.insert(library.display().to_string(), Content::Program(library));
        }
        self.files.insert(path.to_owned(), Content::Program(program.to_owned()));
        Ok(())
    }

    pub fn write(&self, tarball: &Path) -> anyhow::Result<()> {
        let bytes = self.layout().with_context(|| format!("cannot make the image {}", self.name))?;
        write(tarball, bytes)
    }

    /// Writes the files into a folder, as a container sees them.
    pub(crate) fn unpack(&self, folder: &Path) -> anyhow::Result<()> {
        let layer = self.layer()?;
        tar::Archive::new(layer.as_slice()).unpack(folder).with_context(|| format!("cannot write {}", folder.display()))
    }

    fn layout(&self) -> anyhow::Result<Vec<u8>> {
        let layer = Blob::new("application/vnd.oci.image.layer.v1.tar", self.layer()?);
        let config = Blob::of_json(
            "application/vnd.oci.image.config.v1+json",
            &json!({
                "architecture": architecture(),
                "os": "linux",
                "config": { "Entrypoint": self.entrypoint, "Env": self.env, "User": self.user, "Labels": self.labels },
                "rootfs": { "type": "layers", "diff_ids": [layer.digest()] },
            }),
        );
        let manifest = Blob::of_json(
            "application/vnd.oci.image.manifest.v1+json",
            &json!({
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": config.descriptor(),
                "layers": [layer.descriptor()],
            }),
        );
        let mut entry = manifest.descriptor();
        entry["annotations"] = json!({
            "io.containerd.image.name": self.name,
            "org.opencontainers.image.ref.name": self.name.rsplit(':').next(),
        });
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [entry],
        });

        let mut archive = tar::Builder::new(Vec::new());
        append(&mut archive, "oci-layout", 0o644, json!({ "imageLayoutVersion": "1.0.0" }).to_string().as_bytes())?;
        append(&mut archive, "index.json", 0o644, index.to_string().as_bytes())?;
        for blob in [&manifest, &config, &layer] {
            append(&mut archive, &format!("blobs/sha256/{}", blob.sha256), 0o644, &blob.bytes)?;
        }
        Ok(archive.into_inner()?)
    }

    /// The files as a tar archive: sorted, owned by root, from the beginning of time.
    fn layer(&self) -> anyhow::Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        let mut folders = std::collections::BTreeSet::new();
        for (path, content) in &self.files {
            let Some(inside) = path.strip_prefix('/') else { bail!("{path} is not an absolute path") };
            for (end, _) in inside.match_indices('/') {
                let folder = &inside[..end];
                if folders.insert(folder.to_owned()) {
                    append_special(&mut archive, folder, 0o755, tar::EntryType::Directory, None)?;
                }
            }
            match content {
                Content::Program(source) => {
                    let bytes = fs::read(source).with_context(|| format!("cannot read {}", source.display()))?;
                    append(&mut archive, inside, 0o755, &bytes)?;
                }
                Content::Link(target) => {
                    append_special(&mut archive, inside, 0o777, tar::EntryType::Symlink, Some(target))?;
                }
                Content::SharedFolder => {
                    append_special(&mut archive, inside, 0o1777, tar::EntryType::Directory, None)?;
                }
            }
        }
        Ok(archive.into_inner()?)
    }
}

struct Blob {
    media_type: &'static str,
    sha256: String,
    bytes: Vec<u8>,
}

impl Blob {
    fn new(media_type: &'static str, bytes: Vec<u8>) -> Self {
        let sha256 = sha256(&bytes);
        Self { media_type, sha256, bytes }
    }

    fn of_json(media_type: &'static str, value: &Value) -> Self {
        Self::new(media_type, value.to_string().into_bytes())
    }

    fn digest(&self) -> String {
        format!("sha256:{}", self.sha256)
    }

    fn descriptor(&self) -> Value {
        json!({ "mediaType": self.media_type, "digest": self.digest(), "size": self.bytes.len() })
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

fn header(mode: u32, kind: tar::EntryType, size: usize) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size as u64);
    header
}

fn append<W: Write>(archive: &mut tar::Builder<W>, path: &str, mode: u32, bytes: &[u8]) -> std::io::Result<()> {
    archive.append_data(&mut header(mode, tar::EntryType::Regular, bytes.len()), path, bytes)
}

fn append_special<W: Write>(
    archive: &mut tar::Builder<W>,
    path: &str,
    mode: u32,
    kind: tar::EntryType,
    link: Option<&str>,
) -> std::io::Result<()> {
    let mut header = header(mode, kind, 0);
    match link {
        Some(target) => archive.append_link(&mut header, path, target),
        None => archive.append_data(&mut header, path, std::io::empty()),
    }
}

/// The architecture's name in Go, which is the one that OCI uses.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The shared libraries of a program, the loader among them; none for a static one.
fn shared_libraries(program: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let output = std::process::Command::new("ldd").arg(program).output().context("cannot run ldd")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && !complaint.contains("not a dynamic executable") {
        bail!("ldd {}: {}", program.display(), complaint.trim());
    }
    parse_ldd(&String::from_utf8_lossy(&output.stdout))
}

/// Lines are `name => /path (0x…)` or `/path (0x…)`; one without a path is the kernel's own.
fn parse_ldd(output: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut libraries = Vec::new();
    for line in output.lines().map(str::trim) {
        let place = line.split_once(" => ").map_or(line, |(_, place)| place);
        if place == "not found" {
            bail!("the shared library {} is not installed", line.trim_end_matches(" => not found"));
        }
        if place.starts_with('/') {
            libraries.push(PathBuf::from(place.split(" (").next().unwrap_or(place)));
        }
    }
    Ok(libraries)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn sample(folder: &Path) -> ImageSpec {
        let program = folder.join("program");
        fs::write(&program, "#!/bin/sh\n").unwrap();
        ImageSpec {
            name: "pillion.dev/sample:1".to_owned(),
            files: [
                ("/usr/bin/program".to_owned(), Content::Program(program)),
                ("/usr/bin/same".to_owned(), Content::Link("program".to_owned())),
                ("/tmp".to_owned(), Content::SharedFolder),
            ]
            .into(),
            entrypoint: vec!["/usr/bin/program".to_owned()],
            env: vec!["A=b".to_owned()],
            user: "65532:65532".to_owned(),
            labels: [("org.opencontainers.image.title".to_owned(), "sample".to_owned())].into(),
        }
    }

    fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        tar::Archive::new(archive)
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).unwrap();
                (entry.path().unwrap().display().to_string(), bytes)
            })
            .collect()
    }

    /// The blob of a descriptor, after checking that it is what the descriptor says.
    fn blob<'a>(layout: &'a BTreeMap<String, Vec<u8>>, descriptor: &Value) -> &'a [u8] {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let bytes = &layout[&format!("blobs/sha256/{digest}")];
        assert_eq!(descriptor["size"], bytes.len());
        assert_eq!(digest, sha256(bytes));
        bytes
    }

    #[test]
    fn every_blob_is_what_its_descriptor_says() {
        let folder = tempfile::tempdir().unwrap();
        let layout = files(&sample(folder.path()).layout().unwrap());
        assert_eq!(layout["oci-layout"], br#"{"imageLayoutVersion":"1.0.0"}"#);
        let index: Value = serde_json::from_slice(&layout["index.json"]).unwrap();
        let entry = &index["manifests"][0];
        assert_eq!(entry["annotations"]["io.containerd.image.name"], "pillion.dev/sample:1");
        let manifest: Value = serde_json::from_slice(blob(&layout, entry)).unwrap();
        let config: Value = serde_json::from_slice(blob(&layout, &manifest["config"])).unwrap();
        assert_eq!(
            config["config"],
            json!({
                "Entrypoint": ["/usr/bin/program"], "Env": ["A=b"], "User": "65532:65532",
                "Labels": { "org.opencontainers.image.title": "sample" },
            })
        );
        // The layer is not compressed, so its digest is also that of its contents.
        assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
        let layer = files(blob(&layout, &manifest["layers"][0]));
        assert_eq!(layer.keys().collect::<Vec<_>>(), ["tmp", "usr", "usr/bin", "usr/bin/program", "usr/bin/same"]);
        assert_eq!(layer["usr/bin/program"], b"#!/bin/sh\n");
        assert_eq!(layout.len(), 5);
    }

    #[test]
    fn the_same_files_give_the_same_bytes_wherever_and_whenever_they_are() {
        let [one, other] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let specs = [sample(one.path()), sample(other.path())];
        let aged = fs::File::options().write(true).open(other.path().join("program")).unwrap();
        aged.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_hours(24)).unwrap();
        assert_eq!(specs[0].layout().unwrap(), specs[1].layout().unwrap());
    }

    #[test]
    fn a_digest_is_written_in_lower_case_hexadecimal() {
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }

    #[test]
    fn a_relative_path_is_refused() {
        let spec = ImageSpec { files: [("tmp".to_owned(), Content::SharedFolder)].into(), ..ImageSpec::default() };
        assert_eq!(spec.layout().unwrap_err().to_string(), "tmp is not an absolute path");
    }

    #[test]
    fn the_libraries_of_a_program_are_those_with_a_path() {
        let output = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f1c)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f1d)\n";
        assert_eq!(
            parse_ldd(output).unwrap(),
            [PathBuf::from("/lib/x86_64-linux-gnu/libc.so.6"), PathBuf::from("/lib64/ld-linux-x86-64.so.2")]
        );
        assert_eq!(parse_ldd("\tstatically linked\n").unwrap(), Vec::<PathBuf>::new());
        assert_eq!(
            parse_ldd("\tlibz.so.1 => not found\n").unwrap_err().to_string(),
            "the shared library libz.so.1 is not installed"
        );
    }
}
